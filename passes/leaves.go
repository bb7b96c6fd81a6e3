package passes

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A leaf is a tensor that a part of a join is computed from, and how it is widened for that.
type leaf struct {
	v      core.ValID
	widths []scalar.ID
	joined core.ValID // with those of the other parts, which stands for it widened, or NoVal
}

func (x leaf) equals(y leaf) bool { return x.v == y.v && slices.Equal(x.widths, y.widths) }

// dimension returns the only one that is widened, or -1.
func (x leaf) dimension(f *core.Fusion) int {
	d := -1
	for k, n := range x.widths {
		if isZero(f, n) {
			continue
		}
		at := (len(x.widths) - 1 - k) / 2
		if d >= 0 && d != at {
			return -1
		}
		d = at
	}
	return d
}

// joinedLeaves returns the leaves of each of n parts of a join that are joined with those of all others at the
// same place; the others are padded. widen widens a part. Of -b and a, which a rotary embedding joins, a thread
// loads what it needs of b or of a then, and not one element of each, of which the other one is a zero.
func (s *sinking) joinedLeaves(n int, widen func(k int)) [][]leaf {
	left, parts, fewest := s.left, make([][]leaf, n), 0
	for k := range parts {
		s.leaves = &parts[k]
		widen(k)
		if k == 0 || len(parts[k]) < fewest {
			fewest = len(parts[k])
		}
	}
	s.leaves, s.left = nil, left
	joined := make([][]leaf, n)
	for i := range fewest {
		d := parts[0][i].dimension(s.r.To)
		if slices.ContainsFunc(parts, func(leaves []leaf) bool { return !s.areAlike(parts[0][i], leaves[i], d) }) {
			continue
		}
		var of []core.ValID
		isAgain := false // the gradients of both halves of a gated unit are of one tensor, which pads read in vectors and a join of it with itself does not
		for _, leaves := range parts {
			isAgain = isAgain || slices.Contains(of, leaves[i].v)
			of = append(of, leaves[i].v)
		}
		if isAgain {
			continue
		}
		u := s.append(core.CatOp, core.TensorsOf(of...), core.IntOf(int64(d)), core.BoolOf(false))
		for k := range joined {
			x := parts[k][i]
			x.joined = u
			joined[k] = append(joined[k], x)
		}
	}
	return joined
}

// areAlike reports whether a and b can be joined along dimension d.
func (s *sinking) areAlike(a, b leaf, d int) bool {
	f := s.r.To
	if d < 0 || b.dimension(f) != d || f.Val(a.v).DType != f.Val(b.v).DType || f.Rank(a.v) != f.Rank(b.v) {
		return false
	}
	x, y := slices.Clone(f.Shape(a.v)), slices.Clone(f.Shape(b.v))
	x[d], y[d] = scalar.None, scalar.None
	return slices.Equal(x, y)
}

// leaf returns what v stands for where a part of a join is widened, if anything but itself does, and takes
// note of it where leaves are looked for.
func (s *sinking) leaf(v core.ValID, widths []scalar.ID) core.ValID {
	x := leaf{v, widths, core.NoVal}
	if i := slices.IndexFunc(s.joined, x.equals); i >= 0 {
		return s.joined[i].joined
	}
	if s.leaves != nil && !slices.ContainsFunc(*s.leaves, x.equals) {
		*s.leaves = append(*s.leaves, x)
	}
	return core.NoVal
}

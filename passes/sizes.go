package passes

import (
	"errors"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// constantSizes makes sizes of inputs constants that requirements of needed
// expressions say are equal to one, directly or through other sizes.
//
// Sizes that are only equal to each other stay two symbols: the text form of an
// input cannot say that its size is that of another one, and fusions of equal
// text are the same to all that follows.
func constantSizes(f *core.Fusion) (*core.Fusion, int, error) {
	c := sizeClasses(f)
	sizes := map[scalar.ID]int64{}
	for _, v := range f.Inputs() {
		if !f.Val(v).Tensor {
			continue
		}
		for _, s := range f.Shape(v) {
			if n, ok := c.value[c.find(s)]; ok && c.isSize(s) && n >= 0 {
				sizes[s] = n
			}
		}
	}
	if len(sizes) == 0 {
		return f, 0, nil
	}
	g, _, err := f.Rewritten(core.Rewrite{Sizes: sizes})
	var argument *core.InvalidArgument
	if errors.As(err, &argument) {
		return f, 0, nil // no inputs satisfy the requirements: binding says so, with the line
	}
	return g, len(sizes), err
}

// classes are sets of sizes that are equal.
type classes struct {
	f      *core.Fusion
	parent map[scalar.ID]scalar.ID
	value  map[scalar.ID]int64 // of the root of a set; of several, any: none fits
}

// sizeClasses are the sets of sizes of inputs that requirements of needed expressions
// make equal.
func sizeClasses(f *core.Fusion) *classes {
	c := &classes{f: f, parent: map[scalar.ID]scalar.ID{}, value: map[scalar.ID]int64{}}
	for _, id := range f.Order() {
		for _, r := range f.Expr(id).Requires {
			if f.Scalars().Op(r.Cond) == scalar.Eq {
				args := f.Scalars().Args(r.Cond)
				c.equal(args[0], args[1])
			}
		}
	}
	return c
}

// isSize reports whether s is the symbol of the size of an input.
func (c *classes) isSize(s scalar.ID) bool {
	return c.f.Scalars().Op(s) == scalar.Symbol && c.f.Scalars().Tag(s).Dim >= 0
}

func (c *classes) find(s scalar.ID) scalar.ID {
	for {
		p, ok := c.parent[s]
		if !ok {
			return s
		}
		if q, ok := c.parent[p]; ok {
			c.parent[s] = q // halves the way
		}
		s = p
	}
}

func (c *classes) equal(a, b scalar.ID) {
	if !c.isSize(a) {
		a, b = b, a
	}
	if !c.isSize(a) {
		return
	}
	a = c.find(a)
	if n, ok := c.f.Scalars().ConstInt(b); ok {
		c.value[a] = n
		return
	}
	if b = c.find(b); a == b || !c.isSize(b) {
		return
	}
	c.parent[b] = a
	if n, ok := c.value[b]; ok {
		c.value[a] = n
	}
}

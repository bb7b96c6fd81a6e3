package schedulefuzz

import (
	"math/rand/v2"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// A mover schedules at random. Errors of the schedule's methods are of no
// interest: a call that is refused changes nothing.
type mover struct {
	*rand.Rand
	*schedule.Scheduled
	moves Moves
	bind  *core.Binding
	// acrossBlocks: reductions may be across blocks, beside which blocks exchange
	// nothing in global memory; else they are not.
	acrossBlocks bool
}

const maxPoints = 500 // of a tensor's loops, where it has not more elements

// schedule makes edits, transforms, types and positions, in an order in which
// all are legal.
func (m *mover) schedule() {
	m.acrossBlocks = m.chance(0.3)
	m.do(Caches, m.cache)
	m.do(Held, m.recompute)
	m.do(RFactors, m.rfactor)
	if !m.acrossBlocks {
		m.do(Global, func() { m.place(schedule.Global, 0.1) })
	}
	m.do(Transforms, m.transforms)
	m.do(Tiles, m.tile)
	m.do(RootLoops, m.rootLoops)
	m.do(Transforms, m.apart)
	m.written()
	m.do(Vectors, m.vectors)
	m.do(Inlining, m.inline)
	m.do(Shared, func() { m.place(schedule.Shared, 0.25) })
	m.do(Threads, m.threads)
	m.do(Global, m.sized)
	m.do(Layouts, m.layouts)
	m.do(Buffers, m.buffers)
}

func (m *mover) do(moves Moves, move func()) {
	if m.moves&moves != 0 {
		move()
	}
}

func (m *mover) chance(p float64) bool { return m.Float64() < p }

func (m *mover) isInput(v core.ValID) bool { return m.Fusion().Val(v).Input }

func (m *mover) isOutput(v core.ValID) bool {
	return slices.ContainsFunc(m.Fusion().Outputs(), func(o core.Output) bool { return o.Val == v })
}

// operation returns what computes v, which is no input.
func (m *mover) operation(v core.ValID) *core.OpInfo {
	return m.Fusion().Expr(m.Fusion().Val(v).Def).Op
}

func (m *mover) computed() []core.ValID {
	return slices.DeleteFunc(slices.Clone(m.Tensors()), m.isInput)
}

// isPlain reports whether the loops of v are its logical axes.
func (m *mover) isPlain(v core.ValID) bool {
	return slices.Equal(m.Loop(v), m.Fusion().Val(v).Domain.Logical)
}

func (m *mover) extent(a core.AxisID) int64 {
	n, err := m.bind.Int(m.Fusion().Axis(a).Extent)
	if err != nil {
		panic(err)
	}
	return n
}

func (m *mover) cache() {
	for _, v := range slices.Clone(m.Tensors()) {
		switch in, out := m.isInput(v), m.isOutput(v); {
		case in && m.chance(0.5):
			m.load(v)
		case in:
		case out && m.chance(0.3), !out && m.chance(0.05):
			_, _ = m.call("cache_before", v)
		case out && m.chance(0.2), out && m.acrossBlocks:
			_, _ = m.call("cache_fork", v)
		case m.chance(0.1):
			_, _ = m.call("cache_after", v, "set", m.hint(), true, m.someReaders(v))
		}
	}
}

// recompute has a few tensors computed again for some of those that read them.
func (m *mover) recompute() {
	for _, v := range m.computed() {
		if m.chance(0.2) {
			_, _ = m.call("recompute", v, m.someReaders(v))
		}
	}
}

// load makes a copy of an input, which may be one that goes on while threads do
// other things.
func (m *mover) load(v core.ValID) {
	if m.moves&AsyncCopies == 0 || !m.chance(0.3) {
		_, _ = m.call("cache_after", v, "set", m.hint(), true, nil)
	} else if out, err := m.call("cache_after", v, "cp_async", "unspecified", true, nil); err == nil {
		_ = m.SetMemory(out.Tensors[0], schedule.Shared)
	}
}

func (m *mover) hint() string {
	if m.chance(0.9) {
		return "unspecified"
	}
	return []string{"all_levels", "streaming", "global"}[m.IntN(3)]
}

// someReaders returns a few of the tensors that are computed from v.
func (m *mover) someReaders(v core.ValID) []core.ValID {
	var list []core.ValID
	for _, w := range m.computed() {
		if slices.Contains(m.Fusion().TensorArgs(m.Fusion().Expr(m.Fusion().Val(w).Def)), v) && m.chance(0.7) {
			list = append(list, w)
		}
	}
	return list
}

func (m *mover) rfactor() {
	for _, v := range m.computed() {
		if m.operation(v).Class != core.Reduction || !m.chance(0.4) {
			continue
		}
		var reduced []int
		for k, a := range m.Loop(v) {
			if m.Fusion().Axis(a).Kind == core.Reduce {
				reduced = append(reduced, k)
			}
		}
		if len(reduced) == 0 {
			continue
		}
		k := reduced[m.IntN(len(reduced))]
		if m.moves&Held != 0 && m.chance(0.5) {
			_, _ = m.call("split_whole", v, k, int(m.extent(m.Loop(v)[k]))+m.IntN(3)+1)
			k++
		}
		if m.Split(v, k, int64(2+m.IntN(3)), m.chance(0.7)) != nil {
			continue
		}
		axes := []int{k + m.IntN(2)}
		if other := reduced[m.IntN(len(reduced))]; other < k && m.chance(0.5) {
			axes = append(axes, other)
		}
		_ = m.RFactor(v, axes)
	}
}

// place moves intermediates in registers, each with probability p, elsewhere.
func (m *mover) place(to schedule.Memory, p float64) {
	for _, v := range m.computed() {
		if m.Memory(v) == schedule.Local && m.chance(p) {
			_ = m.SetMemory(v, to)
		}
	}
}

// transforms gives tensors the loops of one of them, an output most often.
func (m *mover) transforms() {
	for range 1 + m.IntN(5)/4 {
		list := m.computed()
		if len(list) == 0 {
			return
		}
		if outs := m.Fusion().Outputs(); m.chance(0.7) {
			list = []core.ValID{outs[m.IntN(len(outs))].Val}
		}
		reference := list[m.IntN(len(list))]
		if m.isInput(reference) || !m.isPlain(reference) {
			continue
		}
		m.transform(reference, m.IntN(7))
		if n, width := len(m.Loop(reference)), int64(2<<m.IntN(2)); m.moves&Vectors != 0 && n > 0 && m.chance(0.5) {
			if m.extent(m.Loop(reference)[n-1])%width == 0 || m.chance(0.3) {
				m.split(reference, n-1, width, true)
			}
		}
		m.like(reference)
	}
}

// like gives the tensors that are plain the loops of reference.
func (m *mover) like(reference core.ValID) {
	chosen := []core.ValID{}
	for _, v := range m.Tensors() {
		if m.isPlain(v) {
			chosen = append(chosen, v)
		}
	}
	m.TransformLike(reference, chosen)
}

// tile cuts all loops of an output in two and lets what leads to it be computed
// inside the outer one.
func (m *mover) tile() {
	outs := m.Fusion().Outputs()
	v := outs[m.IntN(len(outs))].Val
	if m.isInput(v) || !m.isPlain(v) || len(m.Loop(v)) == 0 || !m.chance(0.3) {
		return
	}
	for len(m.Loop(v)) > 1 && m.chance(0.7) {
		if m.Merge(v, 0, 1) != nil {
			break
		}
	}
	m.split(v, 0, int64(2+m.IntN(7)), m.chance(0.8))
	m.like(v)
	_ = m.InlineAllAt(v, 1, true)
}

// rootLoops gives a few tensors loops made from their root axes.
func (m *mover) rootLoops() {
	for _, v := range m.computed() {
		d, op := &m.Fusion().Val(v).Domain, m.operation(v)
		if m.isPlain(v) && !slices.Equal(d.Root, d.Logical) && (op == core.ReshapeOp || op == core.SliceOp) && m.chance(0.25) && m.SetLoop(v, d.Root) == nil {
			m.transform(v, m.IntN(4))
		}
	}
}

// apart gives a few tensors loops of their own.
func (m *mover) apart() {
	for _, v := range m.computed() {
		if m.isPlain(v) && m.chance(0.05) {
			m.transform(v, 1+m.IntN(4))
		}
	}
}

func (m *mover) transform(v core.ValID, n int) {
	for range n {
		loop := m.Loop(v)
		if len(loop) == 0 {
			return
		}
		switch i := m.IntN(len(loop)); m.IntN(3) {
		case 0:
			m.split(v, i, []int64{1, 2, 2, 3, 4, 4, 5, 7}[m.IntN(8)], m.chance(0.75))
		case 1:
			_ = m.Merge(v, i, i+1)
		default:
			_ = m.Reorder(v, map[int]int{i: m.IntN(len(loop))})
		}
	}
}

// split splits loop axis k of v unless that makes many points that are no
// element.
func (m *mover) split(v core.ValID, k int, factor int64, inner bool) {
	points, elements := int64(1), int64(1)
	for _, a := range m.Loop(v) {
		points *= m.extent(a)
	}
	for _, a := range m.Fusion().Val(v).Domain.Logical {
		elements *= m.extent(a)
	}
	e := m.extent(m.Loop(v)[k])
	if capacity := e + int64(factor)%3; m.moves&Held != 0 && m.Fusion().Axis(m.Loop(v)[k]).Kind != core.Broadcast && m.chance(0.3) && points/max(e, 1)*max(capacity, 1) <= max(maxPoints, 2*elements) {
		_, _ = m.call("split_whole", v, k, int(max(capacity, 1)))
		return
	}
	if points/max(e, 1)*((e+factor-1)/factor*factor) <= max(maxPoints, 2*elements) {
		_ = m.Split(v, k, factor, inner)
	}
}

// written lets a few loops be written out, most often all in one way.
func (m *mover) written() {
	var types []schedule.Parallel
	m.do(Unrolling, func() { types = append(types, schedule.Unroll) })
	m.do(Unswitches, func() { types = append(types, schedule.Unswitch) })
	if n := len(types); n > 1 && m.chance(0.95) {
		types = types[m.IntN(n):][:1]
	}
	for _, v := range m.computed() {
		if n := len(m.Loop(v)); n > 0 && len(types) > 0 && m.chance(0.15) {
			_ = m.Parallelize(v, m.IntN(n), types[m.IntN(len(types))])
		}
	}
}

// vectors lets copies move several elements at once. Some have fewer in a vector
// than the innermost loop that they share has iterations, and some vectors reach
// past the extent that is split.
func (m *mover) vectors() {
	for _, v := range m.computed() {
		n := len(m.Loop(v))
		if n == 0 || m.operation(v) != core.SetOp && !m.chance(0.02) || !m.chance(0.6) {
			continue
		}
		inner := m.Fusion().Axis(m.Loop(v)[n-1]).Extent
		extent, known := m.Fusion().Scalars().ConstInt(inner)
		width := int64(2 << m.IntN(3))
		whole := known && extent%width == 0
		if m.isPlain(v) && (whole && m.chance(0.5) || m.chance(0.15)) || !m.isPlain(v) && known && extent > width && m.chance(0.5) {
			m.split(v, n-1, width, true)
			n = len(m.Loop(v))
		}
		if width, ok := m.Fusion().Scalars().ConstInt(m.Fusion().Axis(m.Loop(v)[n-1]).Extent); ok && (width == 2 || width == 4 || width == 8 || m.chance(0.02)) {
			_ = m.Parallelize(v, -1, schedule.Vectorize)
		}
	}
}

func (m *mover) inline() {
	if m.chance(0.33) {
		_, _ = m.call("inline_most")
		return
	}
	if all := m.computed(); m.chance(0.1) && len(all) > 0 {
		v := all[m.IntN(len(all))]
		_ = m.InlineAllAt(v, m.IntN(len(m.Loop(v))+1), m.chance(0.7))
		return
	}
	order := m.computed()
	slices.Reverse(order)
	if m.chance(0.5) {
		m.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, v := range order {
		for k := m.IntN(m.MaxPosition(v, false).Position + 1); k > 0; k-- {
			if m.InlineAt(v, k) == nil {
				break
			}
		}
	}
}

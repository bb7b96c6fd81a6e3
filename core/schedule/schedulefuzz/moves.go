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
}

const maxPoints = 500 // of a tensor's loops, where it has not more elements

// schedule makes edits, transforms, types and positions, in an order in which
// all are legal.
func (m *mover) schedule() {
	m.do(Caches, m.cache)
	m.do(RFactors, m.rfactor)
	m.do(Global, m.global)
	m.do(Transforms, m.transforms)
	m.do(RootLoops, m.rootLoops)
	m.do(Transforms, m.apart)
	m.written()
	m.do(Vectors, m.vectors)
	m.do(Inlining, m.inline)
	m.do(Shared, m.shared)
	m.do(Threads, m.threads)
	m.do(Layouts, m.layouts)
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
		switch {
		case m.isInput(v) && m.chance(0.5):
			_, _ = m.CacheAfter(v, nil)
		case m.isInput(v) || !m.isOutput(v):
		case m.chance(0.3):
			_, _ = m.CacheBefore(v)
		case m.chance(0.2):
			_, _ = m.CacheFork(v)
		}
	}
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
		if m.Split(v, k, int64(2+m.IntN(3)), m.chance(0.7)) == nil {
			_, _ = m.RFactor(v, []int{k + m.IntN(2)})
		}
	}
}

func (m *mover) global() {
	for _, v := range m.computed() {
		if !m.isOutput(v) && m.chance(0.1) {
			_ = m.SetMemory(v, schedule.Global)
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
		chosen := []core.ValID{}
		for _, v := range m.Tensors() {
			if m.isPlain(v) {
				chosen = append(chosen, v)
			}
		}
		_, _ = m.TransformLike(reference, chosen)
	}
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
			m.split(v, i, []int64{1, 2, 2, 3, 4, 4, 5, 7}[m.IntN(8)])
		case 1:
			_ = m.Merge(v, i, i+1)
		default:
			_ = m.Reorder(v, map[int]int{i: m.IntN(len(loop))})
		}
	}
}

// split splits loop axis k of v unless that makes many points that are no
// element.
func (m *mover) split(v core.ValID, k int, factor int64) {
	points, elements := int64(1), int64(1)
	for _, a := range m.Loop(v) {
		points *= m.extent(a)
	}
	for _, a := range m.Fusion().Val(v).Domain.Logical {
		elements *= m.extent(a)
	}
	e := m.extent(m.Loop(v)[k])
	if points/max(e, 1)*((e+factor-1)/factor*factor) <= max(maxPoints, 2*elements) {
		_ = m.Split(v, k, factor, m.chance(0.75))
	}
}

// written lets a few loops be written out.
func (m *mover) written() {
	var types []schedule.Parallel
	m.do(Unrolling, func() { types = append(types, schedule.Unroll) })
	m.do(Unswitches, func() { types = append(types, schedule.Unswitch) })
	for _, v := range m.computed() {
		if n := len(m.Loop(v)); n > 0 && len(types) > 0 && m.chance(0.15) {
			_ = m.Parallelize(v, m.IntN(n), types[m.IntN(len(types))])
		}
	}
}

// vectors lets copies move two elements at once.
func (m *mover) vectors() {
	for _, v := range m.computed() {
		if n := len(m.Loop(v)); n > 0 && m.chance(0.1) && m.operation(v) == core.SetOp && m.extent(m.Loop(v)[n-1]) == 2 {
			_ = m.Parallelize(v, -1, schedule.Vectorize)
		}
	}
}

func (m *mover) inline() {
	if m.chance(0.33) {
		_ = m.InlineMost(nil, nil)
		return
	}
	order := m.computed()
	slices.Reverse(order)
	if m.chance(0.5) {
		m.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, v := range order {
		for k := m.IntN(m.MaxPosition(v, false).Position + 1); k > 0; k-- {
			if m.InlineAt(v, k, false) == nil {
				break
			}
		}
	}
}

func (m *mover) shared() {
	for _, v := range m.computed() {
		if m.Memory(v) != schedule.Local || !m.chance(0.25) {
			continue
		}
		_ = m.SetMemory(v, schedule.Shared)
		if m.moves&AsyncCopies != 0 && m.operation(v) == core.SetOp && m.chance(0.5) {
			_ = m.SetCopy(v, schedule.AsyncCopy, schedule.CacheUnspecified)
		}
	}
}

// threads gives axes with one index one type.
func (m *mover) threads() {
	mapping, err := schedule.Map(m.Scheduled)
	if err != nil {
		return
	}
	types := []schedule.Parallel{schedule.Serial, schedule.TIDx, schedule.TIDx, schedule.TIDy, schedule.TIDz, schedule.BIDx, schedule.BIDy}
	chosen := map[core.AxisID]schedule.Parallel{}
	for _, v := range m.computed() {
		for k, a := range m.Loop(v) {
			if m.Parallel(a) != schedule.Serial {
				continue
			}
			index := mapping.AlmostExact(mapping.Promotion(a))
			if _, ok := chosen[index]; !ok {
				chosen[index] = types[m.IntN(len(types))]
			}
			_ = m.Parallelize(v, k, chosen[index])
		}
	}
}

// layouts lays a few tensors out along their loop or logical axes in any order,
// and swizzles some of those in shared memory.
func (m *mover) layouts() {
	for _, v := range m.computed() {
		if !m.chance(0.1) {
			continue
		}
		axes := slices.Clone(m.Loop(v))
		if m.isOutput(v) || m.chance(0.3) {
			axes = slices.Clone(m.Fusion().Val(v).Domain.Logical)
		}
		m.Shuffle(len(axes), func(i, j int) { axes[i], axes[j] = axes[j], axes[i] })
		if m.SetAllocation(v, axes, nil) == nil && len(axes) > 1 && m.chance(0.7) {
			_ = m.SwizzleXOR(v, m.IntN(len(axes)), m.IntN(len(axes)))
		}
	}
}

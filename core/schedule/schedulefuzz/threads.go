package schedulefuzz

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

var threadTypes = []schedule.Parallel{schedule.TIDx, schedule.TIDx, schedule.TIDy, schedule.TIDz, schedule.BIDx, schedule.BIDx, schedule.BIDy, schedule.BIDz}

// A loopAxis is axis k of the loops of v.
type loopAxis struct {
	v core.ValID
	k int
}

const maxThreads = 3000 // of all blocks

// threads gives axes of one index one type each, where that is a schedule. Now
// and then it does not look whether it is.
func (m *mover) threads() {
	length := map[schedule.Parallel]int64{} // of the dimensions
	for _, group := range m.groups() {
		p, longest, all := threadTypes[m.IntN(len(threadTypes))], int64(1), int64(1)
		switch reduced := slices.ContainsFunc(group, m.isReduced); {
		case reduced && m.acrossBlocks:
			p = threadTypes[m.IntN(len(threadTypes))|4] // of the grid
		case p.IsBlock() && (reduced || m.acrossBlocks && m.chance(0.7)):
			p = schedule.TIDx
		}
		for _, x := range group {
			longest = max(longest, m.extent(m.Loop(x.v)[x.k]))
		}
		for q, n := range length {
			if q != p {
				all *= n
			}
		}
		if longest = max(longest, length[p]); !m.acrossBlocks && !m.chance(0.75) || all*longest > maxThreads {
			continue
		}
		if m.chance(0.02) {
			m.run(group, p)
			length[p] = longest
			continue
		}
		moves := m.moves
		if m.acrossBlocks {
			moves &^= Global
		}
		try := &mover{Rand: m.Rand, Scheduled: m.Clone()}
		try.run(group, p)
		raised, ok := try.raise(moves)
		if !ok {
			continue
		}
		m.run(group, p)
		length[p] = longest
		for _, v := range raised {
			_ = m.SetMemory(v, try.Memory(v))
		}
	}
}

func (m *mover) isReduced(x loopAxis) bool {
	return m.Fusion().Axis(m.Loop(x.v)[x.k]).Kind == core.Reduce
}

// groups returns the serial loop axes that have one index, in a random order of
// groups.
func (m *mover) groups() [][]loopAxis {
	mapping, err := schedule.Map(m.Scheduled)
	if err != nil {
		return nil
	}
	var groups [][]loopAxis
	place := map[core.AxisID]int{} // class -> group
	for _, v := range m.computed() {
		for k, a := range m.Loop(v) {
			if m.Parallel(a) != schedule.Serial {
				continue
			}
			class := mapping.AlmostExact(mapping.Promotion(a))
			if _, ok := place[class]; !ok {
				place[class] = len(groups)
				groups = append(groups, nil)
			}
			groups[place[class]] = append(groups[place[class]], loopAxis{v, k})
		}
	}
	m.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	return groups
}

func (m *mover) run(group []loopAxis, p schedule.Parallel) {
	for _, x := range group {
		_ = m.Parallelize(x.v, x.k, p)
	}
}

// raise moves tensors to memory that more threads see until m is a schedule, and
// returns them.
func (m *mover) raise(moves Moves) (raised []core.ValID, ok bool) {
	for _, to := range []schedule.Memory{schedule.Local, schedule.Shared, schedule.Global} {
		if m.Verify() == nil {
			return raised, true
		}
		if to == schedule.Local || to == schedule.Shared && moves&Shared == 0 || to == schedule.Global && moves&Global == 0 {
			continue
		}
		order := m.computed()
		m.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, v := range order {
			before := m.Memory(v)
			if before >= to || m.CopyKind(v) != schedule.PlainCopy || m.Position(v) == len(m.Loop(v)) || m.SetMemory(v, to) != nil {
				continue
			}
			if !slices.Contains(raised, v) {
				raised = append(raised, v)
			}
			if m.Verify() == nil {
				return raised, true
			}
		}
	}
	return raised, false
}

// sized moves most of what would need registers of unknown number elsewhere.
func (m *mover) sized() {
	for _, v := range m.computed() {
		unknown := slices.ContainsFunc(m.Loop(v)[m.Position(v):], func(a core.AxisID) bool {
			_, isConst := m.Fusion().Scalars().ConstInt(m.Fusion().Axis(a).Extent)
			p := m.Parallel(a)
			return !isConst && !p.IsThread() && !p.IsBlock() && m.Fusion().Axis(a).Kind != core.Reduce
		})
		if m.Memory(v) != schedule.Local || !unknown || !m.chance(0.99) {
			continue
		}
		to := schedule.Global
		if m.moves&Shared != 0 && m.chance(0.7) {
			to = schedule.Shared
		}
		_ = m.SetMemory(v, to)
	}
}

// layouts lays tensors out along permuted axes, or along those of their loops,
// and swizzles some.
func (m *mover) layouts() {
	mapping, err := schedule.Map(m.Scheduled)
	if err != nil {
		return
	}
	for _, v := range m.computed() {
		likely := map[schedule.Memory]float64{schedule.Local: 0.05, schedule.Shared: 0.4, schedule.Global: 0.15}
		promoted := m.Memory(v) != schedule.Global && slices.ContainsFunc(m.Loop(v), mapping.IsPromoted)
		if !m.chance(likely[m.Memory(v)]) || promoted && !m.chance(0.03) { // done for own loops alone
			continue
		}
		axes := slices.Clone(m.Fusion().Val(v).Domain.Logical)
		if m.Memory(v) == schedule.Shared && m.chance(0.5) {
			axes = slices.DeleteFunc(slices.Clone(m.Loop(v)), func(a core.AxisID) bool { return m.Fusion().Axis(a).Kind == core.Reduce })
		}
		m.Shuffle(len(axes), func(i, j int) { axes[i], axes[j] = axes[j], axes[i] })
		if m.SetAllocation(v, axes) != nil || m.Memory(v) != schedule.Shared || m.moves&Swizzles == 0 || !m.chance(0.6) {
			continue
		}
		m.swizzle(v, axes)
	}
}

// swizzle permutes the columns of v, laid out along axes.
func (m *mover) swizzle(v core.ValID, axes []core.AxisID) {
	list := m.withRoom(v, axes)
	m.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, column := range list {
		for _, row := range list {
			if row != column && m.Swizzle(v, row, column) == nil {
				return
			}
		}
	}
}

// withRoom returns the places in axes, the allocation domain of v, of those along
// which a block has room for more than one element; now and then all.
func (m *mover) withRoom(v core.ValID, axes []core.AxisID) []int {
	var list []int
	all := m.chance(0.03)
	for i, a := range axes {
		k, p := slices.Index(m.Loop(v), a), m.Parallel(a)
		if all || m.extent(a) > 1 && !p.IsBlock() && (k < 0 || k >= m.Position(v) || p.IsThread()) {
			list = append(list, i)
		}
	}
	return list
}

// isCopyToShared reports whether v is a copy of global memory in shared memory.
func (m *mover) isCopyToShared(v core.ValID) bool {
	return m.Memory(v) == schedule.Shared && m.operation(v) == core.SetOp &&
		m.Memory(m.Fusion().TensorArgs(m.Fusion().Expr(m.Fusion().Val(v).Def))[0]) == schedule.Global
}

// buffers lets tensors be loaded ahead: copies to shared memory inside a loop that
// a thread runs, and now and then others.
func (m *mover) buffers() {
	for _, v := range m.computed() {
		likely, n := 0.002, m.Position(v)
		if n > 0 && m.isCopyToShared(v) {
			likely = 0.05
			if m.Parallel(m.Loop(v)[n-1]) == schedule.Serial {
				likely = 0.6
			}
		}
		if m.chance(likely) {
			stages := 2 + m.IntN(3)
			_ = m.SetBuffering(v, stages, 1+m.IntN(stages-1))
		}
	}
}

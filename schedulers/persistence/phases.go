package persistence

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// Phases sort the tensors of a schedule without loops.
type Phases struct {
	s          *schedule.Scheduled
	f          *core.Fusion
	m          *schedule.Mapping
	Reductions []core.ValID // along the rows: the first result of each, in order
	Columns    []core.ValID // the same along all other axes, for each element of a row
	Last       int
	Reload     bool                 // inputs may be loaded again for each phase, whatever has them
	Resident   bool                 // those that all rows share are held, for all rows
	isOne      bool                 // there is one row, which shares nothing
	pure       map[core.AxisID]bool // exact classes of which only elements of rows are made
	touching   map[core.AxisID]bool // those, and what is made of them and of others
	early      []int                // by tensor: the first phase in which it can be computed
	at         []int                // the one in which it is
	isFull     []bool               // it has elements along the row
	isPost     []bool               // it is made from what is reduced
	isAfter    []bool               // it is a result of Columns, or made from those
}

// Sort returns the phases of s, which has no loops yet, and whose reductions are all
// along the same axes.
//
// Errors: [schedule.Refused] with the rules mixed rows, for other reductions, and row
// element, for what takes single elements of a row; those of [schedule.Map].
func Sort(s *schedule.Scheduled) (*Phases, error) {
	p, err := SortRows(s, core.NoVal)
	if err == nil && len(p.Columns) > 0 {
		return nil, p.mixed(p.Columns[0], p.Reductions[0])
	}
	return p, err
}

// SortRows is Sort for rows that the reduction called reference is along, the first one
// if that is [core.NoVal]. Beside those there may be reductions along all other axes: of
// columns. What is made from their results is in no phase: it waits for all rows.
//
// Errors: those of Sort, and [schedule.Refused] with the rule column result, for what
// combines results of columns with other tensors.
func SortRows(s *schedule.Scheduled, reference core.ValID) (*Phases, error) {
	m, err := schedule.Map(s)
	if err != nil {
		return nil, err
	}
	n := s.Fusion().NumVals()
	p := &Phases{s: s, f: s.Fusion(), m: m, pure: map[core.AxisID]bool{}, touching: map[core.AxisID]bool{},
		early: make([]int, n), at: make([]int, n), isFull: make([]bool, n), isPost: make([]bool, n), isAfter: make([]bool, n)}
	var all []core.ValID
	for _, id := range p.f.Order() {
		if e := p.f.Expr(id); e.Op.Class == core.Reduction {
			all = append(all, e.Out[0])
		}
	}
	if len(all) == 0 {
		return p, nil
	}
	if reference == core.NoVal {
		reference = all[0]
	}
	p.findRows(reference)
	for _, v := range all {
		switch {
		case p.isReducedAlong(v, true):
			p.Reductions = append(p.Reductions, v)
		case p.isReducedAlong(v, false):
			p.Columns = append(p.Columns, v)
		default:
			return nil, p.mixed(v, reference)
		}
	}
	if err := p.findEarly(); err != nil {
		return nil, err
	}
	p.findLate()
	return p, nil
}

func (p *Phases) mixed(v, reference core.ValID) error {
	return p.refuse("mixed rows", v, "%s is reduced along other dimensions than %s", p.f.Name(v), p.f.Name(reference))
}

// isReducedAlong reports whether v is reduced along axes of rows and keeps none of them,
// or keeps axes of rows alone and is reduced along none of them.
func (p *Phases) isReducedAlong(v core.ValID, rows bool) bool {
	return !slices.ContainsFunc(p.f.Val(v).Domain.Logical, func(a core.AxisID) bool {
		c, kind := p.m.Exact(a), p.f.Axis(a).Kind
		if kind == core.Broadcast {
			return false
		}
		isWhole, isNot := p.pure[c], !p.pure[c] && !p.touching[c]
		if (kind == core.Reduce) == rows {
			return !isWhole
		}
		return !isNot
	})
}

// findRows finds which axes are the rows': those that reference reduces, what
// they are made of, what is made of them alone, and what is made of them and of others.
func (p *Phases) findRows(reference core.ValID) {
	p.isOne = true
	for _, a := range p.f.Val(reference).Domain.Logical {
		switch p.f.Axis(a).Kind {
		case core.Reduce:
			p.pure[p.m.Exact(a)] = true
		case core.Broadcast:
		default:
			p.isOne = false
		}
	}
	classes := func(axes []core.AxisID) []core.AxisID {
		list := make([]core.AxisID, len(axes))
		for i, a := range axes {
			list[i] = p.m.Exact(a)
		}
		return list
	}
	all := func(list []core.AxisID, set map[core.AxisID]bool) bool {
		return !slices.ContainsFunc(list, func(a core.AxisID) bool { return !set[a] })
	}
	for changed := true; changed; {
		changed = false
		mark := func(list []core.AxisID, set map[core.AxisID]bool) {
			for _, a := range list {
				changed = changed || !set[a]
				set[a] = true
			}
		}
		for _, id := range p.m.Transforms() {
			t := p.f.Transform(id)
			if t.Kind == core.ResizeAxis {
				continue
			}
			in, out := classes(t.Inputs()), classes(t.Results())
			if all(in, p.pure) {
				mark(out, p.pure)
			}
			if all(out, p.pure) {
				mark(in, p.pure)
			}
			if t.Kind == core.Split {
				in, out = out, in
			}
			if len(out) == 1 && slices.ContainsFunc(in, func(a core.AxisID) bool { return p.pure[a] || p.touching[a] }) {
				mark(out, p.touching)
			}
		}
	}
}

func (p *Phases) hasRow(v core.ValID) bool {
	return slices.ContainsFunc(p.f.Axes(v), func(a core.AxisID) bool {
		c := p.m.Exact(a)
		return p.f.Axis(a).Kind != core.Broadcast && (p.pure[c] || p.touching[c])
	})
}

// findEarly goes from what is read to what is made of it.
func (p *Phases) findEarly() error {
	for _, v := range p.f.Inputs() {
		p.isFull[v] = p.f.Val(v).Tensor && p.hasRow(v)
	}
	for _, id := range p.f.Order() {
		e := p.f.Expr(id)
		v := e.Out[0]
		isFull, isPost, isAfter, phase, readsRow := p.hasRow(v), e.Op.Class == core.Reduction, false, 0, core.NoVal
		for _, u := range p.f.TensorArgs(e) {
			isPost = isPost || p.isPost[u]
			after := p.early[u]
			if isFull && !p.isFull[u] && p.isPost[u] && !p.isAfter[u] {
				after++
			}
			phase = max(phase, after)
			if p.isFull[u] {
				readsRow = u
			}
			isAfter = isAfter || p.isAfter[u]
		}
		isReduction, isColumns := e.Op.Class == core.Reduction, slices.Contains(p.Columns, v)
		switch {
		case isAfter && (isReduction || slices.ContainsFunc(p.f.TensorArgs(e), func(u core.ValID) bool { return !p.isAfter[u] })):
			return p.refuse("column result", v, "%s combines what columns are reduced to with something else", p.f.Name(v))
		case isAfter || isColumns:
			isAfter, isFull = true, false
		case !isReduction && !isFull && readsRow != core.NoVal && !(e.Op.Class == core.Gather && p.f.Val(readsRow).Input):
			return p.refuse("row element", v, "%s, the result of %s(), has single elements of the rows of %s", p.f.Name(v), e.Called.Name, p.f.Name(readsRow))
		}
		for _, w := range e.Out {
			p.early[w], p.at[w], p.isFull[w], p.isPost[w], p.isAfter[w] = phase, phase, isFull, isPost, isAfter
		}
		p.Last = max(p.Last, phase)
	}
	return nil
}

// findLate puts what later phases alone read there.
func (p *Phases) findLate() {
	first := make([]int, len(p.at)) // phase of the first reader
	for v := range first {
		first[v] = p.Last + 1
	}
	isOutput := map[core.ValID]bool{}
	for _, o := range p.f.Outputs() {
		isOutput[o.Val] = true
	}
	for _, id := range slices.Backward(p.f.Order()) {
		e := p.f.Expr(id)
		at := p.Last + 1
		for _, v := range e.Out {
			if isOutput[v] {
				at = p.early[v]
			}
			at = min(at, first[v])
		}
		if at > p.Last || !p.isFull[e.Out[0]] {
			at = p.early[e.Out[0]]
		}
		for _, v := range e.Out {
			p.at[v] = at
		}
		for _, u := range p.f.TensorArgs(e) {
			first[u] = min(first[u], at)
		}
	}
	for _, v := range p.f.Inputs() {
		if first[v] <= p.Last {
			p.at[v] = first[v]
		}
	}
}

// IsFull reports whether v has elements along the row.
func (p *Phases) IsFull(v core.ValID) bool { return int(v) < len(p.isFull) && p.isFull[v] }

// IsAfter reports whether v is what columns are reduced to, or made from that.
func (p *Phases) IsAfter(v core.ValID) bool { return int(v) < len(p.isAfter) && p.isAfter[v] }

func (p *Phases) refuse(rule string, v core.ValID, format string, args ...any) error {
	return &schedule.Refused{Refusal: scheduler.Refuse(p.f, "persistence", rule, v, format, args...)}
}

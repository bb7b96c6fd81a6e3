package executor

// phasesOf returns the phase of each step. One ends after each call, and before a call where
// launches were the last to use some memory, which then is there for others. Where launches of
// one phase have clearly more memory at a time than there must be in the whole run, it is parted
// where memory that other phases use is first or last used, and if need be after each launch.
func (a *assembly) phasesOf(lives, outputs []life) []int {
	x := newPhasing(a, lives, outputs)
	x.endAtCalls()
	if len(a.p.Device.Calls) > 0 {
		most := int64(0)
		for _, n := range x.bytes {
			most = max(most, n)
		}
		most += notWorthParting(most)
		x.part(most, x.partWhereOthersUse)
		x.part(most, func(first, last int) {
			for i := first; i < last; i++ {
				x.ends[i] = true
			}
		})
	}
	phase := make([]int, len(a.steps))
	for i := 1; i < len(phase); i++ {
		phase[i] = phase[i-1]
		if x.ends[i-1] {
			phase[i]++
		}
	}
	return phase
}

// notWorthParting returns the bytes beyond most for which launches are not parted: each part
// costs allocations, which take a microsecond, and torch's allocator takes memory of the device
// 2 MiB at a time. Tests have all parted that may be.
var notWorthParting = func(most int64) int64 { return max(most/32, 1<<20) }

// A lasting is memory that is there for some steps.
type lasting struct {
	first, last int
	bytes       int64
	mayJoin     bool // it lies in one workspace with others if one phase alone uses it
}

// within reports whether steps from first to last alone use l.
func (l *lasting) within(first, last int) bool { return l.first >= first && l.last <= last }

// A phasing decides where phases end.
type phasing struct {
	steps       []step
	starts, end [][]lasting // by step that is the first, or the last, to use it
	bytes       []int64     // by step: of all that is there
	ends        []bool      // by step: a phase ends after it
}

func newPhasing(a *assembly, lives, outputs []life) *phasing {
	n := len(a.steps)
	x := &phasing{a.steps, make([][]lasting, n), make([][]lasting, n), make([]int64, n), make([]bool, n)}
	add := func(l life, bytes int64, mayJoin bool) {
		if !l.used {
			return
		}
		m := lasting{l.first, l.last, bytes, mayJoin}
		x.starts[l.first], x.end[l.last] = append(x.starts[l.first], m), append(x.end[l.last], m)
	}
	for i, l := range lives {
		w := &a.p.Device.Workspaces[i]
		add(l, w.Bytes, !l.byCalls && !w.Zeroed)
	}
	for k, l := range outputs {
		add(l, a.p.Outputs[k].NumBytes(), false)
	}
	now := int64(0)
	for i := range n {
		for _, m := range x.starts[i] {
			now += m.bytes
		}
		x.bytes[i] = now
		for _, m := range x.end[i] {
			now -= m.bytes
		}
	}
	return x
}

// endAtCalls has phases end after calls, and before those that launches leave memory to.
func (x *phasing) endAtCalls() {
	leaves := false
	for i, s := range x.steps {
		if s.isCall {
			x.ends[i], leaves = true, false
			continue
		}
		leaves = leaves || len(x.end[i]) > 0
		x.ends[i] = leaves && i+1 < len(x.steps) && x.steps[i+1].isCall
	}
}

// part calls by for the launches, from first to last, of each phase that has more than most
// bytes at a time.
func (x *phasing) part(most int64, by func(first, last int)) {
	for first := 0; first < len(x.steps); first++ {
		last := first
		for last+1 < len(x.steps) && !x.ends[last] && !x.steps[last+1].isCall {
			last++
		}
		if last > first && x.together(first, last) > most {
			by(first, last)
		}
		first = last
	}
}

// together returns the bytes that launches from first to last have as one phase: of what
// others use all at a time, of the rest as much as is used at a time.
func (x *phasing) together(first, last int) int64 {
	all, now, most := x.bytes[first], int64(0), int64(0)
	for i := first; i <= last; i++ {
		for _, m := range x.starts[i] {
			if i > first {
				all += m.bytes
			}
			if m.mayJoin && m.within(first, last) {
				all -= m.bytes
				now += m.bytes
			}
		}
		most = max(most, now)
		for _, m := range x.end[i] {
			if m.mayJoin && m.within(first, last) {
				now -= m.bytes
			}
		}
	}
	return all + most
}

// partWhereOthersUse parts launches where memory that other phases use too is first or last
// used.
func (x *phasing) partWhereOthersUse(first, last int) {
	for i := first; i < last; i++ {
		for _, m := range x.end[i] {
			x.ends[i] = x.ends[i] || !m.within(first, last)
		}
		for _, m := range x.starts[i+1] {
			x.ends[i] = x.ends[i] || !m.within(first, last)
		}
	}
}

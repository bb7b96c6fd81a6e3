package executor

import (
	"cmp"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
)

// arrange makes phases of the steps: memory is there from the phase that first uses it
// to the one that last does, and what is used in one alone, by launches, lies in one
// workspace of that phase.
func (a *assembly) arrange() {
	d := a.p.Device
	lives, outputs := a.lives(), a.outputLives()
	phase := a.phasesOf(lives, outputs)
	a.setPhases(phase)
	for i := range lives {
		if l := &lives[i]; l.used {
			l.from, l.to = phase[l.first], phase[l.last]
		}
	}
	a.markFresh(lives)
	a.merge(lives)
	if len(d.Calls) == 0 {
		d.Phases = []Phase{a.p.onePhase()}
		return
	}
	n := a.p.Counts()
	for i := range lives {
		if l, slot := &lives[i], Slot(n.Inputs+n.Outputs+i); l.used {
			if !d.Workspaces[i].Result {
				d.Phases[l.from].Allocate = append(d.Phases[l.from].Allocate, slot)
			}
			d.Phases[l.to].Release = append(d.Phases[l.to].Release, slot)
		}
	}
	for k, l := range outputs {
		if l.byCalls || !a.p.Outputs[k].isOwn(n.Inputs) {
			continue
		}
		p := &d.Phases[0] // where nothing writes it, as it has no elements
		if l.used {
			p = &d.Phases[phase[l.first]]
		}
		p.Allocate = append(p.Allocate, Slot(n.Inputs+k))
	}
}

// setPhases makes the phases that phase tells, by step.
func (a *assembly) setPhases(phase []int) {
	d, call, launch := a.p.Device, 0, 0
	d.Phases = nil
	for i, s := range a.steps {
		if phase[i] == len(d.Phases) {
			d.Phases = append(d.Phases, Phase{Call: -1})
		}
		p := &d.Phases[phase[i]]
		if !s.isCall {
			if p.Launches == 0 { // what is before it is not ours, or sets memory to zero
				d.Launches[launch].Early = false
			}
			p.Launches++
			launch++
			continue
		}
		p.Call = call
		call++
	}
}

// A life is when memory is used.
type life struct {
	used        bool
	first, last int // steps
	from, to    int // phases
	byCalls     bool
}

// lives returns the life of each workspace, without phases.
func (a *assembly) lives() []life {
	lives := make([]life, len(a.p.Device.Workspaces))
	for w, steps := range a.uses {
		if len(steps) == 0 {
			continue
		}
		lives[w] = life{used: true, first: slices.Min(steps), last: slices.Max(steps),
			byCalls: slices.ContainsFunc(steps, func(i int) bool { return a.steps[i].isCall })}
	}
	return lives
}

// outputLives returns the life of each output, to the last step; byCalls: a call makes it.
func (a *assembly) outputLives() []life {
	d, n := a.p.Device, a.p.Counts()
	lives := make([]life, len(a.p.Outputs))
	use := func(k, step int, made bool) {
		if k >= 0 && k < n.Outputs && !lives[k].used {
			lives[k] = life{used: true, first: step, last: len(a.steps) - 1, byCalls: made}
		}
	}
	launch, call := 0, 0
	for i, s := range a.steps {
		if !s.isCall {
			for _, patch := range d.Launches[launch].Patches {
				if patch.Value == cudadrv.OutputPointer {
					use(patch.Index, i, false)
				}
			}
			launch++
			continue
		}
		for _, r := range d.Calls[call].Results {
			use(int(r.Slot)-n.Inputs, i, true)
		}
		for _, g := range d.Calls[call].Arguments { // without elements, as nothing wrote it
			use(int(g.Slot)-n.Inputs, i, false)
		}
		call++
	}
	return lives
}

// markFresh notes which patches hold addresses of memory that no step before wrote.
func (a *assembly) markFresh(lives []life) {
	d := a.p.Device
	fresh := make([]map[int]bool, len(d.Launches))
	a.made.fresh = fresh
	written := map[int]bool{} // outputs
	launch, call := 0, 0
	for i, s := range a.steps {
		if s.isCall {
			for _, r := range d.Calls[call].Results {
				written[int(r.Slot)-len(a.p.inputs)] = true
			}
			call++
			continue
		}
		fresh[launch] = map[int]bool{}
		for _, p := range d.Launches[launch].Patches {
			switch p.Value {
			case cudadrv.WorkspacePointer:
				w := &d.Workspaces[p.Index]
				fresh[launch][p.Offset] = !w.Zeroed && !w.Result && lives[p.Index].first == i
			case cudadrv.OutputPointer:
				fresh[launch][p.Offset] = !written[p.Index]
			}
		}
		for _, p := range d.Launches[launch].Patches {
			written[p.Index] = written[p.Index] || p.Value == cudadrv.OutputPointer
		}
		launch++
	}
}

// memoryAlignment is what tensors in a workspace lie at multiples of, in bytes: that of
// torch's allocator is at least as much.
const memoryAlignment = 256

// merge has the workspaces that launches of one phase alone use, and that need not be
// zero, lie in the first of them, those that are not used at one time in the same place.
// lives become those of the workspaces that are left.
func (a *assembly) merge(lives []life) {
	d := a.p.Device
	places := make([]memory, len(d.Workspaces))
	byPhase := map[int][]int{}
	var phases []int
	for w := range d.Workspaces {
		places[w] = memory{cudadrv.WorkspacePointer, w, 0}
		if l := &lives[w]; l.used && l.from == l.to && !l.byCalls && !d.Workspaces[w].Zeroed {
			if byPhase[l.from] == nil {
				phases = append(phases, l.from)
			}
			byPhase[l.from] = append(byPhase[l.from], w)
		}
	}
	for _, p := range phases {
		members := byPhase[p]
		// What has no elements needs a place too: no other argument of a kernel begins there.
		offsets, total := placeByLife(members, lives, func(w int) int64 { return max(d.Workspaces[w].Bytes, 1) })
		for k, w := range members {
			places[w] = memory{cudadrv.WorkspacePointer, members[0], offsets[k]}
		}
		d.Workspaces[members[0]] = Workspace{Bytes: total}
		for _, w := range members[1:] {
			lives[w].used = false
		}
	}
	a.renumber(places, lives)
}

// renumber leaves out the workspaces that are not used, and has all that names one name
// its place.
func (a *assembly) renumber(places []memory, lives []life) {
	d := a.p.Device
	number, kept := make([]int, len(places)), 0
	for w := range places {
		if number[w] = -1; lives[w].used {
			number[w] = kept
			d.Workspaces[kept], lives[kept] = d.Workspaces[w], lives[w]
			kept++
		}
	}
	d.Workspaces = d.Workspaces[:kept]
	for i := kept; i < len(lives); i++ {
		lives[i].used = false
	}
	for i := range d.Launches {
		for k := range d.Launches[i].Patches {
			if p := &d.Launches[i].Patches[k]; p.Value == cudadrv.WorkspacePointer {
				m := places[p.Index]
				p.Index, p.Add = number[m.index], p.Add+uint64(m.add)
			}
		}
	}
	n := a.p.Counts()
	first := Slot(n.Inputs + n.Outputs)
	renumbered := func(s Slot) Slot {
		if s < first {
			return s
		}
		return first + Slot(number[s-first])
	}
	for i := range d.Calls {
		c := &d.Calls[i]
		for k := range c.Arguments {
			c.Arguments[k].Slot = renumbered(c.Arguments[k].Slot)
		}
		m := &a.made.calls[i]
		for k := range m.from {
			if m.task.inputs[k].Tensor {
				m.from[k].at = int(renumbered(Slot(m.from[k].at)))
			}
		}
		for k := range c.Results {
			c.Results[k].Slot = renumbered(c.Results[k].Slot)
		}
	}
}

// placeByLife returns where workspaces lie in one, and the bytes of that: each at the
// lowest place that no other has while it is used.
func placeByLife(members []int, lives []life, bytes func(w int) int64) (offsets []int64, total int64) {
	type taken struct {
		from, to int64
		last     int
	}
	offsets = make([]int64, len(members))
	order := make([]int, len(members))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(lives[members[i]].first, lives[members[j]].first) })
	var now []taken // by from
	for _, k := range order {
		w := members[k]
		now = slices.DeleteFunc(now, func(t taken) bool { return t.last < lives[w].first })
		size, at := (bytes(w)+memoryAlignment-1)/memoryAlignment*memoryAlignment, int64(0)
		i := 0
		for ; i < len(now) && now[i].from < at+size; i++ {
			at = max(at, now[i].to)
		}
		offsets[k] = at
		now = slices.Insert(now, i, taken{at, at + size, lives[w].last})
		total = max(total, at+bytes(w))
	}
	return offsets, total
}

// addCall adds the call of torch that a piece is.
func (a *assembly) addCall(x *piece) error {
	t, err := a.taskOf(x.Segment) // for its scalars
	if err != nil {
		return err
	}
	x.task = t
	form, operands, err := callOf(x.Fusion, func(s scalar.ID) (scalar.Value, bool) { return a.known(x, s) })
	if err != nil {
		return err
	}
	call, from := TorchCall{form: form}, madeCall{f: x.Fusion, task: t}
	n := a.p.Counts()
	slot := func(m memory) Slot {
		a.use(m.kind, m.index)
		switch m.kind {
		case cudadrv.InputPointer:
			return Slot(m.index)
		case cudadrv.OutputPointer:
			return Slot(n.Inputs + m.index)
		}
		return Slot(n.Inputs + n.Outputs + m.index)
	}
	for i, in := range x.Inputs {
		var of callSource
		if of.at, _ = a.source(x, i); in.Val != core.NoVal {
			m := a.at[in.Val].memory
			of = callSource{int(slot(m)), m.add}
		}
		from.from = append(from.from, of)
	}
	for _, o := range operands {
		if o.tensor == core.NoVal {
			word := wordSource{hostWord: hostWord{input: -1, to: o.dtype}, of: a.sourcesOf(x, x.Fusion), value: o.number}
			g := CallArgument{Slot: -1, DType: o.dtype, Word: a.made.words.add(word)}
			if o.dtype.Size() > 8 {
				word.at = 8
				a.made.words.add(word)
			}
			call.Arguments = append(call.Arguments, g)
			continue
		}
		l := a.at[x.Inputs[slices.Index(x.Fusion.Inputs(), o.tensor)].Val]
		call.Arguments = append(call.Arguments, CallArgument{Slot: slot(l.memory), Whole: l.whole, DType: l.dtype, Sizes: l.sizes, Strides: l.strides,
			Offset: l.add / max(int64(l.dtype.Size()), 1)})
	}
	for _, v := range x.Fusion.Expr(x.Fusion.Order()[0]).Out {
		r := CallResult{Slot: -1, DType: x.Fusion.Val(v).DType}
		if r.Sizes, err = t.b.Shape(v); err != nil {
			return err
		}
		r.Strides = denseStrides(x.Fusion, v, r.Sizes, nil)
		for k, o := range x.Fusion.Outputs() {
			if o.Val == v {
				l := a.at[x.Writes[k]]
				r.Slot, r.Strides = slot(l.memory), l.strides
			}
		}
		call.Results = append(call.Results, r)
	}
	if err := call.name(); err != nil {
		return &Bug{What: err}
	}
	a.p.Device.Calls, a.made.calls = append(a.p.Device.Calls, call), append(a.made.calls, from)
	a.steps = append(a.steps, step{isCall: true})
	return nil
}

// known returns the value of a scalar of a piece that is the same in all calls.
func (a *assembly) known(x *piece, s scalar.ID) (scalar.Value, bool) {
	if a.numberDiffers(x, x.Fusion, s) {
		return scalar.Value{}, false
	}
	v, err := x.task.b.Value(s)
	return v, err == nil
}

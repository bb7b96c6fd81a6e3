package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// RFactor computes the reduction v in two steps: new tensors, one for each
// result of v's expression, fold the loop axes of v at the positions axes, and
// v folds what is left. The others of v's reduction axes become axes of the new
// tensors' shape. The loops of both follow those of v.
func (s *Scheduled) RFactor(v core.ValID, axes []int) ([]core.ValID, error) {
	const call = "rfactor"
	first, err := s.rfactorAxes(call, v, axes)
	if err != nil {
		return nil, err
	}
	id := s.f.Val(v).Def
	results := s.f.Expr(id).Out
	r := &rfactor{s: s, v: v, first: first, loop: s.Loop(v)}
	r.sort()
	domains := make([]core.Domain, len(results))
	for k := range domains {
		domains[k] = r.partial()
	}
	loops := make([][]core.AxisID, len(results))
	for k := range loops {
		loops[k], domains[k].Loop = domains[k].Loop, nil
	}
	partial, err := s.f.ReduceInSteps(id, domains, r.rest(&domains[0]))
	if err != nil {
		return nil, err
	}
	s.edited()
	for k, p := range partial {
		s.setLoop(p, loops[k])
		s.setLoop(results[k], r.finalLoop(s.f.Val(results[k]).Domain.Root))
	}
	return partial, nil
}

// rfactorAxes returns the loop axes of v at the positions axes, if they can be
// reduced first.
func (s *Scheduled) rfactorAxes(call string, v core.ValID, axes []int) ([]core.AxisID, error) {
	if err := s.checkTensor(call, v); err != nil {
		return nil, err
	}
	op := s.f.Expr(s.f.Val(v).Def).Op
	if core.MergeOp(op) == nil {
		return nil, core.InvalidArgumentf("%s(): %s is the result of %s(), which cannot be computed in two steps", call, s.name(v), op.Name)
	}
	var first []core.AxisID
	for _, k := range axes {
		a, at, err := s.axisAt(call, v, k)
		switch {
		case err != nil:
			return nil, err
		case s.kind(a) != core.Reduce:
			return nil, core.InvalidArgumentf("%s(): %s is not reduced", call, s.axisText(v, at))
		case slices.Contains(first, a):
			return nil, core.InvalidArgumentf("%s(): %s is given twice", call, s.axisText(v, at))
		}
		first = append(first, a)
	}
	left := 0
	for _, a := range s.Loop(v) {
		if s.kind(a) == core.Reduce && !slices.Contains(first, a) {
			left++
		}
	}
	switch {
	case len(first) == 0:
		return nil, core.InvalidArgumentf("%s(): axes is empty; it must name a reduction axis of %s", call, s.name(v))
	case left == 0:
		return nil, core.InvalidArgumentf("%s(): axes are all of the reduction axes of %s; one must be left for the second step", call, s.name(v))
	}
	for _, w := range s.siblings(v) {
		if s.tensors[w].position > 0 {
			return nil, core.InvalidArgumentf("%s(): %s is inlined; rfactor before inlining", call, s.name(w))
		}
	}
	return first, nil
}

// An rfactor copies the axes of v for the two steps of its reduction.
type rfactor struct {
	s       *Scheduled
	v       core.ValID
	first   []core.AxisID      // loop axes that the first step reduces
	loop    []core.AxisID      // of v
	exposed []core.TransformID // that lead to the logical axes of the first step
	after   []core.TransformID // the others of v's loops
	logical []core.AxisID      // of v, that the logical axes of the first step are copies of
}

// sort divides the transforms of v: those that lead to what is reduced first, or
// to v's own logical axes, are in the logical domain of the first step.
func (r *rfactor) sort() {
	d := &r.s.f.Val(r.v).Domain
	r.exposed = r.s.f.TransformsTo(d.Logical, r.first)
	r.logical = slices.Clone(d.Root)
	for _, id := range r.s.history(r.v) {
		if slices.Contains(r.exposed, id) {
			r.logical = applied(r.logical, r.s.f.Transform(id))
		} else {
			r.after = append(r.after, id)
		}
	}
}

// applied returns axes with the inputs of t replaced by its results.
func applied(axes []core.AxisID, t *core.Transform) []core.AxisID {
	at := slices.Index(axes, t.In[0])
	out := slices.Replace(slices.Clone(axes), at, at+1, t.Results()...)
	return slices.DeleteFunc(out, func(a core.AxisID) bool { return a == t.In[1] })
}

// reducedFirst reports whether a part of a, an axis of v, is reduced first.
func (r *rfactor) reducedFirst(a core.AxisID) bool {
	if slices.Contains(r.first, a) {
		return true
	}
	for _, id := range r.exposed {
		t := r.s.f.Transform(id)
		if slices.Contains(t.Inputs(), a) && slices.ContainsFunc(t.Results(), r.reducedFirst) {
			return true
		}
	}
	return false
}

// partial returns the domain of a result of the first step.
func (r *rfactor) partial() core.Domain {
	s, copies := r.s, map[core.AxisID]core.AxisID{}
	like := func(a core.AxisID) core.Axis {
		x := *s.f.Axis(a)
		if x.Kind == core.Reduce && !r.reducedFirst(a) {
			x.Kind = core.Iter
		}
		return x
	}
	var d core.Domain
	for _, a := range s.f.Val(r.v).Domain.Root {
		copies[a] = s.f.AddAxis(like(a))
		d.Root = append(d.Root, copies[a])
	}
	for _, list := range [][]core.TransformID{r.exposed, r.after} {
		for _, id := range list {
			r.copy(id, copies, like)
		}
	}
	d.Logical, d.Loop = r.images(r.logical, copies), r.images(r.loop, copies)
	s.movePhases(copies)
	return d
}

// copy appends a transform like id of the copies of its inputs.
func (r *rfactor) copy(id core.TransformID, copies map[core.AxisID]core.AxisID, like func(core.AxisID) core.Axis) {
	t := *r.s.f.Transform(id)
	outs, made := slices.Clone((&t).Results()), []core.Axis(nil)
	for _, a := range outs {
		made = append(made, like(a))
	}
	for k, a := range (&t).Inputs() {
		t.In[k] = copies[a]
	}
	u := r.s.f.Transform(r.s.f.AddTransform(t, made...))
	for k, a := range outs {
		copies[a] = u.Out[k]
		r.s.setParallel(u.Out[k], r.s.Parallel(a))
	}
}

func (r *rfactor) images(axes []core.AxisID, copies map[core.AxisID]core.AxisID) []core.AxisID {
	out := make([]core.AxisID, len(axes))
	for i, a := range axes {
		out[i] = copies[a]
		r.s.setParallel(out[i], r.s.Parallel(a))
	}
	return out
}

// rest lists the dimensions of the first step, whose domain is d, that the
// second reduces.
func (r *rfactor) rest(d *core.Domain) []int64 {
	var dims []int64
	n := int64(0)
	for i, a := range d.Logical {
		if r.s.kind(a) == core.Reduce {
			continue
		}
		if r.s.kind(r.logical[i]) == core.Reduce {
			dims = append(dims, n)
		}
		n++
	}
	return dims
}

// finalLoop returns the loop domain of the second step, made from its root axes
// by the transforms of v that the first step has not exposed.
func (r *rfactor) finalLoop(root []core.AxisID) []core.AxisID {
	copies, k := map[core.AxisID]core.AxisID{}, 0
	for _, a := range r.logical {
		if !slices.Contains(r.first, a) {
			copies[a] = root[k]
			k++
		}
	}
	for _, id := range r.after {
		r.copy(id, copies, func(a core.AxisID) core.Axis { return *r.s.f.Axis(a) })
	}
	loop := slices.DeleteFunc(slices.Clone(r.loop), func(a core.AxisID) bool { return slices.Contains(r.first, a) })
	return r.images(loop, copies)
}

package reduction

import (
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// accept returns why no segment of the fusion of g is taken, whatever its sizes.
func accept(g *scheduler.Segment) []core.Refusal {
	f := g.Fusion
	if err := scheduler.Check(f, name, func(c core.Class) bool { return scheduler.Maps(c) || c == core.Reduction }); err != nil {
		return scheduler.RefusalsOf(name, err)
	}
	all := scheduler.Reductions(f)
	if len(all) == 0 {
		return []core.Refusal{scheduler.Refuse(f, name, "operation", core.NoVal, "nothing is reduced")}
	}
	if err := scheduler.CheckSteps(f, name, all); err != nil {
		return scheduler.RefusalsOf(name, err)
	}
	return dependent(g, all)
}

// dependent returns why the reductions cannot be computed in one pass over
// what they reduce: one needs the result of another, or a result is needed
// along the axes that were reduced.
func dependent(g *scheduler.Segment, all []core.ValID) []core.Refusal {
	f := g.Fusion
	from := map[core.ValID]core.ValID{} // the reduction that a tensor is computed from
	for _, id := range f.Order() {
		e := f.Expr(id)
		source := core.NoVal
		for _, v := range f.TensorArgs(e) {
			if r, ok := from[v]; ok {
				source = r
			}
		}
		if e.Op.Class == core.Reduction {
			if source != core.NoVal {
				return []core.Refusal{scheduler.Refuse(f, name, "persistence", e.Out[0], "%s is reduced from what is computed with %s, the result of another reduction", f.Name(e.Out[0]), f.Name(source))}
			}
			source = e.Out[0]
		}
		if source != core.NoVal {
			for _, v := range e.Out {
				from[v] = source
			}
		}
	}
	u, err := g.Uncovered(all[0])
	switch {
	case err != nil:
		return scheduler.RefusalsOf(name, err)
	case u != core.NoVal:
		return []core.Refusal{scheduler.Refuse(f, name, "reference", u, "%s has dimensions that are not those of %s, which is reduced to %s", f.Name(u), f.Name(reduced(f, all[0])), f.Name(all[0]))}
	}
	for _, v := range schedule.New(f).Tensors() {
		if source, ok := from[v]; ok && f.Val(v).Def != f.Val(source).Def && runs(f, v) > runs(f, source) {
			return []core.Refusal{scheduler.Refuse(f, name, "persistence", v, "%s combines %s, the result of a reduction, with elements along what was reduced, which must be kept meanwhile", f.Name(v), f.Name(source))}
		}
	}
	return nil
}

// runs returns the number of axes along which v has elements of its own.
func runs(f *core.Fusion, v core.ValID) (n int) {
	for _, a := range f.Axes(v) {
		if f.Axis(a).Kind != core.Broadcast {
			n++
		}
	}
	return n
}

// reduced returns the tensor that v is the reduction of.
func reduced(f *core.Fusion, v core.ValID) core.ValID { return f.TensorArgs(f.Expr(f.Val(v).Def))[0] }

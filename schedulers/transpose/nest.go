package transpose

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// A nest is the loops of a tensor by name, from the outermost to the innermost.
type nest struct {
	scheduler.Nest
	names []string
}

func (n *nest) at(name string) int { return slices.Index(n.names, name) }

// split splits a loop of factor iterations off, inside, and calls the two outer and inner. A
// loop that has so many or should have one is only called otherwise.
func (n *nest) split(name string, count, factor int64, outer, inner string) {
	k := n.at(name)
	switch factor {
	case 1:
		n.names[k] = outer
	case count:
		n.names[k] = inner
	default:
		n.Split(k, factor, schedule.Serial)
		n.names = slices.Replace(n.names, k, k+1, outer, inner)
	}
}

// merge merges two neighbours.
func (n *nest) merge(outer, inner, into string) {
	k := n.at(outer)
	if k < 0 || n.at(inner) < 0 {
		n.names[max(k, n.at(inner))] = into
		return
	}
	n.Merge(k, 2)
	n.names = slices.Replace(n.names, k, k+2, into)
}

// order puts those loops that there are in the order of names.
func (n *nest) order(names ...string) {
	names = slices.DeleteFunc(names, func(x string) bool { return n.at(x) < 0 })
	moves := map[int]int{}
	for k, x := range names {
		moves[n.at(x)] = k
	}
	n.Reorder(moves)
	n.names = names
}

// unswitch puts the loop called name, of count iterations, in one of a single iteration that is
// unswitched.
func (n *nest) unswitch(name string, count int64) {
	if k := n.at(name); n.Err == nil {
		if n.Err = n.Schedule.Split(n.Tensor, k, count, true); n.Err == nil {
			n.names = slices.Insert(n.names, k, "all "+name)
			n.Parallelize(k, schedule.Unswitch)
		}
	}
}

// run says how a loop is run, if there is one.
func (n *nest) run(name string, p schedule.Parallel) {
	if k := n.at(name); k >= 0 {
		n.Parallelize(k, p)
	}
}

// loop returns the axes of those loops that there are.
func (n *nest) loop(names ...string) []core.AxisID {
	var axes []core.AxisID
	for _, x := range names {
		if k := n.at(x); k >= 0 && n.Err == nil {
			axes = append(axes, n.Schedule.Loop(n.Tensor)[k])
		}
	}
	return axes
}

package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A graph is the almost-exact classes of axes and the relations between them.
type graph struct {
	m        *schedule.Mapping
	relation []relation
	of       map[core.TransformID]int // relation of a transform
	touching map[core.AxisID][]int    // relations of a class, ascending
}

// A relation is a transform between classes: that of all transforms of one kind
// between the same classes.
type relation struct {
	t       core.TransformID // the first one
	kind    core.TransformKind
	in, out []core.AxisID // classes
	moves   bool          // a resize that adds or removes something
}

// A signature tells relations apart.
type signature struct {
	kind        core.TransformKind
	inner       bool
	whole       bool
	broadcast   bool
	factor      scalar.ID
	left, right scalar.ID
	in, out     [2]core.AxisID
}

func newGraph(m *schedule.Mapping) *graph {
	g := &graph{m: m, of: map[core.TransformID]int{}, touching: map[core.AxisID][]int{}}
	known := map[signature]int{}
	f := m.Fusion()
	zero := f.Scalars().Int(0)
	for _, id := range m.Transforms() {
		t := f.Transform(id)
		s := signature{kind: t.Kind, inner: t.Inner, whole: t.Whole, broadcast: f.Axis(t.In[0]).Kind == core.Broadcast, factor: t.Factor, left: t.Left, right: t.Right,
			in: g.classes(t.In), out: g.classes(t.Out)}
		r, ok := known[s]
		if !ok {
			r = len(g.relation)
			known[s] = r
			of := core.Transform{In: s.in, Out: s.out} // classes
			g.relation = append(g.relation, relation{t: id, kind: t.Kind, in: of.Inputs(), out: of.Results(),
				moves: t.Kind == core.ResizeAxis && (t.Left != zero || t.Right != zero)})
			for _, c := range slices.Concat(of.Inputs(), of.Results()) {
				if list := g.touching[c]; len(list) == 0 || list[len(list)-1] != r {
					g.touching[c] = append(list, r)
				}
			}
		}
		g.of[id] = r
	}
	return g
}

func (g *graph) classes(axes [2]core.AxisID) [2]core.AxisID {
	for i, a := range axes {
		if a != core.NoAxis {
			axes[i] = g.m.AlmostExact(a)
		}
	}
	return axes
}

// relations returns those of transforms, ascending.
func (g *graph) relations(ids []core.TransformID) []int {
	list := make([]int, len(ids))
	for i, id := range ids {
		list[i] = g.of[id]
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// made returns the classes on the side of r that a walk over it leads to.
func (r *relation) made(forward bool) []core.AxisID {
	if forward {
		return r.out
	}
	return r.in
}

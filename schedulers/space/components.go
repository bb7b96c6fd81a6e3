package space

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// mostCones is how many outputs are told apart by what they have in common.
const mostCones = 32

// Coverings is [Covering] for a segment whose outputs may have dimensions that have nothing in common, such as
// functions of three parts of a tensor: a space for each set of outputs of which one has the dimensions of all. What
// several sets are computed from is in the space of each.
//
// Errors: a [scheduler.Refusals] of the scheduler called by, if one set writes to an input that another
// one reads, whose blocks do not wait for each other; those of [Covering].
func Coverings(g *scheduler.Segment, by string) ([]*Space, error) {
	p, err := Covering(g, by)
	f := g.Fusion
	if err == nil {
		return []*Space{p}, nil
	}
	left := widest(f)
	if len(left) == 1 || len(left) > mostCones {
		return nil, err
	}
	var all []*Space
	for len(left) > 0 {
		in, others, err := coveredBy(g, left)
		if err != nil {
			return nil, err
		}
		among := func(v core.ValID) bool { return in[v] }
		if u, err := g.UncoveredAmong(left[0], among); err != nil || u != core.NoVal {
			return nil, (&covering{missing: u, widest: left[0], err: err}).refusal(f, by)
		}
		if p, err = newAmong(g, left[0], among); err != nil {
			return nil, err
		}
		p.among = in
		for k, o := range f.Outputs() {
			if slices.Contains(left, o.Val) && !slices.Contains(others, o.Val) {
				p.places = append(p.places, k)
			}
		}
		p.Tensors = slices.DeleteFunc(p.Tensors, func(t Tensor) bool {
			return !in[t.Val] || t.IsResized() && !in[t.resized] || t.IsOutput && !slices.Contains(p.places, t.Place)
		})
		all, left = append(all, p), others
	}
	if len(all) == 1 {
		return all, nil
	}
	return all, checkInPlace(f, all, by)
}

// checkInPlace refuses spaces of which one has a tensor that another one writes to.
func checkInPlace(f *core.Fusion, all []*Space, by string) error {
	for _, p := range all {
		for _, k := range p.places {
			o := f.Outputs()[k]
			isRead := func(q *Space) bool { return q != p && q.among[o.Alias] }
			if o.Alias != core.NoVal && slices.ContainsFunc(all, isRead) {
				return scheduler.Refused(f, by, "in place", o.Alias,
					"%s is written to, and something that has nothing in common with what is written reads it", f.Name(o.Alias))
			}
		}
	}
	return nil
}

// coveredBy returns those tensors that the first of outputs is computed from, and others from which outputs
// are computed that have no dimensions more, and the other outputs.
func coveredBy(g *scheduler.Segment, outputs []core.ValID) (in map[core.ValID]bool, others []core.ValID, err error) {
	in = cone(g.Fusion, outputs[0])
	for _, v := range outputs[1:] {
		own := cone(g.Fusion, v)
		u, err := g.UncoveredAmong(outputs[0], func(v core.ValID) bool { return own[v] })
		switch {
		case err != nil:
			return nil, nil, err
		case u != core.NoVal:
			others = append(others, v)
		default:
			for u := range own {
				in[u] = true
			}
		}
	}
	return in, others, nil
}

// cone returns v and what it is computed from.
func cone(f *core.Fusion, v core.ValID) map[core.ValID]bool {
	in, left := map[core.ValID]bool{}, []core.ValID{v}
	for len(left) > 0 {
		v, left = left[len(left)-1], left[:len(left)-1]
		if in[v] {
			continue
		}
		if in[v] = true; f.Val(v).Def != core.NoExpr {
			left = append(left, f.TensorArgs(f.Expr(f.Val(v).Def))...)
			for _, u := range f.Expr(f.Val(v).Def).Out {
				in[u] = true
			}
		}
	}
	return in
}

// Among returns the tensors of the segment that p is the space of, by value; nil: all.
func (p *Space) Among() map[core.ValID]bool { return p.among }

// own returns those tensors of a schedule that p is the space of.
func (p *Space) own(s *schedule.Scheduled) []core.ValID {
	all := s.Tensors()
	if p.among == nil {
		return all
	}
	in := map[core.ValID]bool{}
	for _, k := range p.places {
		for u := range cone(s.Fusion(), s.Fusion().Outputs()[k].Val) { // which may be a copy of what was one
			in[u] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(v core.ValID) bool { return !in[v] })
}

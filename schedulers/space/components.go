package space

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// Coverings is [Covering] for a segment whose outputs may have nothing in common, such as
// functions of three parts of a tensor: a space for each set of tensors that have, with equal
// extents.
//
// Errors: a [scheduler.Refusals] of the scheduler called by, if the extents are not; those of
// [Covering].
func Coverings(g *scheduler.Segment, by string) ([]*Space, error) {
	p, err := Covering(g, by)
	if err == nil {
		return []*Space{p}, nil
	}
	parts := components(g.Fusion)
	if len(parts) == 1 {
		return nil, err
	}
	var all []*Space
	for _, in := range parts {
		p, err := cover(g, func(v core.ValID) bool { return in[v] }).result(g, by)
		if err != nil {
			return nil, err
		}
		p.Tensors = slices.DeleteFunc(p.Tensors, func(t Tensor) bool { return !in[t.Val] || t.IsResized() && !in[t.resized] })
		if all = append(all, p); !slices.Equal(p.Extents, all[0].Extents) {
			f := g.Fusion
			return nil, scheduler.Refused(f, by, "loops", p.Reference,
				"%s has nothing in common with %s, and other sizes", f.Name(p.Reference), f.Name(all[0].Reference))
		}
	}
	return all, nil
}

// Joined returns the first of spaces with the tensors of all, which have equal extents.
func Joined(spaces []*Space) *Space {
	if len(spaces) == 1 {
		return spaces[0]
	}
	all := *spaces[0]
	for _, p := range spaces[1:] {
		all.Tensors = slices.Concat(all.Tensors, p.Tensors)
	}
	return &all
}

// components returns the sets of tensors that have something in common: what is computed, and
// what that reads.
func components(f *core.Fusion) []map[core.ValID]bool {
	var parts []map[core.ValID]bool
	for _, id := range f.Order() {
		e := f.Expr(id)
		whole := map[core.ValID]bool{}
		for _, v := range slices.Concat(e.Out, f.TensorArgs(e)) {
			whole[v] = true
		}
		var others []map[core.ValID]bool
		for _, part := range parts {
			if !meets(f, part, e) {
				others = append(others, part)
				continue
			}
			for v := range part {
				whole[v] = true
			}
		}
		parts = append(others, whole)
	}
	return parts
}

// meets reports whether part has a tensor that e reads and that is computed.
func meets(f *core.Fusion, part map[core.ValID]bool, e *core.Expr) bool {
	return slices.ContainsFunc(f.TensorArgs(e), func(v core.ValID) bool { return part[v] && !f.Val(v).Input })
}

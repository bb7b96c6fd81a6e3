package segmenter

import (
	"slices"

	"nvfuser_go/core"
)

// A recomputation is how other kernels get what one stores for them by computing it again.
type recomputation struct {
	exprs   []core.ExprID // of the chain, without what is forwarded anyway
	anchors []core.ValID  // what is in memory then and read
	size    int           // expressions that are computed
	weight  float64       // instructions an element
}

// recompute marks expressions whose results a kernel stores and that other kernels had
// better compute again, as they read the operands in any case or those are smaller. It
// reports whether there are such.
func (c *cutter) recompute(parts []verified) bool {
	of := make([]int, len(c.g.nodes))
	for k, x := range parts {
		for _, i := range x.nodes {
			of[i] = k
		}
	}
	readers := map[core.ValID][]int{} // parts that read what another one computes
	for k, x := range parts {
		for _, i := range x.nodes {
			for _, v := range c.g.nodes[i].reads {
				if at := c.g.values[v].node; at != none && of[at] != k && !slices.Contains(readers[v], k) {
					readers[v] = append(readers[v], k)
				}
			}
		}
	}
	isMarked := false
	for k, x := range parts {
		for _, i := range x.nodes {
			v := c.g.f.Expr(c.g.nodes[i].expr).Out[0]
			if c.g.nodes[i].kind != Kernel || len(readers[v]) == 0 || c.g.values[v].output ||
				slices.ContainsFunc(readers[v], func(r int) bool { return c.g.nodes[parts[r].nodes[0]].kind != Kernel }) {
				continue
			}
			r := &recomputation{}
			isInside := func(at int32) bool { return of[at] == k }
			if !c.g.chainOf(v, v, isInside, r) || c.saved(v, r, parts, readers) < minGain {
				continue
			}
			for _, id := range r.exprs {
				isMarked = isMarked || !c.again[id]
				c.again[id] = true
			}
		}
	}
	return isMarked
}

// chainOf adds to r what computes v again for a result of the elements of whole, and reports
// whether that is possible: by elementwise operations of the same kernel, and by what is
// forwarded.
func (g *graph) chainOf(v, whole core.ValID, isInside func(node int32) bool, r *recomputation) bool {
	id := g.f.Val(v).Def
	e := g.f.Expr(id)
	if g.torch[id] || g.direct[id] || e.Op.Class != core.Elementwise && g.chain[id] == 0 {
		return false
	}
	if r.size++; r.size > maxChain {
		return false
	}
	if r.weight += e.Op.Cost; g.chain[id] == 0 {
		r.exprs = append(r.exprs, id)
	}
	for _, u := range g.f.TensorArgs(e) {
		d, x := g.f.Val(u).Def, &g.values[u]
		isNode := x.node != none
		isComputed := d != core.NoExpr && !x.empty && (g.chain[d] > 0 || isNode && isInside(x.node) && !x.output &&
			g.f.Expr(d).Op.Class == core.Elementwise && slices.Equal(x.shape, g.values[whole].shape))
		if isComputed {
			if !g.chainOf(u, whole, isInside, r) {
				return false
			}
		} else if !slices.Contains(r.anchors, u) {
			r.anchors = append(r.anchors, u)
		}
	}
	return true
}

// saved returns the microseconds that are saved if v is computed again by all that read it.
func (c *cutter) saved(v core.ValID, r *recomputation, parts []verified, readers map[core.ValID][]int) float64 {
	g := c.g
	bytes := g.values[v].bytes
	for _, a := range r.anchors {
		if x := &g.values[a]; x.node != none && !x.output && len(readers[a]) == 0 {
			bytes -= x.bytes // it is stored now
		}
	}
	for _, k := range readers[v] {
		bytes += g.values[v].bytes
		for _, a := range r.anchors {
			isRead := slices.ContainsFunc(parts[k].nodes, func(i int32) bool { return slices.Contains(g.nodes[i].reads, a) })
			if !isRead {
				bytes -= g.values[a].bytes
			}
		}
	}
	elements := 1.0
	for _, n := range g.values[v].shape {
		elements *= float64(n)
	}
	m := &c.judge.device.Model
	return bytes/m.Copy - r.weight*elements*float64(len(readers[v]))/m.Issue
}

package persistence

import "math"

// A network is a graph with capacities between a source and a sink.
type network struct {
	out [][]int // by node: edges that leave it
	arc []arc   // in pairs, of which each is the other's way back
}

type arc struct {
	to   int
	left int64 // of the capacity
}

const (
	source   = 0
	sink     = 1
	infinite = int64(math.MaxInt64 / 4)
)

// node adds a node and returns it; the first two are the source and the sink.
func (g *network) node() int {
	if len(g.out) == 0 {
		g.out = make([][]int, 2)
	}
	g.out = append(g.out, nil)
	return len(g.out) - 1
}

func (g *network) edge(from, to int, capacity int64) {
	g.out[from] = append(g.out[from], len(g.arc))
	g.out[to] = append(g.out[to], len(g.arc)+1)
	g.arc = append(g.arc, arc{to, capacity}, arc{from, 0})
}

// cut returns which nodes are on the side of the source of the minimum cut that is the
// nearest to it: those that shortest augmenting paths leave reachable.
func (g *network) cut() []bool {
	for len(g.out) > 0 {
		by := g.paths()
		if by[sink] < 0 {
			break
		}
		flow := infinite
		for v := sink; v != source; v = g.arc[by[v]^1].to {
			flow = min(flow, g.arc[by[v]].left)
		}
		for v := sink; v != source; v = g.arc[by[v]^1].to {
			g.arc[by[v]].left -= flow
			g.arc[by[v]^1].left += flow
		}
	}
	reached := make([]bool, len(g.out))
	if len(g.out) > 0 {
		for v, by := range g.paths() {
			reached[v] = by >= 0 || v == source
		}
	}
	return reached
}

// paths returns the edge by which a breadth-first walk from the source first comes to
// each node, -1 if it does not.
func (g *network) paths() []int {
	by := make([]int, len(g.out))
	for v := range by {
		by[v] = -1
	}
	queue := []int{source}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, e := range g.out[queue[0]] {
			if to := g.arc[e].to; g.arc[e].left > 0 && by[to] < 0 && to != source {
				by[to] = e
				queue = append(queue, to)
			}
		}
	}
	return by
}

package executor

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/segmenter"
)

// The architecture and the driver from which on a kernel may start before the one before
// it ends: before that driver such launches could not be captured in a graph.
const (
	overlapMajor  = 9
	overlapDriver = 12030
)

// overlap has a kernel that reads what the one before it computes start before that
// ends: its first instruction waits for it, so that only the start of its blocks overlaps,
// which takes a microsecond or more.
func (a *assembly) overlap() {
	if a.p.onHost() || a.options.Apart || a.properties.Major < overlapMajor || a.properties.DriverVersion < overlapDriver {
		return
	}
	by := map[core.ValID]*piece{} // that computes a tensor
	var last *piece
	for _, x := range a.pieces {
		reads := x.Reads()
		of := x
		if x.Kind == segmenter.View {
			of = by[reads[0]]
		}
		for _, v := range x.Writes {
			by[v] = of
		}
		if x.Kind == segmenter.View {
			continue
		}
		if x.Kind == segmenter.Kernel {
			x.task.leads = true // so that it serves wherever it stands
			x.task.follows = last != nil && last.Kind == segmenter.Kernel && slices.ContainsFunc(reads, func(v core.ValID) bool { return by[v] == last })
		}
		last = x
	}
}

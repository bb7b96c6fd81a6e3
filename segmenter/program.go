package segmenter

import (
	"fmt"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/schedulers/scheduler"
)

// A Kind says who computes a segment.
type Kind uint8

const (
	Kernel    Kind = iota
	TorchCall      // one expression, by the torch expression of its row
	View           // one expression whose result is the memory of its operand, seen otherwise
)

func (k Kind) String() string { return [...]string{"kernel", "torch call", "view"}[k] }

// A Source says what an input of a segment is.
type Source struct {
	Val    core.ValID // a tensor of the whole fusion; NoVal: the scalar
	Scalar scalar.ID  // of the whole fusion: an input, or a size of an input
}

// A Segment is a part of a fusion. Its fusion is frozen and concrete.
type Segment struct {
	Kind      Kind
	Scheduler string       // of a kernel
	Fusion    *core.Fusion // names tensors in its own way; [Segment.Inputs] and Writes say what they are
	Inputs    []Source     // by input of Fusion
	Writes    []core.ValID // by output of Fusion: a tensor of the whole fusion
	Exprs     []core.ExprID
	Draw      int            // added to the place of each random expression: the offset of its numbers is greater by 4 each
	Refusals  []core.Refusal // of the schedulers that were asked before, or of all
	Key       string         // equal for segments that one kernel computes, given equal sizes
	Question  string         // the key that [Options.Refused] is asked for: that without outputs in place
	// Asked is what the scheduler of a kernel was asked about, and remembers what it
	// found out. It is used by one goroutine. Nil of others.
	Asked *scheduler.Segment
}

// Reads returns the tensors of the whole fusion that s reads.
func (s *Segment) Reads() []core.ValID {
	var reads []core.ValID
	for _, in := range s.Inputs {
		if in.Val != core.NoVal {
			reads = append(reads, in.Val)
		}
	}
	return reads
}

// An Output is a result of the whole fusion.
type Output struct {
	core.Output
	// InPlace: the segment that computes it writes to the memory of Alias, whose
	// elements nobody needs by then. Else, with an Alias, it is copied there at the end.
	InPlace bool
}

// A Program computes a fusion for one set of sizes.
type Program struct {
	Fusion   *core.Fusion
	Segments []*Segment   // in an order to run
	Outputs  []Output     // by output; one that is an input is copied before anything runs
	Empty    []core.ValID // tensors without elements that are read: they are allocated and never computed
	Work     Work
}

// Work counts what [Cut] did: the counters grow as its time does.
type Work struct {
	Visits    int // of groups and edges
	Extracted int // expressions copied to fusions of segments
	Asked     int // questions to the schedulers
	Rounds    int
}

// Dump returns the program as text.
func (p *Program) Dump() string {
	var b strings.Builder
	f := p.Fusion
	names := func(vs []core.ValID) string {
		all := make([]string, len(vs))
		for i, v := range vs {
			all[i] = f.Name(v)
		}
		return strings.Join(all, ", ")
	}
	for i, s := range p.Segments {
		fmt.Fprintf(&b, "segment %d: %v", i, s.Kind)
		if s.Scheduler != "" {
			fmt.Fprintf(&b, " by %s", s.Scheduler)
		}
		if s.Draw > 0 {
			fmt.Fprintf(&b, ", random numbers from place %d on", s.Draw)
		}
		fmt.Fprintf(&b, "\n  reads %s\n", p.sources(s))
		fmt.Fprintf(&b, "  writes %s\n", names(s.Writes))
		for _, r := range s.Refusals {
			fmt.Fprintf(&b, "  refused by %s (%s): %s\n", r.By, r.Rule, r.Sentence)
		}
		for line := range strings.Lines(s.Fusion.String()) {
			b.WriteString("    " + line)
		}
	}
	if len(p.Empty) > 0 {
		fmt.Fprintf(&b, "without elements: %s\n", names(p.Empty))
	}
	for _, o := range p.Outputs {
		fmt.Fprintf(&b, "output %s", f.Name(o.Val))
		switch {
		case o.InPlace:
			fmt.Fprintf(&b, ", in the memory of %s", f.Name(o.Alias))
		case o.Alias != core.NoVal:
			fmt.Fprintf(&b, ", copied to %s at the end", f.Name(o.Alias))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// sources names the inputs of s.
func (p *Program) sources(s *Segment) string {
	var all []string
	for _, in := range s.Inputs {
		if in.Val != core.NoVal {
			all = append(all, p.Fusion.Name(in.Val))
		} else {
			all = append(all, symbolName(p.Fusion, in.Scalar))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// symbolName describes an input scalar or a size of an input.
func symbolName(f *core.Fusion, s scalar.ID) string {
	tag := f.Scalars().Tag(s)
	if tag.Dim >= 0 {
		return fmt.Sprintf("size %d of %s", tag.Dim, f.Name(core.ValID(tag.Val)))
	}
	return fmt.Sprintf("scalar %s", f.Name(core.ValID(tag.Val)))
}

package executor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/model"
)

// An Explanation says of each part of a program who computes it, who refuses to and
// why, and in which way: what the stage explain shows.
type Explanation struct {
	Segments []ExplainedSegment `json:"segments"`
}

// An ExplainedSegment is a segment, or a copy.
type ExplainedSegment struct {
	Number     int      `json:"number"`     // of the segment; -1: a copy
	About      string   `json:"about"`      // who computes what from what
	Answers    []Answer `json:"answers"`    // of schedulers in the order in which they are asked, and of who refused later
	Parameters string   `json:"parameters"` // of the kernel; "": there is none
	Others     []string `json:"others"`     // parameters that were thought to be slower
	Memory     *Traffic `json:"memory"`     // of the kernel; null: there is none
}

// Traffic is what a kernel moves if it reads and writes each element once, and how long
// an H100 takes for it and the launch, from memory alone, without caches.
type Traffic struct {
	Read    int64   `json:"read"`    // bytes
	Written int64   `json:"written"` // bytes
	Time    float64 `json:"time"`    // us
}

// An Answer is what one that was asked says to a segment.
type Answer struct {
	By       string   `json:"by"`
	Accepts  bool     `json:"accepts"`
	Refusals []string `json:"refusals"` // sentences with their rules; none, and it does not accept: it was not asked
}

// explain returns what is known of the program.
func (m *made) explain() Explanation {
	e := Explanation{Segments: []ExplainedSegment{}}
	for i := range m.parts {
		p := &m.parts[i]
		s := ExplainedSegment{Number: p.segment, About: strings.TrimSpace(p.title("")), Answers: []Answer{}, Others: []string{}}
		if c := p.c; c != nil {
			s.Answers = answers(c.scheduler, c.refusals)
			if c.kernel != nil && p.task != nil {
				s.Memory = p.task.traffic()
			}
			for k, params := range c.candidates {
				switch {
				case c.kernel == nil: // it failed to be made
				case k == c.taken:
					s.Parameters = params.String()
				default:
					s.Others = append(s.Others, params.String())
				}
			}
		}
		e.Segments = append(e.Segments, s)
	}
	return e
}

// traffic returns what a kernel of t moves at least.
func (t *task) traffic() *Traffic {
	bytes := func(sizes, strides []int64, size int) int64 {
		n := int64(size)
		for d, extent := range sizes {
			if strides[d] != 0 { // else it is there once
				n *= extent
			}
			if extent == 0 {
				return 0
			}
		}
		return n
	}
	var x Traffic
	for i := range t.inputs {
		if in := &t.inputs[i]; in.Tensor {
			x.Read += bytes(in.Sizes, in.Strides, in.DType.Size())
		}
	}
	for i := range t.outputs {
		o := &t.outputs[i]
		x.Written += bytes(o.Sizes, o.Strides, o.DType.Size())
	}
	x.Time = model.H100.Time(model.Kernel{Bytes: float64(x.Read + x.Written), Processors: t.device.Processors})
	return &x
}

// answers returns what the schedulers say to a segment that the one called by takes; "":
// none does.
func answers(by string, refusals []core.Refusal) []Answer {
	var all []Answer
	for _, s := range schedulers.All() {
		all = append(all, Answer{By: s.Name(), Accepts: s.Name() == by, Refusals: []string{}})
	}
	for _, r := range refusals {
		at := slices.IndexFunc(all, func(a Answer) bool { return a.By == r.By })
		if at < 0 {
			at = len(all)
			all = append(all, Answer{By: r.By})
		}
		all[at].Refusals = append(all[at].Refusals, fmt.Sprintf("%s (%s)", r.Sentence, r.Rule))
	}
	return all
}

// String returns a table for each segment.
func (e Explanation) String() string {
	const labels = "parameters"
	width := len(labels)
	for _, s := range e.Segments {
		for _, a := range s.Answers {
			width = max(width, len(a.By))
		}
	}
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "  %-*s  %s\n", width, label, text) }
	for _, s := range e.Segments {
		b.WriteString(s.About + "\n")
		for _, a := range s.Answers {
			switch {
			case a.Accepts:
				line(a.By, "accepts")
			case len(a.Refusals) == 0:
				line(a.By, "is not asked")
			}
			for k, sentence := range a.Refusals {
				line([]string{a.By, ""}[min(k, 1)], "refuses: "+sentence)
			}
		}
		if s.Parameters != "" {
			line(labels, s.Parameters)
		}
		if m := s.Memory; m != nil {
			line("memory", fmt.Sprintf("reads %d bytes, writes %d: %.1f us from the memory of an H100", m.Read, m.Written, m.Time))
		}
		for k, other := range s.Others {
			line([]string{"not", ""}[min(k, 1)], other)
		}
	}
	if b.Len() == 0 {
		return "nothing is computed\n"
	}
	return b.String()
}

// asData is the argument of the stage explain.
const asData = "json"

func showExplanation(x *Inspection, arguments []string) (string, error) {
	e := x.made.explain()
	switch {
	case len(arguments) == 0:
		return e.String(), nil
	case slices.Equal(arguments, []string{asData}):
		text, err := json.Marshal(e)
		return string(text) + "\n", err
	}
	return "", core.InvalidArgumentf("explain takes %s or nothing, got %s", asData, strings.Join(arguments, ", "))
}

package executor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/schedulers"
)

// An Explanation says of each part of a program who computes it, who refuses to and
// why, and in which way: what the stage explain shows.
type Explanation struct {
	Segments    []ExplainedSegment `json:"segments"`
	Device      string             `json:"device"`       // that times are of
	NotMeasured string             `json:"not_measured"` // why times were not measured; "": they were
}

// An ExplainedSegment is a segment, or a copy.
type ExplainedSegment struct {
	Number     int      `json:"number"`     // of the segment; -1: a copy
	About      string   `json:"about"`      // who computes what from what
	Answers    []Answer `json:"answers"`    // of schedulers in the order in which they are asked, and of who refused later
	Parameters string   `json:"parameters"` // of the kernel; "": there is none
	Others     []string `json:"others"`     // parameters that were thought to be slower, or cannot be: then with why
	Memory     *Traffic `json:"memory"`     // of the kernel; null: there is none
}

// Traffic is what a kernel moves if it reads and writes each element once, and how long it
// takes where the second cache is full of what others wrote, the launch included.
type Traffic struct {
	Read      int64    `json:"read"`      // bytes
	Written   int64    `json:"written"`   // bytes
	Estimated float64  `json:"estimated"` // us
	Measured  *float64 `json:"measured"`  // us; null: it was not measured
}

// An Answer is what one that was asked says to a segment.
type Answer struct {
	By       string   `json:"by"`
	Accepts  bool     `json:"accepts"`
	Refusals []string `json:"refusals"` // sentences with their rules; none, and it does not accept: it was not asked
}

// explain returns what is known of the program.
func (m *made) explain() Explanation {
	e := Explanation{Segments: []ExplainedSegment{}, Device: m.of.model.Device, NotMeasured: "there is no CUDA device"}
	if m.of.p.Device.Device != onHost {
		e.NotMeasured = "it was not asked for"
	}
	for i := range m.parts {
		p := &m.parts[i]
		s := ExplainedSegment{Number: p.segment, About: strings.TrimSpace(p.title("")), Answers: []Answer{}, Others: []string{}}
		if c := p.c; c != nil {
			s.Answers = answers(c.scheduler, c.refusals)
			if c.kernel != nil && p.task != nil {
				s.Memory = p.traffic(&m.of.properties)
			}
			for k, params := range c.candidates {
				switch {
				case c.kernel == nil: // it failed to be made
				case k == c.taken:
					s.Parameters = params.String()
				case c.passed[k] != "":
					s.Others = append(s.Others, params.String()+": "+c.passed[k])
				default:
					s.Others = append(s.Others, params.String())
				}
			}
		}
		e.Segments = append(e.Segments, s)
	}
	return e
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
			line("memory", fmt.Sprintf("reads %d bytes, writes %d", m.Read, m.Written))
			measured := "not measured"
			if m.Measured != nil {
				measured = fmt.Sprintf("measured %.1f us", *m.Measured)
			}
			line("time", fmt.Sprintf("estimated %.1f us, %s", m.Estimated, measured))
		}
		for k, other := range s.Others {
			line([]string{"not", ""}[min(k, 1)], other)
		}
	}
	switch {
	case b.Len() == 0:
		return "nothing is computed\n"
	case e.NotMeasured != "":
		fmt.Fprintf(&b, "times of %s, not measured: %s\n", e.Device, e.NotMeasured)
	default:
		fmt.Fprintf(&b, "times of %s, on copies of the inputs, medians\n", e.Device)
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

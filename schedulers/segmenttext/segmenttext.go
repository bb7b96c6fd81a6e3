// Package segmenttext reads segments from text, for golden tests of schedulers.
//
// Its central functions are [Read] and [Run], which compares what a scheduler makes of
// segments with what it made of them before. A segment is a fusion, an empty line, and a line
// "[sizes]" for each input, with "strides=[..]" where it is not dense and "aligned=n"
// where its address is no multiple of 16. Lines "output" say the same of outputs,
// which the executor lays out. The package is for tests only.
package segmenttext

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers/scheduler"
)

// mostCandidates is how many choices a scheduler has for a segment, at most.
const mostCandidates = 4

// A Chosen is a segment with the first of a scheduler's choices for it.
type Chosen struct {
	Section  string // of the archive, which is asked for
	Segment  *scheduler.Segment
	Params   scheduler.Params
	Schedule *schedule.Scheduled
}

// Run compares what s makes of the segments of the archives in testdata: the section
// "refusals" is why it takes one not, "choice" its choices, and others are what show
// writes.
func Run(t *testing.T, s scheduler.Scheduler, show func(t *testing.T, b *strings.Builder, c Chosen)) {
	golden.Run(t, "testdata/*.txtar", "segment", func(t *testing.T, in, section string) string {
		g := Read(t, in)
		var b strings.Builder
		refusals := s.Accept(g, scheduler.Hopper)
		if section == "refusals" {
			for _, r := range refusals {
				fmt.Fprintf(&b, "%s (%s): %s\n", r.Tensor, r.Rule, r.Sentence)
			}
			return b.String()
		}
		if len(refusals) > 0 {
			t.Fatalf("refused: %v", refusals)
		}
		candidates := s.Candidates(g, scheduler.Hopper)
		if len(candidates) > mostCandidates {
			t.Errorf("%d choices", len(candidates))
		}
		if section == "choice" {
			for _, p := range candidates {
				fmt.Fprintln(&b, p)
			}
			return b.String()
		}
		scheduled, err := s.Apply(g, candidates[0])
		if err != nil {
			t.Fatal(err)
		}
		show(t, &b, Chosen{section, g, candidates[0], scheduled})
		return b.String()
	})
}

// Read returns the segment that text describes, and ends the test where it
// describes none.
func Read(t *testing.T, text string) *scheduler.Segment {
	t.Helper()
	g, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func read(in string) (*scheduler.Segment, error) {
	text, given, _ := strings.Cut(in, "\n\n")
	f, err := core.Parse(text + "\n")
	if err != nil {
		return nil, err
	}
	f.Freeze()
	var lines [][]string
	for _, line := range strings.Split(strings.TrimSpace(given), "\n") {
		if fields := strings.Fields(strings.ReplaceAll(line, ", ", ",")); len(fields) > 0 {
			lines = append(lines, fields)
		}
	}
	if len(lines) < len(f.Inputs()) {
		return nil, fmt.Errorf("%d inputs and the sizes of %d", len(f.Inputs()), len(lines))
	}
	var values []core.InputValue
	for k, v := range f.Inputs() {
		sizes, err := list(lines[k][0])
		if err != nil {
			return nil, err
		}
		values = append(values, core.InputValue{Tensor: true, DType: f.Val(v).DType, Sizes: sizes})
	}
	bind, err := f.Bind(values)
	if err != nil {
		return nil, err
	}
	g, err := scheduler.Dense(f, bind)
	if err != nil {
		return nil, err
	}
	g.Cache = scheduler.Hopper.Cache
	return g, place(g, lines)
}

// place puts the inputs and outputs of g where lines say.
func place(g *scheduler.Segment, lines [][]string) error {
	outputs := 0
	for k, fields := range lines {
		var at *scheduler.Placement
		switch {
		case fields[0] == "output" && outputs < len(g.Outputs):
			at = &g.Outputs[outputs]
			outputs++
		case fields[0] != "output" && k < len(g.Inputs):
			at = &g.Inputs[k]
		default:
			return fmt.Errorf("line %q is of no input or output", strings.Join(fields, " "))
		}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			numbers, err := list(value)
			switch {
			case err != nil:
				return err
			case name == "strides":
				at.Strides = numbers
			case name == "aligned" && len(numbers) == 1:
				at.Aligned = schedule.Alignment(numbers[0])
			default:
				return fmt.Errorf("no field is called %q", field)
			}
		}
	}
	return nil
}

// list reads numbers with commas between, in brackets or not.
func list(text string) (numbers []int64, err error) {
	if text = strings.Trim(text, "[]"); text == "" {
		return nil, nil
	}
	for _, field := range strings.Split(text, ",") {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

package executor

import (
	"encoding/json"
	"fmt"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// CanSchedule returns why the scheduler called name does not take f, which is
// frozen, for inputs; nothing if it does.
//
// Errors: InvalidArgument and InvalidType if the inputs are not what f says.
func CanSchedule(f *core.Fusion, inputs []Input, name string) ([]core.Refusal, error) {
	g, err := wholeSegment(f, inputs)
	if err != nil {
		return nil, err
	}
	s := schedulers.Lookup(name)
	if s == nil {
		return []core.Refusal{{By: name, Rule: "scheduler", Sentence: fmt.Sprintf("there is no scheduler %s in this build", name)}}, nil
	}
	return s.Accept(g, scheduler.Hopper), nil
}

// Heuristics returns what the scheduler called name would choose for f and
// inputs, as [schedulers.ParseParams] reads it.
//
// Errors: as of [CanSchedule]; Unsupported if it does not take f.
func Heuristics(f *core.Fusion, inputs []Input, name string) (string, error) {
	refusals, err := CanSchedule(f, inputs, name)
	if err != nil {
		return "", err
	}
	if len(refusals) > 0 {
		return "", &core.Unsupported{What: name + " does not take this fusion", Refusals: refusals}
	}
	g, err := wholeSegment(f, inputs)
	if err != nil {
		return "", err
	}
	by := schedulers.Lookup(name)
	candidates := by.Candidates(g, scheduler.Hopper)
	chosen := candidates[0]
	for _, p := range candidates { // as without a choice by hand: the first that can be lowered
		s, err := by.Apply(g, p)
		if err != nil {
			continue
		}
		if _, err = new(Cache).Scheduled(f, s, AnyLaunch).Plan(inputs); err == nil {
			chosen = p
			break
		}
	}
	text, err := json.Marshal(chosen)
	return string(text), err
}

// ScheduleBy returns the schedule of f, which is frozen, by the scheduler called
// name with parameters that [Heuristics] gave for inputs, or others of the kind;
// "": those.
//
// Errors: as of Heuristics; InvalidArgument for parameters that are none.
func ScheduleBy(f *core.Fusion, inputs []Input, name, params string) (*schedule.Scheduled, error) {
	first, err := Heuristics(f, inputs, name)
	if err != nil {
		return nil, err
	}
	if params == "" {
		params = first
	}
	p, err := schedulers.ParseParams(name, params)
	if err != nil {
		return nil, err
	}
	g, err := wholeSegment(f, inputs)
	if err != nil {
		return nil, err
	}
	s, err := schedulers.Lookup(name).Apply(g, p)
	if err != nil {
		return nil, &core.Unsupported{What: name + " cannot schedule this fusion with these parameters", Refusals: scheduler.RefusalsOf(name, err)}
	}
	s.Note(fmt.Sprintf("scheduled by %s with %s", name, params))
	return s, nil
}

// wholeSegment returns f as a segment for inputs.
//
// Errors: InvalidArgument and InvalidType if the inputs are not what f says.
func wholeSegment(f *core.Fusion, inputs []Input) (*scheduler.Segment, error) {
	b, err := check(f, inputs)
	if err != nil {
		return nil, err
	}
	outputs, err := describeOutputs(f, b, inputs)
	if err != nil {
		return nil, err
	}
	return segment(f, b, scheduler.Hopper, inputs, alignments(inputs), outputs), nil
}

// segment returns what schedulers know of f: outputs has those of f.
func segment(f *core.Fusion, b *core.Binding, device scheduler.Device, inputs []Input, aligned []schedule.Alignment, outputs []OutputDescription) *scheduler.Segment {
	g := &scheduler.Segment{Fusion: f, Shapes: b, Cache: device.Cache}
	for i := range inputs {
		g.Inputs = append(g.Inputs, scheduler.Placement{Strides: inputs[i].Strides, Aligned: aligned[i]})
	}
	for k, o := range f.Outputs() {
		g.Outputs = append(g.Outputs, scheduler.Placement{Strides: outputs[k].Strides, Aligned: alignmentOf(f, o.Val, aligned)})
	}
	return g
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/executor"
)

// forms are what print prints, and the stages that are these.
var forms = []struct{ name, stage string }{
	{"math", "fusion_ir_math"}, {"text", "fusion_ir_original"}, {"python", "python_definition"},
}

func printFlags(o *options, set *flag.FlagSet) {
	set.StringVar(&o.form, "form", "math", "math, text or python")
}

func printFusion(o *options, out io.Writer) error {
	for _, f := range forms {
		if f.name == o.form {
			return show(out, executor.InspectDefinition(o.fusion), f.stage)
		}
	}
	return usagef("print: there is no form %q; the forms are math, text and python", o.form)
}

func lowerFlags(o *options, set *flag.FlagSet) {
	var stages []string
	for _, s := range executor.Stages() {
		stages = append(stages, s.Name)
	}
	set.StringVar(&o.stage, "stage", "cuda_kernel", "the stage, with arguments as in lower_verbose(hoist): "+strings.Join(stages, ", "))
	set.StringVar(&o.arch, "arch", "", "the compute capability of cuda_kernel and cuda_full, as in 80; 90 if not given")
	set.StringVar(&o.sizes, "sizes", "", sizesHelp)
	scheduleFlag(o, set)
}

func scheduleFlag(o *options, set *flag.FlagSet) {
	set.StringVar(&o.schedule, "schedule", "", "a file with calls of schedule primitives, instead of a scheduler")
}

func lowerFusion(o *options, out io.Writer) error {
	stage, arguments, hasArguments := strings.Cut(o.stage, "(")
	var list []string
	if hasArguments {
		rest, ok := strings.CutSuffix(arguments, ")")
		if !ok {
			return usagef("lower: cannot read -stage %s: arguments stand in parentheses", o.stage)
		}
		for a := range strings.SplitSeq(rest, ",") {
			if a = strings.TrimSpace(a); a != "" {
				list = append(list, a)
			}
		}
	}
	if o.arch != "" {
		list = append(list, o.arch)
	}
	x, err := inspection(o, stage)
	if err != nil {
		return err
	}
	err = show(out, x, stage, list...)
	var mistake *core.InvalidArgument // of the stage or its arguments: the fusion is right
	if errors.As(err, &mistake) {
		return usagef("lower: %v", err)
	}
	return err
}

// inspection returns that of the fusion for the sizes that are given or known.
func inspection(o *options, stage string) (*executor.Inspection, error) {
	for _, s := range executor.Stages() {
		if s.Name == stage && s.OfDefinition() {
			return executor.InspectDefinition(o.fusion), nil
		}
	}
	if o.schedule != "" && o.sizes == "" {
		s, err := scheduled(o)
		if err != nil {
			return nil, err
		}
		return executor.InspectSchedule(s, lower.Options{Cooperative: true}), nil
	}
	inputs, err := describedInputs(o)
	if err != nil {
		return nil, err
	}
	plan, err := planFor(o, inputs, false)
	if err != nil {
		return nil, err
	}
	return plan.Inspection(), nil
}

// scheduled returns the fusion by the script of -schedule.
func scheduled(o *options) (*schedule.Scheduled, error) {
	text, err := os.ReadFile(o.schedule)
	if err != nil {
		return nil, err
	}
	script, err := schedule.ParseScript(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.schedule, err)
	}
	s := schedule.New(o.fusion)
	if err := s.Run(script); err != nil {
		return nil, fmt.Errorf("%s: %w", o.schedule, err)
	}
	return s, nil
}

func show(out io.Writer, x *executor.Inspection, stage string, arguments ...string) error {
	text, err := x.Show(stage, arguments...)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

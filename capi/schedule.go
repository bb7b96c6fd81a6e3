package main

/*
#include "export_types.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/executor"
	"nvfuser_go/schedulers"
)

// scheduled returns the schedule of d, which completes the definition.
func (d *definition) scheduled() *schedule.Scheduled {
	if d.sched == nil {
		d.fusion.Freeze()
		d.sched = schedule.New(d.fusion)
	}
	return d.sched
}

// asScheduled returns the schedule of d, or one of what is defined so far, which
// changes nothing.
func (d *definition) asScheduled() *schedule.Scheduled {
	if d.sched != nil {
		return d.sched
	}
	f := d.fusion.Clone()
	f.Freeze()
	return schedule.New(f)
}

// scheduledAlready is the error of a change of the fusion after a schedule call.
func scheduledAlready(call string) error {
	return core.InvalidArgumentf("%s(): the fusion is being scheduled, and the first schedule call completed it: add operations and outputs before", call)
}

// script is the schedule for a report.
func (d *definition) script() string {
	if d.sched == nil {
		return ""
	}
	return "\n" + d.sched.Script().String()
}

//export nvf_schedule
func nvf_schedule(h C.nvf_fusion, name C.const_text, args C.const_values, positional C.int32_t, keywords C.const_texts, numKeywords C.int32_t,
	results *C.nvf_value, numResults *C.int32_t, refusals **C.char, e *C.nvf_error) C.int {
	p := schedule.Lookup(C.GoString(name))
	if p == nil {
		return report(e, core.InvalidArgumentf("there is no schedule primitive %s", C.GoString(name)))
	}
	if positional < 0 || numKeywords < 0 {
		return report(e, core.InvalidArgumentf("%s(): a negative number of arguments", p.Name))
	}
	var given []core.Given
	describe := func() string { return fmt.Sprintf("%s %+v %d", p.Name, given, int(numKeywords)) }
	return on(h, e, describe, func(d *definition) error {
		s := d.scheduled()
		for i := range int(positional) + int(numKeywords) {
			g, err := d.given(h, at(args, i))
			if err != nil {
				return fmt.Errorf("%s(): argument %d%w", p.Name, i+1, err)
			}
			given = append(given, g)
		}
		var named []core.Keyword
		for i := range int(numKeywords) {
			named = append(named, core.Keyword{Name: keyword(keywords, i), Given: given[int(positional)+i]})
		}
		out, err := s.Call(p, given[:positional], named)
		if err != nil {
			return err
		}
		if refusals != nil {
			*refusals = nil
			if lines := refusalLines(out.Refusals); lines != "" {
				*refusals = cText(lines)
			}
		}
		return d.give(h, out.Tensors, results, numResults)
	})
}

func refusalLines(refusals []core.Refusal) string {
	var lines []string
	for _, r := range refusals {
		line := r.Sentence
		if r.Tensor != "" && !strings.HasPrefix(line, r.Tensor+" ") {
			line = r.Tensor + ": " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

//export nvf_schedule_run
func nvf_schedule_run(h C.nvf_fusion, text C.const_text, length C.int64_t, e *C.nvf_error) C.int {
	if length < 0 || text == nil && length > 0 {
		return report(e, core.InvalidArgumentf("schedule_run(): length is %d and script is %v", int64(length), text))
	}
	source := string(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(length)))
	return on(h, e, named("schedule_run\n\n"+source), func(d *definition) error {
		script, err := schedule.ParseScript(source)
		if err != nil {
			return err
		}
		return d.scheduled().Run(script)
	})
}

//export nvf_schedule_script
func nvf_schedule_script(h C.nvf_fusion, out **C.char, e *C.nvf_error) C.int {
	return on(h, e, named("schedule_script"), func(d *definition) error {
		text := ""
		if d.sched != nil {
			text = d.sched.Script().String()
		}
		*out = cText(text)
		return nil
	})
}

//export nvf_schedule_text
func nvf_schedule_text(h C.nvf_fusion, out **C.char, e *C.nvf_error) C.int {
	return on(h, e, named("schedule_text"), func(d *definition) error {
		*out = cText(d.asScheduled().String())
		return nil
	})
}

//export nvf_executor_create_scheduled
func nvf_executor_create_scheduled(h C.nvf_fusion, launch C.const_integers, out *C.nvf_executor, e *C.nvf_error) C.int {
	return on(h, e, named("executor of a schedule"), func(d *definition) error {
		s := d.scheduled()
		f := d.fusion.Clone()
		f.Freeze()
		demands := executor.AnyLaunch
		if launch != nil {
			sizes := unsafe.Slice((*int64)(unsafe.Pointer(launch)), 6)
			copy(demands.Block[:], sizes[:3])
			copy(demands.Grid[:], sizes[3:])
		}
		*out = C.nvf_executor(handles.put(&execution{Executor: executors().Scheduled(f, s.Clone(), demands)}))
		return nil
	})
}

//export nvfi_scheduler
func nvfi_scheduler(h C.nvf_fusion, request C.int32_t, name, params C.const_text, inputs C.const_inputs, n C.int32_t, out **C.char, e *C.nvf_error) C.int {
	by, chosen := C.GoString(name), C.GoString(params)
	return on(h, e, named("scheduler "+by+" "+chosen), func(d *definition) error {
		given, err := readInputs(inputs, n)
		if err != nil {
			return err
		}
		defer given.done()
		f := d.view().Clone()
		f.Freeze()
		text := ""
		switch request {
		case C.NVFI_CAN_SCHEDULE:
			var refusals []core.Refusal
			refusals, err = executor.CanSchedule(f, given.inputs, by)
			text = refusalLines(refusals)
		case C.NVFI_HEURISTICS:
			text, err = executor.Heuristics(f, given.inputs, by)
		case C.NVFI_TORCH_CALLS:
			text, err = callsAsJSON(f, given.inputs)
		default:
			err = d.scheduleBy(f, given.inputs, by, chosen)
		}
		if err == nil {
			*out = cText(text)
		}
		return err
	})
}

func callsAsJSON(f *core.Fusion, inputs []executor.Input) (string, error) {
	calls, err := executor.ShowCalls(f, inputs)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(calls)
	return string(text), err
}

func (d *definition) scheduleBy(f *core.Fusion, inputs []executor.Input, name, params string) error {
	if d.sched != nil && len(d.sched.Script()) > 0 {
		return core.InvalidArgumentf("schedule(): the fusion is scheduled already: a scheduler starts from the definition")
	}
	s, err := executor.ScheduleBy(f, inputs, name, params)
	if err == nil {
		d.fusion.Freeze()
		d.sched = s
	}
	return err
}

//export nvfi_schedulers
func nvfi_schedulers(out **C.char, e *C.nvf_error) C.int {
	return guard(e, named("schedulers"), func() error {
		var names []string
		for _, s := range schedulers.All() {
			names = append(names, s.Name())
		}
		*out = cText(strings.Join(names, "\n"))
		return nil
	})
}

// A graph is one that C holds, with the fusion whose axes it is about.
type graph struct {
	mu     sync.Mutex
	fusion C.nvf_fusion
	*schedule.Graph
}

//export nvfi_graph_create
func nvfi_graph_create(h C.nvf_fusion, mode C.const_text, out *C.nvfi_graph, e *C.nvf_error) C.int {
	return on(h, e, named("graph "+C.GoString(mode)), func(d *definition) error {
		m, err := schedule.Map(d.asScheduled())
		if refused := (*schedule.Refused)(nil); errors.As(err, &refused) {
			err = &core.Unsupported{What: "IdModel(): the axes cannot be mapped", Refusals: []core.Refusal{refused.Refusal}}
		}
		if err != nil {
			return err
		}
		g, err := m.Graph(C.GoString(mode))
		if err == nil {
			*out = C.nvfi_graph(handles.put(&graph{fusion: h, Graph: g}))
		}
		return err
	})
}

//export nvfi_graph_destroy
func nvfi_graph_destroy(h C.nvfi_graph) { take[graph](handle(h)) }

// onGraph runs body on the graph of h and two of its axes.
func onGraph(h C.nvfi_graph, a, b C.const_values, e *C.nvf_error, body func(g *graph, a, b core.AxisID) error) C.int {
	return guard(e, named("graph"), func() error {
		g, err := get[graph](handle(h), "a graph")
		if err != nil {
			return err
		}
		for _, x := range []C.const_values{a, b} {
			if x.kind != C.NVF_KIND_AXIS || x.fusion != g.fusion {
				return core.InvalidTypef("a graph maps axes of the fusion that it was built for")
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		return body(g, core.AxisID(a.id), core.AxisID(b.id))
	})
}

//export nvfi_graph_mapped
func nvfi_graph_mapped(h C.nvfi_graph, a, b C.const_values, out *C.int32_t, e *C.nvf_error) C.int {
	return onGraph(h, a, b, e, func(g *graph, a, b core.AxisID) error {
		mapped, err := g.Mapped(a, b)
		*out = 0
		if mapped {
			*out = 1
		}
		return err
	})
}

//export nvfi_graph_join
func nvfi_graph_join(h C.nvfi_graph, a, b C.const_values, e *C.nvf_error) C.int {
	return onGraph(h, a, b, e, func(g *graph, a, b core.AxisID) error { return g.Join(a, b) })
}

package main

/*
#include "export_types.h"
*/
import "C"

import (
	"slices"
	"sync/atomic"
	"time"
)

// A job is work on a thread of its own.
type job struct {
	done  chan struct{}
	began time.Time
	plans bool // it makes a plan, which is shown to last
	stop  atomic.Bool
	err   error
}

func start(out *C.nvfi_job, call string, plans bool, work func(*job) error) C.int {
	j := &job{done: make(chan struct{}), began: time.Now(), plans: plans}
	*out = C.nvfi_job(handles.put(j))
	go func() {
		defer close(j.done)
		defer func() {
			if r := recover(); r != nil {
				j.err = caught(r, named(call))
			}
		}()
		j.err = work(j)
	}()
	return C.NVF_OK
}

//export nvfi_start_run_phase
func nvfi_start_run_phase(p *C.nvfi_plan, phase C.int32_t, inputs C.const_inputs, words C.const_words, out *C.nvfi_job, e *C.nvf_error) C.int {
	return start(out, "run", false, func(j *job) error { return runFound(p, phase, inputs, words, &j.stop) })
}

//export nvfi_start_make
func nvfi_start_make(h C.nvf_executor, inputs C.const_inputs, n, device, random C.int32_t, out *C.nvfi_job, e *C.nvf_error) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err != nil {
		return report(e, err)
	}
	given, err := readInputs(inputs, n)
	if err != nil {
		return report(e, err)
	}
	own := &arguments{inputs: slices.Clone(given.inputs)}
	given.done()
	for i := range own.inputs {
		in := &own.inputs[i]
		in.Sizes, in.Strides = slices.Clone(in.Sizes), slices.Clone(in.Strides)
	}
	return start(out, "prepare\n\n"+x.Text(), true, func(*job) error {
		p, err := x.prepare(own, setting{int(device), random != 0, true})
		if err == nil {
			p.release() // the table holds it
		}
		return err
	})
}

//export nvfi_wait
func nvfi_wait(h C.nvfi_job, milliseconds C.int32_t, status *C.int, e *C.nvf_error) C.int {
	j, err := get[job](handle(h), "a job")
	if err != nil {
		*status = report(e, err)
		return 1
	}
	timer := time.NewTimer(time.Duration(milliseconds) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-j.done:
		j.end(h)
		*status = report(e, j.err)
		return 1
	case <-timer.C:
		if j.plans {
			progress.waits(j.began)
		}
		return 0
	}
}

//export nvfi_stop
func nvfi_stop(h C.nvfi_job) {
	if j, err := get[job](handle(h), "a job"); err == nil {
		j.stop.Store(true)
	}
}

//export nvfi_abandon
func nvfi_abandon(h C.nvfi_job) {
	if j, err := get[job](handle(h), "a job"); err == nil {
		j.end(h)
	}
}

// end forgets the job, for which nobody waits any more.
func (j *job) end(h C.nvfi_job) {
	take[job](handle(h))
	if j.plans {
		progress.clear()
	}
}

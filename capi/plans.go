package main

/*
#include "export_types.h"
*/
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"nvfuser_go/cudadrv/real"
	"nvfuser_go/executor"
)

// maxPlans bounds the plans of an executor in C memory. A program that meets
// more kinds of inputs takes them from the executor's own cache again.
const maxPlans = 256

// plans are those of an executor that C can find without making anything.
type plans struct {
	lock   sync.RWMutex
	by     map[string]*prepared // by key
	closed bool
}

// A prepared is a plan with its form in C memory.
type prepared struct {
	*executor.Plan
	x   *execution
	key string
	setting
	numbering
	inputs   int // their number
	launches []*real.Launch
	block    *C.nvfi_plan
}

// key is what plans for inputs are found by, in the memory of a.
func (x *execution) key(a *arguments, s setting) []byte {
	a.key = x.AppendKey(a.key[:0], a.inputs, x.options(s))
	return a.key
}

// recall is find for what is about to run.
func (x *execution) recall(a *arguments, s setting) (*prepared, error) {
	p, err := x.find(a, s)
	if p != nil {
		x.last.Store(p.Plan)
	}
	return p, err
}

// find returns the plan for inputs, with a reference more, or nil.
func (x *execution) find(a *arguments, s setting) (*prepared, error) {
	key := x.key(a, s)
	x.plans.lock.RLock()
	defer x.plans.lock.RUnlock()
	p := x.plans.by[string(key)]
	if p != nil {
		p.hold()
	}
	return p, nil
}

// prepare is recall, and makes the plan if there is none.
func (x *execution) prepare(a *arguments, s setting) (*prepared, error) {
	if p, _ := x.recall(a, s); p != nil {
		return p, nil
	}
	plan, err := x.PlanWith(a.inputs, x.options(s))
	if err != nil {
		return nil, err
	}
	p := &prepared{Plan: plan, x: x, key: string(a.key), setting: s, inputs: len(a.inputs)}
	if err := p.fill(a.inputs); err != nil {
		return nil, err
	}
	x.last.Store(plan)
	return x.plans.keep(p), nil
}

// keep adds p, unless another thread was faster, and returns the one that is
// kept, with a reference for the caller.
func (t *plans) keep(p *prepared) *prepared {
	t.lock.Lock()
	defer t.lock.Unlock()
	if known := t.by[p.key]; known != nil {
		known.hold()
		p.release()
		return known
	}
	if t.closed {
		return p
	}
	if len(t.by) >= maxPlans {
		t.drop()
	}
	if t.by == nil {
		t.by = map[string]*prepared{}
	}
	p.hold()
	t.by[p.key] = p
	return p
}

// close drops the plans, and those that are being made.
func (t *plans) close() {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.closed = true
	t.drop()
}

func (t *plans) drop() {
	for _, p := range t.by {
		p.release()
	}
	t.by = nil
}

func (p *prepared) hold() { atomic.AddInt64((*int64)(unsafe.Pointer(&p.block.references)), 1) }

func (p *prepared) release() {
	if atomic.AddInt64((*int64)(unsafe.Pointer(&p.block.references)), -1) == 0 {
		p.free()
	}
}

func (p *prepared) free() {
	take[prepared](handle(p.block.self))
	for _, l := range p.launches {
		l.Free()
	}
	C.plan_bury(p.block)
}

// load puts the launches into C memory.
func (p *prepared) load() error {
	if !p.OnDevice() {
		return nil
	}
	for i := range p.Device.Launches {
		l, err := real.NewLaunch(&p.Device.Launches[i], p.Counts())
		if err != nil {
			for _, l := range p.launches {
				l.Free()
			}
			return err
		}
		p.launches = append(p.launches, l)
	}
	return nil
}

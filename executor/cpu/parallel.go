package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// ErrInterrupted is the error of a run that was asked to stop. What it had
// written of the outputs is undefined.
var ErrInterrupted = errors.New("the run was interrupted")

// A Panic is a mistake of this package, caught before it ends the process.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("internal error: %v", p.Value) }

// caught calls f and returns its error, or the panic that ended it.
func caught(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{v, debug.Stack()}
		}
	}()
	return f()
}

// stopped reports whether the run was asked to stop. What does a task that may
// be long asks now and then, and returns with the task undone: parallel sees it.
func (r *run) stopped() bool { return r.stop != nil && r.stop.Load() }

// parallel calls body on as many goroutines as there are processors and tasks
// for them; each asks next for tasks, from 0 to tasks-1, until there are none.
// work is the cost of all tasks in element operations.
func (r *run) parallel(tasks, work int64, body func(next func() (int64, bool)) error) error {
	workers := min(int64(runtime.GOMAXPROCS(0)), tasks)
	if work < limits.smallWork {
		workers = min(workers, 1)
	}
	var taken atomic.Int64
	var failed, stopped atomic.Bool
	next := func() (int64, bool) {
		if failed.Load() {
			return 0, false
		}
		if r.stopped() {
			stopped.Store(true)
			return 0, false
		}
		i := taken.Add(1) - 1
		return i, i < tasks
	}
	errs := make([]error, max(workers, 1))
	work1 := func(k int64) {
		if errs[k] = caught(func() error { return body(next) }); errs[k] != nil {
			failed.Store(true)
		}
	}
	var others sync.WaitGroup
	for k := int64(1); k < workers; k++ {
		others.Go(func() { work1(k) })
	}
	work1(0)
	others.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if stopped.Load() {
		return ErrInterrupted
	}
	return nil
}

// each calls f with 0 to n-1, in any order and on many goroutines. cost is that
// of a call in element operations.
func (r *run) each(n, cost int64, f func(i int64)) error {
	return r.parallel(n, n*cost, func(next func() (int64, bool)) error {
		for i, ok := next(); ok; i, ok = next() {
			f(i)
		}
		return nil
	})
}

//go:build cgo

package real

/*
#include <cuda.h>
#include <stdlib.h>
#include "bench.h"
#include "launch.h"
*/
import "C"

import (
	"errors"
	"unsafe"

	"nvfuser_go/cudadrv"
)

// A bench measures in the context of a device.
type bench struct {
	context, stream C.uintptr_t
	memory          []C.uint64_t
}

// Bench makes a stream.
func (Driver) Bench(device int, after uintptr) (cudadrv.Bench, error) {
	if _, err := started(); err != nil {
		return nil, err
	}
	context, err := contextOf(device)
	if err != nil {
		return nil, err
	}
	b := &bench{context: C.uintptr_t(context)}
	var captured C.int
	var failed *C.char
	if code := C.bench_open(b.context, C.uintptr_t(after), &b.stream, &captured, &failed); code != 0 {
		return nil, callError(C.GoString(failed), int(code))
	}
	if captured != 0 {
		return nil, &cudadrv.Unsupported{What: "nothing is measured while the stream is captured into a graph"}
	}
	return b, nil
}

func (b *bench) Memory(bytes int64) (uintptr, error) {
	var address C.uint64_t
	if code := C.bench_memory(b.context, C.uint64_t(max(bytes, 1)), &address); code != 0 {
		return 0, callError("cuMemAlloc", int(code))
	}
	b.memory = append(b.memory, address)
	return uintptr(address), nil
}

func (b *bench) Copy(to, from uintptr, bytes int64) error {
	return outcome("cuMemcpyDtoDAsync", C.bench_copy(b.context, b.stream, C.uint64_t(to), C.uint64_t(from), C.uint64_t(bytes)))
}

func (b *bench) Write(to uintptr, bytes []byte) error {
	if len(bytes) == 0 {
		return nil
	}
	return outcome("cuMemcpyHtoDAsync", C.bench_write(b.context, b.stream, C.uint64_t(to), unsafe.Pointer(&bytes[0]), C.uint64_t(len(bytes))))
}

func (b *bench) Time(rounds int, before, timed []cudadrv.Work) (us []float64, err error) {
	var events [2][]C.uintptr_t
	defer func() {
		for _, event := range append(events[0], events[1]...) {
			err = errors.Join(err, outcome("cuEventDestroy", C.bench_forget(b.context, event)))
		}
	}()
	mark := func(which int) error {
		var event C.uintptr_t
		err := outcome("cuEventRecord", C.bench_mark(b.context, b.stream, &event))
		if event != 0 {
			events[which] = append(events[which], event)
		}
		return err
	}
	first, free, err := b.prepare(before)
	defer free()
	if err != nil {
		return nil, err
	}
	second, free, err := b.prepare(timed)
	defer free()
	if err != nil {
		return nil, err
	}
	for range rounds {
		if err := errors.Join(first(), mark(0), second(), mark(1)); err != nil {
			return nil, errors.Join(err, b.wait())
		}
	}
	if err := b.wait(); err != nil {
		return nil, err
	}
	us = make([]float64, rounds)
	for i := range us {
		if err := outcome("cuEventElapsedTime", C.bench_between(b.context, events[0][i], events[1][i], (*C.double)(&us[i]))); err != nil {
			return nil, err
		}
	}
	return us, nil
}

// prepare returns what does all of a list of work, and what has to be called after that.
func (b *bench) prepare(list []cudadrv.Work) (do func() error, free func(), err error) {
	var steps []func() error
	var launches []*Launch
	free = func() {
		for _, l := range launches {
			l.Free()
		}
	}
	for _, w := range list {
		if w.Launch == nil {
			steps = append(steps, func() error {
				return outcome("cuMemsetD8Async", C.launch_zero(b.context, C.uint64_t(w.Zero), C.uint64_t(w.Bytes), b.stream))
			})
			continue
		}
		l, err := NewLaunch(w.Launch, w.Values.Counts())
		if err != nil {
			return nil, free, err
		}
		launches = append(launches, l)
		words := w.Values.Words()
		steps = append(steps, func() error { return l.Start(words, uintptr(b.stream)) })
	}
	return func() error {
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}, free, nil
}

func (b *bench) wait() error {
	return outcome("cuStreamSynchronize", C.bench_wait(b.context, b.stream))
}

func (b *bench) Close() error {
	err := b.wait()
	for _, address := range b.memory {
		err = errors.Join(err, outcome("cuMemFree", C.bench_free(b.context, address)))
	}
	b.memory = nil
	return errors.Join(err, outcome("cuStreamDestroy", C.bench_close(b.context, b.stream)))
}

// outcome returns the error of a call of the driver, if it is one.
func outcome(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return callError(call, int(code))
}

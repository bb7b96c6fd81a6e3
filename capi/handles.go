//go:build cgo

package main

import "sync"

// A handle is what C holds instead of a Go pointer: the place of an object in
// the table below, and the generation of that place. A handle that was released
// names an older generation and is refused, so a stale one is an error and
// never the wrong object (until a place was used 2^32 times).
type handle uint64

type objects struct {
	mu    sync.RWMutex
	slots []slot
	free  []uint32
}

type slot struct {
	generation uint32 // from 1, so that handle 0 is never given out
	object     any    // nil: free
}

// handles holds every object that C has a handle of.
var handles objects

// put returns a new handle of object.
func (o *objects) put(object any) handle {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.free); n > 0 {
		i := o.free[n-1]
		o.free = o.free[:n-1]
		o.slots[i].object = object
		return handle(o.slots[i].generation)<<32 | handle(i)
	}
	o.slots = append(o.slots, slot{1, object})
	return 1<<32 | handle(len(o.slots)-1)
}

// take releases h and returns its object, or nil if h is stale or of another
// type than T.
func take[T any](h handle) *T {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	s := handles.slot(h)
	if s == nil {
		return nil
	}
	object, _ := s.object.(*T)
	if object != nil {
		s.object = nil
		s.generation++
		handles.free = append(handles.free, uint32(h))
	}
	return object
}

// get returns the object of h.
func get[T any](h handle, what string) (*T, error) {
	return getAnd(h, what, func(*T) {})
}

// getAnd is get, with what has to be done before another thread can release h.
func getAnd[T any](h handle, what string, before func(*T)) (*T, error) {
	handles.mu.RLock()
	defer handles.mu.RUnlock()
	if s := handles.slot(h); s != nil {
		if object, ok := s.object.(*T); ok {
			before(object)
			return object, nil
		}
	}
	return nil, failure("%#x is not the handle of %s, or of one that was deleted", uint64(h), what)
}

func (o *objects) slot(h handle) *slot {
	i := uint32(h)
	if int(i) >= len(o.slots) || o.slots[i].generation != uint32(h>>32) {
		return nil
	}
	return &o.slots[i]
}

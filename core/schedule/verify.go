package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"nvfuser_go/core"
)

// Verify checks what lowering relies on:
//
//   - the fusion satisfies core's Verify, and no axis is Symbolic: sizes that
//     decide what broadcasts are known;
//   - a loop domain has no axis twice and is made from all of the root or all of
//     the logical axes by splits, merges and shifts; results of one expression have
//     loops of equal extents and one position;
//   - inputs have neither loops nor positions nor parallel axes;
//   - a position is not beyond MaxPosition, and all positions together have a
//     nest of loops;
//   - in one tensor a block, thread or cluster type stands once, and the extent
//     of a vector, group or bulk axis is constant; a vector axis is the last one,
//     and its elements have 1 to 16 bytes together, a power of two;
//   - inputs and outputs are in global memory;
//   - an axis that is split whole has no constant extent above the capacity;
//   - an allocation domain is made from the logical axes and has a promise an
//     axis, none for broadcasts and reductions; columns of a swizzle are powers
//     of two, in shared memory;
//   - a circular buffer is not in global memory, and 1 <= prefetch < stages;
//   - only copies have a copy instruction or a cache hint;
//   - axes can be told apart and every loop has a promotion and one parallel type
//     (see [Map]);
//   - what another thread computes is not read from registers, nor what another
//     block computes from shared memory.
//
// It reports all violations it can find, not the first.
func (s *Scheduled) Verify() error {
	_, err := s.Verified()
	return err
}

// Verified is Verify, and returns the mapping that it needs.
func (s *Scheduled) Verified() (*Mapping, error) {
	w := &verifier{s: s}
	if err := s.f.Verify(); err != nil {
		return nil, err
	}
	for _, v := range s.Tensors() {
		w.tensor(v)
	}
	if len(w.errs) > 0 { // the mapping needs sound domains
		return nil, errors.Join(w.errs...)
	}
	m, err := Map(s)
	if err != nil {
		return nil, err
	}
	for _, e := range s.analysis().edges {
		w.exchange(m, e)
	}
	s.verified = m
	return m, errors.Join(w.errs...)
}

type verifier struct {
	s    *Scheduled
	errs []error
}

func (w *verifier) bad(format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf(format, args...))
}

func (w *verifier) tensor(v core.ValID) {
	s := w.s
	for k, a := range s.f.Val(v).Domain.Logical {
		if s.kind(a) == core.Symbolic {
			w.errs = append(w.errs, s.refuse("symbolic", v, "%s: whether dimension %d broadcasts is not known before the fusion runs: "+
				"define its inputs with sizes that are numbers", s.name(v), k))
		}
	}
	if s.isInput(v) {
		w.input(v)
	} else {
		w.loops(v)
	}
	w.parallel(v)
	w.memory(v)
}

func (w *verifier) input(v core.ValID) {
	s := w.s
	if !slices.Equal(s.Loop(v), s.f.Val(v).Domain.Logical) || s.tensors[v].position != 0 {
		w.bad("%s is an input and has loops", s.name(v))
	}
	for _, a := range s.Loop(v) {
		if s.Parallel(a) != Serial {
			w.bad("%s is an input and has a parallel axis", s.name(v))
		}
	}
}

func (w *verifier) loops(v core.ValID) {
	s, d := w.s, &w.s.f.Val(v).Domain
	loop := s.Loop(v)
	if err := s.covers("loop domain", v, d.Logical, loop); err != nil {
		if s.covers("loop domain", v, d.Root, loop) != nil {
			w.bad("%v", err)
			return
		}
	}
	first := s.siblings(v)[0]
	other := s.Loop(first)
	same := len(other) == len(loop) && s.tensors[first].position == s.tensors[v].position
	for k := 0; same && k < len(loop); k++ {
		same = s.extent(loop[k]) == s.extent(other[k])
	}
	if !same {
		w.bad("%s and %s are results of one expression and have different loops", s.name(first), s.name(v))
	}
	position := s.tensors[v].position
	if position < 0 || position > len(loop) {
		w.bad("%s has position %d and %d axes", s.name(v), position, len(loop))
	} else if limit := s.MaxPosition(v, false); position > limit.Position {
		w.bad("%s has position %d, but %s", s.name(v), position, limit.Sentence)
	}
}

func (w *verifier) parallel(v core.ValID) {
	s, loop := w.s, w.s.Loop(v)
	for k, a := range loop {
		p := s.Parallel(a)
		if p.IsBlock() || p.IsThread() {
			if slices.ContainsFunc(loop[:k], func(b core.AxisID) bool { return s.Parallel(b) == p }) {
				w.bad("%s has two axes that are %v", s.name(v), p)
			}
		}
		n, isConst := s.f.Scalars().ConstInt(s.extent(a))
		if p.IsWhole() && !isConst {
			w.bad("%s is %v, and its extent is not constant", s.axisText(v, k), p)
		}
		if p == Vectorize && isConst && (k != len(loop)-1 || !isVector(n, s.f.Val(v).DType)) {
			w.bad("%s is vectorized with %d elements of %v: it must be the last axis and have 1, 2, 4, 8 or 16 bytes", s.axisText(v, k), n, s.f.Val(v).DType)
		}
	}
}

func (w *verifier) memory(v core.ValID) {
	s, t := w.s, &w.s.tensors[v]
	if t.memory != Global && (s.isInput(v) || s.isOutput(v)) {
		w.bad("%s is an input or output and is in %v memory", s.name(v), t.memory)
	}
	if t.alloc != nil {
		if err := s.covers("allocation domain", v, s.f.Val(v).Domain.Logical, t.alloc); err != nil {
			w.bad("%v", err)
		}
		if len(t.contig) != len(t.alloc) {
			w.bad("%s has %d contiguity flags for %d axes in memory", s.name(v), len(t.contig), len(t.alloc))
		}
	}
	for _, z := range t.swizzle {
		n, _ := s.f.Scalars().ConstInt(s.extent(z.Column))
		if t.memory != Shared || n < 1 || bits.OnesCount64(uint64(n)) != 1 || !slices.Contains(t.alloc, z.Row) || !slices.Contains(t.alloc, z.Column) {
			w.bad("%s has a swizzle that is not of a power of two columns of its axes in shared memory", s.name(v))
		}
	}
	if b := t.buffering; b != (Buffering{}) && (t.memory == Global || b.Prefetch < 1 || b.Prefetch >= b.Stages) {
		w.bad("%s has a circular buffer of %d stages, %d ahead, in %v memory", s.name(v), b.Stages, b.Prefetch, t.memory)
	}
	if t.packed && (t.memory != Local || s.isInput(v)) {
		w.bad("%s is held packed in %v memory", s.name(v), t.memory)
	}
	if t.window {
		if why := s.noWindow(v); why != "" {
			w.bad("%s", why)
		}
	}
	if t.keeping != (Keeping{}) {
		if why := s.notKept(v, t.keeping); why != "" {
			w.bad("%s", why)
		}
	}
	if t.copyKind != PlainCopy || t.cacheHint != CacheUnspecified {
		if why := s.notCopied(v, t.copyKind, t.cacheHint); why != "" {
			w.bad("%s", why)
		}
	}
}

// exchange checks that the consumer of e can read what its producer's threads
// have computed.
func (w *verifier) exchange(m *Mapping, e *edge) {
	s := w.s
	memory := s.tensors[e.producer].memory
	if s.isInput(e.producer) || memory == Global {
		return
	}
	for k, a := range s.Loop(e.producer) {
		p := m.Parallel(a)
		apart := p.IsBlock() || memory == Local && p.IsThread()
		if !apart || s.kind(a) == core.Reduce || m.f.Axis(m.Promotion(a)).Kind == core.Broadcast || w.sameIndex(m, e, a, p) {
			continue
		}
		w.bad("%s is %v and %s is in %v memory, but %s, which reads it, does not run over the same %v: keep it in %v memory",
			s.axisText(e.producer, k), p, s.name(e.producer), memory, s.name(e.consumer), p, w.wider(p))
	}
}

func (w *verifier) wider(p Parallel) Memory {
	if p.IsThread() {
		return Shared
	}
	return Global
}

// sameIndex reports whether the consumer of e has a loop axis with the type and
// the index of loop axis a.
func (w *verifier) sameIndex(m *Mapping, e *edge, a core.AxisID, p Parallel) bool {
	return slices.ContainsFunc(w.s.Loop(e.consumer), func(b core.AxisID) bool {
		return m.loops.same(a, b) || m.Parallel(b) == p && m.almost.same(m.Promotion(a), m.Promotion(b))
	})
}

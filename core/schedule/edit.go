package schedule

import (
	"slices"

	"nvfuser_go/core"
)

// checkCopyable fails unless v may be cached: it is a tensor that is not inlined.
func (s *Scheduled) checkCopyable(call string, v core.ValID) error {
	switch {
	case int(v) >= s.f.NumVals() || !s.f.Val(v).Tensor:
		return core.InvalidArgumentf("%s(): the value is not a tensor of this fusion", call)
	case s.tensors[v].position > 0:
		return core.InvalidArgumentf("%s(): %s is inlined; cache before inlining", call, s.name(v))
	case s.f.Val(v).Domain.CPU:
		return core.InvalidArgumentf("%s(): %s is on the host and is passed by value", call, s.name(v))
	}
	return nil
}

// readers returns the expressions that read v, each once.
func (s *Scheduled) readers(v core.ValID) []core.ExprID {
	var ids []core.ExprID
	for _, e := range s.consumers(v) {
		if !slices.Contains(ids, e.expr) {
			ids = append(ids, e.expr)
		}
	}
	return ids
}

// readersAmong returns the expressions that read v and define one of uses; all that
// read v if uses is empty.
func (s *Scheduled) readersAmong(call string, v core.ValID, uses []core.ValID) ([]core.ExprID, error) {
	readers := s.readers(v)
	if len(readers) == 0 {
		return nil, core.InvalidArgumentf("%s(): nothing reads %s", call, s.name(v))
	}
	if len(uses) == 0 {
		return readers, nil
	}
	readers = readers[:0]
	for _, u := range uses {
		d := s.f.Val(u).Def
		if !slices.ContainsFunc(s.producers(u), func(e *edge) bool { return e.producer == v }) {
			return nil, core.InvalidArgumentf("%s(): %s does not read %s", call, s.name(u), s.name(v))
		}
		if !slices.Contains(readers, d) {
			readers = append(readers, d)
		}
	}
	return readers, nil
}

// CacheAfter makes a copy of v in registers and lets what reads v read the copy:
// all of it, or those of uses.
func (s *Scheduled) CacheAfter(v core.ValID, uses []core.ValID) (core.ValID, error) {
	const call = "cache_after"
	if err := s.checkCopyable(call, v); err != nil {
		return core.NoVal, err
	}
	readers, err := s.readersAmong(call, v, uses)
	if err != nil {
		return core.NoVal, err
	}
	cache, err := s.f.CopyOf(v)
	if err != nil {
		return core.NoVal, err
	}
	s.edited()
	return cache, s.redirect(readers, v, cache)
}

func (s *Scheduled) redirect(readers []core.ExprID, from, to core.ValID) error {
	for _, id := range readers {
		if err := s.f.Redirect(id, from, to); err != nil {
			return err
		}
	}
	s.edited()
	return nil
}

// Recompute lets what reads v, all of it or those of uses, read a new tensor instead,
// in registers, that is computed as v is, a random one with the same numbers. Loops of
// its own over its own axes are where it is computed: what is cheap need not be kept
// from one loop to another.
//
// Errors: InvalidArgument if v is an input, is inlined, is not read by all of uses, or is
// the result of an operation that is not one on elements.
func (s *Scheduled) Recompute(v core.ValID, uses []core.ValID) (core.ValID, error) {
	const call = "recompute"
	if err := s.checkCopyable(call, v); err != nil {
		return core.NoVal, err
	}
	if s.isInput(v) {
		return core.NoVal, core.InvalidArgumentf("%s(): %s is an input of the fusion and is not computed; use cache_after()", call, s.name(v))
	}
	id := s.f.Val(v).Def
	switch e := s.f.Expr(id); e.Op.Class {
	case core.Elementwise, core.View, core.Resize, core.Factory, core.Random, core.Gather:
	default:
		return core.NoVal, core.InvalidArgumentf("%s(): %s is the result of %s(), which is not computed element by element", call, s.name(v), e.Called.Name)
	}
	if op := s.f.Expr(id).Op; op.Updates() {
		return core.NoVal, core.InvalidArgumentf("%s(): %s is the result of %s(), which may write to the memory of its operand", call, s.name(v), op.Name)
	}
	readers, err := s.readersAmong(call, v, uses)
	if err != nil {
		return core.NoVal, err
	}
	at := slices.Index(s.f.Expr(id).Out, v)
	again, err := s.f.Repeat(id)
	if err != nil {
		return core.NoVal, err
	}
	s.edited()
	s.tensors[again[at]].copyKind, s.tensors[again[at]].cacheHint = s.tensors[v].copyKind, s.tensors[v].cacheHint
	return again[at], s.redirect(readers, v, again[at])
}

// CacheBefore lets a new tensor, in registers, be computed as v was, with v's
// loops, and makes v a copy of it with loops over its own axes.
func (s *Scheduled) CacheBefore(v core.ValID) (core.ValID, error) {
	const call = "cache_before"
	if err := s.checkCopyable(call, v); err != nil {
		return core.NoVal, err
	}
	if s.isInput(v) {
		return core.NoVal, core.InvalidArgumentf("%s(): %s is an input of the fusion and is not computed; use cache_after()", call, s.name(v))
	}
	cache, err := s.f.CopyBefore(v)
	if err != nil {
		return core.NoVal, err
	}
	s.edited()
	old := s.tensors[v]
	s.tensors[v] = tensor{memory: old.memory}
	if s.f.Expr(s.f.Val(cache).Def).Op == core.SetOp { // the definition of v stayed, or was a copy itself
		s.tensors[cache].copyKind, s.tensors[cache].cacheHint = old.copyKind, old.cacheHint
	}
	return cache, nil
}

// CacheFork makes a copy of v the output of the fusion that v was, so that what
// reads v need not read an output back.
func (s *Scheduled) CacheFork(v core.ValID) (core.ValID, error) {
	const call = "cache_fork"
	if err := s.checkCopyable(call, v); err != nil {
		return core.NoVal, err
	}
	switch {
	case s.isInput(v) || !s.isOutput(v):
		return core.NoVal, core.InvalidArgumentf("%s(): %s is not an output that is computed", call, s.name(v))
	case len(s.consumers(v)) == 0:
		return core.NoVal, core.InvalidArgumentf("%s(): nothing but the output reads %s; use cache_before()", call, s.name(v))
	case s.f.Val(v).Domain.Alloc != nil:
		return core.NoVal, core.InvalidArgumentf("%s(): %s is laid out by stride_order(), which a copy would not keep", call, s.name(v))
	}
	out, err := s.f.CopyOf(v)
	if err != nil {
		return core.NoVal, err
	}
	s.edited()
	s.f.ReplaceOutput(v, out)
	s.tensors[out].memory, s.tensors[v].memory = Global, Local
	return out, nil
}

// Rewrite lets edit change the expressions of the fusion, but not what its outputs mean,
// before anything is scheduled.
func (s *Scheduled) Rewrite(edit func(*core.Fusion) error) error {
	err := edit(s.f)
	s.edited()
	for _, o := range s.f.Outputs() {
		s.tensors[o.Val].memory = Global
	}
	return err
}

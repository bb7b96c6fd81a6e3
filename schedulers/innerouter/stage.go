package innerouter

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/persistence"
)

// atRow is how many loops are around what a block does with its rows of one time.
const atRow = 2

// rowInputs returns the inputs that have elements of their own for each row.
func rowInputs(s *schedule.Scheduled, phases *persistence.Phases) []core.ValID {
	return slices.DeleteFunc(slices.Clone(s.Fusion().Inputs()), func(v core.ValID) bool { return !phases.IsFull(v) || phases.IsShared(v) })
}

// copiesOf returns the copies that are made of v.
func copiesOf(s *schedule.Scheduled, v core.ValID) (list []core.ValID) {
	f := s.Fusion()
	for _, w := range s.Tensors() {
		if d := f.Val(w).Def; d != core.NoExpr && f.Expr(d).Op == core.SetOp && f.TensorArgs(f.Expr(d))[0] == v {
			list = append(list, w)
		}
	}
	return list
}

// stage lets the copies of inputs that have elements of their own for each row be in shared
// memory, from where all that reads them takes what it reads by a copy in registers. It
// returns those in shared memory.
func stage(s *schedule.Scheduled, phases *persistence.Phases) (staged []core.ValID, err error) {
	for _, v := range rowInputs(s, phases) {
		for _, c := range copiesOf(s, v) {
			if _, err := s.CacheAfter(c, nil); err != nil {
				return nil, err
			}
			if err := s.SetMemory(c, schedule.Shared); err != nil {
				return nil, err
			}
			if err := s.SetCopy(c, schedule.AsyncCopy, schedule.CacheUnspecified); err != nil {
				return nil, err
			}
			staged = append(staged, c)
		}
	}
	return staged, nil
}

// widenStaged lets what is read of shared memory be read several elements at a time.
func (b *builder) widenStaged() error {
	for _, v := range b.staged {
		for _, w := range copiesOf(b.s, v) {
			if err := b.widen(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// ahead lets rows be copied to shared memory, and numbers of rows be loaded to registers,
// before those that are in use are done with.
func (b *builder) ahead(phases *persistence.Phases) error {
	if b.Stages == 0 {
		return nil
	}
	list := slices.Clone(b.staged)
	for _, v := range b.s.Tensors() {
		if b.isLoaded(v) && !phases.IsFull(v) && !phases.IsAfter(v) && b.s.Position(v) >= atRow {
			list = append(list, v)
		}
	}
	for _, v := range list {
		if err := b.s.InlineAt(v, atRow, false); err != nil {
			return err
		}
		if err := b.s.SetBuffering(v, int(b.Stages), int(b.Stages)-1); err != nil {
			return err
		}
	}
	return nil
}

// isLoaded reports whether v is a copy of an input.
func (b *builder) isLoaded(v core.ValID) bool {
	f := b.s.Fusion()
	d := f.Val(v).Def
	return d != core.NoExpr && f.Expr(d).Op == core.SetOp && f.Val(f.TensorArgs(f.Expr(d))[0]).Input
}

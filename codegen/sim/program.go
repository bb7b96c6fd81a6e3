package sim

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// A program is a kernel compiled for one launch: closures over the lanes of a
// block.
type program struct {
	k            *kir.Kernel
	threads      int
	arguments    []Argument
	seed, offset uint64 // of the run

	nodes         []indexNode
	nodeOf        map[scalar.ID]int32
	nodeOfSymbol  map[kir.SymbolID]int32
	uniformSymbol []bool
	dividers      map[scalar.ID]kir.Divider // by divisor

	temporaries     [4][]*lanes // by domain
	usedTemporaries [4]int

	statements []*statement // by number
	body       []*statement
}

// A statement is a kir.Statement, compiled. run has its effect for the active
// threads; false ends the run.
type statement struct {
	number int32
	source kir.Statement
	run    func(b *block) bool
}

func compile(k *kir.Kernel, threads int, arguments []Argument) (*program, error) {
	p := &program{k: k, threads: threads, arguments: arguments, nodeOf: map[scalar.ID]int32{},
		nodeOfSymbol: map[kir.SymbolID]int32{}, uniformSymbol: make([]bool, len(k.Symbols)), dividers: map[scalar.ID]kir.Divider{}}
	for i, s := range k.Symbols {
		p.uniformSymbol[i] = s.Kind == kir.Parameter || s.Kind == kir.BlockIdx || s.Kind == kir.ClusterIdx
	}
	for i, a := range k.Arguments {
		switch a.Kind {
		case kir.RandomSeed:
			p.seed = uint64(arguments[i].Number.I)
		case kir.RandomOffset:
			p.offset = uint64(arguments[i].Number.I)
		case kir.Divisor:
			p.dividers[a.Expr] = kir.Divider(arguments[i].Number.I)
		}
	}
	for i, s := range k.Symbols { // also those that only the launch reads
		if s.Kind != kir.LoopIndex && s.Kind != kir.LetIndex && s.Kind != kir.HoistedIndex {
			if _, err := p.node(s.Expr); err != nil {
				return nil, fmt.Errorf("symbol %s: %w", k.Symbols[i].Name, err)
			}
		}
	}
	var err error
	p.body, err = p.block(k.Body)
	return p, err
}

// text returns the number and the text of a statement.
func (p *program) text(number int32) string {
	return fmt.Sprintf("s%d `%s`", number, p.k.Text(p.statements[number].source))
}

func (p *program) block(list kir.Block) ([]*statement, error) {
	out := make([]*statement, len(list))
	for i, s := range list {
		x := &statement{number: int32(len(p.statements)), source: s}
		p.statements = append(p.statements, x)
		if err := p.statement(x, s); err != nil {
			return nil, fmt.Errorf("%s: %w", p.k.Text(s), err)
		}
		out[i] = x
	}
	return out, nil
}

// effect makes run from something that has no way to fail.
func (x *statement) effect(f func(b *block)) {
	x.run = func(b *block) bool {
		f(b)
		return true
	}
}

func (p *program) statement(x *statement, s kir.Statement) error {
	switch s := s.(type) {
	case kir.Declare:
		return p.declare(x, s)
	case kir.Assign:
		return p.assign(x, s)
	case kir.Send:
		return p.send(x, s)
	case kir.Move:
		if s.Guarded {
			guard, err := p.node(s.Guard)
			if err != nil {
				return err
			}
			return p.pair(x, &s.Dst, &s.Src, func(dst, src *access) {
				x.effect(func(b *block) { b.guardedMove(dst, src, guard) })
			})
		}
		return p.pair(x, &s.Dst, &s.Src, func(dst, src *access) {
			src.unaligned = s.Unaligned
			x.effect(func(b *block) { b.move(dst, src) })
		})
	case kir.AsyncCopy:
		guard := int32(-1)
		if s.Guard != scalar.None {
			var err error
			if guard, err = p.node(s.Guard); err != nil {
				return err
			}
		}
		return p.pair(x, &s.Dst, &s.Src, func(dst, src *access) {
			x.effect(func(b *block) { b.asyncCopy(dst, src, guard) })
		})
	case kir.Opaque, kir.UnderWay:
		x.effect(func(*block) {})
	case kir.AsyncCommit:
		x.effect((*block).commit)
	case kir.AsyncWait:
		x.effect(func(b *block) { b.asyncWait(s.Pending) })
	case kir.Barrier:
		return p.barrier(x, s)
	case kir.Expect:
		x.effect(func(b *block) { b.expected[s.Arrivals] += s.Bytes })
	case kir.Arrived:
		x.run = func(b *block) bool { return b.waitForArrivals(x, s.Arrivals) }
	case kir.ClusterStart:
		x.run = func(b *block) bool { return b.clusterStart(x, s.Wait) }
	case kir.Fence:
		x.effect(func(b *block) {
			if s.Scope == kir.GridScope {
				b.fenceAll()
			}
		})
	case kir.AtomicAdd:
		return p.atomic(x, s)
	case kir.Let:
		return p.let(x, s)
	case kir.Hoist:
		x.effect(func(*block) {})
	case *kir.For:
		return p.loop(x, s)
	case *kir.If:
		return p.condition(x, s)
	default:
		return fmt.Errorf("%T is not simulated", s)
	}
	return nil
}

func (p *program) pair(x *statement, dst, src *kir.Access, make func(dst, src *access)) error {
	d, err := p.access(x, dst, writes)
	if err != nil {
		return err
	}
	s, err := p.access(x, src, reads)
	if err == nil {
		make(d, s)
	}
	return err
}

func (p *program) declare(x *statement, s kir.Declare) error {
	b := &p.k.Buffers[s.Buffer]
	size, err := p.node(b.Size)
	if err != nil {
		return err
	}
	if b.Space == kir.Local {
		x.effect(func(b *block) { b.declareLocal(s.Buffer, int(b.index(size).u)) })
		return nil
	}
	offset, err := p.node(b.Offset)
	element := int64(b.DType.Size())
	x.effect(func(b *block) {
		b.shared.declare(b.index(offset).u, b.index(size).u*element, uint16(s.Buffer)+1)
	})
	return err
}

func (p *program) assign(x *statement, s kir.Assign) error {
	steps, values, err := p.values(x, s.Value)
	if err != nil {
		return err
	}
	dst, err := p.access(x, &s.Dst, writes)
	var flags uint8
	if s.Redundant {
		flags = redundant
	}
	x.effect(func(b *block) {
		for _, f := range steps {
			f(b)
		}
		b.store(dst, values[0], flags)
	})
	return err
}

func (p *program) send(x *statement, s kir.Send) error {
	steps, values, err := p.values(x, s.Value)
	if err != nil {
		return err
	}
	rank, err := p.node(s.Rank)
	if err != nil {
		return err
	}
	dst, err := p.access(x, &s.Dst, writes)
	x.effect(func(b *block) {
		for _, f := range steps {
			f(b)
		}
		b.send(dst, rank, values[0], s.Counted, s.Arrivals)
	})
	return err
}

func (p *program) atomic(x *statement, s kir.AtomicAdd) error {
	steps, values, err := p.values(x, s.Value)
	if err != nil {
		return err
	}
	if s.Old != kir.NoSymbol {
		if _, err := p.node(p.k.Symbols[s.Old].Expr); err != nil {
			return err
		}
	}
	dst, err := p.access(x, &s.Dst, writes)
	x.effect(func(b *block) {
		for _, f := range steps {
			f(b)
		}
		b.atomicAdd(dst, values[0], s.Old)
	})
	add := x.run
	x.run = func(b *block) bool { return add(b) && (!b.m.interleaved || b.yield()) }
	return err
}

// hasAtomics reports whether blocks can tell which of them came first.
func (p *program) hasAtomics() bool {
	return slices.ContainsFunc(p.statements, func(x *statement) bool { _, ok := x.source.(kir.AtomicAdd); return ok })
}

func (p *program) let(x *statement, s kir.Let) error {
	steps, values, err := p.values(x, s.Value)
	if err != nil {
		return err
	}
	if _, err := p.node(p.k.Symbols[s.Symbol].Expr); err != nil {
		return err
	}
	x.effect(func(b *block) {
		for _, f := range steps {
			f(b)
		}
		v := b.bind(s.Symbol)
		for _, l := range b.lanes {
			b.give(v, l, values[0].i[l], values[0].flawAt(l))
		}
		b.checkFacts(s.Symbol, x)
	})
	return nil
}

func (p *program) barrier(x *statement, s kir.Barrier) error {
	switch s.Scope {
	case kir.WarpScope:
		x.effect(func(b *block) { b.warpBarrier(x) })
	case kir.GridScope:
		a, err := p.access(x, &s.Semaphore, writes)
		x.run = func(b *block) bool { return b.gridBarrier(a) }
		return err
	case kir.ClusterScope:
		x.run = func(b *block) bool { return b.clusterBarrier(x) }
	case kir.GroupScope:
		x.effect(func(b *block) {
			b.converged(x)
			b.syncGroups()
		})
	default:
		x.effect(func(b *block) {
			b.converged(x)
			b.syncBlock()
		})
	}
	return nil
}

func (p *program) condition(x *statement, s *kir.If) error {
	cond, err := p.node(s.Cond)
	if err != nil {
		return err
	}
	then, err := p.block(s.Then)
	if err != nil {
		return err
	}
	otherwise, err := p.block(s.Else)
	x.run = func(b *block) bool {
		yes, no := b.divide(cond, b.lanes, x)
		ok := b.within(yes, then)
		return ok && b.within(no, otherwise)
	}
	return err
}

func (p *program) loop(x *statement, s *kir.For) error {
	var bounds [3]int32
	for i, id := range []scalar.ID{s.Start, s.Stop, s.Step} {
		var err error
		if bounds[i], err = p.node(id); err != nil {
			return err
		}
	}
	p.uniformSymbol[s.Symbol] = p.nodes[bounds[0]].uniform && p.nodes[bounds[2]].uniform
	if _, err := p.node(p.k.Symbols[s.Symbol].Expr); err != nil {
		return err
	}
	body, err := p.block(s.Body)
	x.run = func(b *block) bool {
		b.loop = append(b.loop, s.Symbol)
		ok := b.repeat(x, s.Symbol, bounds, body)
		b.loop = b.loop[:len(b.loop)-1]
		return ok
	}
	return err
}

package cpu

import (
	"sync/atomic"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// Arguments is what a run of a program reads and writes.
type Arguments struct {
	Inputs  []unsafe.Pointer // by position; of tensors
	Scalars []scalar.Value   // by position; of scalars, in the declared dtype
	Outputs []unsafe.Pointer // by position; of those that have memory of their own
	Random  core.RandomState
	Stop    *atomic.Bool // set to ask the run to end; may be nil
}

// A run is one execution of a program.
type run struct {
	p       *Program
	memory  []unsafe.Pointer // by buffer
	held    [][]uint64       // temporaries, by buffer
	scalars []scalar.Value
	stop    *atomic.Bool
}

// Run computes the outputs.
//
// Errors: [ErrInterrupted], a [Panic], and those of scalars that have no value,
// such as a division by zero.
func (p *Program) Run(a Arguments) error {
	r := &run{p: p, memory: make([]unsafe.Pointer, len(p.buffers)), held: make([][]uint64, len(p.buffers)), stop: a.Stop}
	for n, b := range p.buffers {
		switch b.kind {
		case inputBuffer:
			r.memory[n] = a.Inputs[b.index]
		case outputBuffer:
			r.memory[n] = a.Outputs[b.index]
		}
	}
	if err := r.bindScalars(&a); err != nil {
		return err
	}
	return caught(func() error {
		for i := range p.steps {
			if err := r.step(&p.steps[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *run) step(s *step) error {
	for _, n := range s.starts {
		b := &r.p.buffers[n]
		r.held[n] = make([]uint64, (b.elements*int64(b.dtype.Size())+7)/8+1)
		r.memory[n] = unsafe.Pointer(unsafe.SliceData(r.held[n]))
	}
	defer func() {
		for _, n := range s.ends {
			r.held[n], r.memory[n] = nil, nil
		}
	}()
	if s.opaque != nil {
		return s.opaque.run(r)
	}
	return s.tiles.run(r)
}

// bindScalars computes the scalars of the program.
func (r *run) bindScalars(a *Arguments) error {
	p := r.p
	r.scalars = make([]scalar.Value, len(p.scalars))
	var memo map[scalar.ID]scalar.Value
	bind := func(symbol scalar.ID) (scalar.Value, error) {
		tag := p.f.Scalars().Tag(symbol)
		at := p.place[core.ValID(tag.Val)]
		if tag.Dim >= 0 {
			return scalar.Value{Type: p.f.Scalars().Type(symbol), I: p.inputs[at].Sizes[tag.Dim]}, nil
		}
		return a.Scalars[at], nil
	}
	for i, s := range p.scalars {
		switch {
		case s.random == randomSeed:
			r.scalars[i] = scalar.Value{Type: s.dtype, I: int64(a.Random.Seed)}
		case s.random == randomOffset:
			r.scalars[i] = scalar.Value{Type: s.dtype, I: int64(a.Random.Offset + 4*uint64(s.stream))}
		case s.fixed:
			r.scalars[i] = s.value
		default:
			if memo == nil {
				memo = map[scalar.ID]scalar.Value{}
			}
			v, err := p.f.Scalars().Eval(s.id, bind, core.EvalOpaque, memo)
			if err != nil {
				return p.f.ScalarError(err)
			}
			r.scalars[i] = core.ConvertScalar(s.dtype, v)
		}
	}
	return nil
}

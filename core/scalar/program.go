package scalar

import (
	"fmt"
	"slices"

	"nvfuser_go/core/dtype"
)

// A Program computes some expressions of a table for many values of their symbols,
// without allocating. It never changes; any number of goroutines may run it.
type Program struct {
	data    ProgramData
	ids     []ID // of symbols, as they were declared; of a program that was compiled
	scratch int  // registers after those of data, for operands
}

// ProgramData are a program as data. Symbols are in the first registers, then
// comes one for each instruction.
type ProgramData struct {
	Symbols []ProgramSymbol
	Code    []Instruction
	Results []int32 // registers
}

// A ProgramSymbol is what a program knows of a symbol.
type ProgramSymbol struct {
	Type  dtype.Type
	Facts Facts
}

// An Instruction computes a register from ones before it.
type Instruction struct {
	Op       Op
	Value    Value      // of a Const; else of the type of the result
	From     dtype.Type // of the last operand
	Operands []int32
}

// Compile returns a program for ids. Its cost is linear in the expressions.
func (t *Table) Compile(ids []ID) *Program {
	var symbols, others []ID
	seen := map[ID]bool{}
	var visit func(id ID)
	visit = func(id ID) {
		if seen[id] {
			return
		}
		seen[id] = true
		for _, a := range t.Args(id) {
			visit(a)
		}
		if t.Op(id) == Symbol {
			symbols = append(symbols, id)
		} else {
			others = append(others, id)
		}
	}
	for _, id := range ids {
		visit(id)
	}
	p := &Program{}
	register := map[ID]int32{}
	for i, id := range slices.Concat(symbols, others) {
		register[id] = int32(i)
	}
	for _, id := range symbols {
		p.data.Symbols, p.ids = append(p.data.Symbols, ProgramSymbol{t.Type(id), t.facts[id]}), append(p.ids, t.Declared(id))
	}
	for _, id := range others {
		x := Instruction{Op: t.Op(id), Value: Value{Type: t.Type(id)}}
		if v, ok := t.ConstValue(id); ok {
			x.Value = v
		}
		for _, a := range t.Args(id) {
			x.Operands, x.From = append(x.Operands, register[a]), t.Type(a)
		}
		p.data.Code, p.scratch = append(p.data.Code, x), max(p.scratch, len(x.Operands))
	}
	for _, id := range ids {
		p.data.Results = append(p.data.Results, register[id])
	}
	return p
}

// NewProgram returns the program that Data describes.
//
// Errors: one that says what is wrong with d, of which no program consists.
func NewProgram(d ProgramData) (*Program, error) {
	p := &Program{data: d}
	for i, s := range d.Symbols {
		if !s.Type.Valid() {
			return nil, fmt.Errorf("symbol %d has no type", i)
		}
	}
	for i, x := range d.Code {
		n, least := len(x.Operands), 1
		switch x.Op {
		case Const:
			least = 0
		case Select:
			least = 3
		}
		before := func(r int32) bool { return r >= 0 && int(r) < len(d.Symbols)+i }
		isKnown := x.Op <= Select && x.Op != Symbol || x.Op >= FirstOpaque
		if !isKnown || n < least || !x.Value.Type.Valid() || !x.From.Valid() || slices.ContainsFunc(x.Operands, func(r int32) bool { return !before(r) }) {
			return nil, fmt.Errorf("instruction %d cannot be run: %+v", i, x)
		}
		p.scratch = max(p.scratch, n)
	}
	for i, r := range d.Results {
		if r < 0 || int(r) >= len(d.Symbols)+len(d.Code) {
			return nil, fmt.Errorf("result %d is register %d, which there is not", i, r)
		}
	}
	return p, nil
}

// Data returns the program as data, which the caller must not change.
func (p *Program) Data() ProgramData { return p.data }

// Symbols returns how many symbols there are.
func (p *Program) Symbols() int { return len(p.data.Symbols) }

// Symbol returns symbol i of a program that was compiled, as it was declared. One may be there twice.
func (p *Program) Symbol(i int) ID { return p.ids[i] }

// Registers returns how many values [Program.Run] needs room for.
func (p *Program) Registers() int { return len(p.data.Symbols) + len(p.data.Code) + p.scratch }

// Run computes the expressions for the values of the symbols, which are the first
// of the registers. It reports false if that took more than 64 bits on the way, or
// if there is no value, also of what is not chosen: then [Table.Eval] says what
// is the case. opaque must not keep its operands.
func (p *Program) Run(registers []Value, opaque Opaque) bool {
	for i := range p.data.Symbols {
		s, v := &p.data.Symbols[i], &registers[i]
		isInteger := interchangeable(s.Type)
		if v.Type != s.Type && !(interchangeable(v.Type) && isInteger) || isInteger && !s.Facts.Hold(v.I) {
			return false
		}
		v.Type = s.Type
	}
	for i := range p.data.Code {
		v, ok := p.data.Code[i].run(registers, len(p.data.Symbols)+len(p.data.Code), opaque)
		if !ok {
			return false
		}
		registers[len(p.data.Symbols)+i] = v
	}
	return true
}

// run returns the value of x; operands of what is opaque lie from free on.
func (x *Instruction) run(registers []Value, free int, opaque Opaque) (Value, bool) {
	switch {
	case x.Op == Const:
		return x.Value, true
	case x.Op == Select:
		chosen := x.Operands[2]
		if registers[x.Operands[0]].I != 0 {
			chosen = x.Operands[1]
		}
		return registers[chosen], true
	case x.Op >= FirstOpaque:
		for k, a := range x.Operands {
			registers[free+k] = registers[a]
		}
		v, err := opaque(x.Op, x.Value.Type, registers[free:free+len(x.Operands)])
		return v, err == nil
	}
	v := x.Value
	v.I = registers[x.Operands[0]].I
	for _, a := range x.Operands[1:] {
		var err error
		if v.I, err = arithmetic(x.Op, x.From, v.I, registers[a].I); err != nil {
			return v, false
		}
	}
	return v, true
}

// Result returns expression i after a run.
func (p *Program) Result(registers []Value, i int) Value { return registers[p.data.Results[i]] }

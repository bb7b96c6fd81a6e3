package scalar

import (
	"slices"

	"nvfuser_go/core/dtype"
)

// A Program computes some expressions of a table for many values of their symbols,
// without allocating. It never changes; any number of goroutines may run it.
type Program struct {
	symbols []symbolSlot  // in the first registers
	code    []instruction // one for each of the following registers
	results []int32
	scratch int // registers after those, for operands
}

// A symbolSlot is what a program knows of a symbol.
type symbolSlot struct {
	id    ID // as it was declared
	dt    dtype.Type
	facts Facts
}

type instruction struct {
	op    Op
	value Value // of a Const; else of the type of the result
	from  dtype.Type
	args  []int32
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
		p.symbols = append(p.symbols, symbolSlot{t.Declared(id), t.Type(id), t.facts[id]})
	}
	for _, id := range others {
		x := instruction{op: t.Op(id), value: Value{Type: t.Type(id)}}
		if v, ok := t.ConstValue(id); ok {
			x.value = v
		}
		for _, a := range t.Args(id) {
			x.args, x.from = append(x.args, register[a]), t.Type(a)
		}
		p.code, p.scratch = append(p.code, x), max(p.scratch, len(x.args))
	}
	for _, id := range ids {
		p.results = append(p.results, register[id])
	}
	return p
}

// Symbols returns how many symbols there are.
func (p *Program) Symbols() int { return len(p.symbols) }

// Symbol returns symbol i as it was declared. One may be there twice.
func (p *Program) Symbol(i int) ID { return p.symbols[i].id }

// Registers returns how many values [Program.Run] needs room for.
func (p *Program) Registers() int { return len(p.symbols) + len(p.code) + p.scratch }

// Run computes the expressions for the values of the symbols, which are the first
// of the registers. It reports false if that took more than 64 bits on the way, or
// if there is no value, also of what is not chosen: then [Table.Eval] says what
// is the case. opaque must not keep its operands.
func (p *Program) Run(registers []Value, opaque Opaque) bool {
	for i := range p.symbols {
		s, v := &p.symbols[i], &registers[i]
		isInteger := interchangeable(s.dt)
		if v.Type != s.dt && !(interchangeable(v.Type) && isInteger) || isInteger && !s.facts.Hold(v.I) {
			return false
		}
		v.Type = s.dt
	}
	for i := range p.code {
		v, ok := p.code[i].run(registers, len(p.symbols)+len(p.code), opaque)
		if !ok {
			return false
		}
		registers[len(p.symbols)+i] = v
	}
	return true
}

// run returns the value of x; operands of what is opaque lie from free on.
func (x *instruction) run(registers []Value, free int, opaque Opaque) (Value, bool) {
	switch {
	case x.op == Const:
		return x.value, true
	case x.op == Select:
		chosen := x.args[2]
		if registers[x.args[0]].I != 0 {
			chosen = x.args[1]
		}
		return registers[chosen], true
	case x.op >= FirstOpaque:
		for k, a := range x.args {
			registers[free+k] = registers[a]
		}
		v, err := opaque(x.op, x.value.Type, registers[free:free+len(x.args)])
		return v, err == nil
	}
	v := x.value
	v.I = registers[x.args[0]].I
	for _, a := range x.args[1:] {
		var err error
		if v.I, err = arithmetic(x.op, x.from, v.I, registers[a].I); err != nil {
			return v, false
		}
	}
	return v, true
}

// Result returns expression i after a run.
func (p *Program) Result(registers []Value, i int) Value { return registers[p.results[i]] }

package executor

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// hostWords are the numbers of launches that differ from call to call, as data, and
// the programs that compute them.
type hostWords struct {
	list     []hostWord
	programs []hostProgram
}

// A hostWord is 64 bits of a number as an element of a type lies in memory: its
// only ones but for the largest type.
type hostWord struct {
	input int // a tensor of the host, whose element it is; -1: a program computes it
	to    dtype.Type
	at    int // the byte of the element that it begins with
}

// A hostProgram computes the numbers of one fusion.
type hostProgram struct {
	words     []int // what its results are
	program   *scalar.Program
	symbols   []symbolSource // by symbol of program
	registers *sync.Pool     // of *[]scalar.Value
}

// A symbolSource is where the value of a symbol is.
type symbolSource struct {
	input int        // a scalar; -1: it is the same in all calls
	dt    dtype.Type // of the input in the definition
	value scalar.Value
}

// wordSources are what words are made from: fusions.
type wordSources struct {
	list []wordSource
	lock sync.Mutex // of explain
}

// A wordSource is a word and the expression of a fusion that it is; none of an
// element of the host.
type wordSource struct {
	hostWord
	of    *numberSource
	value scalar.ID
}

// A numberSource is a fusion that numbers are of, and where its inputs come from.
type numberSource struct {
	f      *core.Fusion
	from   []int   // by input: an input of the plan; -1: it is the same in all calls
	inputs []Input // those that are, and sizes
}

// add returns the index of a word.
func (w *wordSources) add(x wordSource) int {
	if i := slices.Index(w.list, x); i >= 0 {
		return i
	}
	w.list = append(w.list, x)
	return len(w.list) - 1
}

// compile returns the words as data.
func (w *wordSources) compile() hostWords {
	var h hostWords
	var sources []*numberSource // by program
	for i, x := range w.list {
		if h.list = append(h.list, x.hostWord); x.of == nil {
			continue
		}
		at := slices.Index(sources, x.of)
		if at < 0 {
			at = len(sources)
			sources, h.programs = append(sources, x.of), append(h.programs, hostProgram{})
		}
		h.programs[at].words = append(h.programs[at].words, i)
	}
	for k, of := range sources {
		h.programs[k].compile(w.list, of)
	}
	return h
}

func (p *hostProgram) compile(list []wordSource, of *numberSource) {
	var ids []scalar.ID
	for _, i := range p.words {
		ids = append(ids, list[i].value)
	}
	f := of.f
	program := f.Scalars().Compile(ids)
	var symbols []symbolSource
	for i := range program.Symbols() {
		tag := f.Scalars().Tag(program.Symbol(i))
		v := core.ValID(tag.Val)
		at := slices.Index(f.Inputs(), v)
		s := symbolSource{input: of.from[at], dt: f.Val(v).DType}
		if tag.Dim >= 0 {
			s.value, s.input = scalar.Value{Type: dtype.Index, I: of.inputs[at].Sizes[tag.Dim]}, -1
		} else if s.input < 0 {
			s.value = core.ConvertScalar(s.dt, of.inputs[at].Scalar)
		}
		symbols = append(symbols, s)
	}
	*p = newHostProgram(p.words, program, symbols)
}

func newHostProgram(words []int, program *scalar.Program, symbols []symbolSource) hostProgram {
	return hostProgram{words, program, symbols, &sync.Pool{New: func() any {
		registers := make([]scalar.Value, program.Registers())
		return &registers
	}}}
}

// String shows all of the words and programs.
func (w *hostWords) String() string {
	text := fmt.Sprintf("%+v\n", w.list)
	for i := range w.programs {
		p := &w.programs[i]
		text += fmt.Sprintf("%v = %+v of %+v\n", p.words, p.program.Data(), p.symbols)
	}
	return text
}

// evaluate fills words, one for each of the list. It reports false if that is not
// simple: then explain says what is the matter.
func (w *hostWords) evaluate(inputs []Input, words []uint64) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // and explain panics where that is told
		}
	}()
	for i := range w.list {
		if x := &w.list[i]; x.input >= 0 {
			words[i] = x.word(inputs[x.input].element())
		}
	}
	for i := range w.programs {
		if !w.programs[i].evaluate(w.list, inputs, words) {
			return false
		}
	}
	return true
}

func (p *hostProgram) evaluate(list []hostWord, inputs []Input, words []uint64) bool {
	scratch := p.registers.Get().(*[]scalar.Value)
	defer p.registers.Put(scratch)
	registers := *scratch
	for i := range p.symbols {
		s := &p.symbols[i]
		if registers[i] = s.value; s.input >= 0 {
			registers[i] = core.ConvertScalar(s.dt, inputs[s.input].Scalar)
		}
	}
	if !p.program.Run(registers, core.EvalOpaque) {
		return false
	}
	for k, i := range p.words {
		words[i] = list[i].word(p.program.Result(registers, k))
	}
	return true
}

// explain is evaluate with all cases and errors.
func (w *wordSources) explain(inputs []Input, words []uint64) error {
	w.lock.Lock() // looking adds to the tables of the fusions
	defer w.lock.Unlock()
	bound := map[*numberSource]*core.Binding{}
	for i := range w.list {
		x := &w.list[i]
		if x.of == nil {
			continue
		}
		if bound[x.of] == nil {
			own := slices.Clone(x.of.inputs)
			for i, from := range x.of.from {
				if from >= 0 {
					own[i] = inputs[from]
				}
			}
			b, err := x.of.f.Bind(valuesOf(own))
			if err != nil {
				return err
			}
			bound[x.of] = b
		}
		v, err := bound[x.of].Value(x.value)
		if err != nil {
			return err
		}
		words[i] = x.word(v)
	}
	return nil
}

// word returns v as x holds it.
func (x *hostWord) word(v scalar.Value) uint64 {
	bytes := elementOf(core.ConvertScalar(x.to, v))
	return binary.LittleEndian.Uint64(bytes[x.at:])
}

// Evaluate fills the words of scalars that a call with inputs, of the kind that
// the plan was made for, brings. It is safe for any number of goroutines.
//
// Errors: InvalidArgument if a scalar has no value, such as a division by zero.
func (p *Plan) Evaluate(inputs []Input, words []uint64) error {
	w := &p.Device.words
	if len(words) != len(w.list) || len(inputs) != len(p.inputs) {
		return fmt.Errorf("%d words and %d inputs for a plan of %d and %d", len(words), len(inputs), len(w.list), len(p.inputs))
	}
	if len(words) == 0 || w.evaluate(inputs, words) {
		return nil
	}
	return p.explain(inputs, words)
}

func (p *Plan) explain(inputs []Input, words []uint64) error {
	return p.e.guard(inputs, func() error {
		m, err := p.Device.made()
		if err != nil {
			return err
		}
		return m.words.explain(inputs, words)
	})
}

// element returns that of a tensor of the host without dimensions.
func (x *Input) element() scalar.Value {
	return element(x.DType, unsafe.Slice((*byte)(x.Data), x.DType.Size()))
}

// elementOf returns v as it lies in memory, and zeros.
func elementOf(v scalar.Value) (bytes [16]byte) {
	switch t := v.Type; {
	case t.IsFloat():
		dtype.StoreFloat(t, bytes[:], v.Re)
	case t.IsComplex():
		dtype.StoreComplex(t, bytes[:], complex(v.Re, v.Im))
	default:
		dtype.StoreInt(t, bytes[:], v.I)
	}
	return bytes
}

// Package cuda prints kernels of package kir as CUDA C++ that a person can read
// and NVRTC compiles without any header.
//
// Its central function is [Print]. Invariants: the text depends on the kernel
// and the options alone; it holds the device functions that the kernel uses,
// each once, and no others; the parameter structure has the offsets of [Layout].
//
// A value of a narrow floating type is a float in expressions, and rounded where
// it is stored or a cast asks for it; nothing else rounds. Integers of the user
// wrap; index arithmetic is plain C++, as its results are known to fit.
//
// It does not choose anything: what a kernel does, and in which order, is in
// the kernel. It does not compile or launch; [Layout] is what a launcher needs
// to know. Package hostshim runs the same text on a CPU.
package cuda

import (
	"errors"
	"fmt"
	"strings"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Options are what the text depends on beside the kernel.
type Options struct {
	// Arch is the compute capability as major*10 + minor, such as 90. Below 90
	// there are no clusters.
	Arch int
	// MinBlocks, if positive, is how many blocks shall fit a multiprocessor, whatever
	// the kernel says: it bounds the registers.
	MinBlocks int
	// RandomInMemory says that the arguments for seed and offset are addresses of
	// them, as a graph needs whose replays draw other numbers each.
	RandomInMemory bool
	// Drawn is added to an offset in memory.
	Drawn uint64
	// Follows says that the kernel may be started before those that it reads the results
	// of have ended, as from 90 on: it begins with waiting for them.
	Follows bool
	// Leads says that it lets such a kernel start as soon as all its own blocks run.
	Leads bool
}

// A Source is the text of kernels.
type Source struct {
	Text    string
	Kernels []Function // in order
	device  int        // bytes of Text that are device functions
}

// KernelText returns the text without the device functions in front.
func (s Source) KernelText() string { return s.Text[s.device:] }

// A Function is a kernel in a text.
type Function struct {
	Name       string
	Parameters string // the type of its parameter structure; empty: it has none
}

// Print returns the text of a kernel. It fails for what the architecture or
// this package does not have; the kernel must satisfy [kir.Kernel.Verify].
func Print(k *kir.Kernel, o Options) (Source, error) { return PrintAll([]*kir.Kernel{k}, o) }

// PrintAll returns one text for several kernels of different names.
func PrintAll(kernels []*kir.Kernel, o Options) (Source, error) {
	var s Source
	var body strings.Builder
	var needs []string
	seen := map[string]bool{}
	for _, k := range kernels {
		p := newPrinter(k, o)
		p.kernel()
		if len(p.problems) > 0 {
			return Source{}, fmt.Errorf("kernel %s cannot be written in CUDA: %w", k.Name, errors.Join(p.problems...))
		}
		if seen[p.name] {
			return Source{}, fmt.Errorf("there are two kernels called %s", p.name)
		}
		seen[p.name] = true
		needs = append(needs, p.needs...)
		s.Kernels = append(s.Kernels, Function{p.name, p.structure()})
		body.WriteString(p.text.String())
	}
	device := deviceText(needs)
	s.Text, s.device = device+body.String(), len(device)
	return s, nil
}

type printer struct {
	k        *kir.Kernel
	o        Options
	text     strings.Builder
	depth    int
	problems []error
	needs    []string // device sections

	name      string
	names     names
	arguments []string // fields of the parameter structure
	symbols   []string
	buffers   []string
	asBool    []bool // Bool buffers that are declared as bool
	scalars   []bool // Local buffers of one element
	inWords   []bool // Local buffers of BFloat16 that vectors fill
	initial   string // what registers hold before anything is stored there

	hoisted     map[scalar.ID]string      // expressions that have a name here
	sums        map[scalar.ID][]scalar.ID // of them those that begin with a term
	inScope     []scalar.ID               // all of them, in order
	unrolled    map[kir.SymbolID]bool     // indices of loops that are written out
	dividers    map[scalar.ID]string      // arguments, by divisor
	wideSymbols []bool                    // of 64 bits, in a kernel with indices of 32
	wideExprs   map[scalar.ID]bool
	definitions []namedLine
	templates   map[string]*template
	uses        map[kir.ValueID]int // reads of a value by the statement
	written     map[kir.ValueID]text
	temporaries int
	lazy        int // texts around the current value that may leave it out
	instead     int // branches around it that stand for a vector that is not whole
}

func newPrinter(k *kir.Kernel, o Options) *printer {
	p := &printer{k: k, o: o, names: names{used: map[string]bool{}, next: map[string]int{}},
		hoisted: map[scalar.ID]string{}, sums: map[scalar.ID][]scalar.ID{}, dividers: map[scalar.ID]string{}, wideExprs: map[scalar.ID]bool{}, unrolled: map[kir.SymbolID]bool{}, templates: map[string]*template{}}
	p.name = p.names.unique(k.Name)
	p.buffers = make([]string, len(k.Buffers))
	p.symbols, p.wideSymbols = make([]string, len(k.Symbols)), make([]bool, len(k.Symbols))
	for _, a := range k.Arguments {
		name := p.names.unique(a.Name)
		p.arguments = append(p.arguments, name)
		switch a.Kind {
		case kir.Pointer:
			p.buffers[a.Buffer] = "p." + name
		case kir.IndexScalar:
			p.symbols[a.Symbol] = "p." + name
		case kir.Divisor:
			p.dividers[a.Expr] = "p." + name
		}
	}
	for i := range k.Symbols {
		if p.symbols[i] == "" {
			p.symbols[i] = p.names.unique(k.Symbols[i].Name)
		}
	}
	p.asBool, p.scalars, p.inWords = make([]bool, len(k.Buffers)), make([]bool, len(k.Buffers)), make([]bool, len(k.Buffers))
	for i := range k.Buffers {
		b := &k.Buffers[i]
		if p.buffers[i] == "" {
			p.buffers[i] = p.names.unique(b.Name)
		}
		if b.Space == kir.Local {
			n, ok := k.Scalars.ConstInt(b.Size)
			p.scalars[i] = ok && n == 1
			p.asBool[i] = b.DType.IsBool()
		}
	}
	k.Body.Walk(func(s kir.Statement) {
		if m, ok := s.(kir.Move); ok { // a Bool that is moved is a byte
			p.asBool[m.Dst.Buffer], p.asBool[m.Src.Buffer] = false, false
			b := &k.Buffers[m.Dst.Buffer]
			p.inWords[m.Dst.Buffer] = b.Registers && b.DType == dtype.BFloat16 && b.Align >= 4 && k.Scalars.Facts(b.Size).Divisor%2 == 0
		}
	})
	p.keepBytes()
	if p.needsDefined() {
		p.initial = " = {}"
	}
	return p
}

func (p *printer) need(section string) { p.needs = append(p.needs, section) }

func (p *printer) unsupported(format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf(format, args...))
}

func (p *printer) line(format string, args ...any) {
	if format != "" {
		p.text.WriteString(strings.Repeat("  ", p.depth))
		fmt.Fprintf(&p.text, format, args...)
	}
	p.text.WriteByte('\n')
}

// cpp returns how t is written, and requires what declares it.
func (p *printer) cpp(t dtype.Type) cppType {
	c, ok := cppTypes[t]
	if !ok {
		p.unsupported("elements of type %v", t)
	}
	if c.section != "" {
		p.need(c.section)
	}
	return c
}

func (p *printer) stored(t dtype.Type) string   { return p.cpp(t).stored }
func (p *printer) computed(t dtype.Type) string { return p.cpp(t).computed }

func (p *printer) symbol(id kir.SymbolID) text {
	return text{code: p.symbols[id], level: levelAtom, simple: true}
}

// element returns an element of a buffer, as it lies in memory. It is simple
// if it can be written twice: where no other thread can change it in between.
func (p *printer) element(a *kir.Access) text {
	simple := p.k.Buffers[a.Buffer].Space == kir.Local
	if p.scalars[a.Buffer] {
		return text{code: p.buffers[a.Buffer], level: levelAtom, simple: simple}
	}
	if base, offset := p.fromBase(a); len(offset) > 0 {
		from := binary("+", atom("%s", p.buffers[a.Buffer]), p.sum(base))
		return text{code: "(" + from.code + ")[" + p.sum(offset).code + "]", level: levelAtom}
	}
	return text{code: p.buffers[a.Buffer] + "[" + p.index(a.Index).code + "]", level: levelAtom, simple: simple}
}

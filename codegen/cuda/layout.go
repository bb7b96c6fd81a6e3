package cuda

import (
	"fmt"
	"strings"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/philox"
)

// A ParameterLayout is where the arguments of a kernel lie in the one structure
// that is passed by value: in order of Kernel.Arguments, each at a multiple of
// its alignment, which is its size, or 8 of keys.
type ParameterLayout struct {
	Fields []Field // one per argument
	Size   int     // bytes; 0 where there are no arguments
}

// A Field is the place of one argument. An IndexScalar is of the kernel's index
// type, a ValueScalar as an element of its type lies in memory, a RandomSeed the
// [philox.Keys] of the seed or the address of the seed and no more, anything else
// 64 bits.
type Field struct{ Offset, Size int }

// Layout returns the parameter structure of a kernel. The host fills it by
// these offsets, and the printed structure has the same.
func Layout(k *kir.Kernel) ParameterLayout {
	var l ParameterLayout
	align := 1
	for i := range k.Arguments {
		size := argumentSize(k, &k.Arguments[i])
		own := size
		if k.Arguments[i].Kind == kir.RandomSeed {
			own = 8
		}
		align = max(align, own)
		l.Size = roundUp(l.Size, own)
		l.Fields = append(l.Fields, Field{l.Size, size})
		l.Size += size
	}
	l.Size = roundUp(l.Size, align)
	return l
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func argumentSize(k *kir.Kernel, a *kir.Argument) int {
	switch a.Kind {
	case kir.IndexScalar:
		return k.Index.Size()
	case kir.ValueScalar:
		return a.DType.Size()
	case kir.RandomSeed:
		return len(philox.Keys(0)) * 4
	}
	return 8
}

// parameters writes the structure.
func (p *printer) parameters() {
	if len(p.k.Arguments) == 0 {
		return
	}
	p.line("struct %s {", p.structure())
	p.depth++
	for i := range p.k.Arguments {
		a := &p.k.Arguments[i]
		p.line("%s%s;", p.argumentType(a), p.arguments[i])
	}
	p.depth--
	p.line("};")
	p.line("")
}

// structure is the name of the parameter structure, empty if there is none.
func (p *printer) structure() string {
	if len(p.k.Arguments) == 0 {
		return ""
	}
	return strings.TrimSuffix(p.name, "_") + "_Parameters"
}

// argumentType returns the type of a field with what stands before its name.
func (p *printer) argumentType(a *kir.Argument) string {
	switch a.Kind {
	case kir.Pointer:
		b := &p.k.Buffers[a.Buffer]
		if b.ReadOnly {
			return fmt.Sprintf("const %s* ", p.stored(b.DType))
		}
		return p.stored(b.DType) + "* "
	case kir.IndexScalar:
		return p.indexType() + " "
	case kir.ValueScalar:
		return p.stored(a.DType) + " "
	case kir.RandomSeed:
		if p.o.RandomInMemory {
			p.need("KeysInMemory")
			return "KeysInMemory "
		}
		p.need("PhiloxKeys")
		return "PhiloxKeys "
	case kir.RandomOffset:
		if p.o.RandomInMemory {
			return "const unsigned long long* "
		}
	}
	return "unsigned long long "
}

// indexType is the type of index arithmetic.
func (p *printer) indexType() string {
	if p.k.Index == dtype.Int32 {
		return "int"
	}
	return "long long"
}

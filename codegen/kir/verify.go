package kir

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Verify checks what the consumers of a kernel rely on, and returns an error
// with a line for each violation:
//
//   - ids: buffers, symbols, values and expressions exist; a value reads values
//     with lower ids only; the expression of a symbol is its own.
//   - symbols: each is bound before it is read and read inside the block that
//     binds it: a Parameter by one argument, a thread or block index by the
//     launch, others by one For, Let or AtomicAdd; what the host evaluates
//     (launch, shapes, strides, sizes) reads Parameters alone.
//   - declarations: a Local or Shared buffer has one Declare, and its accesses
//     are below it in the same block or inside; a Global buffer has one pointer
//     argument.
//   - buffers: one stride per axis of the shape; no size that is negative for
//     every argument; a power of two as alignment;
//     a Local buffer has constant shape and size; a Shared one lies at a multiple of
//     its alignment within the block's memory; ReadOnly and Zeroed ones are
//     Global.
//   - accesses: one coordinate per axis of the shape; Index is, simplified, the
//     sum of coordinates times strides.
//   - vectors: the width is a power of two, at most 16 bytes, only where a
//     statement moves vectors; the buffer's alignment and the facts of Index
//     show that its address is a multiple of its bytes.
//   - registers: a Local buffer with Registers is indexed by constants and
//     UnrollFull loops; such a loop has constant bounds.
//   - moves: a Move has one Local side, an AsyncCopy is from Global to Shared
//     and of 4, 8 or 16 bytes; both sides have one type and one width.
//   - barriers: all threads of the scope reach it or none does: conditions and
//     loop bounds around it are built from what the block (or the warp) shares; one of Grid
//     scope needs a cooperative launch and a zeroed 64-bit word.
//   - shuffles: whole warps reach it.
//   - types: those of values follow from the op's row; conditions are Bools,
//     index expressions Index.
//   - writes: never to a ReadOnly buffer.
func (k *Kernel) Verify() error {
	v := verifier{k: k, t: k.Scalars.Clone(), seen: map[string]bool{}}
	v.tables()
	if len(v.problems) == 0 { // else ids may not exist
		v.uniform = newUniformity(k, v.t)
		v.scope = make([]bool, len(k.Symbols))
		v.bound = make([]int, len(k.Symbols))
		v.unrolled = make([]bool, len(k.Symbols))
		v.declared = make([]int, len(k.Buffers))
		v.live = make([]bool, len(k.Buffers))
		v.checked = make([]bool, len(k.Values))
		v.visited = make([]int, len(k.Values))
		v.kernel()
		v.block(k.Body, blockGranule)
		v.leftovers()
	}
	if len(v.problems) == 0 {
		return nil
	}
	return errors.New("kernel " + k.Name + ":\n  " + strings.Join(v.problems, "\n  "))
}

type verifier struct {
	k        *Kernel
	t        *scalar.Table // a copy of k's, that may grow
	uniform  *uniformity
	problems []string
	seen     map[string]bool // problems
	where    string          // what is being checked, if not a statement
	at       Statement       // being checked
	scope    []bool          // symbols that may be read
	bound    []int           // times that a symbol is bound
	unrolled []bool          // symbols of UnrollFull loops
	declared []int           // times that a buffer is declared
	live     []bool          // buffers that may be accessed
	checked  []bool          // values whose type is known to be right
	visited  []int           // by value: the walk that met it last
	walk     int
	symbols  map[scalar.ID][]SymbolID
}

func (v *verifier) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if v.at != nil {
		text = v.k.Text(v.at) + ": " + text
	} else if v.where != "" {
		text = v.where + ": " + text
	}
	if !v.seen[text] {
		v.seen[text] = true
		v.problems = append(v.problems, text)
	}
}

// tables checks that every id that is reachable exists. All later checks rely
// on it.
func (v *verifier) tables() {
	k := v.k
	v.where = "launch"
	v.idExprs(append(append(k.Launch.Grid[:], k.Launch.Block[:]...), k.Launch.Shared)...)
	for i := range k.Buffers {
		b := &k.Buffers[i]
		v.where = "buffer " + b.Name
		v.idExprs(append(append([]scalar.ID{b.Size}, b.Shape...), b.Stride...)...)
		if b.Space == Shared {
			v.idExprs(b.Offset)
		}
	}
	for i, s := range k.Symbols {
		v.where = "symbol " + s.Name
		if v.idExprs(s.Expr); len(v.problems) > 0 {
			return
		}
		own := k.Scalars.Op(s.Expr) == scalar.Symbol && k.Scalars.Tag(s.Expr) == scalar.Tag{Val: uint32(i), Dim: -1}
		if s.Kind != HoistedIndex && !own {
			v.problem("its expression is that of another symbol")
		}
		if s.Dim < 0 || s.Dim > 2 {
			v.problem("dimension %d is not 0, 1 or 2", s.Dim)
		}
	}
	v.where = "table"
	for id := range scalar.ID(k.Scalars.Len()) {
		if k.Scalars.Op(id) == scalar.Symbol && int(k.Scalars.Tag(id).Val) >= len(k.Symbols) {
			v.problem("symbol %d does not exist", k.Scalars.Tag(id).Val)
		}
	}
	for _, a := range k.Arguments {
		v.where = "argument " + a.Name
		if a.Kind == Pointer {
			v.idBuffer(a.Buffer)
		} else if a.Kind == IndexScalar {
			v.idSymbol(a.Symbol)
		} else if a.Kind == Divisor {
			v.idExprs(a.Expr)
		}
	}
	for i := range k.Values {
		v.where = "value " + strconv.Itoa(i)
		v.idValue(ValueID(i), &k.Values[i])
	}
	v.idBlock(k.Body)
	v.where, v.at = "", nil
}

func (v *verifier) idExprs(ids ...scalar.ID) {
	for _, id := range ids {
		if int(id) >= v.k.Scalars.Len() {
			v.problem("expression %d does not exist", id)
		}
	}
}

func (v *verifier) idBuffer(id BufferID) {
	if int(id) >= len(v.k.Buffers) {
		v.problem("buffer %d does not exist", id)
	}
}

func (v *verifier) idSymbol(id SymbolID) {
	if int(id) >= len(v.k.Symbols) {
		v.problem("symbol %d does not exist", id)
	}
}

func (v *verifier) idAccess(a *Access) {
	v.idBuffer(a.Buffer)
	v.idExprs(append([]scalar.ID{a.Index}, a.Coords...)...)
}

func (v *verifier) idOperands(below ValueID, ids ...ValueID) {
	for _, id := range ids {
		if id >= below {
			v.problem("value %d does not exist below it", id)
		}
	}
}

func (v *verifier) idValue(id ValueID, x *Value) {
	v.idOperands(id, x.Args...)
	operands := -1
	switch x.Kind {
	case HostScalar:
		if x.Int < 0 || int(x.Int) >= len(v.k.Arguments) {
			v.problem("argument %d does not exist", x.Int)
		}
	case IndexValue:
		v.idExprs(x.Index)
	case Load:
		v.idAccess(&x.Access)
	case Operation:
		if x.Op == nil {
			v.problem("it has no op")
		}
	case Shuffle:
		if operands = 1; x.Mode == ShuffleAt {
			v.idExprs(x.Index)
		}
	case Random:
		operands = 2
		v.idExprs(x.Index)
		if x.Op == nil {
			v.problem("it has no op")
		}
		if x.Stream < 0 {
			v.idOperands(id, x.Seed, x.Offset)
		}
	}
	if operands >= 0 && len(x.Args) != operands {
		v.problem("it has %d operands and needs %d", len(x.Args), operands)
	}
}

func (v *verifier) idBlock(block Block) {
	for _, s := range block {
		v.at = s
		value := func(id ValueID) { v.idOperands(ValueID(len(v.k.Values)), id) }
		switch s := s.(type) {
		case Declare:
			v.idBuffer(s.Buffer)
		case Opaque:
			v.idBuffer(s.Buffer)
		case UnderWay:
			v.idBuffer(s.Buffer)
		case Assign:
			v.idAccess(&s.Dst)
			value(s.Value)
		case Send:
			v.idAccess(&s.Dst)
			v.idExprs(s.Rank)
			value(s.Value)
			if s.Counted {
				v.idBuffer(s.Arrivals)
			}
		case Expect:
			v.idBuffer(s.Arrivals)
		case Arrived:
			v.idBuffer(s.Arrivals)
		case Move:
			v.idAccess(&s.Dst)
			v.idAccess(&s.Src)
			if s.Cache == CacheEvictLastIf {
				v.idExprs(s.Last)
			}
			if s.Guarded {
				v.idExprs(s.Guard)
			}
		case AsyncCopy:
			v.idAccess(&s.Dst)
			v.idAccess(&s.Src)
			if s.Guard != scalar.None {
				v.idExprs(s.Guard)
			}
			if s.Cache == CacheEvictLastIf {
				v.idExprs(s.Last)
			}
		case Barrier:
			if s.Scope == GridScope {
				v.idAccess(&s.Semaphore)
			}
		case AtomicAdd:
			v.idAccess(&s.Dst)
			value(s.Value)
			if s.Old != NoSymbol {
				v.idSymbol(s.Old)
			}
		case Let:
			v.idSymbol(s.Symbol)
			value(s.Value)
		case Hoist:
			v.idSymbol(s.Symbol)
			v.idExprs(s.Expr)
		case *For:
			v.idSymbol(s.Symbol)
			v.idExprs(s.Start, s.Stop, s.Step)
			v.idBlock(s.Body)
		case *If:
			v.idExprs(s.Cond)
			v.idBlock(s.Then)
			v.idBlock(s.Else)
		}
	}
}

// kernel checks arguments, buffers and the launch.
func (v *verifier) kernel() {
	k := v.k
	pointers := make([]int, len(k.Buffers))
	for _, a := range k.Arguments {
		switch a.Kind {
		case Pointer:
			pointers[a.Buffer]++
			if k.Buffers[a.Buffer].Space != Global {
				v.problem("argument %s: buffer %s is not Global", a.Name, k.Buffers[a.Buffer].Name)
			}
		case IndexScalar:
			if k.Symbols[a.Symbol].Kind != Parameter {
				v.problem("argument %s: symbol %s is no Parameter", a.Name, k.Symbols[a.Symbol].Name)
			}
			v.bound[a.Symbol]++
		case Divisor:
			if k.Index != dtype.Int32 || k.Scalars.Facts(a.Expr).Lo < 0 {
				v.problem("argument %s: %s is not divided by in 32 bits, or may be negative", a.Name, k.Expr(a.Expr))
			}
			k.Scalars.Symbols(a.Expr, func(s scalar.ID) {
				if k.Symbols[k.Scalars.Tag(s).Val].Kind != Parameter {
					v.problem("argument %s: %s is not known on the host", a.Name, k.Expr(a.Expr))
				}
			})
		}
	}
	positions := map[indexSymbol]bool{}
	for i, s := range k.Symbols {
		switch s.Kind {
		case Parameter:
			if v.bound[i] != 1 {
				v.problem("symbol %s: %d arguments give its value", s.Name, v.bound[i])
			}
			v.scope[i] = true
		case ThreadIdx, BlockIdx, ClusterIdx:
			if positions[indexSymbol{s.Kind, s.Dim}] {
				v.problem("symbol %s: there is another symbol of the same index", s.Name)
			}
			positions[indexSymbol{s.Kind, s.Dim}] = true
		}
	}
	if k.Index != dtype.Int32 && k.Index != dtype.Int {
		v.problem("the index type is %v, not Int32 or Int", k.Index)
	}
	v.index(append(append(k.Launch.Grid[:], k.Launch.Block[:]...), k.Launch.Shared)...)
	for i := range k.Buffers {
		v.where = "buffer " + k.Buffers[i].Name
		v.buffer(&k.Buffers[i])
		if k.Buffers[i].Space == Global {
			v.live[i] = true
			if pointers[i] != 1 {
				v.problem("%d arguments point to it", pointers[i])
			}
		}
	}
	v.where = ""
	for i, s := range k.Symbols { // after what the host evaluates
		if s.Kind == ThreadIdx || s.Kind == BlockIdx || s.Kind == ClusterIdx {
			v.scope[i] = true
		}
	}
}

func (v *verifier) buffer(b *Buffer) {
	v.index(append(append([]scalar.ID{b.Size}, b.Shape...), b.Stride...)...)
	for _, id := range append([]scalar.ID{b.Size}, b.Shape...) {
		if v.t.Facts(id).Hi < 0 {
			v.problem("the size %s is negative", v.k.Expr(id))
		}
	}
	if len(b.Stride) != len(b.Shape) {
		v.problem("%d strides for %d axes", len(b.Stride), len(b.Shape))
	}
	if b.DType.Size() == 0 {
		v.problem("%v has no elements in memory", b.DType)
		return
	}
	if b.Align < b.DType.Size() && b.Align < 16 || b.Align <= 0 || b.Align&(b.Align-1) != 0 {
		v.problem("alignment %d is not a power of two of at least an element", b.Align)
		return
	}
	if (b.ReadOnly || b.Zeroed) && b.Space != Global {
		v.problem("only a Global buffer may be ReadOnly or Zeroed")
	}
	if b.Registers && b.Space != Local {
		v.problem("only a Local buffer may be in registers")
	}
	switch b.Space {
	case Local:
		for _, id := range append([]scalar.ID{b.Size}, b.Shape...) {
			if _, ok := v.t.ConstInt(id); !ok {
				v.problem("a Local buffer has the size %s, which is not constant", v.k.Expr(id))
			}
		}
	case Shared:
		v.index(b.Offset)
		if !v.multiple(b.Offset, b.Align) {
			v.problem("offset %s may not be a multiple of %d", v.k.Expr(b.Offset), b.Align)
		}
		end := v.t.Add(b.Offset, v.t.Mul(b.Size, v.t.Int(int64(b.DType.Size()))))
		if beyond, ok := v.t.ConstInt(v.t.Lt(v.k.Launch.Shared, end)); ok && beyond != 0 {
			v.problem("it ends beyond the block's memory of %s bytes", v.k.Expr(v.k.Launch.Shared))
		}
	}
}

// multiple reports whether the facts show id to be a multiple of n.
func (v *verifier) multiple(id scalar.ID, n int) bool {
	return v.t.Divides(v.t.Int(int64(n)), id)
}

// index checks that expressions are of type Index and read bound symbols.
func (v *verifier) index(ids ...scalar.ID) {
	for _, id := range ids {
		if t := v.t.Type(id); t != dtype.Index {
			v.problem("%s is a %v, not an Index", v.k.Expr(id), t)
		}
		v.reads(id)
	}
}

// condition checks a Bool expression.
func (v *verifier) condition(id scalar.ID) {
	if t := v.t.Type(id); t != dtype.Bool {
		v.problem("%s is a %v, not a Bool", v.k.Expr(id), t)
	}
	v.reads(id)
}

// cache checks the condition of a policy.
func (v *verifier) cache(hint CacheHint, last scalar.ID) {
	if hint == CacheEvictLastIf {
		v.condition(last)
	}
}

// reads checks that the symbols of an expression are bound.
func (v *verifier) reads(id scalar.ID) {
	for _, s := range v.symbolsOf(id) {
		if !v.scope[s] {
			v.problem("%s is not bound here", v.k.Symbols[s].Name)
		}
	}
}

func (v *verifier) symbolsOf(id scalar.ID) []SymbolID {
	if v.symbols == nil {
		v.symbols = map[scalar.ID][]SymbolID{}
	}
	found, ok := v.symbols[id]
	if !ok {
		v.t.Symbols(id, func(s scalar.ID) { found = append(found, SymbolID(v.t.Tag(s).Val)) })
		v.symbols[id] = found
	}
	return found
}

func (v *verifier) leftovers() {
	v.at = nil
	for i, n := range v.declared {
		if b := &v.k.Buffers[i]; n > 1 || n == 1 && b.Space == Global {
			v.problem("buffer %s: it is declared %d times", b.Name, n)
		}
	}
	for i, n := range v.bound {
		if s := &v.k.Symbols[i]; n > 1 && s.Kind != Parameter {
			v.problem("symbol %s: it is bound %d times", s.Name, n)
		}
	}
}

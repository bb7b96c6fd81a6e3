package kir

import (
	"fmt"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A Builder makes a [Kernel] statement by statement. Statements go to the
// innermost block that is open; [Builder.For] and [Builder.If] open one.
//
// It panics where an operation is applied to elements of wrong types, and
// leaves everything else to [Kernel.Verify].
type Builder struct {
	// T is the kernel's table, for index arithmetic.
	T *scalar.Table

	kernel *Kernel
	blocks []*Block
	index  map[indexSymbol]scalar.ID
}

// An indexSymbol is a thread or block index: there is one symbol of each.
type indexSymbol struct {
	kind SymbolKind
	dim  int
}

// NewBuilder returns a builder of a kernel with one block of one thread, whose
// index arithmetic is in Int32 or Int.
func NewBuilder(name string, index dtype.Type) *Builder {
	t := scalar.NewTable()
	one := t.Int(1)
	k := &Kernel{Name: name, Index: index, Scalars: t, Launch: Launch{
		Grid: [3]scalar.ID{one, one, one}, Block: [3]scalar.ID{one, one, one}, Cluster: [3]int64{1, 1, 1}, Shared: t.Int(0)}}
	return &Builder{T: t, kernel: k, blocks: []*Block{&k.Body}, index: map[indexSymbol]scalar.ID{}}
}

// Kernel returns the kernel.
func (b *Builder) Kernel() *Kernel { return b.kernel }

// Symbol adds a symbol and returns its expression.
func (b *Builder) Symbol(name string, kind SymbolKind, dim int, t dtype.Type, facts scalar.Facts) scalar.ID {
	k := b.kernel
	id := b.T.Symbol(t, scalar.Tag{Val: uint32(len(k.Symbols)), Dim: -1}, facts)
	k.Symbols = append(k.Symbols, Symbol{Name: name, Kind: kind, Dim: dim, Expr: id})
	return id
}

// Integer adds an argument that is an integer.
func (b *Builder) Integer(name string, facts scalar.Facts) scalar.ID {
	id := b.Symbol(name, Parameter, 0, dtype.Index, facts)
	b.kernel.Arguments = append(b.kernel.Arguments, Argument{Name: name, Kind: IndexScalar, Symbol: SymbolID(b.T.Tag(id).Val)})
	return id
}

// Divisor adds an argument by which divisions by e, of integer arguments, are
// done.
func (b *Builder) Divisor(name string, e scalar.ID) {
	b.kernel.Arguments = append(b.kernel.Arguments, Argument{Name: name, Kind: Divisor, Expr: e})
}

// Thread sets the number of threads of a block along dim and returns the index
// of the thread.
func (b *Builder) Thread(dim int, extent int64) scalar.ID {
	b.kernel.Launch.Block[dim] = b.T.Int(extent)
	return b.position(ThreadIdx, dim, extent-1)
}

// BlockIndex sets the number of blocks along dim and returns the index of the
// block.
func (b *Builder) BlockIndex(dim int, extent scalar.ID) scalar.ID {
	b.kernel.Launch.Grid[dim] = extent
	most := b.T.Facts(extent).Hi
	if most < 1<<62 {
		most--
	}
	return b.position(BlockIdx, dim, most)
}

func (b *Builder) position(kind SymbolKind, dim int, most int64) scalar.ID {
	s := indexSymbol{kind, dim}
	if id, ok := b.index[s]; ok {
		return id
	}
	prefix := map[SymbolKind]string{ThreadIdx: "t", BlockIdx: "b", ClusterIdx: "c"}[kind]
	b.index[s] = b.Symbol(prefix+"xyz"[dim:dim+1], kind, dim, dtype.Index, scalar.Range(0, max(most, 0)))
	return b.index[s]
}

// Buffer adds a buffer with the given shape in row-major order. Its size is
// that of the shape, its alignment that of an element.
func (b *Builder) Buffer(name string, space Space, t dtype.Type, shape ...scalar.ID) BufferID {
	stride, size := make([]scalar.ID, len(shape)), b.T.Int(1)
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = size
		size = b.T.Mul(size, shape[i])
	}
	b.kernel.Buffers = append(b.kernel.Buffers, Buffer{Name: name, Space: space, DType: t,
		Shape: shape, Stride: stride, Size: size, Align: t.Size(), Offset: scalar.None})
	return BufferID(len(b.kernel.Buffers) - 1)
}

// Global adds a buffer in device memory, and an argument that points to it.
func (b *Builder) Global(name string, t dtype.Type, shape ...scalar.ID) BufferID {
	id := b.Buffer(name, Global, t, shape...)
	b.kernel.Arguments = append(b.kernel.Arguments, Argument{Name: name, Kind: Pointer, Buffer: id, Host: HostValue{Tensor: core.NoVal}})
	return id
}

// Input adds a Global buffer that is only read.
func (b *Builder) Input(name string, t dtype.Type, shape ...scalar.ID) BufferID {
	id := b.Global(name, t, shape...)
	b.kernel.Buffers[id].ReadOnly = true
	return id
}

// Shared declares a buffer of constant size in the block's memory. offset, in
// bytes, is from the start of the memory, which grows to hold the buffer.
func (b *Builder) Shared(name string, t dtype.Type, offset int64, shape ...scalar.ID) BufferID {
	id := b.Buffer(name, Shared, t, shape...)
	buffer := &b.kernel.Buffers[id]
	buffer.Offset, buffer.Align = b.T.Int(offset), 16
	end := b.T.Add(buffer.Offset, b.T.Mul(buffer.Size, b.T.Int(int64(t.Size()))))
	b.kernel.Launch.Shared = b.T.Max(b.kernel.Launch.Shared, end)
	b.Add(Declare{id})
	return id
}

// Local declares a buffer in registers.
func (b *Builder) Local(name string, t dtype.Type, shape ...int64) BufferID {
	ids := make([]scalar.ID, len(shape))
	for i, n := range shape {
		ids[i] = b.T.Int(n)
	}
	id := b.Buffer(name, Local, t, ids...)
	b.kernel.Buffers[id].Align = 16
	b.Add(Declare{id})
	return id
}

// Add appends a statement to the open block.
func (b *Builder) Add(s Statement) {
	open := b.blocks[len(b.blocks)-1]
	*open = append(*open, s)
}

func (b *Builder) inside(block *Block, body func()) {
	b.blocks = append(b.blocks, block)
	body()
	b.blocks = b.blocks[:len(b.blocks)-1]
}

// For adds a loop over [start, stop) and fills it by body, which is given the
// loop index.
func (b *Builder) For(name string, start, stop, step scalar.ID, unroll UnrollMode, body func(i scalar.ID)) {
	lo, hi := b.T.Facts(start).Lo, b.T.Facts(stop).Hi
	if hi < 1<<62 {
		hi--
	}
	facts := scalar.Range(lo, max(lo, hi))
	i := b.Symbol(name, LoopIndex, 0, dtype.Index, facts)
	loop := &For{Symbol: SymbolID(b.T.Tag(i).Val), Start: start, Stop: stop, Step: step, Unroll: unroll}
	b.Add(loop)
	b.inside(&loop.Body, func() { body(i) })
}

// Repeat adds a loop over [0, n).
func (b *Builder) Repeat(name string, n int64, unroll UnrollMode, body func(i scalar.ID)) {
	b.For(name, b.T.Int(0), b.T.Int(n), b.T.Int(1), unroll, body)
}

// If adds a condition, fills its sides and returns it. A nil side is empty.
func (b *Builder) If(cond scalar.ID, then, otherwise func()) *If {
	s := &If{Cond: cond}
	b.Add(s)
	b.inside(&s.Then, then)
	if otherwise != nil {
		b.inside(&s.Else, otherwise)
	}
	return s
}

// At returns the access to the element of a buffer at the given coordinates.
func (b *Builder) At(id BufferID, coords ...scalar.ID) Access { return b.Vector(1, id, coords...) }

// Vector returns the access to width elements from the given coordinates on.
func (b *Builder) Vector(width int, id BufferID, coords ...scalar.ID) Access {
	return Access{Buffer: id, Coords: coords, Index: linear(b.T, coords, b.kernel.Buffers[id].Stride), Width: width}
}

// linear returns the sum of coords[i]*stride[i].
func linear(t *scalar.Table, coords, stride []scalar.ID) scalar.ID {
	sum := t.Int(0)
	for i, c := range coords {
		sum = t.Add(sum, t.Mul(c, stride[i]))
	}
	return sum
}

// Value adds a value.
func (b *Builder) Value(v Value) ValueID {
	b.kernel.Values = append(b.kernel.Values, v)
	return ValueID(len(b.kernel.Values) - 1)
}

// Const adds a constant.
func (b *Builder) Const(v scalar.Value) ValueID {
	return b.Value(Value{Kind: Constant, DType: v.Type, Const: v})
}

// Float adds a constant of a floating type.
func (b *Builder) Float(t dtype.Type, x float64) ValueID {
	return b.Const(scalar.Value{Type: t, Re: dtype.Round(t, x)})
}

// Number adds a constant of an integer type or Bool.
func (b *Builder) Number(t dtype.Type, n int64) ValueID {
	if t == dtype.Float {
		return b.Float(t, float64(n))
	}
	return b.Const(scalar.Value{Type: t, I: n})
}

// Scalar adds an argument that is a number used in arithmetic.
func (b *Builder) Scalar(name string, t dtype.Type) ValueID {
	b.kernel.Arguments = append(b.kernel.Arguments, Argument{Name: name, Kind: ValueScalar, DType: t})
	return b.Value(Value{Kind: HostScalar, DType: t, Int: int64(len(b.kernel.Arguments) - 1)})
}

// Index adds an index expression as an element of type t.
func (b *Builder) Index(t dtype.Type, e scalar.ID) ValueID {
	return b.Value(Value{Kind: IndexValue, DType: t, Index: e})
}

// Load adds an element of a buffer.
func (b *Builder) Load(id BufferID, coords ...scalar.ID) ValueID {
	return b.Value(Value{Kind: Load, DType: b.kernel.Buffers[id].DType, Access: b.At(id, coords...)})
}

// Op adds an elementwise operation on values of its compute type.
func (b *Builder) Op(op *core.OpInfo, args ...ValueID) ValueID {
	types := make([]dtype.Type, len(args))
	for i, a := range args {
		types[i] = b.kernel.Values[a].DType
	}
	t, err := op.ElementType(types...)
	if err != nil {
		panic(fmt.Sprintf("kir: %v", err))
	}
	return b.Value(Value{Kind: Operation, DType: t, Op: op, Args: args})
}

// Approximately adds an op of which the approximation of its row will do.
func (b *Builder) Approximately(op *core.OpInfo, args ...ValueID) ValueID {
	v := b.Op(op, args...)
	b.kernel.Values[v].Approximate = true
	return v
}

// Cast adds a value converted to t, or returns it if it has that type.
func (b *Builder) Cast(t dtype.Type, v ValueID) ValueID {
	if b.kernel.Values[v].DType == t {
		return v
	}
	return b.Value(Value{Kind: Operation, DType: t, Op: core.CastOp, Args: []ValueID{v}})
}

// Shuffle adds the value that another lane of the group of width lanes holds:
// see [ShuffleMode] for which.
func (b *Builder) Shuffle(mode ShuffleMode, v ValueID, lane int64, width int) ValueID {
	return b.Value(Value{Kind: Shuffle, DType: b.kernel.Values[v].DType, Args: []ValueID{v}, Mode: mode, Int: lane, Width: width})
}

// WarpMaximum adds the largest of what the lanes of the warp hold.
func (b *Builder) WarpMaximum(v ValueID) ValueID {
	return b.Value(Value{Kind: Shuffle, DType: b.kernel.Values[v].DType, Args: []ValueID{v}, Mode: WarpMaximum, Width: 32})
}

// ShuffleAt adds the value that lane number at of the group of width lanes holds.
func (b *Builder) ShuffleAt(v ValueID, at scalar.ID, width int) ValueID {
	return b.Value(Value{Kind: Shuffle, DType: b.kernel.Values[v].DType, Args: []ValueID{v}, Mode: ShuffleAt, Index: at, Width: width})
}

// Order adds the integer by which an element is compared.
func (b *Builder) Order(v ValueID) ValueID {
	t, _ := OrderType(b.kernel.Values[v].DType)
	return b.Value(Value{Kind: Order, DType: t, Args: []ValueID{v}})
}

// Store adds the assignment of a value to an element.
func (b *Builder) Store(v ValueID, id BufferID, coords ...scalar.ID) {
	b.Add(Assign{Dst: b.At(id, coords...), Value: v})
}

// Let binds a new symbol to an integer or Bool value.
func (b *Builder) Let(name string, v ValueID, facts scalar.Facts) scalar.ID {
	t := dtype.Index
	if b.kernel.Values[v].DType.IsBool() {
		t = dtype.Bool
	}
	id := b.Symbol(name, LetIndex, 0, t, facts)
	b.Add(Let{Symbol: SymbolID(b.T.Tag(id).Val), Value: v})
	return id
}

// AtomicAdd adds v to an integer element and returns what it held.
func (b *Builder) AtomicAdd(name string, v ValueID, dst Access) scalar.ID {
	id := b.Symbol(name, LetIndex, 0, dtype.Index, scalar.Unknown())
	b.Add(AtomicAdd{Dst: dst, Value: v, Old: SymbolID(b.T.Tag(id).Val)})
	return id
}

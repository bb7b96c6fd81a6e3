package kir

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A sample is a kernel with a statement of every type.
type sample struct {
	*Builder
	n, tx, bx                       scalar.ID
	alpha                           ValueID
	x, y, counter, word, tile, r, s BufferID
}

func newSample() *sample {
	b := &sample{Builder: NewBuilder("sample", dtype.Int32)}
	b.kernel.Launch.Cooperative = true
	b.n = b.Integer("n", scalar.Facts{Lo: 0, Hi: 1 << 20, Divisor: 4})
	b.alpha = b.Scalar("alpha", dtype.Float)
	b.x, b.y = b.Input("x", dtype.Float, b.n), b.Global("y", dtype.Float, b.n)
	b.kernel.Buffers[b.x].Align, b.kernel.Buffers[b.y].Align = 16, 16
	b.counter, b.word = b.Global("counter", dtype.Int32, b.T.Int(1)), b.Global("word", dtype.Int, b.T.Int(1))
	b.kernel.Buffers[b.counter].Zeroed, b.kernel.Buffers[b.word].Zeroed = true, true
	b.tx, b.bx = b.Thread(0, 128), b.BlockIndex(0, b.T.CeilDiv(b.n, b.T.Int(512)))
	zero := b.T.Int(0)
	i := b.T.Add(b.T.Mul(b.bx, b.T.Int(512)), b.T.Mul(b.tx, b.T.Int(4)))
	b.tile = b.Shared("tile", dtype.Float, 0, b.T.Int(512))
	b.r = b.Local("r", dtype.Float, 4)
	b.kernel.Buffers[b.r].Registers = true
	b.s = b.Local("s", dtype.Float)
	inside := b.T.Lt(i, b.n)
	b.Add(AsyncCopy{Dst: b.Vector(4, b.tile, b.T.Mul(b.tx, b.T.Int(4))), Src: b.Vector(4, b.x, i), Guard: inside})
	b.Add(AsyncCommit{})
	b.Add(AsyncWait{})
	b.Add(Barrier{Scope: BlockScope})
	b.Add(Move{Dst: b.Vector(4, b.r, zero), Src: b.Vector(4, b.tile, b.T.Mul(b.T.Sub(b.T.Int(127), b.tx), b.T.Int(4)))})
	b.Store(b.Float(dtype.Float, 0), b.s)
	b.Repeat("e", 4, UnrollFull, func(e scalar.ID) {
		b.Store(b.Op(core.MulOp, b.alpha, b.Load(b.r, e)), b.r, e)
		b.Store(b.Op(core.AddOp, b.Load(b.s), b.Load(b.r, e)), b.s)
	})
	v := b.Load(b.s)
	b.Store(b.Op(core.AddOp, v, b.Shuffle(ShuffleXor, v, 1, 32)), b.s)
	b.If(b.T.Eq(b.tx, zero), func() {
		b.Add(Fence{Scope: GridScope})
		old := b.AtomicAdd("old", b.Number(dtype.Int32, 1), b.At(b.counter, zero))
		b.If(b.T.Eq(old, b.T.Int(3)), func() { b.Store(b.Number(dtype.Int32, 0), b.counter, zero) }, nil)
	}, nil)
	b.Add(Barrier{Scope: GridScope, Semaphore: b.At(b.word, zero)})
	b.kernel.Symbols = append(b.kernel.Symbols, Symbol{Name: "h", Kind: HoistedIndex, Expr: i})
	b.Add(Hoist{Symbol: SymbolID(len(b.kernel.Symbols) - 1), Expr: i})
	k := b.Let("k", b.Index(dtype.Int, i), scalar.Unknown())
	b.If(b.T.Lt(k, b.n), func() {
		b.Add(Move{Dst: b.Vector(4, b.y, i), Src: b.Vector(4, b.r, zero), Cache: CacheStreaming})
	}, nil)
	return b
}

// change edits the first statement of a type that satisfies f.
func change[S Statement](b *sample, f func(s *S) bool) {
	var walk func(list Block) bool
	walk = func(list Block) bool {
		for i := range list {
			if s, ok := list[i].(S); ok && f(&s) {
				list[i] = s
				return true
			}
			switch s := list[i].(type) {
			case *For:
				if walk(s.Body) {
					return true
				}
			case *If:
				if walk(s.Then) || walk(s.Else) {
					return true
				}
			}
		}
		return false
	}
	if !walk(b.kernel.Body) {
		panic("there is no such statement")
	}
}

func first[S Statement](f func(s *S)) func(s *S) bool {
	return func(s *S) bool { f(s); return true }
}

func problems(k *Kernel) []string {
	err := k.Verify()
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n  ")[1:]
}

func TestVerifyAccepts(t *testing.T) {
	b := newSample()
	size, text := b.T.Len(), b.kernel.String()
	require.NoError(t, b.kernel.Verify())
	require.NoError(t, b.kernel.CheckLimits(Hopper))
	require.Equal(t, size, b.T.Len(), "Verify changes nothing")
	require.Equal(t, text, b.kernel.String())
}

// TestVerify breaks one rule at a time.
func TestVerify(t *testing.T) {
	none := BufferID(99)
	for _, test := range []struct {
		name    string
		change  func(b *sample)
		problem string
	}{
		{"buffer id", func(b *sample) { change(b, first(func(s *Declare) { s.Buffer = none })) }, "buffer 99 does not exist"},
		{"value id", func(b *sample) { change(b, first(func(s *Assign) { s.Value = 999 })) }, "value 999 does not exist"},
		{"value above", func(b *sample) {
			for i := range b.kernel.Values {
				if v := &b.kernel.Values[i]; v.Kind == Operation {
					v.Args = []ValueID{v.Args[0], ValueID(i)}
					return
				}
			}
		}, "does not exist below it"},
		{"symbol id", func(b *sample) { change(b, first(func(s *Let) { s.Symbol = 99 })) }, "symbol 99 does not exist"},
		{"expression id", func(b *sample) { change(b, first(func(s **If) { (*s).Cond = 1 << 20 })) }, "expression 1048576 does not exist"},
		{"expression of a symbol", func(b *sample) { b.kernel.Symbols[0].Expr = b.tx }, "its expression is that of another symbol"},
		{"argument id", func(b *sample) { b.kernel.Values[b.alpha].Int = 50 }, "argument 50 does not exist"},
		{"op", func(b *sample) {
			b.Store(b.Value(Value{Kind: Operation, DType: dtype.Float}), b.s)
		}, "it has no op"},

		{"random op", func(b *sample) {
			two := b.Float(dtype.Double, 2)
			b.Store(b.Value(Value{Kind: Random, DType: dtype.Float, Args: []ValueID{two, two}}), b.s)
		}, "it has no op"},
		{"operands", func(b *sample) {
			b.Store(b.Value(Value{Kind: Shuffle, DType: dtype.Float, Width: 32}), b.s)
		}, "it has 0 operands and needs 1"},
		{"symbol of an expression", func(b *sample) {
			b.T.Symbol(dtype.Index, scalar.Tag{Val: 77, Dim: -1}, scalar.Unknown())
		}, "symbol 77 does not exist"},
		{"statement", func(b *sample) { b.Add(nil) }, "<nil> is not a statement"},

		{"pointer to Shared", func(b *sample) { b.kernel.Arguments[2].Buffer = b.tile }, "argument x: buffer tile is not Global\nbuffer x: 0 arguments"},
		{"argument for an index", func(b *sample) {
			b.kernel.Arguments = append(b.kernel.Arguments, Argument{Name: "z", Kind: IndexScalar, Symbol: b.symbol("bx")})
		}, "argument z: symbol bx is no Parameter"},
		{"no argument for a parameter", func(b *sample) { b.kernel.Arguments[0].Kind = RandomSeed }, "symbol n: 0 arguments give its value"},
		{"loop index after the loop", func(b *sample) {
			e := b.kernel.Symbols[b.symbol("e")].Expr
			b.Store(b.Index(dtype.Float, e), b.s)
		}, "e is not bound here"},
		{"thread index in a shape", func(b *sample) {
			b.kernel.Launch.Shared = b.T.Add(b.kernel.Launch.Shared, b.tx)
		}, "tx is not bound here"},
		{"symbol bound twice", func(b *sample) {
			b.Add(Let{Symbol: b.symbol("k"), Value: b.Number(dtype.Int, 3)})
		}, "symbol k: it is bound 2 times"},
		{"loop binds a Let", func(b *sample) {
			b.Add(&For{Symbol: b.symbol("old"), Start: b.T.Int(0), Stop: b.T.Int(1), Step: b.T.Int(1)})
			change(b, first(func(s *AtomicAdd) { s.Old = NoSymbol }))
			change(b, func(s **If) bool { (*s).Then = (*s).Then[:2]; return true })
		}, "old is not a symbol that it can bind"},
		{"hoist of something else", func(b *sample) { change(b, first(func(s *Hoist) { s.Expr = b.tx })) }, "h is not the name of the expression"},
		{"two symbols of one index", func(b *sample) { b.Symbol("again", BlockIdx, 0, dtype.Index, scalar.Unknown()) }, "there is another symbol of the same index"},
		{"dimension", func(b *sample) { b.kernel.Symbols[b.symbol("bx")].Dim = 3 }, "dimension 3 is not 0, 1 or 2"},

		{"opaque memory", func(b *sample) { b.Add(Opaque{b.s}) }, "s is not in registers here"},
		{"opaque before", func(b *sample) {
			change(b, first(func(s *Declare) { b.Add(Opaque{s.Buffer}) }))
		}, "is not in registers here"},
		{"declared twice", func(b *sample) { b.Add(Declare{b.s}) }, "buffer s: it is declared 2 times"},
		{"not declared", func(b *sample) {
			late := b.Buffer("late", Local, dtype.Float)
			b.Store(b.Float(dtype.Float, 0), late)
		}, "buffer late is not declared here"},
		{"used after its block", func(b *sample) {
			var inner BufferID
			b.If(b.T.Lt(b.bx, b.T.Int(1)), func() { inner = b.Local("inner", dtype.Float) }, nil)
			b.Store(b.Float(dtype.Float, 0), inner)
		}, "buffer inner is not declared here"},
		{"Global without argument", func(b *sample) { b.Buffer("lost", Global, dtype.Float) }, "buffer lost: 0 arguments point to it"},
		{"Global declared", func(b *sample) { b.Add(Declare{b.y}) }, "buffer y: it is declared 1 times"},

		{"strides", func(b *sample) {
			unused := b.Buffer("unused", Local, dtype.Float, b.T.Int(2), b.T.Int(2))
			b.kernel.Buffers[unused].Stride = b.kernel.Buffers[unused].Stride[:1]
		}, "buffer unused: 1 strides for 2 axes"},
		{"negative size", func(b *sample) { b.kernel.Buffers[b.Buffer("unused", Local, dtype.Float)].Size = b.T.Int(-1) }, "the size -1 is negative"},
		{"alignment", func(b *sample) { b.kernel.Buffers[b.counter].Align = 12 }, "alignment 12 is not a power of two"},
		{"Local of variable size", func(b *sample) { b.Buffer("unused", Local, dtype.Float, b.n) }, "a Local buffer has the size n, which is not constant"},
		{"Shared at an odd place", func(b *sample) {
			b.kernel.Buffers[b.tile].Offset, b.kernel.Launch.Shared = b.T.Int(4), b.T.Int(4096)
		}, "offset 4 may not be a multiple of 16"},
		{"Shared beyond the memory", func(b *sample) { b.kernel.Launch.Shared = b.T.Int(2000) }, "it ends beyond the block's memory of 2000 bytes"},
		{"ReadOnly Shared", func(b *sample) {
			b.kernel.Buffers[b.Buffer("unused", Local, dtype.Float)].ReadOnly = true
		}, "only a Global buffer may be ReadOnly or Zeroed"},
		{"Shared in registers", func(b *sample) { b.kernel.Buffers[b.tile].Registers = true }, "only a Local buffer may be in registers\ntile is in registers\ntile is in registers"},
		{"dtype without elements", func(b *sample) { b.Buffer("unused", Local, dtype.Null) }, "Null has no elements in memory"},

		{"coordinates", func(b *sample) {
			change(b, first(func(s *Assign) { s.Dst.Coords = []scalar.ID{b.tx} }))
		}, "1 coordinates for the 0 axes of s"},
		{"index", func(b *sample) {
			change(b, func(s *Assign) bool {
				if s.Dst.Buffer != b.counter {
					return false
				}
				s.Dst.Index = b.T.Int(1)
				return true
			})
		}, "the index of counter is 1, but its coordinates give 0"},
		{"index type", func(b *sample) {
			wide := b.T.Symbol(dtype.UInt64, scalar.Tag{Val: uint32(len(b.kernel.Symbols)), Dim: -1}, scalar.Unknown())
			b.kernel.Symbols = append(b.kernel.Symbols, Symbol{Name: "wide", Kind: Parameter, Expr: wide})
			b.kernel.Arguments = append(b.kernel.Arguments, Argument{Name: "wide", Kind: IndexScalar, Symbol: SymbolID(len(b.kernel.Symbols) - 1)})
			b.Store(b.Index(dtype.Float, wide), b.s)
		}, "wide is a UInt64, not an Index"},

		{"width of three", func(b *sample) {
			change(b, first(func(s *Move) { s.Dst.Width, s.Src.Width = 3, 3 }))
		}, "3 elements of tile cannot be accessed at once\n3 elements of r cannot"},
		{"width of 32 bytes", func(b *sample) {
			change(b, first(func(s *Move) { s.Dst.Width, s.Src.Width = 8, 8 }))
		}, "8 elements of tile cannot be accessed at once\n8 elements of r cannot"},
		{"assigned vector", func(b *sample) { change(b, first(func(s *Assign) { s.Dst.Width = 2 })) }, "2 elements of s cannot be accessed at once"},
		{"alignment of a buffer", func(b *sample) { b.kernel.Buffers[b.y].Align = 8 }, "the address of 4 elements of y may not be a multiple of 16 bytes"},
		{"alignment of an index", func(b *sample) {
			change(b, first(func(s *Move) {
				s.Src.Coords = []scalar.ID{b.T.Mul(b.tx, b.T.Int(2))}
				s.Src.Index = s.Src.Coords[0]
			}))
		}, "the address of 4 elements of tile may not be a multiple of 16 bytes"},

		{"an unaligned move of words", func(b *sample) {
			change(b, first(func(s *Move) { s.Unaligned = true }))
		}, "an unaligned move is of words from Global with elements of 1 or 2 bytes, without a guard or a hint for caches but evict last"},

		{"a move in steps from shared memory", func(b *sample) {
			change(b, first(func(s *Move) { s.Src.Step = 2 }))
		}, "a move in steps of 2 elements is from Global that nothing writes, of elements that are known to be in the first steps of vectors"},
		{"a move in steps from anywhere", func(b *sample) {
			at := b.Vector(2, b.x, b.tx)
			at.Step = 2
			b.Add(Move{Dst: b.Vector(2, b.r, b.T.Int(0)), Src: at})
		}, "the address of 2 elements of x may not be past a multiple of 16 bytes by as much as the first one is"},
		{"steps of what is stored", func(b *sample) {
			at := b.Vector(2, b.r, b.T.Int(0))
			at.Step = 2
			b.Add(Move{Dst: at, Src: b.Vector(2, b.x, b.T.Int(0))})
		}, "2 elements of r cannot be accessed at once"},

		{"registers by a thread index", func(b *sample) {
			b.Store(b.Load(b.r, b.T.Mod(b.tx, b.T.Int(4))), b.s)
		}, "r is in registers and indexed by tx, which is not unrolled"},
		{"unrolled loop of variable length", func(b *sample) {
			b.For("z", b.T.Int(0), b.n, b.T.Int(1), UnrollFull, func(scalar.ID) {})
		}, "the bound n of an unrolled loop is not constant"},
		{"backward loop", func(b *sample) { b.For("z", b.T.Int(0), b.n, b.T.Int(0), UnrollNone, func(scalar.ID) {}) }, "the step 0 may not be positive"},

		{"move from memory to memory", func(b *sample) {
			change(b, first(func(s *Move) { s.Dst = b.Vector(4, b.y, b.T.Mul(b.tx, b.T.Int(4))) }))
		}, "one side of a move must be Local"},
		{"move between types", func(b *sample) {
			other := b.Local("other", dtype.Int32, 4)
			b.Add(Move{Dst: b.Vector(4, other, b.T.Int(0)), Src: b.Vector(4, b.tile, b.T.Int(0))})
		}, "both sides must have one type and one width"},
		{"asynchronous copy of two bytes", func(b *sample) {
			from, to := b.Input("from", dtype.Half, b.n), b.Shared("to", dtype.Half, 2048, b.T.Int(128))
			b.Add(AsyncCopy{Dst: b.At(to, b.tx), Src: b.At(from, b.tx), Guard: scalar.None})
		}, "an asynchronous copy is of 4, 8 or 16 bytes, not 2"},
		{"asynchronous copy to Global", func(b *sample) {
			change(b, first(func(s *AsyncCopy) { s.Dst = b.Vector(4, b.y, b.T.Mul(b.tx, b.T.Int(4))) }))
		}, "an asynchronous copy is from Global to Shared"},
		{"streaming asynchronous copy", func(b *sample) {
			change(b, first(func(s *AsyncCopy) { s.Cache = CacheStreaming }))
		}, "an asynchronous copy is not a streaming one"},
		{"asynchronous copy evicted last if a number", func(b *sample) {
			change(b, first(func(s *AsyncCopy) { s.Cache, s.Last = CacheEvictLastIf, b.tx }))
		}, "tx is a Index, not a Bool"},
		{"wait for less than nothing", func(b *sample) { b.Add(AsyncWait{Pending: -1}) }, "-1 groups cannot be pending"},

		{"barrier under a condition", func(b *sample) {
			b.If(b.T.Eq(b.tx, b.T.Int(0)), func() { b.Add(Barrier{Scope: BlockScope}) }, nil)
		}, "some threads of the block may not reach the barrier"},
		{"barrier of groups where there are none", func(b *sample) { b.Add(Barrier{Scope: GroupScope}) },
			"the threads with the same index along z must be of whole warps, and of at most 15 groups"},
		{"barrier in the other side", func(b *sample) {
			b.If(b.T.Eq(b.tx, b.T.Int(0)), func() {}, func() { b.Add(Barrier{Scope: BlockScope}) })
		}, "some threads of the block may not reach the barrier"},
		{"barrier in a loop of varying length", func(b *sample) {
			b.For("z", b.T.Int(0), b.tx, b.T.Int(1), UnrollNone, func(scalar.ID) { b.Add(Barrier{Scope: BlockScope}) })
		}, "some threads of the block may not reach the barrier"},
		{"warp barrier within a warp", func(b *sample) {
			b.If(b.T.Lt(b.tx, b.T.Int(48)), func() { b.Add(Barrier{Scope: WarpScope}) }, nil)
		}, "some threads of the warp may not reach the barrier"},
		{"grid barrier without cooperation", func(b *sample) { b.kernel.Launch.Cooperative = false }, "a grid barrier needs a cooperative launch"},
		{"semaphore of 32 bits", func(b *sample) {
			change(b, func(s *Barrier) bool { s.Semaphore.Buffer = b.counter; return s.Scope == GridScope })
		}, "the semaphore must be a zeroed Global word of 64 bits"},
		{"several semaphores", func(b *sample) {
			change(b, func(s *Barrier) bool {
				s.Semaphore.Coords, s.Semaphore.Index = []scalar.ID{b.tx}, b.tx
				return s.Scope == GridScope
			})
		}, "the threads of a block may take several semaphores"},
		{"shuffle under a condition", func(b *sample) {
			b.If(b.T.Lt(b.tx, b.T.Int(33)), func() { b.Store(b.Shuffle(ShuffleXor, b.alpha, 1, 32), b.s) }, nil)
		}, "some lanes of a warp may not reach the shuffle"},
		{"shuffle by too much", func(b *sample) { b.Store(b.Shuffle(ShuffleXor, b.alpha, 8, 8), b.s) }, "a shuffle by 8 in groups of 8 lanes"},

		{"maximum of a warp under a condition", func(b *sample) {
			b.If(b.T.Lt(b.tx, b.T.Int(33)), func() { b.Store(b.WarpMaximum(b.alpha), b.s) }, nil)
		}, "some lanes of a warp may not reach the shuffle"},
		{"maximum of integers of a warp", func(b *sample) { b.Let("k", b.WarpMaximum(b.Number(dtype.Int32, 1)), scalar.Unknown()) }, "the maximum of 32 lanes of a Int32"},
		{"maximum of half a warp", func(b *sample) {
			b.Store(b.Value(Value{Kind: Shuffle, DType: dtype.Float, Args: []ValueID{b.alpha}, Mode: WarpMaximum, Width: 16}), b.s)
		}, "the maximum of 16 lanes of a Float"},

		{"sent in no cluster", func(b *sample) {
			b.Add(Send{Dst: b.At(b.tile, b.T.Int(0)), Rank: b.T.Int(0), Value: b.Float(dtype.Float, 1)})
		}, "a block sends to the Shared memory of another one of its cluster"},
		{"sent to registers", func(b *sample) {
			b.kernel.Launch.Cluster[0] = 2
			b.Add(Send{Dst: b.At(b.s), Rank: b.T.Int(0), Value: b.Float(dtype.Float, 1)})
		}, "a block sends to the Shared memory of another one of its cluster"},
		{"sent type", func(b *sample) {
			b.kernel.Launch.Cluster[0] = 2
			b.Add(Send{Dst: b.At(b.tile, b.T.Int(0)), Rank: b.T.Int(0), Value: b.Number(dtype.Int, 1)})
		}, "a Int is stored in a buffer of Float"},
		{"counted by no word", func(b *sample) {
			b.kernel.Launch.Cluster[0] = 2
			b.Add(Send{Dst: b.At(b.tile, b.T.Int(0)), Rank: b.T.Int(0), Value: b.Float(dtype.Float, 1), Counted: true, Arrivals: b.tile})
		}, "tile is no word of Shared memory"},
		{"expected too much", func(b *sample) {
			b.kernel.Launch.Cluster[0] = 2
			word := b.Shared("word", dtype.Int, 4096, b.T.Int(1))
			b.Add(Expect{Arrivals: word, Bytes: 1 << 20})
		}, "1048576 bytes cannot be expected"},
		{"stored type", func(b *sample) { b.Store(b.Number(dtype.Int, 1), b.s) }, "a Int is stored in a buffer of Float"},
		{"operand types", func(b *sample) {
			b.Store(b.Value(Value{Kind: Operation, DType: dtype.Float, Op: core.AddOp, Args: []ValueID{b.alpha, b.Number(dtype.Int, 1)}}), b.s)
		}, "add(): x is Float and must be Int"},
		{"result type", func(b *sample) {
			b.Store(b.Value(Value{Kind: Operation, DType: dtype.Float, Op: core.Lookup("lt"), Args: []ValueID{b.alpha, b.alpha}}), b.s)
		}, "is a Bool and declared as a Float"},
		{"an approximation that the row lacks", func(b *sample) {
			b.Store(b.Approximately(core.AddOp, b.alpha, b.alpha), b.s)
		}, "add of [Float Float] has no approximation"},
		{"an approximation in double", func(b *sample) {
			b.Let("z", b.Approximately(core.ExpOp, b.Float(dtype.Double, 1)), scalar.Unknown())
		}, "exp of [Double] has no approximation\na symbol cannot be a Double"},
		{"a type without arithmetic", func(b *sample) {
			b.Let("z", b.Value(Value{Kind: Constant, DType: dtype.Null}), scalar.Unknown())
		}, "is a Null, which no thread computes with\na symbol cannot be a Null"},
		{"condition", func(b *sample) { change(b, first(func(s **If) { (*s).Cond = b.tx })) }, "tx is a Index, not a Bool"},
		{"symbol of a float", func(b *sample) { b.Let("z", b.alpha, scalar.Unknown()) }, "a symbol cannot be a Float"},
		{"symbol of another type", func(b *sample) {
			change(b, first(func(s *Let) { s.Value = b.Number(dtype.Bool, 1) }))
		}, "k is a Index and is bound to a Bool"},
		{"atomic on registers", func(b *sample) {
			b.Add(AtomicAdd{Dst: b.At(b.s), Value: b.alpha, Old: NoSymbol})
		}, "an atomic on a Local buffer"},
		{"what an atomic on floats returns", func(b *sample) {
			total := b.Shared("total", dtype.Float, 2048, b.T.Int(1))
			b.AtomicAdd("before", b.alpha, b.At(total, b.T.Int(0)))
		}, "a symbol cannot be a Float"},
		{"number from a pointer", func(b *sample) { b.kernel.Values[b.alpha].Int = 2 }, "argument x is no number"},
		{"loaded vector", func(b *sample) {
			b.Store(b.Value(Value{Kind: Load, DType: dtype.Float, Access: b.Vector(2, b.tile, b.T.Int(0))}), b.s)
		}, "2 elements of tile cannot be accessed at once\nloads 2 elements"},
		{"random integers", func(b *sample) {
			two := b.Float(dtype.Double, 2)
			b.Let("z", b.Value(Value{Kind: Random, DType: dtype.Int, Op: core.UniformOp, Args: []ValueID{two, two}, Index: b.tx}), scalar.Unknown())
		}, "uniform() does not draw a Int"},
		{"seed", func(b *sample) {
			two := b.Float(dtype.Double, 2)
			b.Store(b.Value(Value{Kind: Random, DType: dtype.Float, Op: core.UniformOp, Args: []ValueID{two, two}, Index: b.tx, Stream: -1, Seed: two, Offset: two}), b.s)
		}, "seed and offset of uniform() must be integers"},
		{"random parameters", func(b *sample) {
			b.Store(b.Value(Value{Kind: Random, DType: dtype.Float, Op: core.UniformOp, Args: []ValueID{b.alpha, b.alpha}, Index: b.tx}), b.s)
		}, "a parameter of uniform() is a Float, not a Double"},
		{"atomic of another type", func(b *sample) {
			b.Add(AtomicAdd{Dst: b.At(b.counter, b.T.Int(0)), Value: b.alpha, Old: NoSymbol})
		}, "a Float is added to a buffer of Int32"},

		{"write to a ReadOnly buffer", func(b *sample) { b.Store(b.alpha, b.x, b.tx) }, "x is read-only"},
		{"index type of the kernel", func(b *sample) { b.kernel.Index = dtype.Float }, "the index type is Float, not Int32 or Int"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newSample()
			test.change(b)
			found := problems(b.kernel)
			want := strings.Split(test.problem, "\n")
			require.Len(t, found, len(want), "%v", found)
			for i := range want {
				require.Contains(t, found[i], want[i])
			}
		})
	}
}

func (b *sample) symbol(name string) SymbolID {
	for i, s := range b.kernel.Symbols {
		if s.Name == name {
			return SymbolID(i)
		}
	}
	panic(name)
}

// TestUniform: which barriers and shuffles the threads of a block are known to
// reach together.
func TestUniform(t *testing.T) {
	const thread, warp, block = threadGranule, warpGranule, blockGranule
	b := NewBuilder("uniform", dtype.Int32)
	n := b.Integer("n", scalar.Range(0, 100))
	tx, ty, bx := b.Thread(0, 64), b.Thread(1, 2), b.BlockIndex(0, n)
	linear := b.T.Add(tx, b.T.Mul(ty, b.T.Int(64)))
	flag, r := b.Shared("flag", dtype.Bool, 0, b.T.Int(64)), b.Local("r", dtype.Bool)
	shared := b.Let("shared", b.Load(flag, bx), scalar.Unknown())
	own := b.Let("own", b.Load(flag, tx), scalar.Unknown())
	local := b.Let("local", b.Load(r), scalar.Unknown())
	lane := b.Let("lane", b.Shuffle(ShuffleXor, b.Load(flag, bx), 1, 32), scalar.Unknown())
	var i, j scalar.ID
	b.For("i", bx, n, b.T.Int(1), UnrollNone, func(k scalar.ID) { i = k })
	b.For("j", tx, n, b.T.Int(64), UnrollNone, func(k scalar.ID) { j = k })
	require.NoError(t, b.kernel.Verify())
	v := verifier{k: b.kernel, t: b.T, seen: map[string]bool{}}
	v.uniform = newUniformity(b.kernel, b.T)
	v.scope, v.bound, v.unrolled = make([]bool, 20), make([]int, 20), make([]bool, 20)
	v.declared, v.live, v.checked, v.visited = make([]int, 5), make([]bool, 5), make([]bool, 20), make([]int, 20)
	v.block(b.kernel.Body, blockGranule)
	for _, test := range []struct {
		expr scalar.ID
		want granule
	}{
		{b.T.Int(3), block}, {n, block}, {bx, block}, {b.T.Lt(bx, n), block}, {shared, block}, {i, block},
		{tx, thread}, {b.T.Add(tx, bx), thread}, {own, thread}, {local, thread}, {lane, thread}, {j, thread},
		{ty, 64}, {b.T.Eq(ty, b.T.Int(1)), 64},
		{b.T.Lt(tx, b.T.Int(32)), warp}, {b.T.Le(b.T.Int(32), tx), warp}, {b.T.Lt(tx, b.T.Int(33)), thread}, {b.T.Lt(tx, n), thread},
		{b.T.FloorDiv(tx, b.T.Int(32)), warp}, {b.T.FloorDiv(tx, b.T.Int(8)), 8}, {b.T.FloorDiv(linear, b.T.Int(32)), warp},
		{b.T.Lt(linear, b.T.Int(96)), warp}, {b.T.And(b.T.Lt(tx, b.T.Int(32)), b.T.Lt(bx, n)), warp}, {b.T.Mod(tx, b.T.Int(32)), thread},
	} {
		require.Equal(t, test.want, v.uniform.expr(test.expr), "%s", b.kernel.Expr(test.expr))
	}
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		change  func(b *Builder)
		problem string
	}{
		{func(b *Builder) { b.Thread(0, 1025) }, "blockDim.x is 1025, and the device has at most 1024\nthe number of threads of a block is 1025"},
		{func(b *Builder) { b.Thread(0, 64); b.Thread(1, 32) }, "the number of threads of a block is 2048"},
		{func(b *Builder) { b.Thread(2, 65) }, "blockDim.z is 65, and the device has at most 64"},
		{func(b *Builder) { b.BlockIndex(1, b.T.Int(65536)) }, "gridDim.y is 65536, and the device has at most 65535"},
		{func(b *Builder) { b.Shared("s", dtype.Float, 0, b.T.Int(1<<16)) }, "the shared memory of a block is 262144"},
		{func(b *Builder) { b.Local("r", dtype.Float, 1<<17); b.Local("s", dtype.Float, 1) }, "the local memory of a thread is 524292"},
		{func(b *Builder) {
			b.kernel.Launch.Cluster = [3]int64{8, 4, 1}
			b.BlockIndex(0, b.T.Int(8))
			b.BlockIndex(1, b.T.Int(4))
		},
			"the number of blocks of a cluster is 32"},
		{func(b *Builder) { b.kernel.Launch.Cluster[0] = 2; b.BlockIndex(0, b.T.Int(3)) }, "gridDim.x is 3, not a multiple of the cluster's 2"},
		{func(b *Builder) { b.BlockIndex(0, b.Integer("n", scalar.Range(0, 1<<40))) }, ""},
	} {
		b := NewBuilder("limits", dtype.Int32)
		test.change(b)
		err := b.kernel.CheckLimits(Hopper)
		if test.problem == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, test.problem)
	}
}

// TestString is the text of a kernel with a statement of every type.
func TestString(t *testing.T) {
	require.Equal(t, strings.TrimLeft(`
kernel sample, index i32
grid ((n + 508) / 512, 1, 1), block (128, 1, 1), cluster [1 1 1], shared 2048, cooperative
integer n
scalar alpha f32
pointer x f32[n] align 16 readonly
pointer y f32[n] align 16
pointer counter i32[1] zeroed
pointer word i64[1] zeroed
  shared tile f32[512] at 0 align 16
  local r f32[4] align 16 registers
  local s f32[] align 16
  async tile[tx*4]:4 = x[tx*4 + bx*512]:4 if tx*4 + bx*512 < n else 0
  commit
  wait 0
  barrier block
  r[0]:4 = tile[-tx*4 + 508]:4
  s = 0
  for e in [0, 4) step 1 unrolled
    r[e] = mul(alpha, r[e])
    s = add(s, r[e])
  s = add(s, shuffleXor(s, 1, 32))
  if tx == 0
    fence grid
    old = atomic counter[0] += 1
    if old == 3
      counter[0] = 0
  barrier grid word[0]
  hoist h = tx*4 + bx*512
  let k = i64(tx*4 + bx*512)
  if k < n
    y[tx*4 + bx*512]:4 = r[0]:4 (streaming)
`, "\n"), newSample().kernel.String())
}

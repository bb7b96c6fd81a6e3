package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A breaker makes random changes to a launch.
type breaker struct {
	*rand.Rand
	l *launch
}

// index draws an expression of a type from the kernel's table.
func (r *breaker) expr(t dtype.Type) scalar.ID {
	table := r.l.k.Scalars
	for {
		if id := scalar.ID(r.IntN(table.Len())); table.Type(id) == t {
			return id
		} else if r.IntN(200) == 0 {
			return table.Value(scalar.Value{Type: t, I: int64(r.IntN(4))})
		}
	}
}

func (r *breaker) access(a kir.Access) kir.Access {
	switch r.IntN(4) {
	case 0:
		a.Width = []int{0, 1, 2, 3, 4, 8}[r.IntN(6)]
	case 1:
		a.Buffer = kir.BufferID(r.IntN(len(r.l.k.Buffers)))
	default:
		if len(a.Coords) == 0 {
			break
		}
		a.Coords = slices.Clone(a.Coords)
		a.Coords[r.IntN(len(a.Coords))] = r.expr(dtype.Index)
	}
	// The index follows, as it would in a kernel that was lowered by mistake.
	t, b := r.l.k.Scalars, &r.l.k.Buffers[a.Buffer]
	a.Index = t.Int(0)
	for i, c := range a.Coords {
		if i < len(b.Stride) {
			a.Index = t.Add(a.Index, t.Mul(c, b.Stride[i]))
		}
	}
	return a
}

// statement changes one statement.
func (r *breaker) statement(s kir.Statement) kir.Block {
	switch r.IntN(4) {
	case 0:
		return nil
	case 1:
		return kir.Block{s, s}
	}
	switch x := s.(type) {
	case kir.Assign:
		x.Dst = r.access(x.Dst)
		return kir.Block{x}
	case kir.Move:
		x.Dst, x.Src = r.access(x.Dst), r.access(x.Src)
		return kir.Block{x}
	case kir.AsyncCopy:
		if r.IntN(2) == 0 {
			x.Guard = r.expr(dtype.Bool)
		} else {
			x.Dst = r.access(x.Dst)
		}
		return kir.Block{x}
	case kir.AsyncWait:
		return kir.Block{kir.AsyncWait{Pending: r.IntN(4) - 1}}
	case kir.Barrier:
		x.Scope = kir.Scope(r.IntN(4))
		return kir.Block{x}
	case kir.AtomicAdd:
		x.Dst = r.access(x.Dst)
		return kir.Block{x}
	case *kir.For:
		bound := []*scalar.ID{&x.Start, &x.Stop, &x.Step}[r.IntN(3)]
		*bound = r.expr(dtype.Index)
		return kir.Block{x}
	case *kir.If:
		x.Cond = r.expr(dtype.Bool)
		return kir.Block{x}
	}
	return kir.Block{&kir.If{Cond: r.expr(dtype.Bool), Then: kir.Block{s}}}
}

// change makes one change somewhere.
func (r *breaker) change() {
	k := r.l.k
	switch r.IntN(8) {
	case 0:
		v := &k.Values[r.IntN(len(k.Values))]
		switch v.Kind {
		case kir.Load:
			v.Access = r.access(v.Access)
		case kir.Shuffle:
			v.Int, v.Width = int64(r.IntN(33)), 1<<r.IntN(7)
		case kir.IndexValue:
			v.Index = r.expr(dtype.Index)
		case kir.Operation:
			v.Args = slices.Clone(v.Args)
			v.Args[r.IntN(len(v.Args))] = kir.ValueID(r.IntN(len(k.Values)))
		}
	case 1:
		b := &k.Buffers[r.IntN(len(k.Buffers))]
		switch n := k.Scalars.Int(int64(r.IntN(100) - 2)); r.IntN(5) {
		case 0:
			b.Size = n
		case 1:
			b.Align = 1 << r.IntN(6)
		case 2:
			b.Offset = n
		case 3:
			b.DType = []dtype.Type{dtype.Float, dtype.Half, dtype.Double, dtype.Int}[r.IntN(4)]
		default:
			if len(b.Shape) > 0 {
				b.Shape, b.Stride = slices.Clone(b.Shape), slices.Clone(b.Stride)
				b.Shape[0], b.Stride[0] = n, k.Scalars.Int(int64(r.IntN(70)))
			}
		}
	case 2:
		switch r.IntN(3) {
		case 0:
			k.Launch.Block[r.IntN(3)] = k.Scalars.Int(int64(r.IntN(70)))
		case 1:
			k.Launch.Grid[r.IntN(3)] = k.Scalars.Int(int64(r.IntN(5)))
		default:
			k.Launch.Shared = k.Scalars.Int(int64(r.IntN(1000)))
		}
	case 3:
		a := &r.l.arguments[r.IntN(len(r.l.arguments))]
		if a.Memory != nil {
			a.Memory.Undefined = !a.Memory.Undefined
		}
	default:
		n, total := 0, 0
		rewrite(k, func(s kir.Statement) kir.Block { total++; return kir.Block{s} })
		chosen := r.IntN(max(total, 1))
		rewrite(k, func(s kir.Statement) kir.Block {
			if n++; n == chosen+1 {
				return r.statement(s)
			}
			return kir.Block{s}
		})
	}
}

// TestRandomMistakes changes good kernels at random. Whatever Verify accepts
// can be simulated, twice with one result, and keeps what Verify found out
// about it: barriers and shuffles that are reached together, and alignment.
func TestRandomMistakes(t *testing.T) {
	names := make([]string, 0, len(good))
	for name := range good {
		names = append(names, name)
	}
	slices.Sort(names)
	accepted, found := 0, map[sim.Kind]bool{}
	for seed := range uint64(1500) {
		broken := func() *launch {
			r := rand.New(rand.NewPCG(seed, 0))
			l := good[names[seed%uint64(len(names))]]()
			b := breaker{r, &l}
			for range 1 + r.IntN(3) {
				b.change()
			}
			return &l
		}
		run := func() string {
			l := broken()
			if l.k.Verify() != nil {
				return ""
			}
			accepted++
			report, err := sim.Run(l.k, l.arguments, sim.Options{Order: sim.Random, Seed: seed, Outputs: l.outputs})
			if err != nil {
				return err.Error()
			}
			for _, kind := range kinds(report) {
				found[kind] = true
			}
			if !slices.ContainsFunc(kinds(report), func(kind sim.Kind) bool { // then a value may differ between threads
				return kind == sim.Race || kind == sim.Uninitialised || kind == sim.WrongFacts || kind == sim.AsyncUse || kind == sim.StaleOwner
			}) {
				require.NotContains(t, kinds(report), sim.DivergentBarrier, "seed %d: %v\n%s", seed, report.Err(), l.k)
				require.NotContains(t, kinds(report), sim.Misaligned, "seed %d: %v\n%s", seed, report.Err(), l.k)
			}
			return fmt.Sprint(report)
		}
		require.Equal(t, run(), run(), "seed %d", seed)
	}
	require.Greater(t, accepted, 1200)
	require.Greater(t, len(found), 8, "%v", found)
	t.Log(accepted/2, "kernels accepted;", found)
}

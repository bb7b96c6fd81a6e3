package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/memory"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

const randomThreads, randomBlocks = 64, 2

// A generator makes kernels that store, copy and load through shared and device
// memory in loops and under conditions.
type generator struct {
	*kernel
	r       *rand.Rand
	t, wg   scalar.ID
	n       scalar.ID // an argument: 0 to 4
	acc     kir.BufferID
	source  kir.BufferID
	tiles   []tile
	loops   []scalar.ID
	budget  int
	commits bool // written by the generator, else left to Plan
}

type tile struct {
	id    kir.BufferID
	slots int64
	work  bool // in device memory
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

// column returns a place for each thread that no other thread has.
func (g *generator) column() scalar.ID {
	switch g.r.IntN(4) {
	case 0:
		return g.mirrored(g.t, randomThreads)
	case 1:
		return g.T.Mod(g.T.Add(g.t, g.n0(randomThreads)), g.kernel.n(randomThreads))
	case 2: // digits in another order
		return g.T.Add(g.T.Mul(g.T.Mod(g.t, g.kernel.n(8)), g.kernel.n(8)), g.T.FloorDiv(g.t, g.kernel.n(8)))
	}
	return g.t
}

func (g *generator) n0(below int64) scalar.ID { return g.kernel.n(g.r.Int64N(below)) }

func (g *generator) slot(x tile) scalar.ID {
	if len(g.loops) == 0 || g.chance(20) {
		return g.n0(x.slots)
	}
	i := g.loops[g.r.IntN(len(g.loops))]
	return g.T.Mod(g.T.Add(i, g.n0(4)), g.kernel.n(x.slots))
}

func (g *generator) at(x tile) []scalar.ID {
	if x.work {
		return []scalar.ID{g.wg, g.slot(x), g.column()}
	}
	return []scalar.ID{g.slot(x), g.column()}
}

// declare adds a tile that is alive in the block, with something in it.
func (g *generator) declare() {
	x := tile{slots: 1 + g.r.Int64N(3)}
	name := fmt.Sprintf("tile%d", len(g.Kernel().Buffers))
	if x.work = len(g.loops) == 0 && g.chance(15); x.work {
		x.id, _ = g.work(name, randomBlocks, x.slots, randomThreads)
	} else {
		x.id = g.kernel.tile(name, dtype.Float, x.slots, randomThreads)
	}
	for s := range x.slots {
		at := []scalar.ID{g.kernel.n(s), g.t}
		if x.work {
			at = append([]scalar.ID{g.wg}, at...)
		}
		g.Store(g.Load(g.acc), x.id, at...)
	}
	g.tiles = append(g.tiles, x)
}

func (g *generator) statement(divergent bool) {
	g.budget--
	x := g.tiles[g.r.IntN(len(g.tiles))]
	switch k := g.r.IntN(10); {
	case k < 3:
		g.Store(g.Op(core.AddOp, g.Load(g.acc), g.float(1)), x.id, g.at(x)...)
	case k < 7:
		g.Store(g.Op(core.AddOp, g.times(0.5, g.Load(g.acc)), g.Load(x.id, g.at(x)...)), g.acc)
	case k < 8 && !divergent:
		one := g.n0(randomThreads)
		g.If(g.T.Eq(g.t, one), func() { g.Store(g.Load(g.acc), x.id, g.at(x)...) }, nil)
	case k < 9 && !x.work:
		copied := kir.AsyncCopy{Dst: g.At(x.id, g.at(x)...), Src: g.At(g.source, g.n0(4), g.t), Guard: scalar.None}
		if g.chance(30) {
			copied.Guard = g.T.Lt(g.t, g.n0(randomThreads))
		}
		if g.Add(copied); g.commits && g.chance(70) {
			g.Add(kir.AsyncCommit{})
		}
	default:
		g.Store(g.Op(core.AddOp, g.Load(g.acc), g.Load(g.source, g.n0(4), g.column())), g.acc)
	}
}

func (g *generator) body(depth int, divergent bool) {
	alive := len(g.tiles)
	for range 1 + g.r.IntN(4) {
		switch k := g.r.IntN(10); {
		case g.budget <= 0:
		case k < 3 && depth < 3 && !divergent:
			stop := g.kernel.n(1 + g.r.Int64N(4))
			if g.chance(40) {
				stop = g.n
			}
			g.For(fmt.Sprintf("i%d", len(g.Kernel().Symbols)), g.kernel.n(0), stop, g.kernel.n(1), kir.UnrollNone, func(i scalar.ID) {
				g.loops = append(g.loops, i)
				g.body(depth+1, false)
				g.loops = g.loops[:len(g.loops)-1]
			})
		case k < 5 && depth < 3:
			cond, varies := g.T.Eq(g.wg, g.kernel.n(0)), divergent
			if len(g.loops) > 0 && g.chance(50) {
				cond = g.T.Lt(g.loops[len(g.loops)-1], g.n0(3))
			} else if g.chance(30) {
				cond, varies = g.T.Lt(g.t, g.n0(randomThreads)), true
			}
			g.If(cond, func() { g.body(depth+1, varies) }, func() { g.body(depth+1, varies) })
		case k < 6 && !divergent:
			g.declare()
		default:
			g.statement(divergent)
		}
	}
	g.tiles = g.tiles[:alive]
}

// randomKernel returns the kernel of a seed, with arguments and its output.
func randomKernel(seed uint64) (launch, *sim.Memory) {
	b := newKernel("random")
	g := &generator{kernel: b, r: rand.New(rand.NewPCG(seed, 1)), budget: 24}
	g.n = b.Integer("n", scalar.Range(0, 4))
	b.memory = append(b.memory, sim.Argument{Number: scalar.Value{Type: dtype.Index, I: g.r.Int64N(5)}})
	g.t, g.wg, g.commits = b.Thread(0, randomThreads), b.BlockIndex(0, b.n(randomBlocks)), g.chance(60)
	g.source = b.input("x", 4, randomThreads)
	y, out := b.work("y", randomBlocks, randomThreads)
	b.out = append(b.out, y)
	g.acc = b.Local("acc", dtype.Float)
	b.Store(b.Load(g.source, b.n(0), g.t), g.acc)
	for range 1 + g.r.IntN(2) {
		g.declare()
	}
	g.body(0, false)
	last := g.tiles[0]
	b.Store(b.Op(core.AddOp, b.Load(g.acc), b.Load(last.id, g.at(last)...)), y, g.wg, g.t)
	return b.launch(), out
}

// TestRandomKernels plans random kernels: no order of blocks and warps gives a
// report, and all give the same values. Kernels that have to be refused are.
func TestRandomKernels(t *testing.T) {
	kernels := uint64(250)
	if testing.Short() {
		kernels = 60
	}
	var refused, tokensPlaced int
	for seed := range kernels {
		var want []byte
		for i, o := range orders[:4] {
			l, out := randomKernel(seed)
			var options memory.Options
			if seed%2 == 1 { // less memory is always better
				options.Blocks = func(_, bytes int64) int64 { return 1<<30 - bytes }
			}
			err := memory.Plan(l.k, options)
			if errors.As(err, new(*core.Unsupported)) {
				refused++
				break
			}
			require.NoError(t, err, "seed %d\n%v", seed, l.k)
			require.NoError(t, l.k.Verify(), "seed %d", seed)
			tokensPlaced += len(tokens(l.k.Body))
			require.NoError(t, l.run(t, o).Err(), "seed %d, order %d\n%v", seed, i, l.k)
			if i == 0 {
				want = slices.Clone(out.Data)
			}
			require.Equal(t, want, out.Data, "seed %d, order %d\n%v", seed, i, l.k)
		}
	}
	t.Logf("%d kernels, %d refused, %d tokens placed", kernels, refused, tokensPlaced/4)
	require.Less(t, refused, int(kernels)/3)
	require.Greater(t, tokensPlaced, int(kernels))
}

// TestRandomTokensCount removes one token of a random kernel at a time: the
// simulator reports it in at least one order for at least one n. The few that
// are not reported are in branches that nothing takes, or order the last
// iterations of a loop by what other iterations do.
func TestRandomTokensCount(t *testing.T) {
	if testing.Short() {
		t.Skip("fifteen launches a token")
	}
	var removed, silent int
	for seed := range uint64(40) {
		planned := func(n int64) (launch, bool) {
			l, _ := randomKernel(seed)
			l.arguments[0].Number.I = n
			return l, memory.Plan(l.k, memory.Options{}) == nil
		}
		l, ok := planned(0)
		if !ok {
			continue
		}
		for i, s := range tokens(l.k.Body) {
			found := false
			for n := int64(4); n >= 0 && !found; n-- {
				for _, o := range orders[:3] {
					m, _ := planned(n)
					n := i
					m.k.Body = without(m.k.Body, &n)
					found = found || m.run(t, o).Err() != nil
				}
			}
			removed++
			if !found {
				silent++
				t.Logf("seed %d: token %d, %s", seed, i, l.k.Text(s))
			}
		}
	}
	t.Logf("%d tokens removed, %d without a report", removed, silent)
	require.Greater(t, removed, 100)
	require.Less(t, silent*20, removed)
}

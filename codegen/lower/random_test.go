package lower

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A generator makes random fusions of Int tensors and random schedules of them.
type generator struct {
	*rand.Rand
	f       *core.Fusion
	tensors []core.ValID
	inputs  []*core.Array
	ops     []string
}

var opSets = map[string][]string{
	"base":  {"unary", "binary", "row", "grow"},
	"red":   {"unary", "binary", "row", "grow", "reduce", "reduce"},
	"shape": {"unary", "binary", "row", "grow", "permute", "reshape"},
	"all":   {"unary", "binary", "row", "grow", "reduce", "permute", "reshape", "resize", "expand", "squeeze"},
}

var sizes = []int64{1, 2, 3, 4, 5, 6, 8, 12}

const maxElements = 300

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func (g *generator) size() int64 { return sizes[g.IntN(len(sizes))] }

func (g *generator) shape(v core.ValID) []int64 {
	out := []int64{}
	for _, e := range g.f.Shape(v) {
		n, _ := g.f.Scalars().ConstInt(e)
		out = append(out, n)
	}
	return out
}

func (g *generator) input(shape []int64) core.ValID {
	contiguity := make([]core.Tri, len(shape))
	for i, n := range shape {
		if n != 1 {
			contiguity[i] = core.Yes
		}
	}
	v, err := g.f.DefineTensor(core.TensorDescription{Shape: shape, Contiguity: contiguity, DType: dtype.Int})
	if err != nil {
		panic(err)
	}
	a := core.NewArray(dtype.Int, shape)
	for i := range a.I {
		a.I[i] = int64(g.IntN(9)) - 4
	}
	g.inputs = append(g.inputs, a)
	return g.add(v)
}

func (g *generator) add(v core.ValID) core.ValID {
	g.tensors = append(g.tensors, v)
	return v
}

// apply adds an op, if the definition takes it and the result is small.
func (g *generator) apply(name string, args ...core.Arg) (core.ValID, bool) {
	out, err := g.f.Apply(core.Lookup(name), args...)
	if err != nil || core.NumElements(g.shape(out[0])) > maxElements {
		return 0, false
	}
	return g.add(out[0]), true
}

func (g *generator) fusion() {
	var shape []int64
	for n := int64(1); len(shape) < 1+g.IntN(3); {
		if e := g.size(); n*e <= 200 {
			shape, n = append(shape, e), n*e
		}
	}
	g.input(shape)
	for range 2 + g.IntN(7) {
		recent := g.tensors[max(0, len(g.tensors)-4):]
		g.operation(g.ops[g.IntN(len(g.ops))], recent[g.IntN(len(recent))])
	}
	for _, v := range g.tensors {
		if x := g.f.Val(v); !x.Input && (x.Uses == 0 || g.chance(0.12)) {
			if err := g.f.AddOutput(v, core.NoVal); err != nil {
				panic(err)
			}
		}
	}
	g.f.Freeze()
}

func (g *generator) operation(kind string, v core.ValID) {
	shape := g.shape(v)
	flags := make([]bool, len(shape))
	for i := range flags {
		flags[i] = g.chance(0.5)
	}
	literal := core.ScalarOf(g.f.Scalars().Value(scalar.Value{Type: dtype.Int, I: int64(g.IntN(5)) - 2}))
	switch kind {
	case "unary":
		switch g.IntN(4) {
		case 0:
			g.apply("neg", core.TensorOf(v))
		case 1:
			g.apply("set", core.TensorOf(v))
		default:
			g.apply([]string{"add", "mul"}[g.IntN(2)], core.TensorOf(v), literal)
		}
	case "binary":
		g.binary(v, g.tensors[g.IntN(len(g.tensors))])
	case "row": // an operand with fewer axes
		var short []int64
		for i, n := range shape {
			if !flags[i] {
				short = append(short, n)
			}
		}
		w := g.input(short)
		if b, ok := g.apply("broadcast", core.TensorOf(w), core.BoolsOf(flags...)); ok {
			if g.chance(0.4) {
				b, _ = g.apply("neg", core.TensorOf(b))
			}
			g.binary(v, b)
		}
	case "grow": // a broadcast that meets a larger input
		at := g.IntN(len(shape) + 1)
		grown := make([]bool, len(shape)+1)
		grown[at] = true
		bigger := slices.Insert(slices.Clone(shape), at, g.size())
		if len(shape) < 3 && core.NumElements(bigger) <= maxElements {
			b, _ := g.apply("broadcast", core.TensorOf(v), core.BoolsOf(grown...))
			if g.chance(0.3) {
				b, _ = g.apply("neg", core.TensorOf(b))
			}
			g.binary(b, g.input(bigger))
		}
	default:
		g.reshaping(kind, v, shape, flags)
	}
}

func (g *generator) reshaping(kind string, v core.ValID, shape []int64, flags []bool) {
	switch kind {
	case "reduce":
		var dims []int64
		for i, flag := range flags {
			if flag {
				dims = append(dims, int64(i))
			}
		}
		if len(dims) == 0 {
			return
		}
		s, ok := g.apply([]string{"sum", "max"}[g.IntN(2)], core.TensorOf(v), core.IntsOf(dims...), core.BoolOf(false), core.DTypeOf(dtype.Null))
		if ok && g.chance(0.6) {
			if b, ok := g.apply("broadcast", core.TensorOf(s), core.BoolsOf(flags...)); ok {
				g.binary(v, b)
			}
		}
	case "permute":
		var order []int64
		for _, i := range g.Perm(len(shape)) {
			order = append(order, int64(i))
		}
		g.apply("permute", core.TensorOf(v), core.IntsOf(order...))
	case "squeeze", "expand":
		for i, n := range shape {
			if n == 1 && g.chance(0.7) {
				if kind == "squeeze" {
					g.apply("squeeze", core.TensorOf(v), core.IntsOf(int64(i)), core.BoolOf(false))
				} else {
					shape[i] = g.size()
					g.apply("expand", core.TensorOf(v), g.sizes(shape))
				}
				return
			}
		}
	case "reshape":
		g.apply("reshape", core.TensorOf(v), g.sizes(g.regrouped(shape)))
	case "resize":
		if len(shape) == 0 {
			return
		}
		i := g.IntN(len(shape))
		left, right := int64(g.IntN(5))-2, int64(g.IntN(5))-2
		if shape[i]+left+right < 1 || shape[i]+min(left, 0)+min(right, 0) < 1 {
			return
		}
		widths := make([]int64, 2*len(shape))
		widths[2*(len(shape)-1-i)], widths[2*(len(shape)-1-i)+1] = left, right
		g.apply("pad", core.TensorOf(v), g.sizes(widths), core.ScalarOf(g.f.Scalars().Value(scalar.Value{Type: dtype.Int, I: 7})))
	}
}

func (g *generator) sizes(n []int64) core.Arg {
	ids := make([]scalar.ID, len(n))
	for i := range n {
		ids[i] = g.f.Scalars().Int(n[i])
	}
	return core.ScalarsOf(ids...)
}

// regrouped merges or splits sizes.
func (g *generator) regrouped(shape []int64) []int64 {
	shape = slices.Clone(shape)
	for range 1 + g.IntN(2) {
		if len(shape) == 0 {
			break
		}
		i := g.IntN(len(shape))
		if g.chance(0.5) && i+1 < len(shape) {
			shape[i] *= shape[i+1]
			shape = slices.Delete(shape, i+1, i+2)
		} else if k := int64(2 + g.IntN(3)); shape[i]%k == 0 && len(shape) < 4 {
			shape = slices.Insert(shape, i+1, k)
			shape[i] /= k
		}
	}
	return shape
}

func (g *generator) binary(a, b core.ValID) {
	x, y := g.shape(a), g.shape(b)
	if a == b || len(x) != len(y) || len(x) == 0 {
		return
	}
	if g.chance(0.3) {
		a, b = b, a
	}
	g.apply([]string{"add", "sub", "mul"}[g.IntN(3)], core.TensorOf(a), core.TensorOf(b))
}

// schedule makes edits, transforms and positions.
func (g *generator) schedule() *schedule.Scheduled {
	s := schedule.New(g.f)
	g.cache(s)
	g.rfactor(s)
	for _, v := range g.computed(s) {
		if !isOutput(s, v) && g.chance(0.1) {
			_ = s.SetMemory(v, schedule.Global)
		}
	}
	for range 1 + g.IntN(5)/4 {
		list := g.computed(s)
		if outs := s.Fusion().Outputs(); g.chance(0.7) {
			list = []core.ValID{outs[g.IntN(len(outs))].Val}
		}
		reference := list[g.IntN(len(list))]
		if g.plain(s, reference) {
			g.transform(s, reference, g.IntN(7))
			chosen := []core.ValID{}
			for _, v := range s.Tensors() {
				if g.plain(s, v) {
					chosen = append(chosen, v)
				}
			}
			_, _ = s.TransformLike(reference, chosen)
		}
	}
	g.bySelf(s)
	for _, v := range g.computed(s) {
		if n := len(s.Loop(v)); n > 0 && g.chance(0.15) {
			_ = s.Parallelize(v, g.IntN(n), []schedule.Parallel{schedule.Unroll, schedule.Unswitch}[g.IntN(2)])
		}
		if len(s.Loop(v)) > 0 && g.chance(0.1) && s.Fusion().Expr(s.Fusion().Val(v).Def).Op == core.SetOp && extents(s, s.Loop(v))[len(s.Loop(v))-1] == 2 {
			_ = s.Parallelize(v, -1, schedule.Vectorize)
		}
	}
	g.inline(s)
	return s
}

func (g *generator) computed(s *schedule.Scheduled) []core.ValID {
	return slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool { return s.Fusion().Val(v).Input })
}

func (g *generator) plain(s *schedule.Scheduled, v core.ValID) bool {
	return slices.Equal(s.Loop(v), s.Fusion().Val(v).Domain.Logical)
}

func (g *generator) cache(s *schedule.Scheduled) {
	for _, v := range slices.Clone(s.Tensors()) {
		switch {
		case s.Fusion().Val(v).Input && g.chance(0.5):
			_, _ = s.CacheAfter(v, nil)
		case isOutput(s, v) && !s.Fusion().Val(v).Input && g.chance(0.3):
			_, _ = s.CacheBefore(v)
		case isOutput(s, v) && !s.Fusion().Val(v).Input && g.chance(0.2):
			_, _ = s.CacheFork(v)
		}
	}
}

func (g *generator) rfactor(s *schedule.Scheduled) {
	for _, v := range g.computed(s) {
		if s.Fusion().Expr(s.Fusion().Val(v).Def).Op.Class != core.Reduction || !g.chance(0.4) {
			continue
		}
		var reduced []int
		for k, a := range s.Loop(v) {
			if s.Fusion().Axis(a).Kind == core.Reduce {
				reduced = append(reduced, k)
			}
		}
		k := reduced[g.IntN(len(reduced))]
		if err := s.Split(v, k, int64(2+g.IntN(3)), g.chance(0.7)); err != nil {
			panic(err)
		}
		_, _ = s.RFactor(v, []int{k + g.IntN(2)})
	}
}

// bySelf gives a few tensors loops of their own, some made from the root.
func (g *generator) bySelf(s *schedule.Scheduled) {
	for _, v := range g.computed(s) {
		d := &s.Fusion().Val(v).Domain
		op := s.Fusion().Expr(s.Fusion().Val(v).Def).Op
		switch {
		case !g.plain(s, v):
		case !slices.Equal(d.Root, d.Logical) && (op == core.ReshapeOp || op == core.SliceOp) && g.chance(0.25):
			if s.SetLoop(v, d.Root) == nil {
				g.transform(s, v, g.IntN(4))
			}
		case g.chance(0.05):
			g.transform(s, v, 1+g.IntN(4))
		}
	}
}

func (g *generator) transform(s *schedule.Scheduled, v core.ValID, n int) {
	for range n {
		loop := s.Loop(v)
		if len(loop) == 0 {
			return
		}
		points := int64(1)
		for _, e := range extents(s, loop) {
			points *= e
		}
		switch i := g.IntN(len(loop)); g.IntN(3) {
		case 0:
			factor := []int64{1, 2, 2, 3, 4, 4, 5, 7}[g.IntN(8)]
			if e := extents(s, loop)[i]; points/max(e, 1)*((e+factor-1)/factor*factor) <= 500 {
				_ = s.Split(v, i, factor, g.chance(0.75))
			}
		case 1:
			_ = s.Merge(v, i, i+1)
		default:
			_ = s.Reorder(v, map[int]int{i: g.IntN(len(loop))})
		}
	}
}

func (g *generator) inline(s *schedule.Scheduled) {
	if g.chance(0.33) {
		if err := s.InlineMost(nil, nil); err != nil {
			panic(err)
		}
		return
	}
	order := g.computed(s)
	slices.Reverse(order)
	if g.chance(0.5) {
		g.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, v := range order {
		for k := g.IntN(s.MaxPosition(v, false).Position + 1); k > 0; k-- {
			if s.InlineAt(v, k, false) == nil {
				break
			}
		}
	}
}

func isOutput(s *schedule.Scheduled, v core.ValID) bool {
	return slices.ContainsFunc(s.Fusion().Outputs(), func(o core.Output) bool { return o.Val == v })
}

func extents(s *schedule.Scheduled, axes []core.AxisID) []int64 {
	out := []int64{}
	for _, a := range axes {
		n, _ := s.Fusion().Scalars().ConstInt(s.Fusion().Axis(a).Extent)
		out = append(out, n)
	}
	return out
}

// outcome runs one random program and returns "right" or why there is nothing to
// run; errors are wrong kernels.
func outcome(seed uint64, set string, finish func(*generator, *schedule.Scheduled)) (s *schedule.Scheduled, result string, err error) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(len(set)))), f: core.NewFusion(), ops: opSets[set]}
	g.fusion()
	if len(g.f.Outputs()) == 0 {
		return nil, "empty", nil
	}
	s = g.schedule()
	if finish != nil {
		finish(g, s)
	}
	inputs := make([]fusionfuzz.Input, len(g.inputs))
	for i, a := range g.inputs {
		inputs[i] = fusionfuzz.Input{Array: a, Strides: make([]int64, len(a.Shape))}
		step := int64(1)
		for d := len(a.Shape) - 1; d >= 0; d-- {
			inputs[i].Strides[d] = step
			step *= a.Shape[d]
		}
	}
	_, err = checkWith(s, g.f, inputs, Options{Cooperative: seed%2 == 0})
	var unsupported *core.Unsupported
	if errors.As(err, &unsupported) {
		return s, "refused: " + unsupported.Refusals[0].Rule, nil
	}
	var illegal *schedule.Refused
	if errors.As(err, &illegal) {
		return s, "illegal: " + illegal.Rule, nil
	}
	if err != nil && strings.Contains(err.Error(), "over the limit") {
		return s, "too many threads", nil
	}
	return s, "right", err
}

// Random programs, simulated, equal core.Eval. LOWER_PROGRAMS is how many of each
// set, LOWER_SEED the first.
func TestRandomSchedules(t *testing.T) { testRandom(t, nil) }

func testRandom(t *testing.T, finish func(*generator, *schedule.Scheduled)) {
	number := func(name string, other uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return other
	}
	n, first := number("LOWER_PROGRAMS", 60), number("LOWER_SEED", 0)
	for _, set := range []string{"base", "red", "shape", "all"} {
		t.Run(set, func(t *testing.T) {
			count := map[string]int{}
			for seed := first; seed < first+n; seed++ {
				s, result, err := outcome(seed, set, finish)
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
					if os.Getenv("LOWER_PROGRAMS") == "1" {
						k, _ := Lower(s, Options{Cooperative: seed%2 == 0})
						t.Logf("%v\n%v\n%v", s.Fusion(), s, k)
					}
				}
				count[result]++
			}
			t.Log(count)
			require.Greater(t, count["right"], int(n)/4)
		})
	}
}

// Random programs with random thread and block types and shared memory.
func TestRandomParallelSchedules(t *testing.T) { testRandom(t, parallelise) }

func parallelise(g *generator, s *schedule.Scheduled) {
	for _, v := range g.computed(s) {
		if s.Memory(v) == schedule.Local && g.chance(0.25) {
			_ = s.SetMemory(v, schedule.Shared)
			if d := s.Fusion().Expr(s.Fusion().Val(v).Def); d.Op == core.SetOp && g.chance(0.5) {
				_ = s.SetCopy(v, schedule.AsyncCopy, schedule.CacheUnspecified)
			}
		}
	}
	m, err := schedule.Map(s)
	if err != nil {
		return
	}
	types := []schedule.Parallel{schedule.Serial, schedule.TIDx, schedule.TIDx, schedule.TIDy, schedule.TIDz, schedule.BIDx, schedule.BIDy}
	chosen := map[core.AxisID]schedule.Parallel{}
	of := func(a core.AxisID) schedule.Parallel {
		q := m.AlmostExact(m.Promotion(a))
		if _, ok := chosen[q]; !ok {
			chosen[q] = types[g.IntN(len(types))]
		}
		return chosen[q]
	}
	for _, v := range g.computed(s) {
		for k, a := range s.Loop(v) {
			if s.Parallel(a) == schedule.Serial {
				_ = s.Parallelize(v, k, of(a))
			}
		}
	}
}

package executor_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/executor"
	"nvfuser_go/schedulers/pointwise"
	"nvfuser_go/schedulers/reduction"
	"nvfuser_go/schedulers/scheduler"
)

// simulated runs f for inputs of the given sizes in the simulator and requires
// the outputs of the evaluator.
func simulated(t *testing.T, text string, sizes ...[]int64) {
	t.Helper()
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, sizes...)}
	ok, err := checkSimulated(t, c)
	require.NoError(t, err)
	require.True(t, ok)
}

// checkSimulated runs c in the simulator and compares the outputs with the
// evaluator's. It reports false if a scheduler or the lowering refuses.
func checkSimulated(t testing.TB, c *fusionfuzz.Case) (bool, error) {
	t.Helper()
	return checkCandidate(t, c, 0)
}

// checkCandidate is checkSimulated of one candidate of the scheduler, counted around.
func checkCandidate(t testing.TB, c *fusionfuzz.Case, candidate int) (bool, error) {
	t.Helper()
	p := prepare(c)
	want, wantErr := c.Fusion.Eval(p.arrays, p.scalars, random)
	got, _, err := p.runWith(t, executorOf(t, c.Fusion), executor.Options{Simulate: true, Candidate: candidate}, random)
	return judge(t, c, want, wantErr, got, err)
}

// judge holds what a plan of c gave, or the error of making or running it, against
// the evaluator. It reports false if a scheduler or the lowering refused.
func judge(t testing.TB, c *fusionfuzz.Case, want []*core.Array, wantErr error, got []*core.Array, err error) (bool, error) {
	t.Helper()
	var refused *core.Unsupported
	if errors.As(err, &refused) {
		require.NotEmpty(t, refused.Refusals)
		for _, r := range refused.Refusals {
			require.NotEmpty(t, r.By, r.Sentence)
			require.NotEmpty(t, r.Rule, r.Sentence)
			require.NotEmpty(t, r.Sentence)
		}
		return false, err
	}
	if wantErr != nil {
		require.Error(t, err, "%s\n%v", c.Fusion, wantErr)
		return true, nil
	}
	requireNoError(t, err)
	if d := c.Check(want, got); d != "" {
		t.Fatal(d)
	}
	return true, nil
}

func TestSimulate(t *testing.T) {
	for _, test := range []struct {
		name, text string
		sizes      [][]int64
	}{
		{"bias", `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = neg %0
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %4
`, [][]int64{{5}, {67, 5}}},
		{"permute and reshape", `%0 = tensor f32 [6, 5, 7] contiguity=[yes, yes, yes]
%1 = permute %0 dims=[2, 0, 1]
%2 = reshape %1 new_shape=[21, 10]
%3 = exp %2
output %3
`, [][]int64{{6, 5, 7}}},
		{"types", `%0 = tensor bf16 [-1] contiguity=[yes]
%1 = tensor i64 [-1] contiguity=[yes]
%2 = cast %0 dtype=f32
%3 = cast %1 dtype=f32
%4 = mul %2, %3
%5 = cast %4 dtype=f16
%6 = lt %4, 1.0:f64
output %5
output %6
`, [][]int64{{131}, {131}}},
		{"strided input and its transpose", `%0 = tensor f32 [9, 9] contiguity=[no, no]
%1 = permute %0 dims=[1, 0]
%2 = add %0, %1
output %2
`, [][]int64{{9, 9}}},
		{"views of one input", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = broadcast %0 is_broadcast_dim=[true, false, false]
%2 = set %0
%3 = broadcast %2 is_broadcast_dim=[false, true, false]
output %1
output %3
`, [][]int64{{4, 50}}},
		{"output that is read", `%0 = tensor f32 [-1] contiguity=[yes]
%1 = neg %0
%2 = exp %1
output %1
output %2
output %1
`, [][]int64{{5}}},
		{"no dimensions", `%0 = tensor f32 [] contiguity=[]
%1 = neg %0
output %1
`, [][]int64{{}}},
		{"no elements", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = neg %0
%2 = sum %0 dims=[0] dtype=f32
output %2
`, [][]int64{{0, 3}}},
		{"sum of rows", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] dtype=f32
output %1
`, [][]int64{{5, 300}}},
		{"sum of columns", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[0] dtype=f32
output %1
`, [][]int64{{37, 45}}},
		{"sum of all", `%0 = tensor f64 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = sum %0 dims=[0, 1, 2] dtype=f64
output %1
`, [][]int64{{7, 11, 13}}},
		{"sums of the middle", `%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, yes]
%1 = abs %0
%2 = sum %1 dims=[1] dtype=f32
%3 = max %0 dims=[1]
%4 = add %2, %3
%5 = broadcast %4 is_broadcast_dim=[false, true, false]
output %5
output %2
`, [][]int64{{3, 17, 5}}},
		{"mean of fewer elements than threads", `%0 = tensor f32 [-1] contiguity=[yes]
%1, %2, %3 = welford %0 dims=[0]
output %1
output %2
`, [][]int64{{5}}},
		{"variance", `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
output %1
output %2
`, [][]int64{{3, 1000}}},
	} {
		t.Run(test.name, func(t *testing.T) { simulated(t, test.text, test.sizes...) })
	}
}

// wholePrograms have outputs that a schedule alone does not compute.
var wholePrograms = []struct {
	name  string
	build func(p *program)
	sizes [][]int64
}{
	{"inputs among the outputs", func(p *program) {
		x := p.tensor(-1, -1)
		p.output(x)
		p.output(p.call("neg", x))
		p.output(x)
	}, square[:1]},
	{"inputs alone", func(p *program) {
		p.output(p.tensor(-1))
		p.output(p.tensor(-1, -1))
	}, [][]int64{{3}, {4, 5}}},
	{"an output without elements among others", func(p *program) {
		x := p.tensor(-1, -1)
		p.output(p.call("exp", x))
		p.output(p.call("sum", x, 0))
	}, [][]int64{{0, 70}}},
	{"outputs without elements alone", func(p *program) {
		x := p.tensor(-1, -1)
		p.output(p.call("exp", x))
		p.output(p.call("set", x))
	}, [][]int64{{0, 70}}},
	{"a size that turns out to be 1", func(p *program) {
		x, y := p.tensor(-1, -1), p.tensor(-1, -1)
		p.output(p.call("add", p.call("expand", x, p.calls("shape", y)), y))
	}, [][]int64{{1, 70}, {33, 70}}},
	{"a size that does not turn out to be 1", func(p *program) {
		x, y := p.tensor(-1, -1), p.tensor(-1, -1)
		p.output(p.call("expand", x, p.calls("shape", y)))
	}, [][]int64{{33, 70}, {33, 70}}},
	{"an expanded output in memory of its own", func(p *program) {
		x, y := p.tensor(-1, -1), p.tensor(-1, -1)
		p.output(p.call("expand", x, p.calls("shape", y)))
	}, [][]int64{{1, 70}, {33, 70}}},
	{"a reshape by sizes of another tensor", func(p *program) {
		x, y := p.tensor(-1, -1), p.tensor(-1, -1, -1)
		p.output(p.call("neg", p.call("reshape", x, p.calls("shape", y))))
	}, [][]int64{{6, 20}, {4, 3, 10}}},
	{"numbers alone", func(p *program) {
		p.output(p.call("mul", p.call("full", []int{3, 5}, 2.0, dtype.Float), p.call("iota", 5, 1, 1, dtype.Float)))
	}, nil},
}

func TestSimulatePrograms(t *testing.T) {
	for _, test := range wholePrograms {
		t.Run(test.name, func(t *testing.T) {
			ok, err := checkSimulated(t, newCase(t, test.build, test.sizes...))
			require.NoError(t, err)
			require.True(t, ok)
		})
	}
}

func TestDeviceWholePrograms(t *testing.T) {
	for _, test := range wholePrograms {
		t.Run(test.name, func(t *testing.T) {
			ok, err := checkDevice(t, newCase(t, test.build, test.sizes...), 0, never)
			require.NoError(t, err)
			require.True(t, ok)
		})
	}
}

// TestSimulateVectors looks for vectors in the kernels of the candidates that have
// them, whatever one address is and where rows end.
func TestSimulateVectors(t *testing.T) {
	const bias = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = add %0, %2
%4 = cast %3 dtype=f16
output %3
output %4
`
	f, err := core.Parse(bias)
	require.NoError(t, err)
	f.Freeze()
	for _, test := range []struct {
		rows, columns int64
		offset        int // in elements
	}{{33, 8, 0}, {33, 8, 4}, {33, 8, 1}, {33, 5, 0}, {33, 5, 1}} {
		c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, []int64{test.rows, test.columns}, []int64{test.columns})}
		p := prepare(c)
		data := make([]float32, int64(test.offset)+test.rows*test.columns+4)
		for uintptr(unsafe.Pointer(&data[0]))%16 != 0 {
			data = data[1:]
		}
		data = data[test.offset:]
		copy(data, unsafe.Slice((*float32)(p.inputs[0].Data), test.rows*test.columns))
		p.inputs[0].Data = unsafe.Pointer(&data[0])
		want, err := f.Eval(p.arrays, p.scalars, random)
		require.NoError(t, err)
		plan, err := executorOf(t, f).PlanWith(p.inputs, executor.Options{Simulate: true, Candidate: 1})
		require.NoError(t, err)
		got, _, err := p.runPlan(t, plan, random)
		requireNoError(t, err)
		require.Empty(t, c.Check(want, got))
		text, err := plan.Inspection().Show("kernel_ir")
		require.NoError(t, err)
		require.Contains(t, text, "]:4 =")
	}
}

// TestSimulateVectorsOfColumns: what is repeated along rows is not moved in vectors.
func TestSimulateVectorsOfColumns(t *testing.T) {
	c := newCase(t, func(p *program) {
		x, y := p.tensor(-1), p.tensor(-1)
		p.output(p.call("mul", p.call("broadcast", x, []bool{false, true}), p.call("broadcast", y, []bool{true, false})))
	}, []int64{8}, []int64{20})
	p := prepare(c)
	want, err := c.Fusion.Eval(p.arrays, p.scalars, random)
	require.NoError(t, err)
	plan, err := executorOf(t, c.Fusion).PlanWith(p.inputs, executor.Options{Simulate: true, Candidate: 1})
	require.NoError(t, err)
	got, _, err := p.runPlan(t, plan, random)
	requireNoError(t, err)
	require.Empty(t, c.Check(want, got))
	text, err := plan.Inspection().Show("scheduler_params")
	require.NoError(t, err)
	require.Contains(t, text, "vectors of 4")
}

// TestSimulateRandom schedules random fusions; what is accepted agrees with the
// evaluator, and what is refused says why.
func TestSimulateRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rules := map[string]int{}
	for n := range 600 {
		data := make([]byte, 20+r.IntN(80))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		ok, err := checkCandidate(t, c, n)
		var refused *core.Unsupported
		switch {
		case ok:
			rules["right"]++
		case errors.As(err, &refused):
			for _, r := range refused.Refusals {
				rules[r.By+": "+r.Rule]++
				t.Log(r.By, r.Rule, r.Sentence)
			}
		}
	}
	t.Log(rules)
	require.Greater(t, rules["right"], 500)
}

// constantReshape has a tensor of 14 * N bytes that each thread computes as a whole.
const constantReshape = `%0 = tensor bool [N, 2, 7] contiguity=[no, no, no] stride_order=[1, 2, 0]
%1 = broadcast %0 is_broadcast_dim=[false, false, false, true, true]
$0 = i.mul N, 2 : index
%2 = reshape %1 new_shape=[$0, 7, 1, 1]
output %2
`

// TestSimulateHeldWhole: where what reads a tensor runs in other loops, the
// schedulers choose a schedule with fewer copies or refuse; lowering has nothing to.
func TestSimulateHeldWhole(t *testing.T) {
	for _, test := range []struct {
		name, text string
		sizes      [][]int64
	}{
		{"reshape of an order", `%0 = tensor f32 [-1, -1, -1] contiguity=[yes, yes, none] stride_order=[1, 2, 0]
$0 = i.mul %0.1, %0.2 : index
%1 = reshape %0 new_shape=[1, %0.0, $0]
%2 = sub %1, -3:i64
output %2
`, [][]int64{{5, 7, 1}}},
		{"broadcast and reshape", `%0 = tensor bool [-1, -1, -1] contiguity=[no, no, no] stride_order=[1, 2, 0]
%1 = broadcast %0 is_broadcast_dim=[false, false, false, true, true]
$0 = i.mul %0.0, %0.1 : index
%2 = reshape %1 new_shape=[$0, %0.2, 1, 1]
output %2
`, [][]int64{{3, 2, 7}}},
		{"what registers hold", strings.ReplaceAll(constantReshape, "N", "3"), [][]int64{{3, 2, 7}}},
		{"more than registers hold", strings.ReplaceAll(constantReshape, "N", "73"), [][]int64{{73, 2, 7}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := core.Parse(test.text)
			require.NoError(t, err)
			f.Freeze()
			ok, err := checkSimulated(t, &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, test.sizes...)})
			require.True(t, ok, err)
		})
	}
}

// TestSimulateParams runs schedules of other parameters than those that are
// chosen for small inputs.
func TestSimulateParams(t *testing.T) {
	const rows = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = exp %0
%2 = sum %1 dims=[1] dtype=f32
output %2
`
	const columns = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[0] dtype=f32
output %1
`
	const all = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[0, 1] dtype=f32
%2 = max %0 dims=[0, 1]
%3 = exp %1
output %3
output %2
`
	const variance = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1, %2, %3 = welford %0 dims=[1]
output %1
output %2
`
	const elementwise = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = exp %0
%2 = add %1, %0
output %2
`
	for _, test := range []struct {
		text string
		s    scheduler.Scheduler
		p    scheduler.Params
	}{
		{elementwise, pointwise.Scheduler{}, pointwise.Params{Threads: 32, Unroll: 4}},
		{elementwise, pointwise.Scheduler{}, pointwise.Params{Threads: 1, Unroll: 3}},
		{elementwise, pointwise.Scheduler{}, pointwise.Params{Threads: 32, Unroll: 1, Vector: 1}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 4, Lanes: 32}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Lanes: 1024}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 32}},
		{rows, reduction.Scheduler{}, reduction.Params{Lanes: 8, Rows: 4}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 4, Lanes: 8, Unroll: 3}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 4, Lanes: 8, Each: 3}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 32, Each: 2, Unroll: 2}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Lanes: 32, Each: 4, Unroll: 2}},
		{columns, reduction.Scheduler{}, reduction.Params{Lanes: 32, Rows: 1}},
		{columns, reduction.Scheduler{}, reduction.Params{Lanes: 32, Rows: 1, Unroll: 5}},
		{columns, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 3, Lanes: 5}},
		{columns, reduction.Scheduler{}, reduction.Params{Lanes: 8, Rows: 4, Unroll: 2, Staged: true}},
		{columns, reduction.Scheduler{}, reduction.Params{Lanes: 8, Rows: 4, Unroll: 2, Staged: true, Blocks: 3}},
		{columns, reduction.Scheduler{}, reduction.Params{Lanes: 3, Rows: 32, Staged: true, Blocks: 2}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Lanes: 32, Blocks: 3}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 4, Lanes: 8, Blocks: 2}},
		{rows, reduction.Scheduler{}, reduction.Params{Inner: true, Rows: 4, Lanes: 8, Blocks: 2, Unroll: 2}},
		{columns, reduction.Scheduler{}, reduction.Params{Lanes: 32, Rows: 4, Blocks: 5}},
		{all, reduction.Scheduler{}, reduction.Params{Inner: true, Lanes: 64, Blocks: 7}},
		{all, reduction.Scheduler{}, reduction.Params{Inner: true, Lanes: 64, Unroll: 2, Blocks: 7}},
		{variance, reduction.Scheduler{}, reduction.Params{Inner: true, Lanes: 32, Blocks: 3}},
		{variance, reduction.Scheduler{}, reduction.Params{Inner: true, Lanes: 8, Rows: 4, Each: 4}},
	} {
		t.Run(test.p.String(), func(t *testing.T) {
			f, err := core.Parse(test.text)
			require.NoError(t, err)
			f.Freeze()
			c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, []int64{37, 53})}
			p := prepare(c)
			_, _, values := fusionfuzz.Arguments(c.Inputs)
			bind, err := f.Bind(values)
			require.NoError(t, err)
			g, err := scheduler.Dense(f, bind)
			require.NoError(t, err)
			s, err := test.s.Apply(g, test.p)
			require.NoError(t, err)
			want, err := f.Eval(p.arrays, p.scalars, random)
			require.NoError(t, err)
			plan, err := executor.NewCache(1, nil).Scheduled(f, s, executor.AnyLaunch).Plan(p.inputs)
			require.NoError(t, err)
			got, _, err := p.runPlan(t, plan, random)
			requireNoError(t, err)
			require.Empty(t, c.Check(want, got))
		})
	}
}

// TestSimulateAliases runs the programs of TestAliases that a scheduler takes.
func TestSimulateAliases(t *testing.T) {
	var taken []string
	for _, test := range aliasPrograms {
		t.Run(test.name, func(t *testing.T) {
			ok, _ := checkSimulated(t, newCase(t, test.build, test.sizes...))
			if ok {
				taken = append(taken, test.name)
			}
		})
	}
	t.Log(taken)
}

// TestSimulateOrdersOfPlaces runs programs in which a tensor that stride_order lays out
// is stored where another order is asked for: for an output that a pass made it, or in
// the memory of an input.
func TestSimulateOrdersOfPlaces(t *testing.T) {
	const laidOut = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = cumsum %0 dim=1
%2 = neg %1
%3 = stride_order %2 stride_order=[0, 1]
`
	for _, test := range []struct{ name, text string }{
		{"squeeze of nothing", "%4 = squeeze %3 dims=[] squeeze_expanded=false\noutput %4\n"},
		{"broadcast of nothing", "%4 = broadcast %3 is_broadcast_dim=[false, false]\noutput %4\n"},
		{"permutation of nothing", "%4 = permute %3 dims=[0, 1]\noutput %4\n"},
		{"beside it", "%4 = squeeze %3 dims=[] squeeze_expanded=false\noutput %3\noutput %4\n"},
		{"beside its transpose", "%4 = squeeze %3 dims=[] squeeze_expanded=false\n%5 = permute %3 dims=[1, 0]\noutput %5\noutput %4\n"},
		{"in place", "output %3 alias %0\n"},
		{"in place and read by torch", "%4 = argsort %3 dim=0 descending=false stable=true\noutput %3 alias %0\noutput %4\n"},
		{"in place and scanned", "%4 = cumsum %3 dim=0\noutput %3 alias %0\noutput %4\n"},
		{"in place and an output", "output %3\noutput %3 alias %0\n"},
		{"in place, both ways", "%4 = stride_order %3 stride_order=[1, 0]\n%5 = argsort %4 dim=0 descending=false stable=true\noutput %4 alias %0\noutput %5\noutput %3\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := core.Parse(laidOut + test.text)
			require.NoError(t, err)
			f.Freeze()
			e := executorOf(t, f) // kernels serve other sizes, where the order shows
			for _, sizes := range [][]int64{{1, 7}, {5, 7}, {5, 1}, {4, 6}} {
				p := prepare(&fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, sizes)})
				want, err := f.Eval(p.arrays, p.scalars, random)
				require.NoError(t, err)
				got, _, err := p.runWith(t, e, executor.Options{Simulate: true}, random)
				_, err = judge(t, p.c, want, nil, got, err)
				require.NoError(t, err)
			}
		})
	}
}

// TestSimulateReshapeBesideRepeated stores a reshape of three dimensions in the loop of
// what repeats them between the first and the second.
func TestSimulateReshapeBesideRepeated(t *testing.T) {
	simulated(t, `%0 = tensor i64 [-1, -1, -1] contiguity=[no, no, no]
%1 = reshape %0 new_shape=[27]
%2 = neg %0
%3 = broadcast %2 is_broadcast_dim=[false, true, false, false]
%4 = expand %3 shape=[%0.0, 3, %0.1, %0.2]
%5 = reshape %4 new_shape=[81]
output %1
output %5
`, []int64{3, 3, 3})
}

package executor_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
	"nvfuser_go/executor"
	"nvfuser_go/internal/golden"
	"nvfuser_go/schedulers"
)

const scaledSum = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
$0 = scalar f64
%1 = mul %0, $0
%2 = sum %1 dims=[1] dtype=f32
output %2
`

// planOf plans the fusion of text for inputs of the given sizes.
func planOf(t *testing.T, text string, o executor.Options, sizes ...[]int64) (*executor.Executor, *prepared, *executor.Plan) {
	t.Helper()
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	p, e := prepare(&fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, sizes...)}), executorOf(t, f)
	plan, err := e.PlanWith(p.inputs, o)
	requireNoError(t, err)
	return e, p, plan
}

// TestStages shows every stage of small fusions, some of which are of several segments.
func TestStages(t *testing.T) {
	shown := map[string]bool{}
	golden.Run(t, "testdata/stages/*.txtar", "fusion", func(t *testing.T, in, section string) string {
		_, _, plan := planOf(t, in, executor.Options{}, sizesOf(t, in)...)
		name, arguments, _ := strings.Cut(strings.TrimSuffix(section, ")"), "(")
		shown[name] = true
		var list []string
		if arguments != "" {
			list = strings.Split(arguments, ",")
		}
		text, err := plan.Inspection().Show(name, list...)
		requireNoError(t, err)
		return text
	})
	for _, s := range executor.Stages() {
		require.True(t, shown[s.Name], "no archive has stage %s", s.Name)
	}
}

// TestInspectionIsOfWhatRuns: the kernel is that of a plan that simulates one,
// and it is made once.
func TestInspectionIsOfWhatRuns(t *testing.T) {
	e, p, onCPU := planOf(t, scaledSum, executor.Options{}, []int64{3, 300})
	simulated, err := e.PlanWith(p.inputs, executor.Options{Simulate: true})
	requireNoError(t, err)
	for _, stage := range executor.Stages() {
		want, err := onCPU.Inspection().Show(stage.Name)
		requireNoError(t, err)
		require.NotEmpty(t, want, stage.Name)
		got, err := simulated.Inspection().Show(stage.Name)
		requireNoError(t, err)
		require.Equal(t, want, got, stage.Name)
	}
	again, err := e.Plan(p.inputs)
	requireNoError(t, err)
	require.Same(t, onCPU, again)
	_, built := e.Plans()
	require.Equal(t, 2, built)
	require.True(t, onCPU.Inspection().FirstShown())
	require.False(t, onCPU.Inspection().FirstShown())
	require.True(t, simulated.Inspection().FirstShown())
}

// TestInspectionWhileRunning: inspections and runs from many goroutines.
func TestInspectionWhileRunning(t *testing.T) {
	for _, o := range []executor.Options{{}, {Simulate: true}} {
		_, p, plan := planOf(t, scaledSum, o, []int64{3, 40})
		var group sync.WaitGroup
		first := make([]string, 4)
		for i := range first {
			group.Go(func() {
				for range 3 {
					var b strings.Builder
					for _, stage := range executor.Stages() {
						text, err := plan.Inspection().Show(stage.Name)
						if err != nil {
							t.Error(err)
						}
						b.WriteString(text)
					}
					first[i] = b.String()
					if _, _, err := p.runPlan(t, plan, random); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		for _, text := range first {
			require.Equal(t, first[0], text)
		}
	}
}

// TestInspectionRefused: of a fusion that no scheduler takes, what there is can
// be seen, and the rest is refused with the reasons.
func TestInspectionRefused(t *testing.T) {
	_, _, plan := planOf(t, `%0 = tensor f32 [-1] contiguity=[yes]
%1 = cumsum %0 dim=0
output %1
`, executor.Options{}, []int64{40000})
	x := plan.Inspection()
	choice, err := x.Show("scheduler_verbose")
	require.NoError(t, err)
	require.Equal(t, "transpose refuses: tv1 is the result of cumsum(), a scan operation (operation)\n"+
		"pointwise refuses: tv1 is the result of cumsum(), a scan operation (operation)\n"+
		"inner_persistent refuses: tv1 is the result of cumsum(), a scan operation (operation)\n"+
		"reduction refuses: tv1 is the result of cumsum(), a scan operation (operation)\n"+
		"outer_persistent refuses: tv1 is the result of cumsum(), a scan operation (operation)\ninner_outer_persistent refuses: tv1 is the result of cumsum(), a scan operation (operation)\n"+
		"block_row refuses: the rows of tv1 have 40000 elements, for which the registers of a block have no room (row too long)\n", choice)
	for _, stage := range executor.Stages() {
		text, err := x.Show(stage.Name)
		if err == nil {
			require.NotEmpty(t, text, stage.Name)
			continue
		}
		var refused *core.Unsupported
		require.ErrorAs(t, err, &refused, stage.Name)
		require.Len(t, refused.Refusals, len(schedulers.All()))
	}
	_, err = x.Show("cuda_kernel")
	require.ErrorContains(t, err, "no scheduler takes this fusion")
}

func TestInspectionMistakes(t *testing.T) {
	e, _, plan := planOf(t, scaledSum, executor.Options{}, []int64{3, 4})
	definition := executor.InspectDefinition(e.Fusion())
	for _, test := range []struct {
		x         *executor.Inspection
		stage     string
		arguments []string
		want      string
	}{
		{plan.Inspection(), "cuda", nil, `there is no stage "cuda"; the stages are python_definition, fusion_ir_original,`},
		{plan.Inspection(), "kernel_ir", []string{"a", "b"}, "kernel_ir takes segment=N: segment N alone, got a, b"},
		{plan.Inspection(), "lower_verbose", []string{"hoits"}, `there is no pass "hoits"; the passes are launch, statements,`},
		{plan.Inspection(), "fusion_ir", []string{"all"}, "fusion_ir takes transforms or nothing, got all"},
		{plan.Inspection(), "cuda_full", []string{"sm_80"}, "the compute capability must be one number such as 80 or 90, got sm_80"},
		{definition, "launch_param", nil, "launch_param is shown for inputs, and none are given"},
		{definition, "cuda_kernel", nil, "cuda_kernel is shown for inputs, and none are given"},
	} {
		_, err := test.x.Show(test.stage, test.arguments...)
		var mistake *core.InvalidArgument
		require.ErrorAs(t, err, &mistake)
		require.ErrorContains(t, err, test.want)
	}
}

func TestInspectSchedule(t *testing.T) {
	f, err := core.Parse("%0 = tensor f32 [-1] contiguity=[yes]\n%1 = neg %0\noutput %1\n")
	require.NoError(t, err)
	f.Freeze()
	s := schedule.New(f)
	x := executor.InspectSchedule(s, lower.Options{Index: dtype.Int32})
	require.NoError(t, s.Split(f.Outputs()[0].Val, 0, 4, true)) // later, and so not seen
	for stage, want := range map[string]string{
		"cuda_kernel":       "for (int i0 = 0; i0 < p.tv0_n0; ++i0)",
		"index_type":        "i32\n",
		"scheduler_params":  "scheduled by hand\n",
		"scheduler_verbose": "scheduled by hand\n",
		"fusion_ir_math":    "T1_g_float",
	} {
		text, err := x.Show(stage)
		require.NoError(t, err)
		require.Contains(t, text, want)
	}
	_, err = x.Show("launch_param")
	require.ErrorContains(t, err, "launch_param is shown for inputs, and none are given")
}

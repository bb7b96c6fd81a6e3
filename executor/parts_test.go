package executor_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor"
)

// sizesOf reads the sizes of tensors from a first line such as "# sizes 16x300 300".
func sizesOf(t *testing.T, in string) (sizes [][]int64) {
	line, _, _ := strings.Cut(in, "\n")
	words, ok := strings.CutPrefix(line, "# sizes ")
	if !ok {
		return [][]int64{{3, 300}}
	}
	for _, word := range strings.Fields(words) {
		var of []int64
		for n := range strings.SplitSeq(word, "x") {
			k, err := strconv.ParseInt(n, 10, 64)
			require.NoError(t, err)
			of = append(of, k)
		}
		sizes = append(sizes, of)
	}
	return sizes
}

// blockText is a softmax of rows and a product.
const blockText = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = max %0 dims=[1]
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %0, %3
%5 = exp %4
%6 = sum %5 dims=[1] dtype=f32
%7 = broadcast %6 is_broadcast_dim=[false, true]
%8 = div %5, %7
%9 = matmul %8, %1
output %9
output %0
`

const twoSegments = `# sizes 8x8
%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = neg %0
%2 = matmul %1, %1
output %2
`

func TestStagesOfOneSegment(t *testing.T) {
	_, _, plan := planOf(t, twoSegments, executor.Options{}, sizesOf(t, twoSegments)...)
	x := plan.Inspection()
	for _, test := range []struct {
		stage, argument, want string // part of what is shown
		refused               string
	}{
		{"cuda_kernel", "segment=0", "// segment 0, kernel by pointwise: tv1 from tv0\nstruct", ""},
		{"cuda_kernel", "segment=1", "", "no scheduler takes this fusion: torch computes it"},
		{"cuda_kernel", "segment=2", "", "there is no segment 2: this fusion has 2, counted from 0"},
		{"cuda_kernel", "segment=-1", "", "segment=-1 is no number of a segment, which are counted from 0"},
		{"cuda_kernel", "segment=a", "", "segment=a is no number of a segment, which are counted from 0"},
		{"segmented_fusion", "segment=0", "", "segmented_fusion takes no arguments, got segment=0"},
		{"explain", "segment=0", "", "explain takes json or nothing, got segment=0"},
		{"kernel_ir", "0", "", "kernel_ir takes segment=N: segment N alone, got 0"},
	} {
		text, err := x.Show(test.stage, test.argument)
		if test.refused != "" {
			require.ErrorContains(t, err, test.refused)
			continue
		}
		requireNoError(t, err)
		require.Contains(t, text, test.want)
		require.NotContains(t, text, "segment 1")
	}
	text, err := x.Show("cuda_kernel", "80", "segment=0")
	requireNoError(t, err)
	require.Contains(t, text, "// segment 0, ")
}

// TestStagesOfADevice: what is shown of a plan of a device is what its driver got.
func TestStagesOfADevice(t *testing.T) {
	driver := h100s(1)
	e := deviceExecutor(t, driver, twoSegments)
	plan, err := e.Plan([]executor.Input{onDevice(0, 0x1000, []int64{8, 8}, []int64{8, 1})})
	requireNoError(t, err)
	text, err := plan.Inspection().Show("cuda_full")
	requireNoError(t, err)
	require.Contains(t, text, driver.Compiles()[0].Source)
	program, err := plan.Inspection().Show("plan")
	requireNoError(t, err)
	require.Equal(t, plan.Device.String(), program)
	for _, s := range executor.Stages() {
		text, err := plan.Inspection().Show(s.Name)
		requireNoError(t, err)
		require.NotEmpty(t, text, s.Name)
	}
}

// TestStagesOfWhatFails: of a plan that cannot be made, what there is is shown.
func TestStagesOfWhatFails(t *testing.T) {
	driver := failing(func(string) error { return &cudadrv.CallError{Call: "cuAnything"} }, "expf(")
	e := layersExecutor(t, executor.NewCache(1, driver), "exp", "abs")
	_, want := e.Plan(aVector)
	require.Error(t, want)
	x, err := e.Inspect(aVector, executor.Options{})
	require.NoError(t, err)
	require.True(t, x.FirstShown())
	for _, s := range executor.Stages() {
		text, err := x.Show(s.Name)
		requireNoError(t, err)
		require.NotEmpty(t, text)
	}
	text, err := x.Show("cuda_kernel", "segment=0")
	requireNoError(t, err)
	require.Contains(t, text, "expf(")
	require.Empty(t, driver.Loads()[1:], "what is looked at is loaded")

	driver.Fail = func(call string) error { return &cudadrv.Unavailable{Library: "libcuda"} }
	e = layersExecutor(t, executor.NewCache(1, driver), "exp", "abs")
	x, err = e.Inspect(aVector, executor.Options{})
	require.NoError(t, err)
	text, err = x.Show("fusion_args")
	require.NoError(t, err)
	require.Contains(t, text, "on cuda:0")
	_, err = x.Show("cuda_kernel")
	require.ErrorAs(t, err, new(*core.Unsupported))
	_, err = e.Inspect(aVector[:0], executor.Options{})
	require.ErrorAs(t, err, new(*core.InvalidArgument))
}

// TestStagesWithoutInputs: what is shown of a definition alone, and of a schedule.
func TestStagesWithoutInputs(t *testing.T) {
	f, err := core.Parse("%0 = tensor f32 [-1] contiguity=[yes]\n%1 = neg %0\noutput %1\n")
	require.NoError(t, err)
	f.Freeze()
	scheduled := map[string]bool{"fusion_ir_presched": true, "python_definition_segments": true}
	begun := false
	for _, s := range executor.Stages() {
		_, err := executor.InspectDefinition(f).Show(s.Name)
		if s.OfDefinition() {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, s.Name+" is shown for inputs, and none are given")
		begun = begun || s.Name == "scheduler_verbose"
		_, err = executor.InspectSchedule(schedule.New(f), lower.Options{}).Show(s.Name)
		if scheduled[s.Name] || begun && !slices.Contains([]string{"kernel_args", "launch_param", "dynamic_shared_memory", "plan", "plan_memory"}, s.Name) {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, s.Name+" is shown for inputs, and none are given")
	}
}

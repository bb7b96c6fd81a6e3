package executor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

// chainText is five kernels with a call of torch between the second and the third.
const chainText = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = exp %0
%2 = segment_set %1
%3 = sin %2
%4 = segment_set %3
%5 = matmul %4, %4
%6 = exp %5
%7 = segment_set %6
%8 = sin %7
%9 = segment_set %8
%10 = cos %9
output %10
`

// starts returns of each launch of the chain whether it starts early (e), and whether its
// text lets the next one start (l) and waits (w).
func starts(t *testing.T, driver *fake.Driver, o executor.Options) (all []string, plan *executor.Plan) {
	t.Helper()
	e := deviceExecutor(t, driver, chainText)
	plan, err := e.PlanWith([]executor.Input{onDevice(0, 1<<20, []int64{32, 32}, []int64{32, 1})}, o)
	requireNoError(t, err)
	loads := driver.Loads()
	for _, l := range plan.Device.Launches {
		text, is := string(loads[l.Function.Handle-1].Cubin), ""
		if l.Early {
			is += "e"
		}
		if strings.Contains(text, "  startNextKernel();\n") {
			is += "l"
		}
		if strings.Contains(text, "  waitForKernels();\n") {
			is += "w"
		}
		all = append(all, is)
	}
	return all, plan
}

func TestLaunchOverlap(t *testing.T) {
	all, plan := starts(t, h100s(1), executor.Options{})
	require.Equal(t, []string{"l", "elw", "l", "elw", "elw"}, all)
	require.Contains(t, plan.Device.String(), "starts before the one before it ends")
	first := 0
	for _, p := range plan.Device.Phases {
		if p.Launches > 0 {
			require.False(t, plan.Device.Launches[first].Early, "the first of a phase")
		}
		first += p.Launches
	}
	again, _ := starts(t, h100s(1), executor.Options{})
	require.Equal(t, all, again)

	for name, made := range map[string]func() (*fake.Driver, executor.Options){
		"option": func() (*fake.Driver, executor.Options) { return h100s(1), executor.Options{Apart: true} },
		"architecture": func() (*fake.Driver, executor.Options) {
			d := h100s(1)
			d.Present[0].Major = 8
			return d, executor.Options{}
		},
		"driver": func() (*fake.Driver, executor.Options) {
			d := h100s(1)
			d.Present[0].DriverVersion = 12020
			return d, executor.Options{}
		},
	} {
		driver, o := made()
		none, plan := starts(t, driver, o)
		require.Equal(t, make([]string, len(all)), none, name)
		require.NotContains(t, plan.Device.String(), "starts before", name)
	}
}

// TestLaunchOverlapOfOneExecutor: plans with and without are told apart.
func TestLaunchOverlapOfOneExecutor(t *testing.T) {
	e := deviceExecutor(t, h100s(1), chainText)
	in := []executor.Input{onDevice(0, 1<<20, []int64{32, 32}, []int64{32, 1})}
	early := func(o executor.Options) (n int) {
		plan, err := e.PlanWith(in, o)
		requireNoError(t, err)
		for _, l := range plan.Device.Launches {
			if l.Early {
				n++
			}
		}
		return n
	}
	n := early(executor.Options{})
	require.Positive(t, n)
	require.Zero(t, early(executor.Options{Apart: true}))
	require.Equal(t, n, early(executor.Options{}))
}

// TestLaunchOverlapOfCounters: counters are those of the kernels before on the stream, so a
// kernel that starts early waits before it counts, and one with barriers does not start early.
func TestLaunchOverlapOfCounters(t *testing.T) {
	for end, early := range map[string]bool{
		"%3 = sum %2 dims=[0, 1] keepdim=false dtype=f32\noutput %3\n":                                                                 true,
		"%3 = sum %2 dims=[0] keepdim=false dtype=f32\n%4 = broadcast %3 is_broadcast_dim=[true, false]\n%5 = sub %2, %4\noutput %5\n": false,
	} {
		driver := h100s(1)
		e := deviceExecutor(t, driver, "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n%1 = exp %0\n%2 = segment_set %1\n"+end)
		plan, err := e.Plan([]executor.Input{onDevice(0, 1<<20, []int64{12544, 256}, []int64{256, 1})})
		requireNoError(t, err)
		require.Len(t, plan.Device.Launches, 2)
		l := plan.Device.Launches[1]
		_, body, _ := strings.Cut(string(driver.Loads()[l.Function.Handle-1].Cubin), "__global__")
		before, _, counts := strings.Cut(body, map[bool]string{true: "atomicAdd(", false: "gridBarrier("}[early])
		require.True(t, counts, body)
		require.Equal(t, early, l.Early)
		require.Equal(t, early, !l.Cooperative)
		require.Contains(t, before, "\n  waitForKernels();\n")
	}
}

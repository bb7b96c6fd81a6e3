package executor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
	"nvfuser_go/executor"
)

const softmaxText = `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = max %0 dims=[1] keepdim=false dtype=null
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
%4 = exp %3
%5 = sum %4 dims=[1] keepdim=false dtype=f32
%6 = broadcast %5 is_broadcast_dim=[false, true]
%7 = div %4, %6
output %7
`

// TestLargeClusters has rows of 1 MB computed by 16 blocks where a device has room for such a
// cluster, and by 8 where it has not. What the device decided is not kept, and a plan that
// was kept on a device with room is not taken by one without.
func TestLargeClusters(t *testing.T) {
	inputs := []executor.Input{onDevice(0, 0x1000, []int64{512, 1 << 18}, []int64{1 << 18, 1})}
	cluster := func(p *process) uint32 {
		plan := p.plan(t, softmaxText, inputs, executor.Options{})
		require.Len(t, plan.Device.Launches, 1)
		require.NoError(t, p.below.Launch(&plan.Device.Launches[0], cudadrv.CallValues{Inputs: []uintptr{0x1000}, Outputs: []uintptr{1 << 32}}, 0))
		return plan.Device.Launches[0].Cluster[0]
	}
	without := func() *fake.Driver {
		d := h100s(1)
		d.Clusters = func(cudadrv.LargeCluster) int { return 0 }
		return d
	}
	folder, other := keptFolder(t), keptFolder(t)
	p := newProcess(h100s(1), folder)
	require.EqualValues(t, 16, cluster(p))
	require.EqualValues(t, 1, p.keeps.Load())
	loads := p.below.Loads()
	require.Len(t, loads, 1)
	require.Equal(t, cudadrv.LargeCluster{Blocks: 16, Threads: 256, Shared: loads[0].Options.DynamicShared}, loads[0].Options.Cluster)

	p = newProcess(h100s(1), folder)
	require.EqualValues(t, 16, cluster(p))
	require.True(t, p.found())

	p = newProcess(without(), folder)
	require.EqualValues(t, 8, cluster(p))
	require.EqualValues(t, 1, p.finds.Load())
	require.Zero(t, p.keeps.Load())

	p = newProcess(without(), other)
	require.EqualValues(t, 8, cluster(p))
	require.Zero(t, p.keeps.Load())

	// A row that only 16 blocks hold is two kernels there.
	inputs[0].Sizes, inputs[0].Strides = []int64{64, 1 << 19}, []int64{1 << 19, 1}
	require.EqualValues(t, 16, cluster(newProcess(h100s(1), other)))
	plan := newProcess(without(), other).plan(t, softmaxText, inputs, executor.Options{})
	require.Greater(t, len(plan.Device.Launches), 1)
}

// TestPassedOver has an explanation say why parameters before those that were chosen cannot be.
func TestPassedOver(t *testing.T) {
	d := h100s(1)
	d.Clusters = func(cudadrv.LargeCluster) int { return 0 }
	inputs := []executor.Input{onDevice(0, 0x1000, []int64{512, 1 << 18}, []int64{1 << 18, 1})}
	e, err := deviceExecutor(t, d, softmaxText).Explain(inputs, executor.Options{}, nil)
	requireNoError(t, err)
	require.Len(t, e.Segments, 1)
	s := e.Segments[0]
	require.Contains(t, s.Parameters, "in each of 8 blocks")
	require.NotEmpty(t, s.Others)
	require.Regexp(t, `in each of 16 blocks.*: .*cluster`, s.Others[0])
	for _, other := range s.Others[1:] { // these were not tried
		require.Equal(t, 1, strings.Count(other, ": "))
	}
	require.Contains(t, e.String(), s.Others[0])
}

// TestNewerClusters has no more than 8 blocks in a cluster where more was not tried.
func TestNewerClusters(t *testing.T) {
	d := h100s(1)
	d.Present[0].Major = 10
	plan, err := deviceExecutor(t, d, softmaxText).Plan([]executor.Input{onDevice(0, 0x1000, []int64{512, 1 << 18}, []int64{1 << 18, 1})})
	requireNoError(t, err)
	require.EqualValues(t, 8, plan.Device.Launches[0].Cluster[0])
	require.True(t, strings.Contains(d.Compiles()[0].Source, "__cluster_dims__(8"))
}

package executor_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor"
)

// requireMemory follows the phases of a plan: what launches and calls use is there, nothing is
// allocated twice, outputs alone are left, and there is as much at a time as the plan says.
func requireMemory(t testing.TB, plan *executor.Plan) {
	d, n := plan.Device, plan.Counts()
	there, now, most := map[int]bool{}, int64(0), int64(0)
	bytes := func(slot int) int64 {
		if slot < n.Inputs+n.Outputs {
			return plan.Outputs[slot-n.Inputs].NumBytes()
		}
		return d.Workspaces[slot-n.Inputs-n.Outputs].Bytes
	}
	add := func(slot int) {
		require.False(t, there[slot], "%d is there\n%v", slot, d)
		there[slot] = true
		now += bytes(slot)
		most = max(most, now)
	}
	use := func(slot int) {
		if slot >= n.Inputs && !(slot < n.Inputs+n.Outputs && plan.Outputs[slot-n.Inputs].NumBytes() == 0) {
			require.True(t, there[slot], "%d is used and not there\n%v", slot, d)
		}
	}
	launch := 0
	for _, p := range d.Phases {
		for _, s := range p.Allocate {
			add(int(s))
		}
		for range p.Launches {
			for _, x := range d.Launches[launch].Patches {
				switch x.Value {
				case cudadrv.OutputPointer:
					use(n.Inputs + x.Index)
				case cudadrv.WorkspacePointer:
					use(n.Inputs + n.Outputs + x.Index)
				}
			}
			launch++
		}
		if p.Call >= 0 {
			for _, a := range d.Calls[p.Call].Arguments {
				if a.Slot >= 0 {
					use(int(a.Slot))
				}
			}
			for _, r := range d.Calls[p.Call].Results {
				if r.Slot >= 0 {
					add(int(r.Slot))
				}
			}
		}
		for _, s := range p.Release {
			require.True(t, there[int(s)], "%d is given back and not there\n%v", s, d)
			delete(there, int(s))
			now -= bytes(int(s))
		}
	}
	if len(d.Calls) > 0 { // else what was allocated goes when the run ends
		for slot := range there {
			require.Less(t, slot, n.Inputs+n.Outputs, "a workspace is left\n%v", d)
		}
	}
	for k, o := range plan.Outputs {
		ofInput := o.View != nil && int(o.View.Of) < n.Inputs
		require.Equal(t, !o.Hidden && o.SameAs < 0 && !ofInput, there[n.Inputs+k], "output %d\n%v", k, d)
	}
	require.Equal(t, most, d.PeakBytes)
}

// phasesOf shows phases: what is done, and the bytes of what they allocate and release.
func phasesOf(plan *executor.Plan) []string {
	d, n := plan.Device, plan.Counts()
	bytes := func(slots []executor.Slot) string {
		var all []string
		for _, s := range slots {
			size := int64(0)
			if k := int(s) - n.Inputs; k < n.Outputs {
				size = plan.Outputs[k].NumBytes()
			} else {
				size = d.Workspaces[k-n.Outputs].Bytes
			}
			all = append(all, fmt.Sprintf("%d KiB", size>>10))
		}
		return strings.Join(all, " ")
	}
	var all []string
	for _, p := range d.Phases {
		text := fmt.Sprintf("+[%s] %d launches", bytes(p.Allocate), p.Launches)
		if p.Call >= 0 {
			text += " and " + d.Calls[p.Call].Name
		}
		all = append(all, text+fmt.Sprintf(" -[%s]", bytes(p.Release)))
	}
	return all
}

// TestPhases tells when memory comes and goes.
func TestPhases(t *testing.T) {
	const matrix = "%0 = tensor f32 [-1, -1] contiguity=[yes, yes]\n"
	for _, test := range []struct {
		name, text string
		n          int64
		want       []string
	}{
		{"what a launch leaves is not there in the call", matrix + "%1 = exp %0\n%2 = matmul %1, %0\n%3 = sin %2\n%4 = matmul %3, %0\noutput %4", 1024, []string{
			"+[4096 KiB] 1 launches and matmul -[4096 KiB]", "+[4096 KiB] 1 launches -[4096 KiB]", "+[] 0 launches and matmul -[4096 KiB]"}},
		{"three kernels whose operand goes when it was read", matrix + "%1 = matmul %0, %0\n%2 = max %1 dims=[1] keepdim=false dtype=null\n%3 = segment_set %2\n%4 = broadcast %3 is_broadcast_dim=[false, true]\n%5 = sub %1, %4\n%6 = lgamma %5\n%7 = sum %6 dims=[1] keepdim=false dtype=f32\n%8 = segment_set %7\n%9 = broadcast %8 is_broadcast_dim=[false, true]\n%10 = truediv %6, %9\n%11 = matmul %10, %0\noutput %11", 1024, []string{
			"+[] 0 launches and matmul -[]", "+[4 KiB 4096 KiB 4 KiB] 2 launches -[4096 KiB 4 KiB]",
			"+[4096 KiB] 1 launches -[4096 KiB 4 KiB]", "+[] 0 launches and matmul -[4096 KiB]"}},
		{"a softmax in three kernels that is too small to part", matrix + "%1 = matmul %0, %0\n%2 = max %1 dims=[1] keepdim=false dtype=null\n%3 = segment_set %2\n%4 = broadcast %3 is_broadcast_dim=[false, true]\n%5 = sub %1, %4\n%6 = exp %5\n%7 = sum %6 dims=[1] keepdim=false dtype=f32\n%8 = segment_set %7\n%9 = broadcast %8 is_broadcast_dim=[false, true]\n%10 = truediv %6, %9\n%11 = matmul %10, %0\noutput %11", 64, []string{
			"+[] 0 launches and matmul -[]", "+[16 KiB 16 KiB] 3 launches -[16 KiB 16 KiB]", "+[] 0 launches and matmul -[16 KiB]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := core.Parse(test.text)
			require.NoError(t, err)
			f.Freeze()
			e, err := executor.NewCache(1, h100s(1)).Executor(f)
			require.NoError(t, err)
			plan, err := e.Plan([]executor.Input{onDevice(0, 0x1000, []int64{test.n, test.n}, []int64{test.n, 1})})
			requireNoError(t, err)
			requireMemory(t, plan)
			require.Equal(t, test.want, phasesOf(plan))
		})
	}
}

// TestBlockMemory follows the phases of the blocks of the corpus, parted as they are and wherever
// they may be.
func TestBlockMemory(t *testing.T) {
	files, err := filepath.Glob("../tests/go/testdata/corpus/blocks/*.fusion")
	require.NoError(t, err)
	for _, file := range files {
		b := readBlock(t, file)
		if b.f.NumExprs() > 1000 {
			continue // its layers are blocks too
		}
		follow := func(name string) (phases int) {
			e, err := executor.NewCache(1, h100s(1)).Executor(b.f)
			require.NoError(t, err)
			plan, err := e.Plan(b.inputs[name])
			requireNoError(t, err)
			requireMemory(t, plan)
			return len(plan.Device.Phases)
		}
		for _, name := range b.names {
			few := follow(name)
			undo := executor.PartAlways()
			many := follow(name)
			undo()
			require.GreaterOrEqual(t, many, few)
		}
	}
}

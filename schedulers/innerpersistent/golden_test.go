package innerpersistent

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/segmenttext"
)

// TestChoices compares what is chosen for segments: parameters, what is in registers or shared
// memory from one phase to another, and the loops of what is stored.
func TestChoices(t *testing.T) {
	segmenttext.Run(t, Scheduler{}, func(t *testing.T, b *strings.Builder, c segmenttext.Chosen) {
		s, f := c.Schedule, c.Schedule.Fusion()
		m, err := s.Verified()
		require.NoError(t, err)
		for _, v := range s.Tensors() {
			isHeld := c.Section == "held" && !f.Val(v).Input && (s.Memory(v) == schedule.Shared || s.Memory(v) == schedule.Local && elements(m, v) > c.Params.(Params).Vector)
			isOutput := c.Section == "nest" && f.Val(v).Def != core.NoExpr && s.Memory(v) == schedule.Global
			if isHeld || isOutput {
				packed := ""
				if s.HoldsPacked(v) {
					packed = " packed"
				}
				fmt.Fprintf(b, "%s %v%s %s\n", f.Name(v), f.Val(v).DType, packed, s.LoopText(v))
			}
		}
	})
}

// TestWithoutClusters refuses rows that a block has no registers for where a device has no
// clusters.
func TestWithoutClusters(t *testing.T) {
	g := segmenttext.Read(t, `%0 = tensor f32 [-1, -1] contiguity=[yes, yes]
%1 = sum %0 dims=[1] keepdim=false dtype=f32
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = sub %0, %2
output %3

[4096, 65536]
`)
	device := scheduler.Hopper
	require.Equal(t, int64(4), Scheduler{}.Candidates(g, device)[0].(Params).Cluster)
	device.Cluster = 1
	require.Equal(t, "row too wide", Scheduler{}.Accept(g, device)[0].Rule)
}

// TestRowsApart tells where the rows of a thread lie in shared memory: one after the other, so that
// what the lanes of a warp read is side by side.
func TestRowsApart(t *testing.T) {
	text, err := os.ReadFile("testdata/layer_norm_bf16_weights_f32_4096x65536.txtar")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("-- segment --\n"))
	text, _, _ = bytes.Cut(text, []byte("-- choice --\n"))
	g := segmenttext.Read(t, string(text))
	chosen := Scheduler{}.Candidates(g, scheduler.Hopper)[0].(Params)
	require.Equal(t, int64(2), chosen.Each)
	s, err := analyse(g).build(chosen)
	require.NoError(t, err)
	found := false
	for _, v := range s.Tensors() {
		if s.Memory(v) != schedule.Shared {
			continue
		}
		found = true
		axes, isSet := s.Allocation(v)
		require.True(t, isSet)
		each, isConst := s.Fusion().Scalars().ConstInt(s.Fusion().Axis(axes[0]).Extent)
		require.True(t, isConst)
		require.Equal(t, chosen.Each, each)
		require.Equal(t, schedule.TIDx, s.Parallel(axes[len(axes)-2]))
	}
	require.True(t, found)
}

// TestPromises holds what parameters promise of the length of a row against the lengths that
// they are chosen for.
func TestPromises(t *testing.T) {
	for _, dtype := range []string{"bf16", "f32", "f64"} {
		for _, count := range []int{7, 65536} {
			for length := int64(0); length < 140000; length += 1 + length/90 {
				g := segmenttext.Read(t, fmt.Sprintf(`%%0 = tensor %s [-1, -1] contiguity=[yes, yes]
%%1 = tensor %s [-1] contiguity=[yes]
%%2 = cast %%0 dtype=f32
%%3 = sum %%2 dims=[1] keepdim=false dtype=f32
%%4 = broadcast %%3 is_broadcast_dim=[false, true]
%%5 = sub %%2, %%4
%%6 = broadcast %%1 is_broadcast_dim=[true, false]
%%7 = cast %%6 dtype=f32
%%8 = mul %%5, %%7
output %%8

[%d, %d]
[%d]
`, dtype, dtype, count, length, length))
				a := analyse(g)
				require.NoError(t, a.err)
				chosen, _ := a.choose(scheduler.Hopper)
				for _, p := range chosen {
					require.LessOrEqual(t, p.least(), length, "%v", p)
					require.GreaterOrEqual(t, p.capacity(), length, "%v", p)
					require.True(t, !p.Whole || p.capacity() == length, "%v", p)
				}
			}
		}
	}
}

// elements returns how many of v a thread has at a time.
func elements(m *schedule.Mapping, v core.ValID) int64 {
	s, n := m.Scheduled(), int64(1)
	for _, a := range s.Loop(v)[s.Position(v):] {
		if p := m.Parallel(a); p.IsBlock() || p.IsThread() || s.Fusion().Axis(a).Kind != core.Iter {
			continue
		}
		e, _ := s.Fusion().Scalars().ConstInt(s.Fusion().Axis(a).Extent)
		n *= e
	}
	return n
}

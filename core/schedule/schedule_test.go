package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// parsed returns a schedule of the fusion of text, unscheduled.
func parsed(t testing.TB, text string) *Scheduled {
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	return New(f)
}

// tv returns the tensor that is called tvN.
func tv(s *Scheduled, n int) core.ValID {
	for v := range s.f.NumVals() {
		if x := s.f.Val(core.ValID(v)); x.Tensor && x.Number == n {
			return core.ValID(v)
		}
	}
	panic("no such tensor")
}

// done returns v, or fails.
func done[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func extents(s *Scheduled, axes []core.AxisID) []int64 {
	out := []int64{}
	for _, a := range axes {
		n, _ := s.f.Scalars().ConstInt(s.extent(a))
		out = append(out, n)
	}
	return out
}

package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/schedulers/model"
)

func TestTime(t *testing.T) {
	require.InDelta(t, 2.05, model.H100.Time(model.Kernel{Processors: 132}), 1e-9)
	require.InDelta(t, 178.6, model.H100.Time(model.Kernel{Bytes: 2 << 28, Processors: 132}), 0.2)
	before := 0.0
	for n := 1.0; n < 1e12; n *= 3 {
		now := model.H100.Time(model.Kernel{Bytes: n, Instructions: 1e9, Processors: 132})
		require.GreaterOrEqual(t, now, before)
		before = now
		require.GreaterOrEqual(t, model.H100.Time(model.Kernel{Bytes: n, Instructions: 1e9, Processors: 66}), now, "on half of it")
	}
}

func BenchmarkTime(b *testing.B) {
	for b.Loop() {
		model.H100.Time(model.Kernel{Bytes: 1e9, Instructions: 1e9, Processors: 132})
	}
}

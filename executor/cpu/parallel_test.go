package cpu

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPanicOnAnyGoroutine fails one task of many, wherever it runs.
func TestPanicOnAnyGoroutine(t *testing.T) {
	for bad := range int64(40) {
		err := (&run{}).each(40, 1<<20, func(i int64) {
			if i == bad {
				panic("bad")
			}
		})
		var p *Panic
		require.ErrorAs(t, err, &p)
		require.Equal(t, "bad", p.Value)
		require.Contains(t, string(p.Stack), "parallel_test.go")
	}
}

func TestStopBetweenTasks(t *testing.T) {
	var stop atomic.Bool
	done := int64(0)
	err := (&run{stop: &stop}).each(1000, 0, func(int64) {
		if done++; done == 10 {
			stop.Store(true)
		}
	})
	require.ErrorIs(t, err, ErrInterrupted)
	require.Equal(t, int64(10), done)
}

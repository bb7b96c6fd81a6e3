package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/sim"
)

// TestStop ends a run of a million statements after the third poll.
func TestStop(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		l := typical(200)
		l.k.Launch.Cooperative = cooperative
		polls := 0
		report, err := sim.Run(l.k, l.arguments, sim.Options{Stop: func() bool { polls++; return polls == 3 }})
		require.ErrorIs(t, err, sim.ErrStopped)
		require.Nil(t, report)
		require.Equal(t, 3, polls)

		l = typical(200)
		polls = 0
		report, err = sim.Run(l.k, l.arguments, sim.Options{Stop: func() bool { polls++; return false }})
		require.NoError(t, err)
		require.NoError(t, report.Err())
		require.Greater(t, polls, 20)
	}
}

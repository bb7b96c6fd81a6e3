package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is known of an address is known of one some bytes on.
func TestAlignment(t *testing.T) {
	for address := int64(0); address < 64; address++ {
		known := WellAligned + Alignment(address%WellAligned)
		for bytes := int64(-20); bytes <= 20; bytes++ {
			at := known.Plus(bytes)
			past, ok := at.Past()
			require.True(t, ok)
			require.Zero(t, (address+bytes-int64(past))%WellAligned)
			require.Zero(t, (address+bytes)%int64(at.Divisor()))
		}
	}
	for _, a := range []Alignment{1, 2, 4, 8} {
		_, ok := a.Past()
		require.False(t, ok)
		require.Equal(t, int(a), a.Divisor())
		require.Equal(t, a, a.Plus(3*int64(a)), "no more is known of it")
		require.Equal(t, Alignment(1), a.Plus(1))
	}
	require.Equal(t, Alignment(WellAligned), Alignment(WellAligned).Plus(32))
	require.Equal(t, 2, Alignment(18).Divisor())
}

package kir

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The quotient is right for all numbers of 31 bits: small ones, those around
// multiples and powers of two, and random ones.
func TestDivider(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(n, d int64) {
		if n < 0 || n > math.MaxInt32 {
			return
		}
		x, err := NewDivider(d)
		if err != nil || x.Quotient(n) != n/d {
			t.Fatalf("%d / %d is %d, got %d (%v)", n, d, n/d, x.Quotient(n), err)
		}
	}
	divisors := []int64{math.MaxInt32, math.MaxInt32 - 1, 3 << 29, 1 << 30, 1<<30 + 1, 1<<30 - 1}
	for d := int64(1); d < 300; d++ {
		divisors = append(divisors, d, 1+r.Int64N(math.MaxInt32), 1+r.Int64N(1<<(1+d%30)))
	}
	for _, d := range divisors {
		for n := range int64(400) {
			check(n, d)
			multiple := r.Int64N(math.MaxInt32/d+1) * d
			for _, near := range []int64{multiple, int64(1) << (n % 32), math.MaxInt32, r.Int64N(math.MaxInt32)} {
				check(near-1, d)
				check(near, d)
				check(near+1, d)
			}
			check(n*d-1, d)
			check(math.MaxInt32-n, d)
		}
	}
	for _, d := range []int64{-1, math.MaxInt32 + 1} {
		_, err := NewDivider(d)
		require.Error(t, err)
	}
	x, err := NewDivider(48)
	require.NoError(t, err)
	require.Equal(t, Divider(6<<32|1431655766), x)
}

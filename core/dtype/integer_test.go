package dtype

import (
	"math/big"
	"testing"
)

// Integers around every tie of every floating type, against big.Float, which
// rounds once.
func TestIntToFloatRoundsOnce(t *testing.T) {
	precision := map[Type]uint{Half: 11, BFloat16: 8, Float: 24, Double: 53}
	check := func(x int64) {
		for f, bits := range precision {
			exact := new(big.Float).SetInt64(x)
			unsigned := new(big.Float).SetUint64(uint64(x))
			want, _ := new(big.Float).SetPrec(bits).Set(exact).Float64()
			wantUnsigned, _ := new(big.Float).SetPrec(bits).Set(unsigned).Float64()
			if f == Half { // infinity beyond the range
				want, wantUnsigned = Round(Half, want), Round(Half, wantUnsigned)
			}
			if got := IntToFloat(f, x); got != want {
				t.Fatalf("%d to %v is %v, want %v", x, f, got, want)
			}
			if got := UintToFloat(f, uint64(x)); got != wantUnsigned {
				t.Fatalf("%d to %v is %v, want %v", uint64(x), f, got, wantUnsigned)
			}
		}
	}
	for high := 0; high < 64; high++ {
		for low := 0; low < 64; low += 3 {
			for delta := int64(-1); delta <= 1; delta++ {
				check(1<<high + 1<<low + delta)
				check(-(1<<high + 1<<low + delta))
				check(1<<high + 3<<low + delta)
			}
		}
	}
}

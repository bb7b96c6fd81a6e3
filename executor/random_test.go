package executor_test

import (
	"math/rand/v2"
	"testing"

	"nvfuser_go/core/fusionfuzz"
)

// TestRandomFusions runs a fixed sample of what FuzzExecutor looks for.
func TestRandomFusions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		data := make([]byte, 20+r.IntN(200))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		checkCase(t, fusionfuzz.Decode(data))
	}
}

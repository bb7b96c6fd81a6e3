package segmenter

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
)

func setting(name string, n int) int {
	if k, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return k
	}
	return n
}

// TestRandom compares random fusions, cut as the cost model says and also at random,
// with the whole: SEGMENTER_PROGRAMS of them from SEGMENTER_SEED on.
func TestRandom(t *testing.T) {
	most := 600
	if testing.Short() {
		most = 150
	}
	programs, seed := setting("SEGMENTER_PROGRAMS", most), setting("SEGMENTER_SEED", 1)
	ran, segments, kernels, torch, views := 0, 0, 0, 0, 0
	for k := range programs {
		r := rand.New(rand.NewPCG(uint64(seed), uint64(k)))
		data := make([]byte, 40+r.IntN(200))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		x, err := newTrial(c.Fusion, c.Inputs)
		if err != nil {
			continue // sizes that do not go together
		}
		salt := r.Uint64()
		for n, o := range []Options{{}, {apart: func(v core.ValID) bool { return (uint64(v)+1)*(salt|1)>>7%3 == 0 }}} {
			p, err := x.check(o)
			if errors.As(err, new(*core.Unsupported)) {
				require.Contains(t, err.Error(), "uniform", "%v", x.f)
				continue
			}
			if err != nil {
				text := ""
				if p != nil {
					text = p.Dump()
				}
				t.Fatalf("program %d of seed %d, options %d: %v\n%v\n%v", k, seed, n, err, x.f, text)
			}
			ran++
			segments += len(p.Segments)
			for _, s := range p.Segments {
				switch s.Kind {
				case Kernel:
					kernels++
				case TorchCall:
					torch++
				default:
					views++
				}
			}
		}
	}
	t.Logf("%d programs: %d segments, %d kernels, %d calls of torch, %d views", ran, segments, kernels, torch, views)
	require.Greater(t, ran, programs/2)
}

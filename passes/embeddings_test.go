package passes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
)

// Rows at positions of any number of dimensions, some of which are none, of tables that may
// have no row, with sizes known and unknown.
func TestEmbeddingsRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 0))
	rewritten := 0
	for i := range 300 {
		rank := random.IntN(4)
		isDynamic := random.IntN(2) == 0
		lines, sizes, isKept := []string{}, [][]int64{}, rank == 0
		tensor := func(dtype string, rank, least int) {
			shape, contiguity, size := make([]string, rank), make([]string, rank), make([]int64, rank)
			for d := range rank {
				size[d] = int64(least + random.IntN(5-least))
				shape[d], contiguity[d] = "-1", "yes"
				if !isDynamic {
					if shape[d] = fmt.Sprint(size[d]); size[d] == 1 {
						contiguity[d], isKept = "none", true
					}
				}
			}
			lines = append(lines, fmt.Sprintf("%%%d = tensor %s [%s] contiguity=[%s]", len(lines), dtype, strings.Join(shape, ", "), strings.Join(contiguity, ", ")))
			sizes = append(sizes, size)
		}
		tensor([]string{"f32", "bf16", "i64", "c64"}[random.IntN(4)], 2, 0)
		tensor([]string{"i64", "i32"}[random.IntN(2)], rank, 0)
		lines = append(lines, "%2 = embedding_fwd %1, %0", "", "output %2", "output %3")
		order := make([]string, rank+1)
		for d := range order {
			order[d] = fmt.Sprint(rank - d)
		}
		lines[3] = "%3 = permute %2 dims=[" + strings.Join(order, ", ") + "]"
		f := parse(t, strings.Join(lines, "\n")+"\n")
		g, applied := run(t, f, "embeddings")
		require.Equal(t, isKept, len(applied) == 0, f.String())
		rewritten += len(applied)
		for draw := range 2 {
			require.True(t, compare(t, f, g, fusionfuzz.Inputs(f, uint64(2*i+draw), sizes...)))
		}
	}
	require.Greater(t, rewritten, 100)
}

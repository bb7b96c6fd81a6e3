package lower

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
)

// Steps of rows that have elements for sure are in loops without tests, those before in front of a row and at its end in others.
func TestPeel(t *testing.T) {
	for _, test := range []struct {
		copying
		copies []bool // of the loops that copy: whether they test
	}{
		{copying{inputs: 1, columns: 57, threads: 16}, []bool{true}},
		{copying{inputs: 1, columns: 57, threads: 16, least: 49}, []bool{false, true}},
		{copying{inputs: 1, columns: 49, threads: 16, least: 49}, []bool{false, true}},
		{copying{inputs: 2, columns: 64, threads: 16, least: 33}, []bool{false, false, true, true}},
		{copying{inputs: 1, columns: 64, threads: 16, least: 64}, []bool{false}},
		{copying{inputs: 1, columns: 17, threads: 16, least: 15}, []bool{true}},
		{copying{inputs: 1, columns: 57, threads: 16, least: 49, aligned: 8}, []bool{true, false, true}},
		{copying{inputs: 2, columns: 50, threads: 8, least: 50, aligned: 8}, []bool{true, true, false, false, true, true}},
		{copying{inputs: 1, columns: 33, threads: 32, least: 33, aligned: 16}, []bool{true}},
		{copying{inputs: 1, columns: 57, threads: 16, least: 49, rows: -1}, []bool{true}}, // rows are tested for too
	} {
		for _, rows := range []int64{2, 3, 8} {
			if test.rows >= 0 {
				test.rows = int(rows)
			}
			s, f := test.schedule(t)
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 1, slices.Repeat([][]int64{{rows, int64(test.columns)}}, test.inputs)...), Options{})
			must(t, err)
			var copies []bool
			for _, s := range k.Body {
				if f, isLoop := s.(*kir.For); isLoop {
					f.Body.Walk(func(s kir.Statement) {
						if c, isCopy := s.(kir.AsyncCopy); isCopy {
							copies = append(copies, c.Guard != scalar.None)
						}
					})
				}
			}
			require.Equal(t, test.copies, copies, "%+v\n%s", test.copying, k)
		}
	}
}

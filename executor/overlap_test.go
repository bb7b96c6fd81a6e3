package executor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// bytesOf returns the offsets of the bytes of x in memory.
func bytesOf(x *Input, memory unsafe.Pointer) map[int64]bool {
	offsets := []int64{int64(uintptr(x.Data) - uintptr(memory))}
	for d, n := range x.Sizes {
		var more []int64
		for _, o := range offsets {
			for k := range n {
				more = append(more, o+k*x.Strides[d]*int64(x.DType.Size()))
			}
		}
		offsets = more
	}
	set := map[int64]bool{}
	for _, o := range offsets {
		for k := range x.DType.Size() {
			set[o+int64(k)] = true
		}
	}
	return set
}

// Overlaps are those of the bytes, and the first pair of inputs is found.
func TestOverlap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	memory := make([]byte, 4096)
	types := []dtype.Type{dtype.Bool, dtype.Half, dtype.Float, dtype.Double}
	tensor := func() Input {
		x := Input{Tensor: true, DType: types[r.IntN(len(types))], Data: unsafe.Pointer(&memory[r.IntN(60)])}
		for range r.IntN(4) {
			x.Sizes, x.Strides = append(x.Sizes, r.Int64N(4)), append(x.Strides, r.Int64N(12))
		}
		return x
	}
	count := map[bool]int{}
	for range 20000 {
		inputs := []Input{tensor(), tensor(), tensor(), {}}
		var found []int
		wanted := false
		for i := range 3 {
			for j := range i {
				a, b := bytesOf(&inputs[i], unsafe.Pointer(&memory[0])), bytesOf(&inputs[j], unsafe.Pointer(&memory[0]))
				for k := range a {
					if b[k] && (i == 2 || j == 2) {
						wanted = true
					}
					if b[k] {
						found = append(found, 3*j+i)
						break
					}
				}
			}
		}
		slices.Sort(found)
		i, j, ok := bothWritten([]int{2, 0, 1}, inputs)
		require.Equal(t, len(found) > 0, ok, "%v", inputs)
		if ok {
			require.Equal(t, found[0], 3*i+j, "%v", inputs)
		}
		count[ok]++
		shares := sharesMemory([]int{2}, inputs) // may be more
		require.True(t, shares || !wanted, "%v", inputs)
	}
	require.Greater(t, count[true], 4000)
	require.Greater(t, count[false], 4000)
}

// What lies beside each other is apart, however many tensors there are, and
// finding out allocates nothing for a few.
func TestWrittenBesideEachOther(t *testing.T) {
	memory := make([]float32, 64*64)
	var columns []Input
	var all []int
	for i := range 64 {
		columns = append(columns, Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(&memory[i]), Sizes: []int64{64}, Strides: []int64{64}})
		all = append(all, i)
	}
	_, _, found := bothWritten(all, columns)
	require.False(t, found)
	columns[40].Data = columns[7].Data
	i, j, found := bothWritten(all, columns)
	require.Equal(t, []int{7, 40}, []int{i, j})
	require.True(t, found)
	rows := make([]Input, 6)
	for i := range rows {
		rows[i] = Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(&memory[64*i]), Sizes: []int64{64}, Strides: []int64{1}}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _, found := bothWritten(all[:6], rows)
		require.False(t, found || sharesMemory(all[:6], rows))
	}))
}

// Steps that never meet in a way that takes long to see count as overlap.
func TestOverlapThatTakesLong(t *testing.T) {
	var memory float64
	x := Input{Tensor: true, DType: dtype.Double, Data: unsafe.Pointer(&memory)}
	for d := range 12 {
		x.Sizes, x.Strides = append(x.Sizes, 30), append(x.Strides, int64(1000+2*d))
	}
	y := x
	y.Data = unsafe.Add(y.Data, 8*1001)
	require.True(t, overlap(&x, &y))
}

func TestHaveExtents(t *testing.T) {
	f := core.NewFusion()
	v, err := f.DefineTensor(core.TensorDescription{Shape: []int64{-1}, Contiguity: []core.Tri{core.Yes}, DType: dtype.Float})
	require.NoError(t, err)
	require.NoError(t, f.AddOutput(v, core.NoVal))
	e := &Executor{f: f}
	require.True(t, e.haveExtents(make([]Input, 1)))
	require.False(t, e.haveExtents(nil))
	require.False(t, e.haveExtents([]Input{{Tensor: true, Sizes: []int64{3}}}))
}

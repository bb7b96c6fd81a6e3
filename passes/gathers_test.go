package passes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
)

// One position of each line of what is computed in some way, along any dimension, with
// positions that are none.
func TestGathersRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 0))
	pick := func(x ...string) string { return x[random.IntN(len(x))] }
	rewritten, gathers := 0, 0
	for i := range 300 {
		rank := 1 + random.IntN(3)
		dim := random.IntN(rank)
		sizes := make([][]int64, 3) // of x, of what is the same along the line, of the index
		flags := make([]string, rank)
		text := func(one bool) string {
			shape, contiguity := make([]string, rank), make([]string, rank)
			for d := range rank {
				shape[d], contiguity[d] = "-1", "yes"
				if one && d == dim {
					shape[d], contiguity[d] = "1", "none"
				}
			}
			return fmt.Sprintf("[%s] contiguity=[%s]", strings.Join(shape, ", "), strings.Join(contiguity, ", "))
		}
		for d := range rank {
			n := int64(1 + random.IntN(4))
			one := n
			if flags[d] = "false"; d == dim {
				one, flags[d] = 1, "true"
			}
			sizes[0], sizes[1], sizes[2] = append(sizes[0], n), append(sizes[1], one), append(sizes[2], one)
		}
		narrow := pick("f32", "bf16", "f16")
		lines := []string{
			fmt.Sprintf("%%0 = tensor %s %s", narrow, text(false)),
			fmt.Sprintf("%%1 = tensor f32 %s", text(true)),
			fmt.Sprintf("%%2 = tensor i64 %s", text(true)),
		}
		n := 2
		op := func(format string, args ...any) string {
			n++
			lines = append(lines, fmt.Sprintf("%%%d = ", n)+fmt.Sprintf(format, args...))
			return fmt.Sprintf("%%%d", n)
		}
		x := "%0"
		if narrow != "f32" {
			x = op("cast %%0 dtype=f32")
		}
		sum := op("sum %s dims=[%d] keepdim=false dtype=f32", x, dim)
		total := op("broadcast %s is_broadcast_dim=[%s]", sum, strings.Join(flags, ", "))
		y := x
		for range 1 + random.IntN(5) {
			switch random.IntN(4) {
			case 0:
				y = op("%s %s", pick("exp", "neg", "cos", "abs"), y)
			case 1:
				y = op("%s %s, %s", pick("add", "sub", "mul", "truediv"), y, pick("%1", total))
			case 2:
				y = op("%s %s, %s", pick("add", "mul"), y, x)
			default:
				y = op("where %s, %s, %s", op("gt %s, 0", x), y, pick("%1", total))
			}
		}
		// The sizes of take_along_axis are those of x, and of what stands for it those of the index: one
		// symbol or another, unless both are constants.
		name := pick("gather", "take_along_axis")
		if name == "gather" {
			gathers++
		}
		g := op("%s %s, %%2 dim=%d", name, y, dim)
		lines = append(lines, "output "+op("add %s, %%1", g), "output "+op("mul %s, %s", y, total))
		ordered := lines[:0:0]
		for _, want := range []int{0, 1} {
			for _, line := range lines {
				if isOutput(line) == want {
					ordered = append(ordered, line)
				}
			}
		}
		f := parse(t, strings.Join(ordered, "\n")+"\n")
		h, applied := run(t, f, "gathers before arithmetic")
		rewritten += len(applied)
		for draw := range 2 {
			require.True(t, compare(t, f, h, fusionfuzz.Inputs(f, uint64(2*i+draw), sizes...)))
		}
	}
	require.GreaterOrEqual(t, rewritten, gathers)
}

// Several positions of each line of what is computed from tables, from parts of them and from what is the same
// along the line, with positions that are none and sizes of one.
func TestLookupsRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 0))
	pick := func(x ...string) string { return x[random.IntN(len(x))] }
	rewritten := 0
	for i := range 300 {
		rows, columns, listed := int64(1+random.IntN(5)), int64(1+random.IntN(4)), int64(2+random.IntN(4))
		narrow := pick("f32", "bf16", "f16", "i32")
		lines := []string{
			fmt.Sprintf("%%0 = tensor %s [-1, -1] contiguity=[yes, yes]", narrow),
			"%1 = tensor f32 [-1] contiguity=[yes]", // of rows
			"%2 = tensor f32 [-1] contiguity=[yes]", // of columns
			"%3 = tensor f32 [-1, -1] contiguity=[yes, yes]",
			"%4 = tensor i64 [-1, -1] contiguity=[yes, yes]",
			fmt.Sprintf("%%5 = tensor i64 [%d] contiguity=[yes]", listed),
		}
		n := len(lines) - 1
		op := func(format string, args ...any) string {
			n++
			lines = append(lines, fmt.Sprintf("%%%d = ", n)+fmt.Sprintf(format, args...))
			return fmt.Sprintf("%%%d", n)
		}
		cut := pick("", "rows", "columns")
		part := func(x string) string {
			end, start := []string{"%0.0", "%0.1"}, []int{0, 0}
			switch {
			case cut == "rows" && rows > 1:
				start[0], end[0] = 1, fmt.Sprint(rows)
			case cut == "columns" && columns > 1:
				start[1], end[1] = 1, fmt.Sprint(columns)
			default:
				return x
			}
			for d, size := range []int64{rows, columns} {
				end[d] = fmt.Sprint(size)
			}
			return op("slice %s start_indices=[%d, %d] end_indices=[%s] strides=[1, 1] manual_normalization=true", x, start[0], start[1], strings.Join(end, ", "))
		}
		x := "%0"
		isPart := random.IntN(2) == 0
		if isPart {
			x = part(x)
		}
		if narrow != "f32" {
			x = op("cast %s dtype=f32", x)
		}
		same := []string{op("broadcast %%1 is_broadcast_dim=[false, true]"), op("broadcast %%2 is_broadcast_dim=[true, false]"), "%3"}
		y := x
		for range 1 + random.IntN(4) {
			switch random.IntN(4) {
			case 0:
				y = op("%s %s", pick("exp", "neg", "cos", "abs"), y)
			case 1, 2:
				if !isPart || cut == "" {
					y = op("%s %s, %s", pick("add", "sub", "mul", "truediv"), y, pick(same...))
				}
			default:
				y = op("mul %s, 2:f64", y)
			}
		}
		if !isPart {
			y = part(y)
		}
		if random.IntN(2) == 0 {
			y = op("cast %s dtype=bf16", y)
		}
		var g string
		switch random.IntN(3) {
		case 0:
			g = op("embedding_fwd %%4, %s", y)
		case 1:
			g = op("index_select %s, %s dim=0", y, op("broadcast %%5 is_broadcast_dim=[false, true]"))
		default:
			g = op("index_select %s, %s dim=1", y, op("broadcast %%5 is_broadcast_dim=[true, false]"))
		}
		lines = append(lines, "output "+op("cast %s dtype=f64", g))
		if random.IntN(4) == 0 {
			lines = append(lines, "output "+op("set %s", y))
		}
		ordered := lines[:0:0]
		for _, want := range []int{0, 1} {
			for _, line := range lines {
				if isOutput(line) == want {
					ordered = append(ordered, line)
				}
			}
		}
		other := []int64{rows, columns}
		if random.IntN(3) == 0 {
			other[random.IntN(2)] = 1
		}
		f := parse(t, strings.Join(ordered, "\n")+"\n")
		h, applied, err := Run(f, true)
		require.NoError(t, err)
		for _, a := range applied {
			if strings.HasPrefix(a.Pass, "gathers") {
				rewritten++
			}
		}
		for draw := range 2 {
			compare(t, f, h, fusionfuzz.Inputs(f, uint64(2*i+draw), []int64{rows, columns}, []int64{rows}, []int64{columns}, other, []int64{2, 3}, []int64{listed}))
		}
	}
	require.Greater(t, rewritten, 100)
}

package passes

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/fusionfuzz"
)

// Softmaxes of all shapes, with casts here and there, give the same bits; also of
// infinities and NaN, which inputs have.
func TestExponentialsRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 0))
	pick := func(x ...string) string { return x[random.IntN(len(x))] }
	changes := 0
	for range 300 {
		rank := 1 + random.IntN(3)
		var dims []int
		flags, shape := make([]string, rank), make([]string, rank)
		sizes := make([]int64, rank)
		for d := range rank {
			flags[d], shape[d], sizes[d] = "false", "-1", int64(random.IntN(5))
			if random.IntN(2) == 0 {
				dims, flags[d] = append(dims, d), "true"
			}
		}
		if len(dims) == 0 {
			dims, flags[0] = []int{0}, "true"
		}
		narrow := pick("f32", "bf16", "f16")
		along := strings.Join(strings.Fields(fmt.Sprint(dims)), ", ")
		at := fmt.Sprintf("is_broadcast_dim=[%s]", strings.Join(flags, ", "))
		lines := []string{fmt.Sprintf("%%0 = tensor %s [%s] contiguity=[%s]", narrow, strings.Join(shape, ", "), strings.Join(slices.Repeat([]string{"yes"}, rank), ", "))}
		n := 0
		op := func(format string, args ...any) string {
			n++
			lines = append(lines, fmt.Sprintf("%%%d = ", n)+fmt.Sprintf(format, args...))
			return fmt.Sprintf("%%%d", n)
		}
		wide := func(v string) string { // a cast of f32 to f32 is none
			if narrow == "f32" {
				return v
			}
			return op("cast %s dtype=f32", v)
		}
		x := "%0"
		early := random.IntN(2) == 0
		if early {
			x = wide(x)
		}
		m := op("max %s dims=%s keepdim=false dtype=null", x, along)
		b := ""
		switch random.IntN(2) {
		case 0:
			if b = m; !early {
				b = wide(b)
			}
			b = op("broadcast %s %s", b, at)
		default:
			if b = op("broadcast %s %s", m, at); !early {
				b = wide(b)
			}
		}
		if !early {
			x = wide("%0")
		}
		e := op("exp %s", op("sub %s, %s", x, b))
		sum := op("sum %s dims=%s keepdim=false dtype=f32", e, along)
		lines = append(lines, "output "+sum)
		if random.IntN(2) == 0 {
			lines = append(lines, "output "+m)
		}
		if random.IntN(2) == 0 {
			lines = append(lines, "output "+op("truediv %s, %s", e, op("broadcast %s %s", sum, at)))
		}
		slices.SortStableFunc(lines, func(a, b string) int { return isOutput(a) - isOutput(b) })
		f := parse(t, strings.Join(lines, "\n")+"\n")
		g, applied := run(t, f, "sum of exponentials")
		require.Len(t, applied, 1, "%s", f)
		changes++
		require.True(t, compare(t, f, g, fusionfuzz.Inputs(f, uint64(changes), sizes)))
	}
}

// A share is what is divided by the sum of its own row: not of another one, of
// another tensor, or of exponentials of other distances.
func TestShares(t *testing.T) {
	softmax := `$x = tensor f32 [6, 6] contiguity=[yes, yes]
$y = tensor f32 [6, 6] contiguity=[yes, yes]
$m = max $x dims=[1] keepdim=false dtype=null
$rows_m = broadcast $m is_broadcast_dim=[false, true]
$d = sub $x, $rows_m
$e = exp $d
$s = sum $e dims=[1] keepdim=false dtype=f32
$rows_s = broadcast $s is_broadcast_dim=[false, true]
$my = max $y dims=[1] keepdim=false dtype=null
$rows_my = broadcast $my is_broadcast_dim=[false, true]
$dy = sub $y, $rows_my
$ey = exp $dy
$sy = sum $ey dims=[1] keepdim=false dtype=f32
$rows_sy = broadcast $sy is_broadcast_dim=[false, true]
`
	for _, c := range []struct {
		lines  string
		shares int
	}{
		{"$r = div $e, $rows_s", 1},
		{"$r = truediv $e, $rows_s", 1},
		{"$r = div $ey, $rows_sy", 1},
		{"$r = div $e, $rows_sy", 0},
		{"$r = div $ey, $rows_s", 0},
		{"$r = div $rows_s, $e", 0},
		{"$r = div $d, $rows_s", 0},
		{"$columns = broadcast $s is_broadcast_dim=[true, false]\n$r = div $e, $columns", 0},
		{"$d2 = sub $x, $rows_my\n$e2 = exp $d2\n$r = div $e2, $rows_s", 0},
		{"$d2 = sub $x, $rows_m\n$e2 = exp $d2\n$r = div $e2, $rows_s", 1},
	} {
		numbers := map[string]string{}
		text := regexp.MustCompile(`\$\w+`).ReplaceAllStringFunc(softmax+c.lines+"\noutput $r\noutput $rows_sy\n", func(name string) string {
			if numbers[name] == "" {
				numbers[name] = fmt.Sprintf("%%%d", len(numbers))
			}
			return numbers[name]
		})
		f := parse(t, text)
		g, _ := run(t, f, "sum of exponentials")
		require.Equal(t, c.shares, strings.Count(g.String(), "_exp_share"), "%s", c.lines)
		require.True(t, compare(t, f, g, fusionfuzz.Inputs(f, 1, []int64{6, 6}, []int64{6, 6})))
	}
}

func isOutput(line string) int {
	if strings.HasPrefix(line, "output") {
		return 1
	}
	return 0
}

package numerics

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func ofReal(f func(float64) float64) func([]float64) []float64 {
	return func(x []float64) []float64 { return []float64{f(x[0])} }
}

func ofComplex(f func(complex128) complex128) func([]float64) []float64 {
	return func(x []float64) []float64 {
		z := f(complex(x[0], x[1]))
		return []float64{real(z), imag(z)}
	}
}

// references says which function a line of the table is about, how many
// numbers its argument has, and the error that is allowed, in units of the
// last place: of each part, or for a power, whose angle has the rounding of a
// product, of the larger part.
var references = map[string]struct {
	f     func([]float64) []float64
	width int
	ulps  float64
}{
	"ErfcInv": {ofReal(ErfcInv), 1, 2},
	"ErfInv":  {ofReal(math.Erfinv), 1, 4},
	"Log":     {ofReal(Log), 1, 2},
	"Log2":    {ofReal(Log2), 1, 2},
	"Log10":   {ofReal(Log10), 1, 2},
	"Asin":    {ofReal(Asin), 1, 2},
	"Acos":    {ofReal(Acos), 1, 2},
	"Lgamma":  {ofReal(Lgamma), 1, 4},
	"Sigmoid": {ofReal(Sigmoid), 1, 2},
	"Silu":    {ofReal(Silu), 1, 2},
	"Pow": {func(x []float64) []float64 {
		return []float64{Pow(x[0], x[1])}
	}, 2, 2},
	"Tan":               {ofReal(Tan), 1, 2},
	"Sinh":              {ofReal(Sinh), 1, 3},
	"Cosh":              {ofReal(Cosh), 1, 3},
	"Expm1Complex":      {ofComplex(Expm1Complex), 2, 4},
	"Log1pComplex":      {ofComplex(Log1pComplex), 2, 4},
	"ExpComplex":        {ofComplex(ExpComplex), 2, 4},
	"LogComplex":        {ofComplex(LogComplex), 2, 4},
	"SqrtComplex":       {ofComplex(SqrtComplex), 2, 4},
	"SinhComplex":       {ofComplex(SinhComplex), 2, 4},
	"CoshComplex":       {ofComplex(CoshComplex), 2, 4},
	"TanhComplex":       {ofComplex(TanhComplex), 2, 8},
	"SinComplex":        {ofComplex(SinComplex), 2, 4},
	"CosComplex":        {ofComplex(CosComplex), 2, 4},
	"TanComplex":        {ofComplex(TanComplex), 2, 8},
	"AsinComplex":       {ofComplex(AsinComplex), 2, 4},
	"AcosComplex":       {ofComplex(AcosComplex), 2, 4},
	"AtanComplex":       {ofComplex(AtanComplex), 2, 4},
	"AsinhComplex":      {ofComplex(AsinhComplex), 2, 4},
	"AcoshComplex":      {ofComplex(AcoshComplex), 2, 4},
	"AtanhComplex":      {ofComplex(AtanhComplex), 2, 4},
	"ReciprocalComplex": {ofComplex(ReciprocalComplex), 2, 4},
	"RsqrtComplex":      {ofComplex(RsqrtComplex), 2, 4},
	"SigmoidComplex":    {ofComplex(SigmoidComplex), 2, 4},
	"SignComplex":       {ofComplex(SignComplex), 2, 2},
	"PowComplex": {func(x []float64) []float64 {
		z := PowComplex(complex(x[0], x[1]), complex(x[2], x[3]))
		return []float64{real(z), imag(z)}
	}, 4, 32},
}

// ulp64 returns the distance of consecutive float64 numbers at y.
func ulp64(y float64) float64 {
	if y == 0 {
		return 0x1p-1074
	}
	_, e := math.Frexp(y)
	return math.Ldexp(1, max(e, -1021)-53)
}

// visitTable calls f for every line of a table: a name of references, an
// argument and a value.
func visitTable(t *testing.T, path string, f func(name string, argument, want []float64)) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		ref, ok := references[fields[0]]
		require.True(t, ok, fields[0])
		var numbers []float64
		for _, field := range fields[1:] {
			x, err := strconv.ParseFloat(field, 64)
			require.NoError(t, err)
			numbers = append(numbers, x)
		}
		f(fields[0], numbers[:ref.width], numbers[ref.width:])
	}
}

func TestReference(t *testing.T) {
	worst, seen := map[string]float64{}, map[string]bool{}
	visitTable(t, "testdata/reference.txt", func(name string, argument, want []float64) {
		ref := references[name]
		seen[name] = true
		got := ref.f(argument)
		require.Len(t, got, len(want))
		unit := 0.0
		if name == "PowComplex" {
			unit = ulp64(max(math.Abs(want[0]), math.Abs(want[1])))
		}
		for i := range want {
			if got[i] == want[i] {
				continue
			}
			e := math.Abs(got[i]-want[i]) / max(unit, ulp64(want[i]))
			if !(e <= ref.ulps) {
				t.Errorf("%s%v = %v, want %v: %.4g units of the last place", name, argument, got, want, e)
			}
			worst[name] = max(worst[name], e)
		}
	})
	require.Len(t, seen, len(references))
	for name := range references {
		t.Logf("%-20s %.2f", name, worst[name])
	}
}

// TestSpecialComplex compares with NumPy where a part is zero, infinite or NaN.
// The sign of a part whose partner is NaN is left open.
func TestSpecialComplex(t *testing.T) {
	lines := 0
	visitTable(t, "testdata/special.txt", func(name string, argument, want []float64) {
		lines++
		got := references[name].f(argument)
		for i := range want {
			g, w, partner := got[i], want[i], want[1-i]
			if w != w && g != g {
				continue
			}
			if partner != partner {
				g, w = math.Abs(g), math.Abs(w)
			}
			if math.Signbit(g) != math.Signbit(w) || g != w && !(math.Abs(g-w) <= 4*ulp64(w)) {
				t.Errorf("%s%v = %v, want %v", name, argument, got, want)
			}
		}
	})
	require.Equal(t, 15*49, lines)
}

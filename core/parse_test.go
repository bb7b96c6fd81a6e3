package core

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// What does not parse is told with its line and what is wrong there.
func TestParseErrors(t *testing.T) {
	const in = "%0 = tensor f32 [-1, 4] contiguity=[yes, yes]\n$0 = scalar i64\n"
	for _, c := range []struct{ line, want string }{
		{"x", `line 3: want a result such as %0 or $0, got "x"`},
		{"%1 add %0, %0", `line 3: want "=" before "add %0, %0"`},
		{"%0 = add %0, %0", "line 3: %0 is defined twice"},
		{"%1 = nosuch %0", `line 3: there is no operation "nosuch"`},
		{"%1 = add %0", `line 3: want "," before ""`},
		{"%1 = add %0, %9", `line 3: %9 is not defined`},
		{"%1 = add %0, %0 %0", `line 3: want "=" before ""`},
		{"%1 = add %0, %0 axis=1", `line 3: add has no argument "axis"`},
		{"%1 = cast %0", `line 3: cast needs argument "dtype"`},
		{"%1 = cast %0 dtype=f31", `line 3: dtype=: there is no dtype "f31"`},
		{"%1 = cast %0 dtype=f32 dtype=f32", "dtype= is given twice"},
		{"%1, %2 = add %0, %0", "line 3: add has 1 results, not 2"},
		{"%1 = add %0, 1:f4e2m1", "there are no numbers of dtype f4e2m1"},
		{"%1 = add %0, 1:null", "there are no numbers of dtype null"},
		{"%1 = add %0, 3:bf17", `there is no dtype "bf17"`},
		{"%1 = add %0, 300000000000:i32", "is not a number of dtype i32"},
		{"%1 = expand %0 shape=[%0.2, 4]", `"%0.2" is not the extent of a tensor`},
		{"%1 = expand %0 shape=[4]", "shape has 1 entry, and arg has 2 dimensions"},
		{"%1 = tensor f32 [-2] contiguity=[yes]", "was neither symbolic(-1)"},
		{"%1 = tensor f32 [99999999999, 99999999999] contiguity=[yes, yes]", "more than 2^63-1 elements"},
		{"%1 = tensor f32 [2, 2] contiguity=[yes, yes] stride_order=[0, 0]", "is not a permutation"},
		{"$1 = i.add $0, true : i64", "integers of one dtype"},
		{"$1 = i.add $0 : i64", "i.add takes 2 operands, got 1"},
		{"$1 = i.add $0, 1:i64 : f32", "not f32"},
		{"$1 = i.select $0, 1, 2 : index", "the first operand of i.select is a bool"},
		{"$1 = sum $0 : f32", `there is no scalar operation "sum"`},
		{"output $0", `want a tensor, got "$0"`},
		{"output %0 alias %1", `want a tensor, got "%1"`},
		{"output %0 junk", `"junk" is left over`},
	} {
		_, err := Parse(in + c.line + "\n")
		require.ErrorContains(t, err, c.want, "%s", c.line)
		require.True(t, strings.HasPrefix(err.Error(), "line 3: "), "%s", err)
	}
}

// Every literal gives its value back.
func TestLiteralsRoundTrip(t *testing.T) {
	for _, l := range []string{"0.1:f64", "1.401298464324817e-45:f32", "nan:f64", "inf:f16", "-inf:f32", "-0:f64", "(1.5,-2):c64", "(nan,inf):c128",
		"true", "false", "-9223372036854775808:i64", "18446744073709551615:u64", "-1:i32", "7"} {
		_, kind, _ := strings.Cut(l, ":")
		if kind == "" {
			kind = "i64"
		}
		f, err := Parse("%0 = tensor f64 [2] contiguity=[yes]\n%1 = full shape=[2] fill_value=" + l + " dtype=" + kind + "\noutput %1\n")
		require.NoError(t, err, l)
		require.Contains(t, f.String(), "fill_value="+l+" ")
	}
}

// A definition of 100,000 ops, each reading the last, parses, prints, clones
// and verifies without deep recursion.
func TestDeepFusion(t *testing.T) {
	f := NewFusion()
	v, err := f.DefineTensor(TensorDescription{Shape: []int64{-1}, Contiguity: []Tri{Yes}, DType: dtype.Float})
	require.NoError(t, err)
	for range 100_000 {
		v, err = f.apply1(AddOp, TensorOf(v), ScalarOf(f.scalars.Int(1)))
		require.NoError(t, err)
	}
	require.NoError(t, f.AddOutput(v, NoVal))
	text := f.String()
	g, err := Parse(text)
	require.NoError(t, err)
	require.Equal(t, len(text), len(g.String()))
	require.NoError(t, g.Verify())
}

// FuzzParse: any bytes give a fusion that prints and parses back, or an error.
func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("%0 = tensor f32 [2] contiguity=[yes]\noutput %0\n")
	f.Add("$0 = scalar bool\n$1 = where $0, 1:i64, 2:i64 : i64\n")
	f.Fuzz(func(t *testing.T, text string) {
		fusion, err := Parse(text)
		if err != nil {
			return
		}
		require.NoError(t, fusion.Verify())
		again, err := Parse(fusion.String())
		require.NoError(t, err, "%s", fusion)
		require.Equal(t, fusion.String(), again.String())
	})
}

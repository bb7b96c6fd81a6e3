package dtype

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesParseBack(t *testing.T) {
	seen := map[string]Type{}
	for _, typ := range All() {
		for _, name := range []string{typ.String(), typ.Text()} {
			other, taken := seen[name]
			require.False(t, taken && other != typ, "%q names two types", name)
			seen[name] = typ
			got, ok := Parse(name)
			require.True(t, ok, name)
			require.Equal(t, typ, got, name)
		}
	}
	_, ok := Parse("Float128")
	require.False(t, ok)
	require.False(t, numTypes.Valid())
	require.Equal(t, "invalid", numTypes.String())
}

func TestParts(t *testing.T) {
	for _, typ := range All() {
		if typ.IsComplex() {
			require.Equal(t, typ, typ.Real().Complex())
			require.Equal(t, typ.Size(), 2*typ.Real().Size())
		} else {
			require.Equal(t, typ, typ.Real())
		}
	}
	require.True(t, Half.IsReducedFloat())
	require.False(t, Float.IsReducedFloat())
	require.True(t, UInt64.IsInt())
	require.False(t, Bool.IsInt())
}

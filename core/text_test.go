package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const example = `%0 = tensor f32 [-1, 4] contiguity=[yes, yes]
%1 = tensor bf16 [1, 4] contiguity=[yes, none] stride_order=[0, 1]
$0 = scalar f64
$1 = scalar i64
%2 = cast %1 dtype=f32
%3 = add %0, %2
%4 = add %3, 0.1:f64
%5 = broadcast %4 is_broadcast_dim=[false, false, true]
$2 = i.mul index($1), 4 : index
$3 = i.add %0.0, $2 : index
%6 = expand %5 shape=[%0.0, 4, $3]
%7 = add %3, $0
output %6
output %7 alias %0
`

// The text form parses back to a fusion with the same text, and the verifier
// has nothing to say of it.
func TestTextRoundTrip(t *testing.T) {
	f, err := Parse(example)
	require.NoError(t, err)
	require.Equal(t, example, f.String())
	require.NoError(t, f.Verify())
	f.Freeze()
	require.NoError(t, f.Verify())
	require.Equal(t, example, f.Clone().String())
}

package lower

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const bias = `%0 = tensor f32 [-1] contiguity=[yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = neg %0
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = add %3, %1
output %4
`

func TestPointwise(t *testing.T) {
	s := parsed(t, bias)
	f := s.Fusion().Clone()
	f.Freeze()
	require.NoError(t, s.InlineMost(nil, nil))
	k := checked(t, s, f, "", []int64{5}, []int64{6, 5})
	t.Log(k)
}

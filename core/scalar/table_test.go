package scalar

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

func TestBuildOrderDoesNotMatter(t *testing.T) {
	tab := NewTable()
	s := make([]ID, 4)
	for i := range s {
		s[i] = tab.Symbol(dtype.Index, Tag{uint32(i), 0}, Range(0, 10))
	}
	ab, cd := tab.Mul(s[0], s[1]), tab.Mul(s[3], s[2])
	require.Equal(t, tab.Add(ab, cd), tab.Add(tab.Mul(s[2], s[3]), tab.Mul(s[1], s[0])))
	x := tab.Add(tab.Add(s[0], tab.Int(3)), tab.Add(s[1], s[2]))
	y := tab.Add(s[2], tab.Add(s[1], tab.Add(tab.Int(1), tab.Add(s[0], tab.Int(2)))))
	require.Equal(t, x, y)
	require.Equal(t, tab.Mul(tab.Add(s[0], s[1]), s[2]), tab.Add(tab.Mul(s[2], s[0]), tab.Mul(s[1], s[2])))
	require.Equal(t, tab.Int(0), tab.Sub(x, y))
}

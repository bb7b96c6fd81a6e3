package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// Temporaries must fit the machine together while they live together.
func TestMemoryOfTemporaries(t *testing.T) {
	most := int64(machineMemory() / 8)
	temporary := func(elements int64) buffer {
		return buffer{kind: tempBuffer, dtype: dtype.Double, elements: elements}
	}
	after := []step{{starts: []int{0}, ends: []int{0}}, {starts: []int{1}, ends: []int{1}}}
	beside := []step{{starts: []int{0}}, {starts: []int{1}, ends: []int{0, 1}}}
	for _, c := range []struct {
		elements int64
		steps    []step
		fits     bool
	}{
		{most / 2, beside, true},
		{most/2 + 1, beside, false},
		{most/2 + 1, after, true},
		{most + 1, after, false},
		{1 << 62, after, false}, // of bytes that 64 bits do not count
	} {
		p := &Program{buffers: []buffer{temporary(c.elements), temporary(c.elements)}, steps: c.steps}
		if err := p.checkMemory(); c.fits {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "bytes of memory")
		}
	}
}

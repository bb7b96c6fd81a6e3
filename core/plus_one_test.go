package core

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCombinePlusOne(t *testing.T) {
	for _, x := range []struct{ name, body, want string }{
		{"erf", "%1 = erf %0\n%2 = add %1, 1:f64\noutput %2\n", "erf_plus_one %0"},
		{"in front", "%1 = tanh %0\n%2 = add 1:i64, %1\noutput %2\n", "tanh_plus_one %0"},
		{"another number", "%1 = erf %0\n%2 = add %1, 2:f64\noutput %2\n", ""},
		{"read twice", "%1 = erf %0\n%2 = add %1, 1:f64\n%3 = mul %2, %1\noutput %3\n", ""},
		{"an output", "%1 = erf %0\n%2 = add %1, 1:f64\noutput %2\noutput %1\n", ""},
		{"another function", "%1 = exp %0\n%2 = add %1, 1:f64\noutput %2\n", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			f, err := Parse("%0 = tensor f32 [-1] contiguity=[yes]\n" + x.body)
			require.NoError(t, err)
			f.Freeze()
			g := f.Clone()
			require.NoError(t, g.CombinePlusOne())
			g.Freeze()
			require.NoError(t, g.Verify())
			if x.want == "" {
				require.Equal(t, f.String(), g.String())
				return
			}
			require.True(t, strings.Contains(g.String(), x.want), g.String())
			require.NotContains(t, g.String(), "add")
			require.Equal(t, "%0 = tensor", f.String()[:11])
			require.Contains(t, f.String(), "add")
		})
	}
}

package cuda

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda/nvrtc"
)

// TestSectionsFollowTheirNeeds holds the order of the device files.
func TestSectionsFollowTheirNeeds(t *testing.T) {
	for i, s := range sections {
		for _, n := range s.needs {
			at, ok := sectionsBy[n]
			require.True(t, ok, "%s needs %s, which is not there", s.name, n)
			require.Less(t, at, i, "%s needs %s, which comes later", s.name, n)
		}
	}
}

var (
	declaredType     = regexp.MustCompile(`(?m)^struct (?:alignas\(.*\) )?(\w+)`)
	declaredFunction = regexp.MustCompile(`(?m)^__device__ inline .*?(\w+|operator\S+)\(`)
)

// TestNoPolicyOfCopiesThroughTheFirstCache: cp.async.ca, of 4 and 8 bytes, with a policy of the second cache assembles
// and is an illegal instruction on an H200, which the device ends the process for.
func TestNoPolicyOfCopiesThroughTheFirstCache(t *testing.T) {
	copies := 0
	for _, s := range sections {
		for line := range strings.Lines(s.text) {
			if strings.Contains(line, "cp.async.ca") {
				copies++
				require.NotContains(t, line, "cache_hint", s.name)
			}
		}
	}
	require.NotZero(t, copies)
}

// TestSectionsCompileAlone compiles each section with those that it needs and no
// others, so that none is missing, and looks that none is named in vain.
func TestSectionsCompileAlone(t *testing.T) {
	slow(t)
	declares := map[string][]string{} // names by section
	for _, s := range sections {
		for _, declared := range []*regexp.Regexp{declaredType, declaredFunction} {
			for _, m := range declared.FindAllStringSubmatch(s.text, -1) {
				declares[s.name] = append(declares[s.name], m[1])
			}
		}
		require.NotEmpty(t, declares[s.name], s.name)
	}
	var texts []string
	for _, s := range sections {
		texts = append(texts, deviceText([]string{s.name}))
		for _, n := range s.needs {
			require.True(t, slices.ContainsFunc(declares[n], func(name string) bool {
				if sign, ok := strings.CutPrefix(name, "operator"); ok {
					return strings.Contains(s.text, " "+sign+" ")
				}
				return regexp.MustCompile(`\b` + name + `\b`).MatchString(s.text)
			}), "%s needs %s and does not use it", s.name, n)
		}
	}
	for i, c := range compile(t, nvrtc.Compiler{}, "sm_90a", texts) {
		require.True(t, c.OK, "%s: %s", sections[i].name, c.Log)
		require.Empty(t, c.Log, sections[i].name)
	}
}

// TestTreeShaking shows that a text has no function that nothing calls.
func TestTreeShaking(t *testing.T) {
	text := deviceText([]string{"sigmoid", "toHalf"})
	require.Contains(t, text, "sigmoid(float x)")
	require.Contains(t, text, "reciprocalAbove1(float x)")
	require.NotContains(t, text, "toBFloat16")
	require.NotContains(t, text, "Complex")
	require.Empty(t, deviceText(nil))
	require.Panics(t, func() { deviceText([]string{"nothing"}) })
}

func TestTemplates(t *testing.T) {
	name := func(s string) text { return text{code: s, level: levelAtom, simple: true} }
	sum := text{code: "a + b", level: levelAdd}
	minus := text{code: "-a", level: levelUnary}
	choice := text{code: "a ? b : c", level: levelTernary}
	for _, test := range []struct {
		source   string
		operands []text
		want     string
	}{
		{"$0 + $1", []text{sum, sum}, "a + b + (a + b)"},
		{"$0 * $1", []text{sum, name("x")}, "(a + b) * x"},
		{"$0 - $1", []text{name("x"), minus}, "x - -a"},
		{"-$0", []text{minus}, "-(-a)"},
		{"-$0", []text{sum}, "-(a + b)"},
		{"!$0", []text{minus}, "!-a"},
		{"$0", []text{choice}, "a ? b : c"},
		{"$0 ? $1 : $2", []text{choice, choice, choice}, "(a ? b : c) ? a ? b : c : a ? b : c"},
		{"min(max($0, $1), $2)", []text{choice, sum, name("x")}, "min(max(a ? b : c, a + b), x)"},
		{"isinf($0) && $0 < 0", []text{name("x")}, "isinf(x) && x < 0"},
		{"$0 <= 0 ? 0 : $0", []text{name("x")}, "x <= 0 ? 0 : x"},
		{"$0 - truncf($0)", []text{name("x")}, "x - truncf(x)"},
		{"1 / $0", []text{sum}, "1 / (a + b)"},
		{"$0 & $1", []text{sum, {code: "a == b", level: levelEqual}}, "a + b & a == b"},
		{"imag($0) == 0", []text{sum}, "imag(a + b) == 0"},
		{"$0 << $1", []text{sum, sum}, "a + b << a + b"},
	} {
		got := parseTemplate(test.source).apply(test.operands)
		require.Equal(t, test.want, got.code, test.source)
	}
	require.Equal(t, []string{"min", "max"}, parseTemplate("min(max($0, $1), $2)").calls)
	require.True(t, parseTemplate("$0 ? $1 : $2").lazy)
	require.Equal(t, [3]int{2, 0, 0}, parseTemplate("$0 * sigmoid($0)").slots)
}

func TestIdentifiers(t *testing.T) {
	n := names{map[string]bool{}, map[string]int{}}
	for _, test := range [][2]string{{"x", "x"}, {"x", "x_1"}, {"float", "float_"}, {"float", "float_1"}, {"9 lives", "t9_lives"}, {"", "t"}, {"__a__b", "a_b"},
		{"größe", "gr_e"}, {"sigmoid", "sigmoid_"}, {"expf", "expf_"}, {"threadIdx", "threadIdx_"}, {"p", "p_"}, {"t9_lives", "t9_lives_1"}} {
		require.Equal(t, test[1], n.unique(test[0]), test[0])
	}
}

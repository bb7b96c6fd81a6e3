package executor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
)

// A program builds a fusion by chained calls.
type program struct {
	t testing.TB
	f *core.Fusion
}

func (p *program) tensor(shape ...int64) core.ValID { return p.tensorOf(dtype.Float, shape...) }

// tensorOf defines a contiguous tensor.
func (p *program) tensorOf(t dtype.Type, shape ...int64) core.ValID {
	c := make([]core.Tri, len(shape))
	for i, n := range shape {
		if c[i] = core.Yes; n == 1 {
			c[i] = core.NotApplicable
		}
	}
	v, err := p.f.DefineTensor(core.TensorDescription{Shape: shape, Contiguity: c, DType: t})
	require.NoError(p.t, err)
	return v
}

func (p *program) scalar(t dtype.Type) core.ValID {
	v, err := p.f.DefineScalar(t)
	require.NoError(p.t, err)
	return v
}

// call calls an op on values, numbers and lists of them and returns its first
// result.
func (p *program) call(name string, args ...any) core.ValID {
	p.t.Helper()
	return p.calls(name, args...)[0]
}

func (p *program) calls(name string, args ...any) []core.ValID {
	p.t.Helper()
	given := make([]core.Given, len(args))
	for i, a := range args {
		given[i] = givenOf(a)
	}
	out, err := p.f.Call(core.Lookup(name), given, nil)
	require.NoError(p.t, err)
	return out
}

func givenOf(a any) core.Given {
	number := func(v scalar.Value) core.Given { return core.Given{Kind: core.GivenNumber, Num: v} }
	switch a := a.(type) {
	case core.ValID:
		return core.Given{Kind: core.GivenVal, Val: a}
	case float64:
		return number(scalar.Value{Type: dtype.Double, Re: a})
	case int:
		return number(scalar.Value{Type: dtype.Int, I: int64(a)})
	case bool:
		v := scalar.Value{Type: dtype.Bool}
		if a {
			v.I = 1
		}
		return number(v)
	case dtype.Type:
		return core.Given{Kind: core.GivenDType, Num: scalar.Value{I: int64(a)}}
	case []int:
		return listOf(a)
	case []bool:
		return listOf(a)
	case []core.ValID:
		return listOf(a)
	}
	return core.Given{}
}

func listOf[T any](list []T) core.Given {
	g := core.Given{Kind: core.GivenList}
	for _, x := range list {
		g.List = append(g.List, givenOf(x))
	}
	return g
}

func (p *program) output(v core.ValID) {
	p.t.Helper()
	require.NoError(p.t, p.f.AddOutput(v, core.NoVal))
}

func (p *program) alias(v, input core.ValID) {
	p.t.Helper()
	require.NoError(p.t, p.f.AddOutput(v, input))
}

// newCase builds a frozen fusion, and dense inputs of the given sizes.
func newCase(t testing.TB, build func(p *program), sizes ...[]int64) *fusionfuzz.Case {
	t.Helper()
	p := &program{t, core.NewFusion()}
	build(p)
	p.f.Freeze()
	return &fusionfuzz.Case{Fusion: p.f, Inputs: fusionfuzz.Inputs(p.f, 1, sizes...)}
}

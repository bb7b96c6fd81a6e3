package tests

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
)

// A recorder calls operations on a fusion of one input x of unknown sizes.
type recorder struct {
	t *testing.T
	f *core.Fusion
	x core.ValID
}

func newRecorder(t *testing.T) *recorder {
	f := core.NewFusion()
	x, err := f.DefineTensor(core.TensorDescription{Shape: []int64{-1, -1}, Contiguity: []core.Tri{core.Yes, core.Yes}, DType: dtype.Float})
	require.NoError(t, err)
	return &recorder{t, f, x}
}

func given(x any) core.Given {
	switch x := x.(type) {
	case core.ValID:
		return core.Given{Kind: core.GivenVal, Val: x}
	case bool:
		v := scalar.Value{Type: dtype.Bool}
		if x {
			v.I = 1
		}
		return core.Given{Kind: core.GivenNumber, Num: v}
	case int:
		return core.Given{Kind: core.GivenNumber, Num: scalar.Value{Type: dtype.Int, I: int64(x)}}
	case float64:
		return core.Given{Kind: core.GivenNumber, Num: scalar.Value{Type: dtype.Double, Re: x}}
	case []any:
		g := core.Given{Kind: core.GivenList}
		for _, item := range x {
			g.List = append(g.List, given(item))
		}
		return g
	}
	panic("not an argument")
}

func (r *recorder) call(name string, args ...any) core.ValID {
	var list []core.Given
	for _, a := range args {
		list = append(list, given(a))
	}
	out, err := r.f.Call(core.Lookup(name), list, nil)
	require.NoError(r.t, err, name)
	return out[0]
}

func list(items ...any) []any { return items }

// sizes reads the sizes of v as a caller does.
func (r *recorder) sizes(v core.ValID) []any {
	return list(r.call("size", v, 0), r.call("size", v, 1))
}

// growing are programs of n steps on one tensor. A step keeps its rank.
var growing = map[string]func(r *recorder, v core.ValID) core.ValID{
	"pointwise":  func(r *recorder, v core.ValID) core.ValID { return r.call("add", r.call("mul", v, r.x), 2.0) },
	"used twice": func(r *recorder, v core.ValID) core.ValID { return r.call("add", r.call("cos", v), r.call("sin", v)) },
	"permuted":   func(r *recorder, v core.ValID) core.ValID { return r.call("permute", v, list(1, 0)) },
	"padded":     func(r *recorder, v core.ValID) core.ValID { return r.call("pad", v, list(0, 1, 1, 0)) },
	"normalised": func(r *recorder, v core.ValID) core.ValID { return r.call("sub", v, r.call("max", v, list(1), true)) },
	"cut and grown": func(r *recorder, v core.ValID) core.ValID {
		return r.call("slice", r.call("pad", v, list(1, 1)), list(0, 1), list(1000, 1000))
	},
	"joined": func(r *recorder, v core.ValID) core.ValID {
		return r.call("cat", list(v, r.x), 0)
	},
	"reshaped": func(r *recorder, v core.ValID) core.ValID {
		s := r.sizes(v)
		return r.call("neg", r.call("reshape", r.call("reshape", v, list(-1)), s))
	},
	"broadcast": func(r *recorder, v core.ValID) core.ValID {
		return r.call("add", v, r.call("broadcast_in_dim", r.call("sum", v, list(1)), r.sizes(v), list(0)))
	},
	"scaled by a size": func(r *recorder, v core.ValID) core.ValID {
		s := r.sizes(v)
		return r.call("mul", v, r.call("add", r.call("mul", s[0], s[1]), 1))
	},
}

// record makes the program called name of n steps.
func record(t *testing.T, name string, n int) *core.Fusion {
	r := newRecorder(t)
	v := r.x
	for range n {
		v = growing[name](r, v)
	}
	require.NoError(t, r.f.AddOutput(v, core.NoVal))
	return r.f
}

// parts counts what a fusion is made of.
func parts(f *core.Fusion) int {
	return f.NumVals() + f.NumExprs() + f.NumAxes() + f.Scalars().Len()
}

// allocated returns the bytes that a call allocates: work that copies or
// searches by building something shows in it, and it does not depend on time.
func allocated(call func()) float64 {
	call()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

// Four times the steps take four times the work, but for tables that double:
// quadratic work would be sixteen times as much.
const linear = 7

func requireLinear(t *testing.T, what string, small, large float64) {
	t.Helper()
	require.LessOrEqual(t, large, linear*small, "%s: %.0f for a quarter of the steps, %.0f for all", what, small, large)
}

func TestGrowthOfRecording(t *testing.T) {
	for name := range growing {
		t.Run(name, func(t *testing.T) {
			const n = 100
			small, large := record(t, name, n), record(t, name, 4*n)
			requireLinear(t, "parts", float64(parts(small)), float64(parts(large)))
			requireLinear(t, "bytes", allocated(func() { record(t, name, n) }), allocated(func() { record(t, name, 4*n) }))
		})
	}
}

func TestGrowthOfPrinting(t *testing.T) {
	for name := range growing {
		t.Run(name, func(t *testing.T) {
			const n = 100
			small, large := record(t, name, n), record(t, name, 4*n)
			for what, print := range map[string]func(f *core.Fusion) string{
				"text":   (*core.Fusion).String,
				"Python": func(f *core.Fusion) string { return f.Python("f") },
				"math":   func(f *core.Fusion) string { return f.Math(true) },
			} {
				requireLinear(t, what+" length", float64(len(print(small))), float64(len(print(large))))
				requireLinear(t, what+" bytes", allocated(func() { print(small) }), allocated(func() { print(large) }))
			}
			verify := func(f *core.Fusion) func() { return func() { require.NoError(t, f.Verify()) } }
			requireLinear(t, "verify bytes", allocated(verify(small)), allocated(verify(large)))
		})
	}
}

func TestGrowthOfPlanning(t *testing.T) {
	data := make([]float32, 4)
	input := executor.Input{Tensor: true, DType: dtype.Float, Data: unsafe.Pointer(&data[0]), Sizes: []int64{2, 2}, Strides: []int64{2, 1}}
	for name := range growing {
		t.Run(name, func(t *testing.T) {
			const n = 50
			plan := func(f *core.Fusion) func() {
				f.Freeze()
				return func() {
					e, err := executor.NewCache(1, nil).Executor(f)
					require.NoError(t, err)
					_, err = e.Plan([]executor.Input{input})
					require.NoError(t, err)
				}
			}
			small, large := record(t, name, n), record(t, name, 4*n)
			requireLinear(t, "bytes", allocated(plan(small)), allocated(plan(large)))
		})
	}
}

// TestGrowthFinds shows the measure to be able to fail.
func TestGrowthFinds(t *testing.T) {
	quadratic := func(n int) func() {
		return func() {
			kept := 0
			for i := range n {
				kept += len(make([]byte, 8*i+1))
			}
			runtime.KeepAlive(kept)
		}
	}
	require.Greater(t, allocated(quadratic(4000)), linear*allocated(quadratic(1000)))
}

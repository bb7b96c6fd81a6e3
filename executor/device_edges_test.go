package executor_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/executor"
)

// TestDeviceSizesOfOneDefinition calls dynamic definitions with sizes that come
// to be 0 and 1 and back, by one executor.
func TestDeviceSizesOfOneDefinition(t *testing.T) {
	programs := []func(p *program){
		func(p *program) {
			x, y := p.tensor(-1, -1), p.tensor(-1, -1)
			p.output(p.call("add", x, y))
			p.output(p.call("mul", p.call("permute", x, []int{1, 0}), p.call("sum", y, 0, true)))
		},
		func(p *program) {
			x, y := p.tensor(-1, -1), p.tensor(-1, -1)
			p.alias(p.call("add", x, p.call("permute", p.call("permute", y, []int{1, 0}), []int{1, 0})), x)
			p.output(p.call("sum", y))
			p.output(x)
		},
		func(p *program) {
			x, y := p.tensor(-1, -1), p.tensor(-1, -1)
			p.output(p.call("rand_like", x))
			p.output(p.call("randn_like", y))
			p.output(p.call("cat", []core.ValID{x, y}, 0))
		},
	}
	for _, build := range programs {
		s := newStage(t)
		var e *executor.Executor
		computed := 0
		for k := range 3 {
			for _, a := range []int64{3, 1, 0, 40, 1, 3} {
				for _, b := range []int64{5, 0, 1, 33} {
					c := newCase(t, build, []int64{a, b}, []int64{a, b})
					if e == nil {
						e = s.executor(c.Fusion)
					}
					c.Fusion = e.Fusion()
					ok, err := s.check(e, c, k, never)
					if ok {
						computed++
					}
					require.True(t, ok || a*b == 1, "%d x %d: %v", a, b, err) // what is summed there has no dimensions in common with the rest
				}
			}
		}
		require.GreaterOrEqual(t, computed, 66)
	}
}

// TestDeviceTransposedInPlace writes to inputs that lie in memory in another order
// than what is written, and that are read in another order meanwhile.
func TestDeviceTransposedInPlace(t *testing.T) {
	matrix := func(p *program, order ...int64) core.ValID {
		v, err := p.f.DefineTensor(core.TensorDescription{Shape: []int64{-1, -1}, Contiguity: []core.Tri{core.No, core.No}, DType: dtype.Float, StrideOrder: order})
		require.NoError(p.t, err)
		return v
	}
	turned := func(p *program, v core.ValID) core.ValID { return p.call("permute", v, []int{1, 0}) }
	both := func(p *program) (x, y core.ValID) { return matrix(p, 0, 1), matrix(p, 1, 0) }
	for _, test := range []struct {
		name  string
		build func(p *program)
	}{
		{"to columns", func(p *program) {
			x, y := both(p)
			p.alias(p.call("add", x, y), x)
			p.output(p.call("mul", x, y))
		}},
		{"to rows, returned turned", func(p *program) {
			x, y := both(p)
			p.alias(p.call("add", x, y), y)
			p.output(turned(p, y))
		}},
		{"turned, and itself", func(p *program) {
			x, y := both(p)
			p.alias(turned(p, p.call("add", x, y)), x)
			p.alias(y, y)
			p.output(y)
		}},
		{"each to the other, and both returned", func(p *program) {
			x, y := both(p)
			p.alias(turned(p, x), y)
			p.alias(turned(p, y), x)
			p.output(x)
			p.output(y)
			p.output(x)
		}},
		{"one to both, and returned twice", func(p *program) {
			x, y := both(p)
			z := p.call("exp", turned(p, x))
			p.alias(z, y)
			p.alias(z, x)
			p.output(z)
			p.output(z)
			p.output(turned(p, z))
		}},
		{"a sum to a row", func(p *program) {
			x, y := both(p)
			p.output(y)
			p.alias(p.call("sum", turned(p, x), 0), p.tensor(-1))
		}},
	} {
		for _, n := range []int64{1, 2, 33, 64} {
			t.Run(fmt.Sprint(test.name, " ", n), func(t *testing.T) {
				for candidate := range 3 {
					sizes := [][]int64{{n, n}, {n, n}, {n}}
					ok, err := checkDevice(t, newCase(t, test.build, sizes...), candidate, never)
					require.True(t, ok, err)
				}
			})
		}
	}
}

// TestDeviceWordsOfAllTypes brings numbers and tensors of the host of every type,
// with the values that are hardest to keep.
func TestDeviceWordsOfAllTypes(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-45, 5e-324, 1e300, math.NaN(), math.Inf(1), math.Inf(-1),
		1 << 63, -(1 << 63), 1 << 31, 448, 57344}
	types := []dtype.Type{dtype.Bool, dtype.Int32, dtype.Int, dtype.UInt64, dtype.Index, dtype.Half, dtype.BFloat16, dtype.Float, dtype.Double,
		dtype.Float8E4M3FN, dtype.Float8E5M2, dtype.Float8E8M0FNU, dtype.ComplexFloat, dtype.ComplexDouble}
	for _, d := range types {
		c := newCase(t, func(p *program) {
			x, number, u := p.tensorOf(d, -1), p.scalar(d), p.call("broadcast", p.tensorOf(d), []bool{true})
			equal := p.call("eq", x, x)
			p.output(p.call("where", equal, number, x))
			p.output(p.call("where", equal, x, u))
			p.output(u)
		}, []int64{3}, nil)
		c.Wild = true
		s := newStage(t)
		e := s.executor(c.Fusion)
		for _, re := range values {
			for _, im := range []float64{0, math.Copysign(0, -1), math.NaN()} {
				v := core.ConvertScalar(d, scalar.Value{Type: dtype.ComplexDouble, Re: re, Im: im})
				c.Inputs[1].Scalar = v
				c.Inputs[2].Array.Set(0, v)
				ok, err := s.check(e, c, 0, func(int) bool { return true })
				require.True(t, ok, "%v %v: %v", d, v, err)
			}
		}
		held, _ := e.Plans()
		require.Equal(t, 1, held, d)
	}
}

// windows gives input i strides by which its elements share memory, and elements
// that do.
func windows(c *fusionfuzz.Case, i int, strides ...int64) {
	in := &c.Inputs[i]
	in.Strides = strides
	k := int64(0)
	core.EachIndex(in.Array.Shape, func(index []int64) {
		at := int64(0)
		for d, x := range index {
			at += x * strides[d]
		}
		in.Array.Set(k, core.ConvertScalar(in.Array.Type, scalar.Value{Type: dtype.Double, Re: float64(at)}))
		k++
	})
}

// TestDeviceWindows reads, and copies, inputs whose elements share memory.
func TestDeviceWindows(t *testing.T) {
	build := func(p *program) {
		loose := core.TensorDescription{Shape: []int64{-1, -1}, Contiguity: []core.Tri{core.No, core.No}, DType: dtype.Half}
		x, err := p.f.DefineTensor(loose)
		require.NoError(p.t, err)
		y, err := p.f.DefineTensor(loose)
		require.NoError(p.t, err)
		p.alias(x, y)
		p.output(p.call("mul", x, y))
		p.output(x)
		p.output(p.call("sum", x, 1))
		p.output(p.call("permute", x, []int{1, 0}))
	}
	for _, strides := range [][]int64{{1, 1}, {0, 1}, {1, 0}, {0, 0}, {2, 1}, {1, 3}, {8, 1}, {16, 2}} {
		for _, sizes := range [][]int64{{5, 32}, {32, 5}, {64, 64}, {1, 7}} {
			for candidate := range 3 {
				c := newCase(t, build, sizes, sizes)
				windows(c, 0, strides...)
				ok, err := checkDevice(t, c, candidate, never)
				require.True(t, ok, "%v %v: %v", strides, sizes, err)
			}
		}
	}
}

// TestDeviceRandomInSeveralLaunches draws numbers in kernels that have nothing in
// common, and again with another state: each operation has a stream of its own.
func TestDeviceRandomInSeveralLaunches(t *testing.T) {
	c := newCase(t, func(p *program) {
		x, y, z := p.tensor(-1), p.tensor(-1, -1), p.tensorOf(dtype.BFloat16, -1)
		p.output(p.call("rand_like", x))
		p.output(p.call("add", p.call("randn_like", y), p.call("rand_like", y)))
		p.alias(p.call("randn_like", z), z)
		u := p.call("rand_like", x)
		p.output(u)
		p.output(u)
		p.output(p.call("randn_like", y))
	}, []int64{70}, []int64{9, 11}, []int64{33})
	s := newStage(t)
	e := s.executor(c.Fusion)
	for candidate := range 3 {
		ok, err := s.check(e, c, candidate, never)
		require.True(t, ok, err)
	}
	require.GreaterOrEqual(t, len(s.driver.Launches()), 9)
	plan, err := e.Plan([]executor.Input{vector(0x1000, 70), onDevice(0, 0x2000, []int64{9, 11}, []int64{11, 1}), bfloat16(vector(0x3000, 33))})
	requireNoError(t, err)
	require.Equal(t, uint64(4*6), plan.Device.Draws)
}

func bfloat16(x executor.Input) executor.Input {
	x.DType = dtype.BFloat16
	return x
}

// TestDeviceCopiesOnce: an output that is another one is not made twice, and what
// repeats in it has no elements of its own.
func TestDeviceCopiesOnce(t *testing.T) {
	for _, test := range []struct {
		name     string
		build    func(p *program)
		sizes    [][]int64
		launches int
	}{
		{"an input, twice", func(p *program) { x := p.tensor(-1, -1); p.output(x); p.output(x) }, [][]int64{{5, 7}}, 1},
		{"a result, twice", func(p *program) { y := p.call("neg", p.tensor(-1, -1)); p.output(y); p.output(y) }, [][]int64{{5, 7}}, 1},
		{"a result, to an input too", func(p *program) {
			x := p.tensor(-1, -1)
			y := p.call("neg", x)
			p.output(y)
			p.alias(y, x)
			p.output(y)
		}, [][]int64{{5, 7}}, 2},
	} {
		s := newStage(t)
		c := newCase(t, test.build, test.sizes...)
		ok, err := s.check(s.executor(c.Fusion), c, 0, never)
		require.True(t, ok, err)
		require.Len(t, s.driver.Launches(), test.launches, test.name)
	}
}

// TestDeviceCopiesToGaps copies to inputs whose rows have gaps between them, and
// from such, where the other side has none.
func TestDeviceCopiesToGaps(t *testing.T) {
	loose := func(p *program) core.ValID {
		v, err := p.f.DefineTensor(core.TensorDescription{Shape: []int64{-1, -1}, Contiguity: []core.Tri{core.No, core.No}, DType: dtype.Float})
		require.NoError(p.t, err)
		return v
	}
	for _, build := range []func(p *program){
		func(p *program) { x, y := loose(p), loose(p); p.alias(x, y) },
		func(p *program) { x, y := loose(p), loose(p); p.alias(x, y); p.alias(y, x); p.output(x) },
		func(p *program) {
			x, y := loose(p), loose(p)
			p.alias(p.call("permute", x, []int{1, 0}), x)
			p.output(y)
		},
	} {
		for _, strides := range [][]int64{{10, 1}, {1, 10}, {7, 1}, {1, 7}, {20, 2}} {
			for gapped := range 2 {
				c := newCase(t, build, []int64{7, 7}, []int64{7, 7})
				c.Inputs[gapped].Strides = strides
				ok, err := checkDevice(t, c, 0, never)
				require.True(t, ok, err)
			}
		}
	}
}

// TestDeviceNothingBetweenKernels: a value without elements that one kernel makes
// and another reads does not begin where what is made of it does.
func TestDeviceNothingBetweenKernels(t *testing.T) {
	f := parsed(t, `%0 = tensor c128 [3, -1, 1, -1] contiguity=[yes, no, none, yes]
%1 = mul %0, false
%2 = squeeze %1 dims=[2] squeeze_expanded=false
%3 = sum %2 dims=[0, 1, 2] keepdim=false dtype=c128
%4 = broadcast %3 is_broadcast_dim=[true, true, true, true]
%5 = cat [%4, %4] dim=0 manual_padding=false
%6 = sub %5, -3:i64
output %6
`)
	for _, sizes := range [][]int64{{3, 2, 1, 0}, {3, 2, 1, 5}, {3, 0, 1, 5}} {
		c := &fusionfuzz.Case{Fusion: f, Inputs: fusionfuzz.Inputs(f, 7, sizes)}
		ok, err := checkDevice(t, c, 0, never)
		require.True(t, ok, err)
	}
}

// TestDeviceColumnsOfParts: what a maximum relies on where a column of two parts has no
// element is stored for all elements of a vector.
func TestDeviceColumnsOfParts(t *testing.T) {
	for _, processors := range []int{1, 2, 4, 132} {
		s := newStage(t)
		s.driver.Present[0].Processors = processors
		c := newCase(t, func(p *program) {
			x := p.call("cat", []core.ValID{p.tensor(4, 64, 2, 2), p.tensor(1, 64, 2, 2)}, 0)
			p.output(p.call("sub", x, p.call("broadcast", p.call("max", x, []int{0, 1}), []bool{true, true, false, false})))
		}, []int64{4, 64, 2, 2}, []int64{1, 64, 2, 2})
		c.Inputs[0].Offset, c.Inputs[1].Offset = 1, 1 // parts are loaded one by one
		ok, err := s.check(s.executor(c.Fusion), c, 0, never)
		require.True(t, ok, "%v", err)
	}
}

// Package arguments evaluates the numbers that a kernel is launched with.
//
// Its central type is [Values], the numbers of one launch: whoever launches or
// simulates a kernel asks it for each argument that is no pointer. Where tensors
// lie, and what they hold, it asks its [Inputs].
//
// Invariants: a number depends on the kernel, its schedule, the sizes and scalars
// of the inputs, their strides, elements that are passed by value, and the state of
// the random generator alone.
//
// It allocates no memory for tensors and does not know how numbers are passed;
// package cuda does.
package arguments

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// Inputs is what numbers depend on beside sizes and scalars. Inputs are numbered
// as the fusion has them.
type Inputs interface {
	// Stride returns that of a dimension, in elements.
	Stride(input, dimension int) int64
	// Element returns that of a tensor without dimensions in host memory.
	Element(input int) scalar.Value
}

// Integer returns the integer v of a launch of s; b has the sizes and scalars.
//
// Errors: InvalidArgument for what has no value; others for what inputs do not
// decide.
func Integer(s *schedule.Scheduled, b *core.Binding, in Inputs, v kir.HostValue) (int64, error) {
	if v.Stride < 0 {
		return b.Int(v.Scalar)
	}
	f := s.Fusion()
	alloc, _ := s.Allocation(v.Tensor)
	input, d := slices.Index(f.Inputs(), v.Tensor), slices.Index(f.Val(v.Tensor).Domain.Logical, alloc[v.Stride])
	if input < 0 || d < 0 {
		return 0, fmt.Errorf("%s has no stride %d", f.Name(v.Tensor), v.Stride)
	}
	return in.Stride(input, d), nil
}

// Values are the numbers of one launch. Asking adds to the tables of scalars of the
// kernel and the fusion: two calls must not be at one time.
type Values struct {
	*kir.Integers
	f  *core.Fusion
	b  *core.Binding
	in Inputs
}

// New returns the numbers of a launch of kernel k of s; b has the sizes and
// scalars.
//
// Errors: InvalidArgument for an integer that has no value, and for sizes that break
// what the schedule was promised.
func New(s *schedule.Scheduled, k *kir.Kernel, b *core.Binding, in Inputs) (*Values, error) {
	if err := s.CheckPromises(b); err != nil {
		return nil, err
	}
	integers, err := k.Integers(func(_ int, a *kir.Argument) (int64, error) { return Integer(s, b, in, a.Host) })
	return &Values{integers, s.Fusion(), b, in}, err
}

// Number returns the value of argument a, which is no pointer.
//
// Errors: InvalidArgument if it has none, such as a division by zero.
func (x *Values) Number(a *kir.Argument, random core.RandomState) (scalar.Value, error) {
	integer := func(n uint64) scalar.Value { return scalar.Value{Type: dtype.Int, I: int64(n)} }
	switch a.Kind {
	case kir.RandomSeed:
		return integer(random.Seed), nil
	case kir.RandomOffset:
		return integer(random.Offset), nil
	case kir.IndexScalar, kir.Divisor:
		v, _, err := x.Integers.Number(a)
		return v, err
	}
	if a.Host.Tensor != core.NoVal {
		return core.ConvertScalar(a.DType, x.in.Element(slices.Index(x.f.Inputs(), a.Host.Tensor))), nil
	}
	v, err := x.b.Value(a.Host.Scalar)
	return core.ConvertScalar(a.DType, v), err
}

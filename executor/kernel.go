package executor

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// A compiled is a schedule of a fusion and its kernel, and how they came about.
type compiled struct {
	scheduler  string             // that made the schedule; "": the caller did
	candidates []scheduler.Params // of it; the first is what was taken
	refusals   []core.Refusal     // of the schedulers that were asked before

	s       *schedule.Scheduled // nil: every scheduler refuses
	options lower.Options       // that the kernel was made with
	kernel  *kir.Kernel         // nil: lowering refuses

	lock sync.Mutex // evaluating sizes and lowering again add to the tables of s and kernel
}

// compile returns the kernel of s for the sizes of b. If s is nil, the schedule
// is that of the first scheduler that takes the fusion. It is changed to write
// the outputs as described. b belongs to the result afterwards. With an error
// comes what was made before it.
//
// Errors: Unsupported with what each scheduler says, or of [lower.Lower].
func (e *Executor) compile(b *core.Binding, outputs []OutputDescription, s *schedule.Scheduled) (*compiled, error) {
	c := &compiled{s: s}
	if s == nil {
		if err := c.schedule(e.f, b); err != nil {
			return c, err
		}
	}
	if err := layOut(c.s, e.f, outputs); err != nil {
		return c, err
	}
	// The kernel is for these sizes, so lowering may rely on none of them being 0
	// where it is not.
	c.options.Promise = func(h kir.HostValue) scalar.Facts {
		if h.Scalar != scalar.None && int(h.Scalar) < e.f.Scalars().Len() {
			if n, err := b.Int(h.Scalar); err == nil && n > 0 {
				return scalar.Range(1, math.MaxInt64)
			}
		}
		return scalar.Unknown()
	}
	return c, c.lower()
}

func (c *compiled) schedule(f *core.Fusion, b *core.Binding) error {
	chosen, refusals := schedulers.Choose(f, b, scheduler.Hopper)
	c.refusals = refusals
	if chosen == nil {
		return &core.Unsupported{What: "no scheduler takes this fusion", Refusals: refusals}
	}
	c.scheduler, c.candidates = chosen.Name(), chosen.Candidates(f, b, scheduler.Hopper)
	var err error
	c.s, err = chosen.Apply(f, c.candidates[0])
	return err
}

func (c *compiled) lower() (err error) {
	if c.kernel, err = lower.Lower(c.s, c.options); err != nil {
		return err
	}
	if err := c.kernel.Verify(); err != nil {
		return &Bug{What: fmt.Sprintf("%v\nin\n%v", err, c.kernel)}
	}
	return nil
}

// layOut gives the outputs of s, a schedule of f, the order of dimensions in
// memory that outputs describe.
func layOut(s *schedule.Scheduled, f *core.Fusion, outputs []OutputDescription) error {
	orders := memoryOrders(f)
	for k, o := range s.Fusion().Outputs() {
		order := orders[f.Outputs()[k].Val]
		if order == nil || outputs[k].SameAs >= 0 || declaredOrder(s.Fusion(), o.Val) != nil {
			continue
		}
		axes := s.Fusion().Axes(o.Val)
		alloc := make([]core.AxisID, len(order))
		for i, d := range order {
			alloc[i] = axes[d]
		}
		for _, a := range s.Fusion().Val(o.Val).Domain.Logical {
			if !slices.Contains(alloc, a) { // reduced
				alloc = append(alloc, a)
			}
		}
		if err := s.SetAllocation(o.Val, alloc, nil); err != nil {
			return err
		}
	}
	return nil
}

// A host evaluates the arguments of one launch.
type host struct {
	*compiled
	call     *Call
	b        *core.Binding
	integers map[uint32]int64 // by symbol
	outputs  []kir.BufferID
}

// host returns the host of a launch, which knows the integers: the sizes of
// workspaces and of the launch depend on them. The lock of c must be held.
func (c *compiled) host(call *Call) (*host, error) {
	b, err := c.s.Fusion().Bind(valuesOf(call.Inputs))
	if err != nil {
		return nil, err
	}
	h := &host{compiled: c, call: call, b: b, integers: map[uint32]int64{}}
	for _, a := range c.kernel.Arguments {
		if a.Kind != kir.IndexScalar {
			continue
		}
		if h.integers[uint32(a.Symbol)], err = h.integer(a.Host); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *host) input(v core.ValID) *Input {
	if i := slices.Index(h.s.Fusion().Inputs(), v); i >= 0 {
		return &h.call.Inputs[i]
	}
	return nil
}

func (h *host) number(a kir.Argument) (scalar.Value, error) {
	integer := func(n int64) scalar.Value { return scalar.Value{Type: dtype.Int, I: n} }
	switch a.Kind {
	case kir.RandomSeed:
		return integer(int64(h.call.Random.Seed)), nil
	case kir.RandomOffset:
		return integer(int64(h.call.Random.Offset)), nil
	case kir.IndexScalar:
		return scalar.Value{Type: dtype.Index, I: h.integers[uint32(a.Symbol)]}, nil
	}
	if a.Host.Tensor != core.NoVal {
		x := h.input(a.Host.Tensor)
		return core.ConvertScalar(a.DType, element(x.DType, unsafe.Slice((*byte)(x.Data), x.DType.Size()))), nil
	}
	v, err := h.b.Value(a.Host.Scalar)
	if err != nil {
		return v, h.s.Fusion().ScalarError(err)
	}
	return core.ConvertScalar(a.DType, v), nil
}

func (h *host) integer(v kir.HostValue) (int64, error) {
	if v.Stride < 0 {
		return h.b.Int(v.Scalar)
	}
	alloc, _ := h.s.Allocation(v.Tensor)
	x := h.input(v.Tensor)
	if core.NumElements(x.Sizes) == 0 {
		return 0, nil
	}
	d := slices.Index(h.s.Fusion().Val(v.Tensor).Domain.Logical, alloc[v.Stride])
	return x.Strides[d], nil
}

// size evaluates an expression of the kernel's arguments.
func (h *host) size(id scalar.ID) (int64, error) {
	t := h.kernel.Scalars
	v, err := t.Eval(id, func(s scalar.ID) (scalar.Value, error) {
		return scalar.Value{Type: t.Type(s), I: h.integers[t.Tag(s).Val]}, nil
	}, core.EvalOpaque, nil)
	return v.I, err
}

// element reads one of type t.
func element(t dtype.Type, b []byte) scalar.Value {
	v := scalar.Value{Type: t}
	switch {
	case t.IsFloat():
		v.Re = dtype.LoadFloat(t, b)
	case t.IsComplex():
		x := dtype.LoadComplex(t, b)
		v.Re, v.Im = real(x), imag(x)
	default:
		v.I = dtype.LoadInt(t, b)
	}
	return v
}

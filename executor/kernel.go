package executor

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"nvfuser_go/codegen/arguments"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// A compiled is a task, a schedule of it and its kernel, and how they came about.
type compiled struct {
	*task
	scheduler  string             // that made the schedule; "": the caller did
	candidates []scheduler.Params // of it
	taken      int                // of the candidates
	passed     map[int]string     // by candidate: why it cannot be made, of those before the taken one
	refusals   []core.Refusal     // of the schedulers that were asked before

	*lowered
	known   *core.Binding // of the fusion of s to the inputs
	width   int64         // of its vectors: a power of two; 0 and 1 are none
	options lower.Options // that the kernel is made with

	arch      int                 // of the device that it is for, as cuda.Options has it; 0: of no device
	launch    cudadrv.LaunchBlock // without arguments
	minBlocks int                 // as cuda.Options has it
	key       functionKey         // of its function, if that was loaded
}

// choose has a scheduler chosen for t, and its candidates. known is what is known of the
// fusion.
//
// Errors: Unsupported with what each scheduler says.
func (t *task) choose(known func(*core.Fusion, string) *scheduler.Known) (c *compiled, by scheduler.Scheduler, g *scheduler.Segment, err error) {
	c = &compiled{task: t, lowered: &lowered{}, refusals: t.refusals}
	g, by = segment(t.f, t.b, t.device, t.inputs, t.aligned, t.outputs), schedulers.Lookup(t.scheduler)
	if g.Like(t.asked) {
		g = t.asked
	} else {
		g.Known = known(t.f, t.f.String())
		if by, c.refusals = schedulers.Choose(g, t.device); by == nil {
			return c, nil, nil, &core.Unsupported{What: "no scheduler takes this fusion", Refusals: c.refusals}
		}
	}
	c.scheduler, c.candidates = by.Name(), by.Candidates(g, t.device)
	return c, by, g, nil
}

// take takes candidate number k, counted around.
func (c *compiled) take(k int) scheduler.Params {
	c.taken, c.width = k%len(c.candidates), 1
	p := c.candidates[c.taken]
	if v, ok := p.(scheduler.Vectorized); ok {
		c.width = v.Width()
	}
	return p
}

// compile makes the kernel by candidate number first, counted around, or the next one
// that can be lowered and that load takes. With an error c has what was made before it.
//
// Errors: Unsupported with what lowering or the device says of each candidate; those of load
// but for a launch that the device refuses.
func (c *compiled) compile(by scheduler.Scheduler, g *scheduler.Segment, first int, load func() error) error {
	what := "no schedule of this fusion can be lowered"
	var refusals []core.Refusal
	pass := func(found []core.Refusal) {
		refusals = append(refusals, found...)
		if len(found) > 0 {
			c.passed[c.taken] = found[0].Sentence
		}
	}
	c.passed = map[int]string{}
	for k := range c.candidates {
		p := c.take(first + k)
		var err error
		if c.s, err = by.Apply(g, p); err != nil {
			pass(scheduler.RefusalsOf(c.scheduler, err))
			continue
		}
		err = c.lowerTo()
		if err == nil {
			if err = load(); !isTooLarge(err) {
				return err
			}
			what = tooLargeWhat
		}
		var refused *core.Unsupported
		if !errors.As(err, &refused) {
			return err
		}
		pass(refused.Refusals)
	}
	return &core.Unsupported{What: what, Refusals: slices.Compact(refusals)}
}

// lowerTo makes the kernel of the task, which writes outputs as they are
// described.
func (c *compiled) lowerTo() error {
	if err := c.layOut(); err != nil {
		return err
	}
	if err := c.rely(); err != nil {
		return err
	}
	c.conditions = lower.Conditions{}
	c.options.Conditions = &c.conditions
	defer func() { c.options.Conditions = nil }() // who lowers again, to look, does not add to them
	return c.lower()
}

// rely sets what the kernel may rely on.
func (c *compiled) rely() (err error) {
	if c.known, err = c.s.Fusion().Bind(valuesOf(c.inputs)); err != nil {
		return err
	}
	known := c.known
	c.options.Cooperative, c.options.Exact = true, c.exact
	c.options.Value = func(h kir.HostValue) (int64, bool) {
		n, err := arguments.Integer(c.s, known, hostInputs(c.inputs), h)
		return n, err == nil
	}
	c.options.Promise = c.promise
	if c.width > 1 {
		c.options.Alignment = func(v core.ValID) int { return int(alignmentOf(c.s.Fusion(), v, c.aligned)) }
	}
	return nil
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

// promise says of the sizes that the kernel is for which are not 0 and which are
// no less than a vector, and of what they and strides are a multiple that matters
// for vectors, and which strides are of a few elements: lowering may rely on that, and not on more, so that kernels of other
// sizes are alike.
func (c *compiled) promise(h kir.HostValue) scalar.Facts {
	n, ok := c.options.Value(h)
	if !ok || n <= 0 {
		return scalar.Unknown()
	}
	f := scalar.Unknown()
	if h.Stride >= 0 && n > 1 && n <= kir.MaxStep && c.width > 1 { // vectors have what is between elements
		return scalar.Range(n, n)
	}
	if h.Stride < 0 {
		f = scalar.Range(1, math.MaxInt64)
		if n >= c.width {
			f = scalar.Range(max(c.width, 1), math.MaxInt64)
		}
	}
	for f.Divisor < c.width && n%(2*f.Divisor) == 0 {
		f.Divisor *= 2
	}
	return f
}

// layOut gives the outputs that the schedule does not lay out the order of
// dimensions in memory that their descriptions have. That of the definition
// (stride_order) does not count: the tensor may be stored for another output or
// for another segment, which lie otherwise. Nothing but that order decides, as it is
// what kernels that serve other sizes are told apart by.
func (c *compiled) layOut() error {
	for k, o := range c.s.Fusion().Outputs() {
		f, d := c.s.Fusion(), &c.outputs[k]
		own, set := c.s.Allocation(o.Val)
		order := d.order()
		if set || o.Alias != core.NoVal || slices.Equal(order, f.Dimensions(o.Val, own)) {
			continue
		}
		axes := f.Axes(o.Val)
		alloc := make([]core.AxisID, len(order))
		for i, d := range order {
			alloc[i] = axes[d]
		}
		for _, a := range f.Val(o.Val).Domain.Logical {
			if !slices.Contains(alloc, a) { // reduced
				alloc = append(alloc, a)
			}
		}
		if err := c.s.SetAllocation(o.Val, alloc, nil); err != nil {
			return err
		}
	}
	return nil
}

// A host evaluates the arguments of one launch.
type host struct {
	*compiled
	*arguments.Values
	random core.RandomState
}

// host returns the host of a launch for the inputs of t, which c is for or which are of the
// same kind. The lock must be held.
func (c *compiled) host(t *task, random core.RandomState) (h *host, err error) {
	b := c.known
	if t != c.task {
		if b, err = c.s.Fusion().Bind(valuesOf(t.inputs)); err != nil {
			return nil, err
		}
	}
	if err := c.s.CheckPromises(b); err != nil && c.scheduler != "" {
		return nil, &Bug{What: fmt.Sprintf("%s: %v", c.scheduler, err)}
	}
	values, err := arguments.New(c.s, c.kernel, b, hostInputs(t.inputs))
	return &host{c, values, random}, err
}

// input returns the place of v among the inputs, or -1.
func (h *host) input(v core.ValID) int { return slices.Index(h.s.Fusion().Inputs(), v) }

func (h *host) number(a kir.Argument) (scalar.Value, error) { return h.Number(&a, h.random) }

// hostInputs is what numbers depend on.
type hostInputs []Input

// Stride returns that of a dimension; of no elements it does not matter.
func (in hostInputs) Stride(i, d int) int64 {
	if core.NumElements(in[i].Sizes) == 0 {
		return 0
	}
	return in[i].Strides[d]
}

// Element reads the memory of an input.
func (in hostInputs) Element(i int) scalar.Value { return in[i].element() }

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

package lower

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// Options are what a kernel may rely on beside the schedule.
type Options struct {
	Name string // of the kernel; "": "kernel"
	// Index is the type of index arithmetic: Int32, Int, or Null to choose it.
	Index dtype.Type
	// Value gives the integers of a launch. With it the index type is that which
	// holds every index of that launch; without it, that which the facts allow.
	Value func(kir.HostValue) (int64, bool)
	// Promise returns what the host promises about an integer argument, beside
	// that it is not negative: bounds and divisors. Nil: nothing.
	Promise func(kir.HostValue) scalar.Facts
	// Alignment returns what is known of the address of the first element of a tensor in
	// global memory, a [schedule.Alignment]. Nil: that those of an element divide it.
	Alignment func(core.ValID) int
	// Conditions, if not nil, receives what the kernel relies on. It is for options
	// with Value and Promise, and without an Index.
	Conditions *Conditions
	// Cooperative says that all blocks of the launch are resident together, so that
	// they may wait for each other. The host must see to that if the kernel's
	// Launch says so.
	Cooperative bool
	// Exact has no operation computed by an approximation, whoever reads its result.
	Exact bool
	// After, if not nil, is called with the kernel after each pass and may look at
	// it; an error of it ends lowering. Before the first complete pass, places and
	// barriers are missing.
	After func(Pass, *kir.Kernel) error

	// Decided is told of each statement with index tests, in order, whether it keeps
	// them and why. Nil: nobody is.
	Decided func(Decision)

	omitted rule
}

// A Pass is a step of lowering.
type Pass struct {
	Name     string
	Does     string
	Why      string // it stands where it does
	Complete bool   // [kir.Kernel.Verify] accepts the kernel after it
	run      func(*lowering) error
}

// Passes returns the steps of lowering, in order.
func Passes() []Pass {
	return []Pass{
		{Name: "launch", Does: "gives the kernel a pointer for each tensor in global memory and its numbers of threads and blocks",
			Why: "statements name buffers and thread indices", run: (*lowering).launch},
		{Name: "statements", Does: "opens the loops, declares storage where it is needed and emits each statement with its indices and guards",
			Why: "all later passes work on the kernel alone", run: (*lowering).statements},
		{Name: "predicates", Does: "drops the index tests of statements that may run at points without an element",
			Why: "it looks at all that writes what a reduction reads", run: (*lowering).dropTests},
		{Name: "overwriting", Does: "refuses kernels that overwrite an input too early, and finds where barriers must keep them from it",
			Why: "it looks at the accesses of all statements", run: (*lowering).overwriting},
		{Name: "registers", Does: "unrolls the loops that index arrays of registers, and declares none that nothing accesses",
			Why: "it looks at all accesses of a buffer", run: (*lowering).registers},
		{Name: "accumulate", Does: "shortens the chains in which a thread adds elements up",
			Why: "it changes loops that are written out", run: (*lowering).accumulate},
		{Name: "fetch first", Does: "puts loads of vectors of which not all elements may exist before what depends on which do",
			Why: "it takes loops apart that are written out", run: (*lowering).fetchFirst},
		{Name: "settle", Does: "leaves tests to those iterations of loops that are written out in which they may fail",
			Why: "it looks at tests that no other pass takes apart any more", run: (*lowering).settle},
		{Name: "land in turn", Does: "lets what reads asynchronous copies begin when the first of them have landed",
			Why: "waits for all of them are placed where there are none", run: (*lowering).landInTurn},
		{Name: "refill", Does: "lets a loop that begins with asynchronous copies make those of the next iteration as it reads its own last",
			Why: "it counts the groups of copies that land in turn", run: (*lowering).refill},
		{Name: "synchronise", Does: "places shared memory, barriers and waits",
			Why: "it needs exact indices, and orders whatever the passes before it emit", Complete: true, run: (*lowering).synchronise},
		{Name: "peel", Does: "has those first and last iterations of loops apart in which alone index tests may fail",
			Why: "no pass looks at both loops, and the next one names what both compute", Complete: true, run: (*lowering).peel},
		{Name: "hoist", Does: "names index expressions that are used again or in deeper loops",
			Why: "all expressions are there", Complete: true, run: (*lowering).hoist},
		{Name: "index type", Does: "chooses the type of index arithmetic",
			Why: "it looks at every expression of the kernel", Complete: true, run: (*lowering).chooseIndex},
		{Name: "divisors", Does: "divides by numbers of the launch by multiplications",
			Why: "it is for indices of 32 bits only", Complete: true, run: (*lowering).divisors},
	}
}

// Lower returns the kernel that computes a schedule. Its Launch and sizes are
// expressions of its arguments, which Argument.Host tells the host to compute.
//
// Errors: what [schedule.Map] refuses, and [core.Unsupported].
func Lower(s *schedule.Scheduled, o Options) (*kir.Kernel, error) {
	m, err := schedule.Map(s)
	if err != nil {
		return nil, err
	}
	a := analyse(m, o)
	for _, check := range []func() error{a.checkOperations, a.checkMemory, a.checkPhases, a.checkThreads, a.checkAliases, a.findPipelines} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	l := newLowering(a, o)
	for _, p := range Passes() {
		if err := p.run(l); err != nil {
			return nil, err
		}
		if o.After == nil {
			continue
		}
		if err := o.After(p, l.b.Kernel()); err != nil {
			return nil, fmt.Errorf("after pass %s: %w", p.Name, err)
		}
	}
	return l.b.Kernel(), nil
}

// A lowering is a kernel being built.
type lowering struct {
	*Analysis
	options       Options
	b             *kir.Builder
	t             *scalar.Table // of the kernel
	arguments     arguments
	dimensions    []dimension
	sides         []side // of which each has a range of the blocks; none: all blocks compute all
	buffers       map[core.ValID]kir.BufferID
	loops         map[core.AxisID]index // loop class -> value, of the loops that are open
	numLoops      int
	numNames      int
	limited       map[core.ValID]limit
	windows       map[core.ValID]*window     // that are declared
	exchanged     map[core.ExprID]*exchange  // combined and not stored yet
	serial        *serialLoop                // the innermost one that is open
	results       map[kir.BufferID]fold      // in registers, of reductions that keep one value
	alike         map[core.ExprID]bool       // reductions of a thread of whose states each that there is has as many elements
	numbers       map[core.ExprID]int64      // of elements that each state of a reduction of a thread has; 0: it is not known
	additions     map[kir.BufferID]*addition // of elements or parts to states that take several at once, by what they declare first
	reads         map[core.ValID][]touch     // of an input, by the output that gets its memory
	writes        map[core.ValID][]touch
	ordered       []core.Output // in place, of which barriers order the accesses
	numStatements int
	ahead         *pipeline // its loads are being emitted; nil: no loads ahead
	register      index     // the slot in registers that they go to
	guarded       []*guarded
	below         map[index]index         // what an integer that an element becomes stays below
	fast          *fastCopy               // being emitted; nil: none
	unswitched    bool                    // a copy of an unswitched nest is being emitted
	keepings      map[core.ValID]*keeping // by both copies
	backward      map[core.AxisID]int64   // how many iterations are kept, by classes of loops that begin with the last one of the others
	keeping       *keeping                // a copy of it is being emitted
	there         scalar.ID               // a condition that holds where statements are being emitted; None if there is none
	keepingStep   keepingStep
	keepingCache  kir.CacheHint // of its loads
	keepingLast   scalar.ID
	starting      *kir.If // holds always; declares what blocks of a cluster send to
}

func newLowering(a *Analysis, o Options) *lowering {
	if o.Name == "" {
		o.Name = "kernel"
	}
	b := kir.NewBuilder(o.Name, dtype.Int)
	b.Kernel().Launch.Resident = a.s.ResidentBlocks()
	l := &lowering{Analysis: a, there: scalar.None, options: o, b: b, t: b.T, buffers: map[core.ValID]kir.BufferID{}, loops: map[core.AxisID]index{}, limited: map[core.ValID]limit{}, windows: map[core.ValID]*window{}, exchanged: map[core.ExprID]*exchange{}, results: map[kir.BufferID]fold{}, additions: map[kir.BufferID]*addition{}, alike: map[core.ExprID]bool{}, numbers: map[core.ExprID]int64{}, below: map[index]index{}, reads: map[core.ValID][]touch{}, writes: map[core.ValID][]touch{}}
	l.arguments = newArguments(l)
	return l
}

// A dimension is one of the grid or of a block.
type dimension struct {
	parallel schedule.Parallel
	used     bool
	exact    bool // all loops along it have its length
	extent   index
	symbol   index // the thread's or block's index
}

// dimension returns the one of a block or thread type.
func (l *lowering) dimension(p schedule.Parallel) *dimension {
	if p == schedule.Cluster {
		return &l.dimensions[schedule.TIDz-schedule.BIDx+1]
	}
	return &l.dimensions[p-schedule.BIDx]
}

// launch is a pass.
func (l *lowering) launch() error {
	if err := l.globals(); err != nil {
		return err
	}
	for p := schedule.BIDx; p <= schedule.TIDz; p++ {
		l.dimensions = append(l.dimensions, dimension{parallel: p, exact: true})
	}
	l.dimensions = append(l.dimensions, dimension{parallel: schedule.Cluster, exact: true})
	for _, v := range l.s.Tensors() {
		for k, a := range l.tensors[v].loop {
			switch p := l.parallel(a); {
			case p.IsBlock() || p.IsThread():
				l.widen(l.dimension(p), l.extent(l.m.Promotion(a)))
			case p == schedule.Serial || unrolls(p) || p == schedule.Vectorize:
			default:
				return l.refuse("parallel type", v, "axis %d of %s is %v, which is not lowered: %s", k, l.f.Name(v), p, instead[p])
			}
		}
	}
	if err := l.findSides(); err != nil {
		return err
	}
	for i := range l.dimensions[:schedule.TIDz-schedule.BIDx+1] {
		l.bind(&l.dimensions[i])
	}
	if err := l.bindCluster(); err != nil {
		return err
	}
	return l.bindPhases()
}

// instead says what to use for parallel types that are not lowered.
var instead = map[schedule.Parallel]string{
	schedule.Group:  "reduce each value by a reduction of its own, with the axis unrolled",
	schedule.Bulk:   "copy asynchronously, with the axis vectorized",
	schedule.Stream: "leave it serial, or make a kernel for each iteration",
	schedule.MeshX:  "a kernel runs on one device, so split the tensor before",
	schedule.MeshY:  "a kernel runs on one device, so split the tensor before",
	schedule.MeshZ:  "a kernel runs on one device, so split the tensor before",
}

func (l *lowering) widen(d *dimension, extent index) {
	switch {
	case !d.used:
		d.used, d.extent = true, extent
	case d.extent != extent:
		d.exact, d.extent = false, l.t.Max(d.extent, extent)
	}
}

// bind makes the symbol of a dimension, if it is used.
func (l *lowering) bind(d *dimension) {
	if !d.used {
		return
	}
	if l.t.Facts(d.extent).Lo < 1 { // a launch has at least one thread
		d.exact, d.extent = false, l.t.Max(d.extent, l.t.Int(1))
	}
	if d.parallel == schedule.BIDx && l.dimension(schedule.Cluster).used {
		return // by bindCluster
	}
	k, kind, names := l.b.Kernel(), kir.BlockIdx, "bxbybz"
	i := int(d.parallel - schedule.BIDx)
	sizes := &k.Launch.Grid
	if d.parallel.IsThread() {
		i, kind, names, sizes = int(d.parallel-schedule.TIDx), kir.ThreadIdx, "txtytz", &k.Launch.Block
	}
	sizes[i] = d.extent
	d.symbol = l.b.Symbol(names[2*i:2*i+2], kind, i, dtype.Index, below(l.t.Facts(d.extent)))
}

// below returns the facts of an index that is less than something with facts f.
func below(f scalar.Facts) scalar.Facts {
	if f.Hi < 1<<62 {
		f.Hi--
	}
	return scalar.Range(0, max(f.Hi, 0))
}

// globals makes the buffers of tensors in global memory.
func (l *lowering) globals() error {
	var order []core.ValID
	for _, v := range l.f.Inputs() {
		if l.tensors[v] != nil {
			order = append(order, v)
		}
	}
	for _, o := range l.f.Outputs() {
		order = append(order, o.Val)
	}
	for _, v := range l.s.Tensors() {
		if l.s.Memory(v) == schedule.Global {
			order = append(order, v)
		}
	}
	for _, v := range order {
		if _, ok := l.buffers[v]; ok || l.f.Val(v).Domain.CPU {
			continue
		}
		if err := l.global(v); err != nil {
			return err
		}
	}
	return nil
}

// global makes the buffer of v. An output in the memory of an input has the
// layout of that.
func (l *lowering) global(v core.ValID) error {
	x, name := l.f.Val(v), l.f.Name(v)
	if !x.DType.Computes() {
		return l.refuse("element type", v, "%s has elements of %v, which this build does not load or store", name, x.DType)
	}
	alloc := l.allocation(v)
	logical := x.Domain.Logical
	for _, a := range alloc {
		if !slices.Contains(logical, a) && (x.Input || l.isOutput(v)) {
			return l.refuse("allocation", v, "%s is an input or output and is laid out along axes that are made from its dimensions, which strides of dimensions do not tell: cache it", name)
		}
	}
	shape, stride := l.layout(v, alloc)
	id := l.b.Global(name, l.s.ElementType(v), shape...)
	k := l.b.Kernel()
	k.Arguments[len(k.Arguments)-1].Host = kir.HostValue{Tensor: v, Scalar: scalar.None, Stride: -1}
	b := &k.Buffers[id]
	_, overwritten := l.overwritten[v]
	b.Stride, b.ReadOnly = stride, x.Input && !overwritten
	b.Size = l.elements(shape, stride)
	for _, a := range logical {
		if l.f.Axis(a).Expanded != scalar.None && l.t.Facts(l.size(l.f.Axis(a).Expanded)).Lo < 1 {
			b.Size = l.t.Select(l.t.Lt(l.t.Int(0), l.size(l.f.Axis(a).Expanded)), b.Size, l.t.Int(0))
		}
	}
	if l.options.Alignment != nil {
		at := schedule.Alignment(l.options.Alignment(v))
		b.Align = max(b.Align, at.Divisor())
		b.Past, _ = at.Past()
		if c := l.options.Conditions; c != nil {
			c.addresses = append(c.addresses, address{v, at})
		}
	}
	l.buffers[v] = id
	return nil
}

// elements returns how many elements lie between the first and the last one.
func (l *lowering) elements(shape, stride []index) index {
	zero, one := l.t.Int(0), l.t.Int(1)
	size, dense := one, one
	isDense := true
	for i := len(shape) - 1; i >= 0; i-- {
		isDense = isDense && stride[i] == dense
		dense = l.t.Mul(dense, shape[i])
		size = l.t.Add(size, l.t.Mul(l.t.Sub(shape[i], one), stride[i]))
	}
	if isDense {
		return dense
	}
	for _, n := range shape {
		size = l.t.Select(l.t.Lt(zero, n), size, zero)
	}
	return size
}

// layout returns the extents and strides of the axes along which v has elements
// of its own. A stride that is promised to be dense is the product of what is
// inside of it.
func (l *lowering) layout(v core.ValID, alloc []core.AxisID) (shape, stride []index) {
	owner := v
	if in, ok := l.alias[v]; ok {
		owner = in
	}
	contig := l.s.Contiguity(owner)
	next := l.t.Int(1)
	for k := len(alloc) - 1; k >= 0; k-- {
		a := alloc[k]
		if l.isBroadcast(a) || l.isReduced(a) || l.s.IsAlike(v, a) {
			continue
		}
		s := next
		if l.f.Val(owner).Input && contig[k] != core.Yes {
			s = l.arguments.integer(kir.HostValue{Tensor: owner, Scalar: scalar.None, Stride: k}, fmt.Sprintf("%s_s%d", l.f.Name(owner), k))
		}
		n := l.extent(a)
		shape, stride = append(shape, n), append(stride, s)
		next = l.t.Mul(s, n)
	}
	slices.Reverse(shape)
	slices.Reverse(stride)
	return shape, stride
}

package executor

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/passes"
)

// maxPlans bounds the plans of an executor. A program of dynamic shapes that
// cycles through more plans anew each time.
const maxPlans = 256

// An Executor plans and runs one definition. It may be used by many goroutines.
type Executor struct {
	machine *machine
	kernels *kernelStore

	f       *core.Fusion
	text    string
	key     []bool // by input: a scalar whose value a plan depends on
	written []int  // inputs that receive outputs

	views    []passes.View // outputs that may be views
	variants map[string]*variant

	byHand  *schedule.Scheduled // how it is computed; nil: as a scheduler says
	demands Launch              // on launches of byHand

	lock     sync.RWMutex // also of variants
	plans    map[string]*entry
	clock    atomic.Int64 // counts uses of plans
	building singleflight.Group
	built    atomic.Int64
}

type entry struct {
	plan *Plan
	used atomic.Int64 // by the executor's clock
}

func newExecutor(f *core.Fusion, text string, m *machine, kernels *kernelStore) *Executor {
	e := &Executor{machine: m, kernels: kernels, f: f, text: text, key: structuralScalars(f), plans: map[string]*entry{}, demands: AnyLaunch, views: passes.Views(f)}
	e.written = written(f)
	return e
}

// Fusion returns the definition.
func (e *Executor) Fusion() *core.Fusion { return e.f }

// Text returns the canonical text of the definition.
func (e *Executor) Text() string { return e.text }

// Plans returns the number of plans held now and of those built so far.
func (e *Executor) Plans() (held, built int) {
	e.lock.RLock()
	defer e.lock.RUnlock()
	return len(e.plans), int(e.built.Load())
}

// structuralScalars marks the input scalars that sizes, requirements, or
// arguments other than values of elements depend on.
func structuralScalars(f *core.Fusion) []bool {
	t := f.Scalars()
	marked := make([]bool, t.Len())
	mark := func(s scalar.ID) {
		if s != scalar.None {
			marked[s] = true
		}
	}
	for _, id := range f.Order() {
		e := f.Expr(id)
		for _, r := range e.Requires {
			mark(r.Cond)
		}
		for _, v := range e.Out {
			for _, s := range f.Shape(v) {
				mark(s)
			}
		}
		switch e.Op.Class {
		case core.Elementwise, core.Factory, core.Random, core.Scan:
			continue // their scalars are values of elements, or sizes marked above
		}
		for _, a := range e.Args {
			if a.Kind == core.ScalarArg {
				mark(a.Scalar)
			}
			for _, s := range a.Scalars {
				mark(s)
			}
		}
	}
	for id := t.Len() - 1; id >= 0; id-- { // operands have smaller ids
		if marked[id] {
			for _, a := range t.Args(scalar.ID(id)) {
				marked[a] = true
			}
		}
	}
	structural := map[core.ValID]bool{}
	for id, m := range marked {
		if m && t.Op(scalar.ID(id)) == scalar.Symbol {
			if tag := t.Tag(scalar.ID(id)); tag.Dim < 0 {
				structural[core.ValID(tag.Val)] = true
			}
		}
	}
	key := make([]bool, len(f.Inputs()))
	for i, v := range f.Inputs() {
		key[i] = structural[v]
	}
	return key
}

// Options say how a plan computes.
type Options struct {
	// Simulate has a kernel scheduled and lowered, as for a device of compute
	// capability 9.0, and simulated, which finds what such a device would leave
	// undefined. It is ten to a thousand times slower than the CPU.
	Simulate bool
	// RandomInMemory has a plan for a CUDA device read seed and offset from memory
	// of the device: a call brings their addresses instead of them. A graph that is
	// captured with it draws from what is there when it is replayed.
	RandomInMemory bool
	// Device is where the run takes place: where its tensors are, 0-dim tensors of
	// the CPU apart. Nil: there, and without such on the CPU if there are 0-dim ones,
	// else on a CUDA device if there is one.
	Device *Device
	// Candidate chooses among the schedules that there are for a kernel, counted
	// around; 0 is the one that is expected to be the fastest.
	Candidate int
	// Serial has the kernels of a plan made one after another, in the order in which they
	// run, instead of side by side. It makes no other plan.
	Serial bool
	// Exact has no operation computed by an approximation: see [lower.Options].
	Exact bool

	// Views has outputs that are views of other tensors have no memory of their own:
	// the caller makes them, as [OutputDescription].View says. Without it they are copies.
	Views bool

	// Apart has no kernel start before the one before it on the stream has ended.
	Apart bool

	onlyKept bool // nothing is compiled
}

// keys recycles the buffers that keys are made in.
var keys = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// Plan returns the plan for inputs without options.
func (e *Executor) Plan(inputs []Input) (*Plan, error) { return e.PlanWith(inputs, Options{}) }

// PlanWith returns the plan for inputs, and builds it if there is none.
//
// Errors: InvalidArgument and InvalidType if the inputs are not what the
// definition says; Unsupported; [Bug].
func (e *Executor) PlanWith(inputs []Input, o Options) (*Plan, error) {
	buffer := keys.Get().(*[]byte)
	defer keys.Put(buffer)
	key := e.AppendKey((*buffer)[:0], inputs, o)
	*buffer = key
	e.lock.RLock()
	x := e.plans[string(key)]
	e.lock.RUnlock()
	if x != nil {
		x.used.Store(e.clock.Add(1))
		return x.plan, nil
	}
	return e.build(string(key), inputs, o)
}

// IsCompiled reports whether a call with inputs compiles nothing: its plan is there, or can be
// made of kernels that are loaded or of which the machine code is kept, and then it is there
// now. It does not on the CPU.
//
// Errors: as of PlanWith.
func (e *Executor) IsCompiled(inputs []Input, o Options) (is bool, err error) {
	key := string(e.AppendKey(nil, inputs, o))
	e.lock.RLock()
	_, isThere := e.plans[key]
	e.lock.RUnlock()
	if isThere {
		return true, nil
	}
	o.onlyKept = true
	var p *Plan
	err = e.guard(inputs, func() error {
		if _, err := check(e.f, inputs); err != nil {
			return err
		}
		place, err := e.place(inputs, o)
		if err == nil && place.Type == CUDA {
			p, err = e.newPlan(inputs, o)
		}
		return err
	})
	switch {
	case errors.Is(err, errNotKept):
		return false, nil
	case err != nil:
		return false, err
	case p != nil:
		e.built.Add(1)
		e.keep(key, p)
	}
	return true, nil
}

// AppendKey appends what a plan for inputs with options depends on: one plan
// serves all calls of equal keys. It allocates nothing if key has room.
func (e *Executor) AppendKey(key []byte, inputs []Input, o Options) []byte {
	key = e.appendKey(key, inputs)
	if e.byHand != nil || o.Simulate { // kernels may move vectors
		for i := range inputs {
			key = append(key, byte(AlignmentOf(inputs[i].Data)))
		}
	}
	if e.overlaps(inputs, o) {
		key = append(key, 'O')
	}
	if e.writesTwice(inputs) { // no plan is made for such inputs
		key = append(key, 'W')
	}
	if o.RandomInMemory {
		key = append(key, 'R')
	}
	if o.Device != nil {
		key = binary.AppendVarint(append(key, 'D', byte(o.Device.Type)), int64(o.Device.Index))
	}
	if o.Simulate {
		key = append(key, 'S')
	}
	if o.Apart {
		key = append(key, 'A')
	}
	if o.Views && len(e.views) > 0 {
		key = append(key, 'V')
	}
	if o.Exact {
		key = append(key, 'E')
	}
	if o.Candidate != 0 {
		key = binary.AppendVarint(append(key, 'C'), int64(o.Candidate))
	}
	return key
}

// overlaps reports whether an input receives an output and shares memory with another
// one, and a plan must know: one of the CPU proper sees it when it runs, but for views.
// It is false of inputs that the definition does not take.
func (e *Executor) overlaps(inputs []Input, o Options) bool {
	return len(e.written) > 0 && e.haveExtents(inputs) &&
		(inputs[e.written[0]].Device.Type == CUDA || o.Simulate || e.byHand != nil || o.Views && len(e.views) > 0) && sharesMemory(e.written, inputs)
}

// writesTwice reports whether two outputs are written to the same memory. It is false of
// inputs that the definition does not take.
func (e *Executor) writesTwice(inputs []Input) bool {
	if len(e.written) < 2 || !e.haveExtents(inputs) {
		return false
	}
	_, _, found := bothWritten(e.written, inputs)
	return found
}

// haveExtents reports whether inputs are as many as the definition has, with as many
// strides as sizes.
func (e *Executor) haveExtents(inputs []Input) bool {
	if len(inputs) != len(e.f.Inputs()) {
		return false
	}
	for i := range inputs {
		if len(inputs[i].Sizes) != len(inputs[i].Strides) {
			return false
		}
	}
	return true
}

// AnyValue reports whether the values of a number of type t that is given for
// input i make no difference to the key, and so to the plan.
func (e *Executor) AnyValue(i int, t dtype.Type) bool {
	if i >= len(e.key) || e.key[i] {
		return false
	}
	of := e.f.Val(e.f.Inputs()[i]).DType
	return !of.IsInt() || !t.IsInt() || of == t // else not every value fits
}

// appendKey is AppendKey without options.
func (e *Executor) appendKey(key []byte, inputs []Input) []byte {
	for i := range inputs {
		x := &inputs[i]
		if !x.Tensor {
			key = append(key, 's', byte(x.Scalar.Type))
			// A value that the definition does not take is one of the errors, which no plan is made for.
			if i < len(e.key) && (e.key[i] || !core.HoldsInteger(e.f.Val(e.f.Inputs()[i]).DType, x.Scalar)) {
				key = binary.AppendVarint(key, x.Scalar.I)
				key = binary.LittleEndian.AppendUint64(key, math.Float64bits(x.Scalar.Re))
				key = binary.LittleEndian.AppendUint64(key, math.Float64bits(x.Scalar.Im))
			}
			continue
		}
		key = x.appendKind(key)
	}
	return key
}

// appendKind appends all of a tensor but its address. Words of one length are
// quicker than short ones: this is on the way of every call.
func (x *Input) appendKind(key []byte) []byte {
	n, words := len(key), 1+len(x.Sizes)+len(x.Strides)
	key = slices.Grow(key, 8*words)[:n+8*words]
	to := key[n:]
	binary.LittleEndian.PutUint64(to, 't'|uint64(x.DType)<<8|uint64(x.Device.Type)<<16|uint64(x.alignment())<<24|
		uint64(uint16(x.Device.Index))<<32|uint64(uint8(len(x.Sizes)))<<48|uint64(uint8(len(x.Strides)))<<56)
	for _, numbers := range [...][]int64{x.Sizes, x.Strides} {
		for _, number := range numbers {
			to = to[8:]
			binary.LittleEndian.PutUint64(to, uint64(number))
		}
	}
	return key
}

// alignment is the class of the address of x's data: 0 for no memory, else 1
// and more. Only device memory is read in vectors whose width depends on it: the
// logarithm of the alignment, up to that of 16 bytes.
func (x *Input) alignment() byte {
	switch {
	case x.Data == nil:
		return 0
	case x.Device.Type == CPU:
		return 1
	}
	return 1 + byte(AlignmentOf(x.Data))
}

// build builds the plan for inputs once, however many goroutines ask for it.
func (e *Executor) build(key string, inputs []Input, o Options) (*Plan, error) {
	p, err, _ := e.building.Do(key, func() (any, error) {
		e.lock.RLock()
		x := e.plans[key]
		e.lock.RUnlock()
		if x != nil { // built since the caller looked
			return x.plan, nil
		}
		e.built.Add(1)
		var p *Plan
		err := e.guard(inputs, func() (err error) {
			p, err = e.newPlan(inputs, o)
			return err
		})
		if err != nil {
			return nil, err
		}
		e.keep(key, p)
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	return p.(*Plan), nil
}

// keep adds a plan, and drops the one used longest ago if there are too many.
func (e *Executor) keep(key string, p *Plan) {
	x := &entry{plan: p}
	x.used.Store(e.clock.Add(1))
	e.lock.Lock()
	defer e.lock.Unlock()
	e.plans[key] = x
	if len(e.plans) <= maxPlans {
		return
	}
	oldest, at := "", int64(math.MaxInt64)
	for k, x := range e.plans {
		if used := x.used.Load(); used < at {
			oldest, at = k, used
		}
	}
	delete(e.plans, oldest)
}

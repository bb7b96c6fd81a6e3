package executor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor/cpu"
)

// simulated is the device that programs are simulated for: what schedulers and
// launches ask of an H100 SXM (Hopper tuning guide 12.9, section 1.4).
var simulated = cudadrv.Properties{Name: "simulated device of compute capability 9.0", Major: 9, Minor: 0, Processors: 132, L2: 50 << 20,
	SharedPerBlock: 48 << 10, SharedPerBlockOptIn: 227 << 10, SharedPerProcessor: 228 << 10, SharedReserved: 1 << 10,
	RegistersPerProcessor: 64 << 10, ThreadsPerBlock: 1024, ThreadsPerProcessor: 2048, WarpSize: 32}

// simulate runs the whole program, and does what callers of plans with phases do:
// calls of torch are evaluated instead.
func (p *Plan) simulate(c *Call) error {
	n := p.Counts()
	addresses := make([]unsafe.Pointer, n.Inputs+n.Outputs+n.Workspaces)
	for i := range c.Inputs {
		addresses[i] = c.Inputs[i].Data
	}
	for k := range p.Outputs {
		switch o := &p.Outputs[k]; {
		case o.Alias >= 0:
			addresses[n.Inputs+k] = c.Inputs[o.Alias].Data
		case o.SameAs >= 0:
			addresses[n.Inputs+k] = addresses[n.Inputs+o.SameAs]
		default:
			addresses[n.Inputs+k] = c.Outputs[k]
		}
	}
	for i := range p.Device.Phases {
		phase := &p.Device.Phases[i]
		for _, s := range phase.Allocate {
			if w := int(s) - n.Inputs - n.Outputs; w >= 0 {
				addresses[s] = newMemory(p.Device.Workspaces[w].Bytes)
			}
		}
		if err := p.runPhase(i, addresses, c); err != nil {
			return err
		}
		if phase.Call >= 0 {
			if err := p.evaluateCall(phase.Call, addresses, c); err != nil {
				return err
			}
		}
		for _, s := range phase.Release {
			addresses[s] = nil
		}
	}
	return nil
}

// newMemory returns zeros, at an address as those of allocators of device memory.
func newMemory(bytes int64) unsafe.Pointer {
	if bytes == 0 {
		return nil
	}
	b := make([]byte, bytes+memoryAlignment)
	skip := -uintptr(unsafe.Pointer(&b[0])) % memoryAlignment
	return unsafe.Pointer(&b[skip])
}

// runPhase simulates the launches of a phase: addresses has that of each slot.
func (p *Plan) runPhase(phase int, addresses []unsafe.Pointer, c *Call) error {
	d := p.Device
	first := 0
	for i := range phase {
		first += d.Phases[i].Launches
	}
	words := make([]uint64, d.Scalars)
	if err := p.Evaluate(c.Inputs, words); err != nil {
		return err
	}
	for i := first; i < first+d.Phases[phase].Launches; i++ {
		s := &simulation{plan: p, launch: i, addresses: addresses, call: c, words: words, memories: map[cudadrv.Patch]*sim.Memory{}}
		if err := s.run(); err != nil {
			return err
		}
	}
	return nil
}

// A simulation is one launch in memory of the host.
type simulation struct {
	plan      *Plan
	launch    int
	addresses []unsafe.Pointer // by slot
	call      *Call
	words     []uint64
	memories  map[cudadrv.Patch]*sim.Memory // by patches without places
	fresh     map[int]bool                  // by offset of a patch: nothing wrote before to what it is the address of
	outputs   []kir.BufferID                // that the kernel must fill
}

func (s *simulation) run() error {
	d := s.plan.Device
	m, err := d.made()
	if err != nil {
		return err
	}
	c, block := m.launched[s.launch], &d.Launches[s.launch]
	s.fresh = m.fresh[s.launch]
	arguments, err := s.arguments(c, block)
	if err != nil {
		return err
	}
	c.lock.Lock()
	report, err := sim.Run(c.kernel, arguments, sim.Options{Outputs: s.outputs, Stop: func() bool { return s.call.Stop != nil && s.call.Stop.Load() }})
	c.lock.Unlock()
	if errors.Is(err, sim.ErrStopped) {
		return cpu.ErrInterrupted
	}
	if err == nil {
		err = report.Err()
		if s.call.Counters != nil {
			s.call.Counters.Add(&report.Counters)
		}
	}
	if refused := (*core.Unsupported)(nil); errors.As(err, &refused) {
		return err
	}
	if err != nil {
		return &Bug{What: fmt.Sprintf("the simulator reports %v\nin\n%v", err, c.kernel)}
	}
	return nil
}

// arguments reads those of the kernel from its parameter structure, as a device does.
func (s *simulation) arguments(c *compiled, block *cudadrv.LaunchBlock) ([]sim.Argument, error) {
	n := s.plan.Counts()
	values := cudadrv.CallValues{Inputs: make([]uintptr, n.Inputs), Outputs: make([]uintptr, n.Outputs), Workspaces: make([]uintptr, n.Workspaces),
		Seed: s.call.Random.Seed, Offset: s.call.Random.Offset, Scalars: s.words}
	bytes := make([]byte, len(block.Arguments))
	if err := block.Fill(bytes, values); err != nil {
		return nil, err
	}
	patches := map[int]cudadrv.Patch{}
	for _, p := range block.Patches {
		patches[p.Offset] = p
	}
	k := c.kernel
	layout, arguments := cuda.Layout(k), make([]sim.Argument, len(k.Arguments))
	for i := range k.Arguments {
		a, at := &k.Arguments[i], layout.Fields[i]
		field := bytes[at.Offset : at.Offset+at.Size]
		switch a.Kind {
		case kir.Pointer: // filled in when the sizes are known
		case kir.ValueScalar:
			arguments[i].Number = element(a.DType, field)
		case kir.IndexScalar:
			arguments[i].Number = element(k.Index, field)
			arguments[i].Number.Type = dtype.Index
		case kir.RandomSeed, kir.RandomOffset:
			arguments[i].Number = element(dtype.Int, field)
		default:
			arguments[i].Number.I = int64(binary.LittleEndian.Uint64(field))
			arguments[i].Number.Type = dtype.Int
		}
	}
	integers, err := k.Integers(func(i int, _ *kir.Argument) (int64, error) { return arguments[i].Number.I, nil })
	if err != nil {
		return nil, err
	}
	needed := map[cudadrv.Patch]int64{} // bytes, by patches without places: a tensor, and a part that begins where it does
	patchOf := func(i int) cudadrv.Patch {
		p := patches[layout.Fields[i].Offset]
		p.Offset = 0
		return p
	}
	for i := range k.Arguments {
		a := &k.Arguments[i]
		if a.Kind != kir.Pointer {
			continue
		}
		count, err := integers.Eval(k.Buffers[a.Buffer].Size)
		if err != nil {
			return nil, err
		}
		p := patchOf(i)
		needed[p] = max(needed[p], count*int64(k.Buffers[a.Buffer].DType.Size()))
	}
	for i := range k.Arguments {
		if a := &k.Arguments[i]; a.Kind == kir.Pointer {
			if arguments[i].Memory, err = s.memory(c, a, patches[layout.Fields[i].Offset], needed[patchOf(i)]); err != nil {
				return nil, err
			}
		}
	}
	return arguments, nil
}

// memory returns what a pointer argument points to, which is the same for equal
// patches.
func (s *simulation) memory(c *compiled, a *kir.Argument, p cudadrv.Patch, bytes int64) (*sim.Memory, error) {
	isFresh := s.fresh[p.Offset]
	p.Offset = 0
	if m := s.memories[p]; m != nil {
		return m, nil
	}
	n := s.plan.Counts()
	slot := p.Index
	switch p.Value {
	case cudadrv.OutputPointer:
		slot += n.Inputs
	case cudadrv.WorkspacePointer:
		slot += n.Inputs + n.Outputs
	}
	m := &sim.Memory{Undefined: isFresh}
	s.memories[p] = m
	isEmpty := false
	if p.Value == cudadrv.InputPointer {
		x := &s.call.Inputs[p.Index]
		from, to := x.extent()
		isEmpty = from == to
		bytes = max(bytes, int64(to-from)) // gaps and all
		if !isEmpty {
			bytes = int64(to - from)
		}
	}
	isOutput := slices.ContainsFunc(c.s.Fusion().Outputs(), func(o core.Output) bool { return o.Val == a.Host.Tensor })
	switch address := s.addresses[slot]; {
	case isEmpty && !isOutput: // one that is expanded to none has some elements in the kernel
		m.Data = make([]byte, bytes)
		return m, nil
	case address == nil: // which the kernel does not write
		m.Undefined = true
		return m, nil
	default:
		first := unsafe.Add(address, p.Add)
		if align := uintptr(c.kernel.Buffers[a.Buffer].Align); uintptr(first)%max(align, 1) != 0 {
			return nil, &Bug{What: fmt.Sprintf("%s is at %p, and the kernel takes it to be at a multiple of %d", a.Name, first, align)}
		}
		m.Data = unsafe.Slice((*byte)(first), bytes)
	}
	if isOutput {
		s.outputs = append(s.outputs, a.Buffer)
	}
	return m, nil
}

// evaluateCall computes what a call of torch does.
func (p *Plan) evaluateCall(i int, addresses []unsafe.Pointer, c *Call) error {
	made, err := p.Device.made()
	if err != nil {
		return err
	}
	call, results := &made.calls[i], p.Device.Calls[i].Results
	f := call.f
	arguments := cpu.Arguments{Stop: c.Stop, Scalars: make([]scalar.Value, len(f.Inputs())), Inputs: make([]unsafe.Pointer, len(f.Inputs()))}
	var inputs, outputs []cpu.Layout
	for i := range f.Inputs() {
		in := &call.task.inputs[i]
		inputs = append(inputs, cpu.Layout{DType: in.DType, Sizes: in.Sizes, Strides: in.Strides})
		switch from := call.from[i]; {
		case in.Tensor && addresses[from.at] != nil:
			arguments.Inputs[i] = unsafe.Add(addresses[from.at], from.add)
		case in.Tensor:
		case from.at >= 0:
			arguments.Scalars[i] = core.ConvertScalar(f.Val(f.Inputs()[i]).DType, c.Inputs[from.at].Scalar)
		default:
			arguments.Scalars[i] = in.Scalar
		}
	}
	for _, o := range f.Outputs() {
		r := &results[slices.Index(f.Expr(f.Order()[0]).Out, o.Val)]
		layout := OutputDescription{DType: r.DType, Sizes: r.Sizes, Strides: r.Strides}
		outputs = append(outputs, cpu.Layout{DType: r.DType, Sizes: r.Sizes, Strides: r.Strides})
		if addresses[r.Slot] == nil {
			addresses[r.Slot] = newMemory(layout.NumBytes())
		}
		arguments.Outputs = append(arguments.Outputs, addresses[r.Slot])
	}
	program, err := cpu.Build(f, call.task.b, inputs, outputs, cpu.Options{Fixed: func(i int) bool { return call.from[i].at < 0 }, Apart: true})
	if err != nil {
		return err
	}
	return program.Run(arguments)
}

package executor

import (
	"math"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers/model"
	"nvfuser_go/schedulers/scheduler"
)

// traffic returns what the kernel of a part, which is there, moves at least, and how long it
// is thought to take on a device.
func (p *part) traffic(of *cudadrv.Properties) *Traffic {
	var x Traffic
	for i := range p.task.inputs {
		if in := &p.task.inputs[i]; in.Tensor && isRead(p.task.f, i) {
			x.Read += min(distinctBytes(in.Sizes, in.Strides, in.DType.Size()), p.looksUp(i)*int64(in.DType.Size()))
		}
	}
	for i := range p.task.outputs {
		o := &p.task.outputs[i]
		x.Written += distinctBytes(o.Sizes, o.Strides, o.DType.Size())
	}
	k := model.Kernel{Read: float64(x.Read), Written: float64(x.Written), Code: float64(p.c.launch.Function.CodeBytes), Waits: waitsOf(p.c.kernel)}
	k.Instructions, _ = scheduler.Work(p.task.f, p.task.b) // of what was bound before
	if l := &p.c.launch; l.Blocks() > 0 && of.Processors > 0 {
		processors := float64(of.Processors)
		k.Part = min(float64(l.Blocks())/processors, 1)
		k.Waves = float64(l.Blocks()) / processors / float64(blocksAtOnce(of, l))
	}
	x.Estimated = p.task.device.Model.Time(k, model.Dirty)
	return &x
}

// looksUp returns how many elements of input i the kernel reads at positions that it is told,
// if it reads no others; else more than there are.
func (p *part) looksUp(i int) int64 {
	f, n := p.task.f, int64(0)
	v := f.Inputs()[i]
	for _, id := range f.Order() {
		e := f.Expr(id)
		for k, u := range f.TensorArgs(e) {
			if u != v {
				continue
			}
			x, ok := e.IndexedRead()
			sizes, err := p.task.b.Shape(e.Out[0])
			if !ok || x.Table != k || err != nil {
				return math.MaxInt64 / 16
			}
			n += core.NumElements(sizes)
		}
	}
	return n
}

// isRead reports whether something computes with input i of f: what is only written to is not.
func isRead(f *core.Fusion, i int) bool {
	v := f.Inputs()[i]
	return slices.ContainsFunc(f.Order(), func(e core.ExprID) bool { return slices.Contains(f.TensorArgs(f.Expr(e)), v) })
}

// distinctBytes returns the bytes of elements, of which those along strides of 0 are one.
func distinctBytes(sizes, strides []int64, size int) int64 {
	n := int64(size)
	for d, extent := range sizes {
		if strides[d] != 0 || extent == 0 {
			n *= extent
		}
	}
	return n
}

// waitsOf counts how often a block waits, those in a loop once: there others do something
// meanwhile.
func waitsOf(k *kir.Kernel) (w model.Waits) {
	k.Body.Walk(func(s kir.Statement) {
		switch s := s.(type) {
		case kir.Barrier:
			switch s.Scope {
			case kir.GroupScope, kir.BlockScope:
				w.Block++
			case kir.ClusterScope:
				w.Cluster++
			case kir.GridScope:
				w.Grid++
			}
		case kir.Arrived:
			w.Cluster++
		case kir.AtomicAdd:
			if s.Old != kir.NoSymbol {
				w.Tickets++
			}
		}
	})
	return w
}

// blocksAtOnce returns how many blocks of a launch fit a multiprocessor, at least 1.
func blocksAtOnce(p *cudadrv.Properties, l *cudadrv.LaunchBlock) int64 {
	const most = 32 // of compute capability 9.0: CUDA C++ Programming Guide 12.9, section 17.2
	threads, n := max(l.Threads(), 1), int64(most)
	n = min(n, int64(p.ThreadsPerProcessor)/threads)
	if r := int64(l.Function.Registers); r > 0 { // given out by 8
		n = min(n, int64(p.RegistersPerProcessor)/(threads*((r+7)/8*8)))
	}
	if shared := int64(l.Shared) + int64(l.Function.SharedBytes); shared > 0 {
		n = min(n, int64(p.SharedPerProcessor)/(shared+int64(p.SharedReserved)))
	}
	return max(n, 1)
}

package scheduler

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// farLarger is how many second caches a segment reads at least for its loads to be given up last.
// On an H200, calls back to back on six sets of tensors in turn, a softmax of 2048 x 131072
// bfloat16 takes 252.7 us so and 260.9 without, a copy of as many bytes 256.3; an RMS norm of 16384 x 8192
// 127.9 and 132.2, a copy 128.8; a layer norm of 8192 x 16384 129.5 and 133.8; a cumsum of 65536 x 2048
// float32 250.7 and 260.2; permute 210 of 512 x 512 x 512 float32 263.0 and 267.7; what is elementwise 0.2 to
// 0.7 % less, sums no less. Why is not known. After other kernels have filled the cache with what is to be
// written back, kernels that read half as much take 1 to 2 us more so. With loads given up first the RMS
// norm takes 4 % longer, with stores given up last 0.4 %, although a call alone seems to gain by these: what is
// written back later is not in its time. A copy of 16 MB that comes next takes 10.5 us rather than 9.9.
const farLarger = 4

// streamed returns the inputs of g, by place, that are larger than the second cache; nothing unless
// each element of them is read once and they are far larger together.
func (g *Segment) streamed() []int {
	type key struct{}
	if g.Cache == 0 {
		return nil
	}
	return Remember(g, key{}, func() []int {
		f, points := g.Fusion, int64(0) // that most tensors are computed at
		for _, id := range f.Order() {
			for _, v := range f.Expr(id).Out {
				points = max(points, g.elements(v))
			}
		}
		var all []int
		read := int64(0)
		for i, v := range f.Inputs() {
			n := g.bytes(v)
			if n < g.Cache {
				continue
			}
			if g.elements(v) < points || slices.Contains(g.Inputs[i].Strides, 0) {
				return nil
			}
			all, read = append(all, i), read+n
		}
		if read < farLarger*g.Cache {
			return nil
		}
		return all
	})
}

// elements returns how many v has; 0 if it is no tensor or on the host.
func (g *Segment) elements(v core.ValID) int64 {
	x := g.Fusion.Val(v)
	sizes, err := g.Shapes.Shape(v)
	if !x.Tensor || x.Domain.CPU || err != nil {
		return 0
	}
	return core.NumElements(sizes)
}

func (g *Segment) bytes(v core.ValID) int64 {
	return g.elements(v) * int64(g.Fusion.Val(v).DType.Size())
}

// Stream lets the second cache give up last what a schedule of the segment loads of large inputs,
// if it reads far more of them than that cache holds, each element once.
func (g *Segment) Stream(s *schedule.Scheduled) error {
	all, f := g.streamed(), s.Fusion()
	if len(all) == 0 {
		return nil
	}
	readers := map[core.ValID][]*core.Expr{}
	for _, id := range f.Order() {
		e := f.Expr(id)
		for _, v := range f.TensorArgs(e) {
			readers[v] = append(readers[v], e)
		}
	}
	var copies []core.ValID
	for _, i := range all {
		of := readers[f.Inputs()[i]]
		if len(of) != 1 || of[0].Op != core.SetOp || s.Memory(of[0].Out[0]) == schedule.Global {
			return nil // it is loaded in several places, or read without a copy
		}
		copies = append(copies, of[0].Out[0])
	}
	for _, v := range copies {
		if s.CacheHint(v) != schedule.CacheUnspecified {
			continue
		}
		if err := s.SetCopy(v, s.CopyKind(v), schedule.CacheEvictLast); err != nil {
			return err
		}
	}
	return nil
}

// streaming is what a recipe has of the inputs that [Segment.Stream] is for.
func (g *Segment) streaming() string {
	if all := g.streamed(); len(all) > 0 {
		return fmt.Sprint(" streamed ", all)
	}
	return ""
}

package scheduler

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// smallest is the part of the second cache that an input has at least whose loads are given up last.
const smallest = 8

// streamed returns the inputs of g, by place, of which each element is read once, if they have
// more than the second cache together; nothing if a large one is read more than once. Their
// loads are to be given up last.
//
// On an H200 (60 MB), calls back to back on six sets of tensors in turn, without and with, in us: a softmax of
// 2048 x 131072 bfloat16 260.9 and 252.7 (a copy of as many bytes 256.3), an RMS norm of 16384 x 8192 132.2
// and 127.9, of 16384 x 4096 69.0 and 66.6, an embedding of 16384 rows of 4096 69.2 and 67.9, a cumsum of
// 8192 x 2048 float32 36.0 and 34.7, relu of 16384 x 4096 65.9 and 65.3; of some 80 kernels none takes
// longer by more than 0.1. Between copies of 16 MB or products of matrices kernels gain as much, and
// those lose nothing. A rotary embedding of 67 MB takes as long. Why is not known.
//
// What is loaded so stays: 24 to 40 MB that other kernels read and write again and again have less of the
// cache for some 20 to 100 calls. A copy of 16 MB to 16 MB takes 8.9 us then rather than 7.0, one of 8 MB
// none longer; five kernels of that kind cost what one before them gains. To have a half or a quarter of the
// loads so leaves as much behind and gains nothing; to give lines up normally once they are read (applypriority)
// costs 1 to 3 us.
//
// With loads given up first the RMS norm takes 4 % longer, with stores given up last 0.4 %, although a call
// alone seems to gain by these: what is written back later is not in its time.
func (g *Segment) streamed() []int {
	type key struct{}
	if g.Cache == 0 {
		return nil
	}
	return Remember(g, key{}, func() []int {
		bytes := int64(0)
		for _, v := range g.Fusion.Inputs() {
			bytes += g.bytes(v)
		}
		if bytes <= g.Cache {
			return nil // most segments, without a look at what they do
		}
		var all []int
		bytes = 0
		for i, v := range g.Fusion.Inputs() {
			if smallest*g.bytes(v) < g.Cache {
				continue
			}
			n, isOnce := g.reads(v)
			isOnce = isOnce && !slices.Contains(g.Inputs[i].Strides, 0)
			switch {
			case isOnce && smallest*n >= g.Cache:
				all, bytes = append(all, i), bytes+n
			case !isOnce && n >= g.Cache:
				return nil
			}
		}
		if bytes <= g.Cache || bytes < manyCaches*g.Cache && g.readsParts(all) {
			return nil
		}
		return all
	})
}

// manyCaches is how many second caches are read at least for loads of a tensor and of parts of it to be given up
// last: a rotary embedding of 1 x 32 x 8192 x 128 bfloat16, which reads its input and both halves of that, takes 38.8 / 36.7 us
// on an H200 so and 37.4 / 35.6 without, one of 8 x 32 x 4096 x 128 130.7 / 128.0 and 131.4 / 128.9.
const manyCaches = 4

// readsParts reports whether one of inputs, by place, seems to be a part of another one: it has the strides that
// the other one has without a gap.
func (g *Segment) readsParts(inputs []int) bool {
	isDense := func(i int) bool {
		n := int64(1)
		sizes, err := g.Shapes.Shape(g.Fusion.Inputs()[i])
		for d := len(sizes) - 1; d >= 0 && err == nil; d-- {
			if sizes[d] > 1 && g.Inputs[i].Strides[d] != n {
				return false
			}
			n *= sizes[d]
		}
		return err == nil
	}
	return slices.ContainsFunc(inputs, func(i int) bool {
		return isDense(i) && slices.ContainsFunc(inputs, func(k int) bool {
			return !isDense(k) && slices.Equal(g.Inputs[i].Strides, g.Inputs[k].Strides)
		})
	})
}

// reads returns how many bytes of input v are read, and whether each of them is once.
func (g *Segment) reads(v core.ValID) (n int64, isOnce bool) {
	f := g.Fusion
	bytes := g.bytes(v)
	isPart := map[core.ValID]bool{v: true} // of what is read
	for _, id := range f.Order() {
		e := f.Expr(id)
		for k, x := range f.TensorArgs(e) {
			if !isPart[x] {
				continue
			}
			had, has := g.elements(x), g.elements(e.Out[0])
			switch lookup, isLookup := e.IndexedRead(); {
			case e.Op.Class == core.Resize:
				isPart[e.Out[0]] = true
			case isLookup && k == lookup.Table:
				if x != v || bytes < g.Cache || has > had || !g.looksUpSlices(e, lookup) {
					return bytes, false
				}
				bytes, isPart[e.Out[0]] = g.bytes(e.Out[0]), true
			case has > had:
				return bytes, false
			case has == had:
				isPart[e.Out[0]] = true
			}
		}
	}
	return bytes, true
}

// leastRun is how many elements a position has at least where slices are looked up. Those of fewer
// are in sectors of memory with others, which are read again.
const leastRun = 8

// looksUpSlices reports whether e, which looks its elements up as x says, has one position for many.
func (g *Segment) looksUpSlices(e *core.Expr, x core.IndexedRead) bool {
	if e.Op.SumsListed() {
		return false
	}
	return x.Index < 0 || leastRun*g.elements(g.Fusion.TensorArgs(e)[x.Index]) <= g.elements(e.Out[0])
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
// if it reads more of them than that cache holds, each element once.
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
	isLoad := func(e *core.Expr, v core.ValID) bool {
		x, isLookup := e.IndexedRead()
		return e.Op == core.SetOp || e.Op.Class == core.Resize || isLookup && f.TensorArgs(e)[x.Table] == v
	}
	var loaded []core.ValID
	for _, i := range all {
		v := f.Inputs()[i]
		of := readers[v]
		if len(of) != 1 || !isLoad(of[0], v) || s.Memory(of[0].Out[0]) == schedule.Global {
			return nil // it is loaded in several places, or read without a copy
		}
		loaded = append(loaded, of[0].Out[0])
	}
	for _, v := range loaded {
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

// PassFirstCache lets copies of inputs that have elements of their own along so many loops take no place in the first cache:
// each element is loaded once. In us on an H200, beside lines of the second cache that are to be written back and beside
// clean ones: a sum of columns of 103 MB takes 32.8 / - so and 36.6 / - without, a var_mean of 1048576 rows of 256 bfloat16
// 134.7 / 120.0 and 136.7 / 130.1, of 64 columns 138.0 / 126.6 and 139.2 / 132.3, of 512 134.6 / 120.1 and 133.9 / 127.3, of
// 1024 133.0 / 119.8 and 131.6 / 124.4. Given up last as well they gain nothing.
func PassFirstCache(s *schedule.Scheduled, loops int) error {
	f := s.Fusion()
	for _, v := range s.Tensors() {
		if _, isCopy := CopiedInput(f, v); !isCopy {
			continue
		}
		own := slices.DeleteFunc(slices.Clone(s.Loop(v)), func(a core.AxisID) bool { return f.Axis(a).Kind == core.Broadcast })
		if len(own) < loops {
			continue
		}
		if err := s.SetCopy(v, s.CopyKind(v), schedule.CacheStreaming); err != nil {
			return err
		}
	}
	return nil
}

// CopiedInput returns the input that v is a copy of, if it is one of any.
func CopiedInput(f *core.Fusion, v core.ValID) (from core.ValID, ok bool) {
	if f.Val(v).Def == core.NoExpr || f.Expr(f.Val(v).Def).Op != core.SetOp {
		return core.NoVal, false
	}
	from = f.TensorArgs(f.Expr(f.Val(v).Def))[0]
	return from, f.Val(from).Input
}

package pointwise

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
	"nvfuser_go/schedulers/space"
)

// Blocks go through rows where inputs are the same for all of them and large, as the cosines of a rotary embedding
// are for its heads: a thread keeps its elements of these in registers, and all blocks are at about the same row, so that
// memory is read and written in its order. In one dimension such inputs are read again for each row, from the second cache
// or from memory ([space.Space.Reread]). In us on an H200 (second cache dirty / clean), a copy of as many bytes, in one dimension and
// so: rotary embeddings of bfloat16 1 x 32 x 8192 x 128 38.3 / 35.0, 38.8 / 36.6, 38.1 / 35.2; 2 x 16 x 16384 x 128 70.3 / 67.2, 77.2 / 74.5,
// 73.5 / 70.2; x + mask of 2 x 8 x 8192 x 8192 1043, 1470, 1082. Where blocks of one row after another come next
// to each other instead, pages of all rows are in use at a time: the first takes 38.7 / 36.0, and without cosines and sines
// still 1.4 / 0.9 longer than in one dimension.
const (
	throughBlock   = 512  // threads of a block; of the first with a clean cache, 256 take 36.0, 128 36.2
	throughThreads = 1024 // of a processor: each has 64 registers
	throughBytes   = 128  // that a thread has asked for at a time, at most: half of its registers
	leastBlocks    = 0.6  // of those that a device has room for, that there are at least
	leastSteps     = 4    // of a block whose rows are a group
)

// What is the same for all rows and is read from the second cache matters where it is more than rereadShare times
// what is written for each point, and has keptShare of the bytes that are written: a rotary embedding of 4 x 32 x 4096 x 128 takes
// 69.8 / 67.2 in one dimension and 71.9 / 68.5 through rows, one of 1 x 64 x 16384 x 64 as long, x + mask of
// 1 x 32 x 2048 x 2048 138.2 / 134.6 and 138.9 / 135.3, but a rotary embedding of 1 x 8 x 8192 x 128 16.6 / 14.3 and 15.2 / 13.3.
const (
	rereadShare = 2
	keptShare   = 0.05
)

// throughRows returns the parameters of a nest in which blocks go through the first k places of p, which are rows, none if
// a thread has no registers for it, and whether there are blocks enough for the device.
func (p planner) throughRows(k int, h space.Pitch) (q Params, isEnough bool) {
	read := p.loads(k) * h.Elements
	if read > throughBytes {
		return q, false
	}
	rows, steps := p.Size(0, k), scheduler.CeilDiv(p.Size(k, len(p.Extents)), h.Elements)
	q = Params{Threads: throughBlock, Unroll: mostUnroll, Vector: h.Elements, Break: k, Rows: 1}
	for q.Unroll > 1 && (q.Unroll*read > throughBytes || q.Unroll > rows) {
		q.Unroll /= 2
	}
	least := int64(leastBlocks * float64(p.device.Processors*throughThreads))
	q.Groups = max(min(scheduler.CeilDiv(least, max(steps, 1)), rows/(leastSteps*q.Unroll)), 1)
	return q, q.Groups*steps >= least
}

// loads returns how many bytes a thread loads of what has elements of its own along the first k places, for each point: of
// tensors that are joined those of one.
func (p planner) loads(k int) (bytes int64) {
	var joins []core.ValID
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.IsOutput || t.IsConstant(0, k) || t.IsResized() && slices.Contains(joins, t.ReadBy()) {
			continue
		}
		if bytes += t.Bytes; t.IsResized() {
			joins = append(joins, t.ReadBy())
		}
	}
	return bytes
}

// gainThrough returns what is gained for each point, in bytes, where inputs that are the same along r are read from the second
// cache once: the bytes that they have, which are room for what is written.
func (p planner) gainThrough(r space.Range) float64 {
	reread, stored, written, kept := int64(0), int64(0), int64(0), int64(0)
	for i := range p.Tensors {
		switch t := &p.Tensors[i]; {
		case t.IsOutput:
			stored, written = stored+t.Bytes, written+t.Bytes*t.Elements()
		case t.IsConstant(r.Begin, r.End):
			reread, kept = reread+t.Bytes, kept+t.Bytes*t.Elements()
		}
	}
	if p.isHeavy() || reread < rereadShare*stored || float64(kept) < keptShare*float64(written) {
		return 0
	}
	return float64(kept) / float64(max(p.Size(0, len(p.Extents)), 1))
}

// through lets the blocks that have columns go through the steps of a group of rows, and not have one each.
func (q Params) through(n *scheduler.Nest) {
	if n.Err == nil {
		n.Err = n.Schedule.Split(n.Tensor, 0, q.Groups, false)
	}
	n.Schedule.SetResidentBlocks(int(max(throughThreads/q.Threads, 1)))
}

// computed returns the tensors of s that are computed inside of loops from others that are not in global memory. They are
// computed row by row, what is loaded for all rows of a step at once: all of it at once takes more registers than there are.
func computed(s *schedule.Scheduled) []core.ValID {
	f := s.Fusion()
	return slices.DeleteFunc(slices.Clone(s.Tensors()), func(v core.ValID) bool {
		d := f.Val(v).Def
		return d == core.NoExpr || s.Memory(v) == schedule.Global || slices.ContainsFunc(f.TensorArgs(f.Expr(d)), func(u core.ValID) bool { return s.Memory(u) == schedule.Global })
	})
}

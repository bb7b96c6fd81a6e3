// Package segmenter cuts a fusion into segments, each of which one kernel or one
// call of torch computes.
//
// Its central function is [Cut], its central type [Program]: segments in an order
// to run, each with a fusion of its own. The inputs of that are the tensors that the
// segment reads, its outputs those that other segments or the user read. Segments
// share nothing, so they may be scheduled and compiled side by side.
//
// # How it cuts
//
//  1. Every expression that the outputs need is a node, but for those that are
//     forwarded: cheap ones, such as a broadcast, a cast to a wider type or a mask
//     made from positions. Whoever reads their result computes it again, from
//     what is stored. They are nodes too where the result itself must be in memory:
//     views, if it lies in its operand's and calls of torch read it, or kernels to which
//     it lies as if it had been computed. A reshape is forwarded if it is such a view. A slice of
//     what is in memory is a view for whoever reads it, kernels too. An output that lies as its
//     operand does, such as a reshape of what is dense, is a view of it: the operand, which is no
//     other output, is stored as that output.
//  2. In the order of [core.Fusion.Order] each node joins the groups that compute what
//     it reads, or that read what it reads, the pair that saves most time first. What is
//     known of a group is a summary: bytes, instructions, the elements that it runs
//     over, the axes that it reduces. If that does not say that all goes well, the
//     schedulers are asked before the groups are joined. Elements that are needed again
//     after they were reduced are asked about where rows are short enough to be held, by
//     a block or by a cluster of blocks.
//  3. The schedulers are asked about each group that is left. If none takes one, groups are
//     made again, and the schedulers asked whenever one of its expressions is joined to
//     something; what is refused then too is halved. An expression that none takes alone with what is forwarded to it has that
//     stored, one that none takes then is a call of torch, and the cut is made again.
//     It is made again too where a kernel stores for others what they had better compute
//     again from smaller tensors, or from what they read anyway ([cutter.recompute]).
//  4. Groups are put in order, and become segments. One that takes more memory than it
//     reads of others waits until its result is needed.
//
// # Invariants
//
//   - Each expression that the outputs need is computed by at least one segment, and
//     each tensor that is stored by exactly one.
//   - A result of segment_set is read by other segments than the one that made it.
//   - Groups have levels that grow along every edge between them; joining raises
//     levels or is refused. So there is no cycle, and no search for one.
//   - A random expression draws the numbers of its place in the whole fusion.
//   - A segment that writes to the memory of an input runs after all that read it.
//   - The result depends on the arguments alone. Work is near linear in the number of
//     expressions: what is done for one is bounded by the limits in this package.
//
// # Scalars
//
// A scalar of a fusion is an expression of input scalars and of sizes of inputs, all
// of which are known before anything runs. Each segment evaluates the scalars that it
// needs: a size is that of a tensor which the segment reads if there is one, else the
// symbol is passed ([Source]). No segment is needed for scalars, and none is lost.
//
// The package does not lower, compile or run anything, does not allocate memory, and does
// not rewrite operations; package passes does that before.
package segmenter

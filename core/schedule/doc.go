// Package schedule says how a fusion is computed: which loops run, in which
// order, in parallel over what, and where intermediate tensors live.
//
// # Data flow
//
//	Fusion (frozen) -> Scheduled -> Mapping -> lowering
//
// Its central type is [Scheduled]: a copy of the tables of a fusion and what
// scheduling decides about each tensor. Schedulers and the user's calls
// (TensorView.split, fd.sched.inline_most) drive the same methods; the user's
// go through a table ([DescribePrimitives]) and are kept as a [Script]. [Map] then
// answers which axes have the same index, which share a generated loop, and
// which axis says how often a loop runs.
//
// A promise is part of a schedule: an axis that is split whole has no more elements
// than the capacity, for whatever sizes the kernel runs on
// ([Scheduled.SplitWhole], [Scheduled.CheckPromises]).
//
// Loops over columns may begin in another place of each row, where memory is aligned
// ([Scheduled.AlignRows]): such a shift is one of columns by the phase of a row, which is
// a number of the thread, and so needs no row in what it is applied to.
//
// # Invariants
//
//   - Ids of the fusion keep their meaning in a Scheduled; what edits add has
//     ids above them. The meaning of the outputs never changes.
//   - The loop domain of a tensor is made from its root or logical axes by
//     splits, merges and shifts, and no axis is lost on the way.
//   - A transform of loops that undoes one of a reshape is known as such: its results are the axes that the reshape took,
//     in the exact classes, and the latter are in no loop.
//   - A compute position never exceeds what [Scheduled.MaxPosition] and the
//     positions of all other tensors allow.
//
// [Scheduled.Verify] lists the rest. A method that would break a rule returns
// an InvalidArgument of package core naming the tensor, the axis and the rule,
// and changes nothing.
//
// Reading order: scheduled.go, graph.go, transform.go, align.go; then what corresponds to
// what: relation.go (one producer and consumer), classes.go, exact.go,
// independence.go, loops.go, promote.go, coverage.go, mapping.go; then inlining:
// maxpos.go, inline.go, nest.go; then copying transforms: spread.go, replay.go,
// like.go; then edit.go, rfactor.go, verify.go, text.go, queries.go (the user's
// questions to a mapping); then the table of the user's calls: primitive.go (a row
// and how it is called), primitives.go (the rows), describe.go, script.go and
// parse.go (calls as text).
//
// The package does not know about devices, indices of elements or CUDA.
package schedule

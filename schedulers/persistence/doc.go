// Package persistence finds what a kernel must keep that reduces a row and then needs
// its elements again.
//
// Its central type is [Plan]. Expressions have phases: phase 0 computes the first
// reductions of a row, and what combines their results with elements of the row again
// is in phase 1, and so on; all threads of a row meet between phases. A tensor with an
// element for each of the row that is read in a later phase than its own is held until
// then, or computed again from what is held, or loaded again. Which of those is a minimum
// cut: between what there is at the beginning and what is read later, at the price of a
// held byte and of what operations cost.
//
// # Invariants
//
//   - What is needed later is held, or computed from what is held, from values of
//     the row, and from what is loaded again.
//   - Nothing is held that is not read later.
//   - A plan depends on the schedule and the price alone.
//   - Work is linear in the edges of the fusion for each tensor that is held.
//
// Schedulers apply a plan before they make loops: [Plan.Apply] lets later phases read
// copies of what is not held ([schedule.Scheduled.Recompute]). Where held tensors lie is
// theirs to say: what is not inlined is in registers of the threads.
package persistence

// Package lower turns a schedule into a kernel.
//
// # Data flow
//
//	Scheduled -> Mapping -> Analysis -> passes -> kir.Kernel
//
// Its central function is [Lower]. What passes need to know of the schedule is
// in one immutable [Analysis]; what they build is in a lowering. The passes are
// a table ([Passes]) with the reason for their order.
//
// # Where an index comes from
//
// A statement runs in loops; their values are known. The classes of axes of
// the almost-exact graph and the transforms between them (graph.go) lead from
// those to the axes of a buffer (path.go): splits and merges are walked in
// either direction and give sums, quotients and remainders, which package
// scalar simplifies. The same walk says which indices may pass their extents,
// and so which tests guard the statement (predicate.go).
//
// Columns that are shifted by the phase of a row (align.go) are found by an expression of
// the indices of blocks and threads. That it is a remainder of where the row begins shows
// that vectors of those columns are aligned.
//
// # How threads fold
//
// A thread folds what it has itself, in an order that shortens the chains
// (accumulate.go). What several threads have are parts, in registers (across.go):
// those of all reductions that stand side by side, and of the iterations of loops
// around, are combined at once (block.go): by shuffles where lanes of a warp differ in reduced
// dimensions, of which each may combine a share of the parts (share.go), then by shared memory
// with a barrier. How many elements a part has is not exchanged where it is known (number.go). What
// several blocks have goes to global memory, and the last block to arrive combines it (grid.go). All orders
// depend on the kernel alone, so that every launch gives the same bits.
//
// What needs all of a dimension to give an element of it, a scan or a sort, is emitted in the
// same steps (line.go, columns.go, sort.go): threads along x, or of columns along y, have the line in
// registers, exchange what they have at once, and each stores its own elements where the
// statement stands.
//
// # Invariants
//
//   - A kernel that is returned satisfies [kir.Kernel.Verify]. What cannot be
//     lowered is a [core.Unsupported] that says which tensor and why, never a
//     guess.
//   - The kernel depends on the schedule and the options alone.
//   - A statement of a thread reads an element after it was written: in the
//     loops' order by the mapping, across threads by barriers that one pass
//     places.
//
// Reading order: lower.go, analysis.go, graph.go, storage.go, exchange.go; then
// emit.go, path.go, index.go, predicate.go, value.go, arguments.go; then what
// classes of ops and parallel types add: resize.go, parts.go, scatter.go, reduction.go,
// moments.go, online.go, across.go, block.go, share.go, cluster.go, grid.go, line.go, columns.go, sort.go,
// vector.go, align.go, pipeline.go, dealt.go, swizzle.go, unswitch.go, keep.go, drop.go, alias.go; then
// the passes over kir: registers.go, accumulate.go, together.go, fetch.go, iterations.go, synchronise.go, flight.go, peel.go, hoist.go,
// indextype.go, divisors.go. walk.go visits statements; rules.go is what tests leave out,
// conditions.go what a kernel relies on.
//
// It does not choose schedules and does not know the limits of devices.
package lower

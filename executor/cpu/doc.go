// Package cpu compiles a fusion for given sizes and strides into a program for
// the processors of this machine, and runs it.
//
// # Data flow
//
//	Fusion + sizes -> values, nodes (graph.go, view.go) -> groups (group.go)
//	  -> instructions over registers (program.go) -> tiles (tiling.go) -> Program (build.go)
//	Program -> tasks (worker.go, parallel.go) -> memory (access.go, mover.go)
//
// The central type is [Program], a list of steps. A step is a group of nodes.
// Most groups are tiles: an iteration space, cut into outer and inner axes, and
// a list of instructions that is run for each tile, a block of outer positions
// by inner ones. A value of a tile is in a register: all rows and columns, one
// row, one column or one element of it, by what the value varies along. So a
// chain of elementwise operations, the folds and scans that it feeds and what
// is computed of those needs no memory but its inputs and outputs, and views
// cost nothing. A tile has the inner axes whole if the group folds them; a fold
// too long for that (limits.whole) is accumulated over tiles, and read by later
// groups. Other nodes (gathers, sorts, products) are groups of their own that
// read and write whole tensors (opaque.go and the files beside it).
//
// # Invariants
//
//   - A node's group runs before, or is, that of every reader.
//   - A register holds what the dtype of its value can hold: every instruction
//     rounds as the row of its operation says. Sums differ from [core.Fusion.Eval]
//     in order alone.
//   - What is cut, and in which order parts are combined, depends on sizes, never
//     on processors.
//   - A tile is written once: no two tasks write an element, even the same value.
//   - Tile memory is bounded (limits), recycled, and does not grow with the
//     length of a chain of operations.
//   - Every goroutine recovers; see [Panic].
//
// The package shares the functions of core's rows, not its loops. It does not
// check inputs against the definition, does not allocate outputs and knows no
// device but the processor.
package cpu

// Package executor runs fusions: it caches an executor per definition and a plan
// per kind of inputs, and runs plans.
//
// # Data flow
//
//	Fusion -> Cache.Executor -> Executor.Plan(inputs) -> the caller allocates -> the run, phase by phase
//
// [Cache] maps the canonical text of a frozen fusion to its [Executor]. An
// Executor maps what a run may not change (dtypes, sizes, strides, devices, and
// the values of those scalars that sizes depend on) to a [Plan]. On a CPU a plan
// has one step, a program of package executor/cpu. On a CUDA device, and with
// [Options].Simulate, it has a program ([DeviceProgram]): launches, calls of torch,
// and memory, which an assembly (assembly.go) makes:
//
//	Fusion -> passes -> concrete -> segmenter.Cut -> pieces -> launches and calls -> phases
//	a piece: task -> Scheduled -> kernel -> CUDA -> cubin -> Function -> LaunchBlock
//
// It says where each tensor lies (locate), has the kernels made side by side, those
// that are alike once (compile.go), fills parameter structures (emit.go), and decides
// which memory is there when (arrange.go): phases end with calls of torch, and where
// that leaves less memory at a time (arrange_phases.go). What
// lowering or the device refuses is noted, and the fusion is cut again: any fusion runs
// that torch computes. A kernel that cannot write an output to the memory of an input
// writes to a workspace, which is copied at the end. With [Cache.Scheduled] the one
// kernel is as the caller schedules it (byhand.go).
//
// Programs are data: running one on a device takes no Go but for numbers that
// calls differ in ([Plan.Evaluate]). With Simulate the same program runs in memory of
// the host: kernels in the simulator, which get what they find in the parameter
// structure (simulate.go), calls by torch, or by package cpu where there is no Python.
//
// Where the driver is a [cudadrv.Keeper], the program is kept under all that it
// depends on, and found again by other processes of the same build (kept.go): then
// nothing is scheduled, lowered or printed until somebody looks into the plan. What
// is read is held against what the plan is for; whatever is wrong with it, the plan is
// made as if nothing had been kept.
//
// A kernel serves all sizes that lowering would make the same for (reuse.go): it is kept
// under its fusion and what its scheduler makes of that, with all answers about sizes,
// strides and addresses that lowering asked for. Another kind of inputs, of this
// definition or another one, takes it where the answers are equal: then nothing is
// scheduled, lowered or printed. So equal layers of a model are compiled once.
//
// Copies stand first, for inputs that are outputs, and last, for what is not written
// in place. All aliased outputs are copied last where an input that receives one
// shares memory with another input; a plan for such inputs is another one, by its key.
//
// An [Inspection] shows what becomes of a fusion for inputs: a table of stages
// ([Stages]), from its definition over its segments to the arguments of each kernel,
// which are made for this also where the plan does not run them, or cannot be made.
//
// # Invariants
//
//   - Inputs are checked before anything is planned; what a plan takes for
//     granted is in its key, so that Run need not check again.
//   - Kernels are made side by side, in one pool for all plans of the process (pool.go),
//     and compiled once for equal texts. What fails is told for all segments
//     (failures.go), and what others got is kept for the next call.
//   - A plan never changes once it is returned, and any number of goroutines may
//     run it. However many ask for a plan at once, it is built once.
//   - Outputs do not depend on the number of processors, the schedule of
//     goroutines or what ran before.
//   - No panic leaves the package: it becomes a [Bug] that carries a reproducer.
//   - Aliased outputs are written when nothing reads the old value any more,
//     whatever memory the inputs share. Two that are written have no element in
//     common (overlap.go): the key tells of it, and no plan is made.
//
// # Output memory
//
// An output is dense. Its dimensions lie in memory in the order that its
// definition fixes (stride_order). Otherwise the result of an elementwise
// operation has the order of its first tensor operand that is not broadcast
// along a dimension of the result, and so back to the inputs, whose definition
// gives theirs; the result of any other operation is row-major. The stride of
// an expanded broadcast is 0: the caller allocates one element along it.
//
// With [Options].Views an output that [passes.Views] finds, such as a permutation of
// an input or the input itself, is no memory but a [View] of that of an input, of
// another output, or of the result of a product that is stored anyway: its caller
// makes it, no kernel does. That is decided for each kind of inputs (views.go): a
// reshape that strides cannot say is a copy, so is every output if an input that is
// written shares memory with another one, and what would view an input on another
// device. What is planned is a variant of the definition, in which the tensors that
// outputs are views of stand for them. Without the option outputs share no memory
// but with the inputs that they are written to.
//
// # Where a run takes place
//
// On the device of its tensors, without regard to tensors of the CPU that have no
// dimensions, which go to a device by value, whether the definition says is_cpu or
// not. Tensors on several devices are the user's mistake. Without tensors that
// count it is the device that the caller names, else the CPU if there are such
// small ones, else the first CUDA device if there is one.
//
// # Numbers of a call
//
// A plan serves all values of scalars that no size depends on. On a device those
// are words that [Plan.Evaluate] computes, without allocating, in the time of a
// few loads and stores.
//
// The package does not know about Python or C, allocates no outputs, and does
// not keep inputs beyond a call.
package executor

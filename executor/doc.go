// Package executor runs fusions: it caches an executor per definition and a plan
// per kind of inputs, and runs plans.
//
// # Data flow
//
//	Fusion -> Cache.Executor -> Executor.Plan(inputs) -> the caller allocates -> Plan.Run
//
// [Cache] maps the canonical text of a frozen fusion to its [Executor]. An
// Executor maps what a run may not change (dtypes, sizes, strides, devices, and
// the values of those scalars that sizes depend on) to a [Plan]: a list of
// steps and the descriptions of the outputs. The caller allocates the outputs
// that have memory of their own and calls [Plan.Run]. On a CPU a plan has one
// step, a program of package executor/cpu. With [Options].Simulate the step is
// instead a kernel that a scheduler and the lowering make, in the simulator:
//
//	Fusion -> task -> Scheduled -> kernel
//
// A task (task.go) is what needs a kernel, with the axes that the sizes decide;
// compile (kernel.go) is the one place where a schedule is chosen, for runs and
// for looking. What a kernel cannot write in place is copied after it. With
// [Cache.Scheduled] the schedule is the caller's (byhand.go).
//
// On a CUDA device a plan is data ([DeviceProgram]): launches of machine code
// that a [cudadrv.Driver] compiled and loaded when the plan was made, and what a
// call must bring. Running it takes no Go but for scalars that calls differ in
// ([Plan.Evaluate]):
//
//	Fusion -> tasks -> Scheduled -> kernel -> CUDA -> cubin -> Function -> LaunchBlock
//	a call: lookup -> the caller allocates outputs and workspaces -> Evaluate -> launches on the caller's stream
//
// Where the driver is a [cudadrv.Keeper], the program is kept under all that it
// depends on, and found again by other processes of the same build (kept.go): then
// nothing is scheduled, lowered or printed until somebody looks into the plan. What
// is read is held against what the plan is for; whatever is wrong with it, the plan is
// made as if nothing had been kept.
//
// Launches that copy stand before the kernel, for inputs that are outputs, and
// after it, for what a kernel cannot write in place: it goes to a workspace first.
// All aliased outputs do where an input that receives one shares memory with
// another input; a plan for such inputs is another one, by its key.
//
// [Plan.Inspection] shows what becomes of a fusion for the inputs of a plan: a
// table of stages ([Stages]), from its definition to the arguments of its
// kernel, which is made for this also where the plan does not run it.
//
// # Invariants
//
//   - Inputs are checked before anything is planned; what a plan takes for
//     granted is in its key, so that Run need not check again.
//   - A plan never changes once it is returned, and any number of goroutines may
//     run it. However many ask for a plan at once, it is built once.
//   - Outputs do not depend on the number of processors, the schedule of
//     goroutines or what ran before.
//   - No panic leaves the package: it becomes a [Bug] that carries a reproducer.
//   - Aliased outputs are written when nothing reads the old value any more,
//     whatever memory the inputs share.
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
// An output shares memory with nothing but the input that it is written to: one
// that is an input, or a view of one, is a copy. On a CUDA device so is an input
// that lies on the CPU.
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

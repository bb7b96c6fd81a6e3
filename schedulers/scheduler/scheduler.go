// Package scheduler says what a scheduler is, and has what schedulers share.
//
// Its central type is [Scheduler]. A scheduler says of a [Segment] why it does not
// take it ([Scheduler.Accept]), in which ways it would compute it
// ([Scheduler.Candidates]), and schedules it in one of them ([Scheduler.Apply]).
// [Planned] is what the schedulers have in common.
//
// # Invariants
//
//   - What a scheduler does depends on its arguments alone.
//   - A segment for which Accept returns no refusals can be scheduled with the
//     first of its Candidates.
//   - Refusals name the tensor as the user does and begin with what was found.
//
// The package does not know the schedulers; package schedulers lists them. It
// does not lower schedules.
package scheduler

import (
	"errors"
	"fmt"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/model"
)

// A Device is what schedulers know of the target.
type Device struct {
	Processors int   // streaming multiprocessors
	Threads    int   // of a block, at most
	Warp       int   // threads of a warp
	Cluster    int   // blocks of a cluster, at most; 1 or 0: there are none
	Portable   int   // blocks of a cluster for which there is room on any device that has clusters; of more there may turn out to be none
	Shared     int   // bytes of a block's shared memory, at most
	Cache      int64 // bytes of the second cache

	Model model.Machine // how long kernels take
}

// Hopper is an H100 SXM: Hopper tuning guide 12.9, section 1.4.1.
var Hopper = Device{Processors: 132, Threads: 1024, Warp: 32, Cluster: 16, Portable: 8, Shared: 227 << 10, Cache: 50 << 20, Model: model.H100}

// Params are the choices of a scheduler for one segment. They are comparable,
// and their String tells all of them.
type Params interface{ String() string }

// Vectorized are Params of schedules that move several elements at once. To be
// lowered they need the sizes and the addresses of inputs as multiples of the
// Width, which is 1 if there are no vectors.
type Vectorized interface{ Width() int64 }

// A Scheduler turns segments of a certain kind into schedules.
type Scheduler interface {
	Name() string
	// Accept returns why the scheduler does not take a segment; nothing if it does.
	Accept(segment *Segment, device Device) []core.Refusal
	// Candidates returns the choices for a segment that is accepted, the one that
	// is expected to be the fastest first; at least one.
	Candidates(segment *Segment, device Device) []Params
	// Recipe returns all that Apply depends on beside the fusion: for segments of fusions
	// that are equal, names included, it makes the same schedule where recipes are equal.
	Recipe(segment *Segment, p Params) string
	// Apply schedules a segment, with Params of this scheduler.
	Apply(segment *Segment, p Params) (*schedule.Scheduled, error)
	// ParseParams reads Params of this scheduler: a JSON object with the names and values
	// of their fields. Its error is InvalidArgument.
	ParseParams(text string) (Params, error)
}

// Refuse returns a refusal of the scheduler called by. v may be [core.NoVal].
func Refuse(f *core.Fusion, by, rule string, v core.ValID, format string, args ...any) core.Refusal {
	r := core.Refusal{By: by, Rule: rule, Sentence: fmt.Sprintf(format, args...)}
	if v != core.NoVal {
		r.Tensor = f.Name(v)
	}
	return r
}

// Refused returns one refusal as an error, a [Refusals].
func Refused(f *core.Fusion, by, rule string, v core.ValID, format string, args ...any) error {
	return &Refusals{[]core.Refusal{Refuse(f, by, rule, v, format, args...)}}
}

// CheckSteps refuses reductions of which parts cannot be merged, as threads have them. The
// error is a [Refusals] of the scheduler called by.
func CheckSteps(f *core.Fusion, by string, reductions []core.ValID) error {
	for _, v := range reductions {
		if e := f.Expr(f.Val(v).Def); core.MergeOp(e.Op) == nil {
			return Refused(f, by, "operation", v, "%s is the result of %s(), which cannot be computed in steps", f.Name(v), e.Called.Name)
		}
	}
	return nil
}

// Check returns why the scheduler called by does not take f, whatever its sizes: operations of
// other classes than are allowed, or what no scheduler takes. The error is a [Refusals].
func Check(f *core.Fusion, by string, allowed func(core.Class) bool) error {
	if err := CheckClasses(f, by, allowed); err != nil {
		return err
	}
	if refusals := checkSegment(f, by); len(refusals) > 0 {
		return &Refusals{refusals}
	}
	return nil
}

// checkSegment returns why no scheduler called by takes f, of whatever kind its
// operations are.
func checkSegment(f *core.Fusion, by string) []core.Refusal {
	var refusals []core.Refusal
	for _, o := range f.Outputs() {
		if f.Val(o.Val).Input {
			refusals = append(refusals, Refuse(f, by, "output", o.Val, "%s is an input and an output, which needs no kernel", f.Name(o.Val)))
		}
	}
	for _, id := range f.Order() {
		for _, v := range f.Expr(id).Out {
			for _, a := range f.Axes(v) {
				if f.Axis(a).Kind == core.Symbolic {
					return append(refusals, Refuse(f, by, "shape", v, "%s has a dimension of which the definition does not say whether it is broadcast: define the inputs with static sizes", f.Name(v)))
				}
			}
		}
	}
	return refusals
}

// longestLine is how many places of its index each element of a scatter may look at
// in a kernel: 3 us for one thread, at about 40 cycles each. Torch takes some nine
// launches for a scatter.
const longestLine = 128

// CheckSizes returns why no scheduler called by takes g for its sizes, whatever
// it would take for others.
func CheckSizes(g *Segment, by string) []core.Refusal {
	f := g.Fusion
	for _, id := range f.Order() {
		n, err := line(f.Expr(id), g.Shapes)
		if v := f.Expr(id).Out[0]; err != nil {
			return []core.Refusal{Refuse(f, by, "sizes", v, "the sizes of %s are not known: %v", f.Name(v), err)}
		} else if n > longestLine {
			return []core.Refusal{Refuse(f, by, "line", v,
				"each element of %s looks at %d places of the index; in a kernel they are at most %d", f.Name(v), n, longestLine)}
		}
	}
	return nil
}

// Maps reports whether each element of the results of an operation of class c
// comes from a fixed number of elements of the operands.
func Maps(c core.Class) bool {
	switch c {
	case core.Elementwise, core.View, core.Resize, core.Gather, core.Factory, core.Random:
		return true
	}
	return false
}

// CheckClasses returns a [Refusals] of the first operation of f that is not of one
// of the classes.
func CheckClasses(f *core.Fusion, by string, allowed func(core.Class) bool) error {
	for _, id := range f.Order() {
		if e := f.Expr(id); !allowed(e.Op.Class) {
			v := e.Out[0]
			return Refused(f, by, "operation", v, "%s is the result of %s(), a %v operation", f.Name(v), e.Called.Name, e.Op.Class)
		}
	}
	return nil
}

// Reductions returns the first result of each reduction of f, in order.
func Reductions(f *core.Fusion) []core.ValID {
	var all []core.ValID
	for _, id := range f.Order() {
		if e := f.Expr(id); e.Op.Class == core.Reduction {
			all = append(all, e.Out[0])
		}
	}
	return all
}

// RefusalsOf returns why scheduling f failed, as refusals of the scheduler called
// by.
func RefusalsOf(by string, err error) []core.Refusal {
	var refused *schedule.Refused
	var list *Refusals
	switch {
	case err == nil:
		return nil
	case errors.As(err, &list):
		return list.List
	case errors.As(err, &refused):
		r := refused.Refusal
		r.By = by
		return []core.Refusal{r}
	}
	return []core.Refusal{{By: by, Rule: "schedule", Sentence: err.Error()}}
}

// Refusals is the error of a schedule that does not reach all tensors.
type Refusals struct{ List []core.Refusal }

func (r *Refusals) Error() string {
	if len(r.List) == 0 {
		return "no refusals"
	}
	return r.List[0].Sentence
}

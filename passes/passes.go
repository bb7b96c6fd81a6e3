// Package passes rewrites a fusion into one that means the same and is easier
// to cut into kernels, before it is cut.
//
// # Central type
//
// A [Pass] is a row of the table [Passes]: a name, the reason for it and for its
// place, the passes that it follows, and a function from a frozen fusion to a
// frozen one. [Run] runs them in order. Each is a file here, and nearly each is
// one rule of [core.Rewrite], which looks at an expression and at what its
// operands have become.
//
// Other functions change nothing and say something of a fusion, as data: which
// outputs can be views ([Views]), and in which order tensors should lie in memory
// ([MemoryOrders]).
//
// # Invariants
//
//   - [core.Fusion.Eval] gives the same bits before and after, NaN for NaN, for
//     all inputs that [core.Fusion.Bind] takes before. So whoever runs the result
//     binds the fusion as it was defined first: a requirement may be gone with the
//     expression that had it.
//   - Inputs and outputs stay in place, with names, aliases, types and sizes. No
//     output becomes another one or an input.
//   - Random operations keep their streams. How far a run advances the generator
//     is counted before: one whose numbers nobody reads any more goes.
//   - segment_set and stride_order stay where they are. How outputs lie in memory
//     is a matter of the fusion as it was defined, too.
//   - A pass is a pure function: any number of goroutines may run it on one fusion.
//   - The time is near linear in the number of expressions.
//
// The package does not know about kernels, devices and the sizes of a run.
package passes

import (
	"fmt"
	"slices"

	"nvfuser_go/core"
)

// A Pass is one rewriting.
type Pass struct {
	Name  string
	Why   string   // it exists, and is where it is
	After []string // names of passes that come before it

	// Run returns what f becomes, f itself if there is nothing to do, and the
	// number of expressions that changed.
	Run func(f *core.Fusion) (*core.Fusion, int, error)
}

// Passes returns all passes in the order in which they run.
func Passes() []Pass { return slices.Clone(table) }

var table = []Pass{
	{"constant sizes", "A size that must equal a constant is that constant: first, as all that follows compares sizes.",
		nil, constantSizes},
	{"remove empty", "Schedulers may take it that what they compute has elements: before others look at operands that disappear here.",
		[]string{"constant sizes"}, ruled(core.Rewrite{Rule: removeEmpty})},
	{"product without sum", "A matrix product over one element is a multiplication, which fuses: before casts, because it makes some.",
		[]string{"remove empty"}, ruled(core.Rewrite{Rule: productWithoutSum}, core.MatmulOp, core.LinearOp)},
	{"repeat to expand", "A repeated dimension of one element is read once if it is a broadcast: before other rules for cat.",
		[]string{"remove empty"}, ruled(core.Rewrite{Rule: repeatToExpand, Broadcasts: true}, core.CatOp)},
	{"split and cat", "What is cut and joined again at the same places need not be cut: loops do not follow through resizes well.",
		[]string{"repeat to expand"}, splitCat},
	{"what is taken apart", "Parts of what is in memory are views, those of what is computed would need it stored: before casts, which views may pass then.",
		[]string{"split and cat"}, ruled(core.Rewrite{Rule: takeApart}, core.ReshapeOp)},
	{"casts past views", "A view of the narrower type is the narrower tensor where a kernel ends: before casts, which then meet.",
		[]string{"product without sum", "split and cat"}, ruled(core.Rewrite{Rule: castPastView}, core.CastOp)},
	{"consecutive casts", "A cast to a type that holds all values of the one before it rounds nothing.",
		[]string{"casts past views"}, ruled(core.Rewrite{Rule: consecutiveCasts}, core.CastOp)},
	{"embeddings", "Rows at positions that the loops of the result lead to fuse with what computes the positions: before gathers, as it makes some.",
		[]string{"remove empty"}, ruled(core.Rewrite{Rule: embeddingAsTake}, core.EmbeddingFwdOp)},
	{"sums of slices", "Slices that are added where an index says are sums that a kernel computes, once it is known which slices go where.",
		[]string{"remove empty"}, ruled(core.Rewrite{Rule: accumulateBySums}, core.IndexPutAccumulateOp)},
	{"select to slice", "A slice fuses with what computes its operand, as another pass has it: before that.",
		[]string{"casts past views"}, ruled(core.Rewrite{Rule: selectAsSlice}, core.SelectOp)},
	{"gathers before arithmetic", "What is computed at one position a line need not be computed, and stored, at all: after casts, as zeros stay zeros in them, and before views, of which it makes some.",
		[]string{"consecutive casts", "embeddings"}, gathersBeforeArithmetic},
	{"resizes before arithmetic", "What a slice, pad or cat reads must be in memory: inputs are, and what is computed from them need not be. After gathers and casts, before common subexpressions, of which it makes some.",
		[]string{"split and cat", "consecutive casts", "select to slice", "gathers before arithmetic"}, resizesBeforeArithmetic},
	{"gathers of slices", "A slice of what is computed is computed from a slice now, and so are the elements of it that a gather reads.",
		[]string{"gathers before arithmetic", "resizes before arithmetic"}, gathersBeforeArithmetic},
	{"arithmetic before reshapes", "What is normalised is scaled and shifted by the kernel that has its rows, in their shape: after casts, which may stand between, and before views, of which it makes some.",
		[]string{"consecutive casts"}, arithmeticBeforeReshapes},
	{"views", "Views that undo each other, or change nothing, come from composites: after casts, which stood between them.",
		[]string{"consecutive casts", "resizes before arithmetic", "arithmetic before reshapes"}, ruled(core.Rewrite{Rule: cleanViews}, viewOps...)},
	{"sum of exponentials", "The maximum and the sum of exponentials of a softmax are one reduction: after casts, which may stand between them.",
		[]string{"consecutive casts"}, sumOfExponentials},
	{"common subexpressions", "What is computed twice is computed once: after all that makes expressions equal.",
		[]string{"views", "sum of exponentials"}, commonSubexpressions},
	{"dead code", "Users of a tensor are counted by others, and those that nothing needs count: last.",
		[]string{"common subexpressions"}, deadCode},
}

// An Applied is what a pass did.
type Applied struct {
	Pass    string
	Changes int // expressions that something else stands for now
}

// Run returns what the passes make of f, which is frozen and stays as it is, and
// those that changed something. With verify each result is verified. An error is
// a mistake of ours, and names the pass.
func Run(f *core.Fusion, verify bool) (*core.Fusion, []Applied, error) {
	var applied []Applied
	for _, p := range table {
		g, changes, err := p.Run(f)
		if err == nil && verify && g != f {
			err = g.Verify()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("pass %q: %w in\n%s", p.Name, err, f)
		}
		if g != f {
			applied = append(applied, Applied{p.Name, changes})
		}
		f = g
	}
	return f, applied, nil
}

// KnowSizes reports whether passes may do more of f if sizes are constants.
func KnowSizes(f *core.Fusion) bool {
	return slices.ContainsFunc(f.Order(), func(id core.ExprID) bool {
		e := f.Expr(id)
		return e.Op.Class == core.Resize || e.Op == core.ReshapeOp
	})
}

// ruled returns the function of a pass that follows a rule, which changes only
// fusions that have one of ops; none: all.
func ruled(how core.Rewrite, ops ...*core.OpInfo) func(*core.Fusion) (*core.Fusion, int, error) {
	return func(f *core.Fusion) (*core.Fusion, int, error) {
		if len(ops) > 0 && !has(f, ops) {
			return f, 0, nil
		}
		return changed(f, how)
	}
}

// changed is f rewritten, or f if the rule changes nothing.
func changed(f *core.Fusion, how core.Rewrite) (*core.Fusion, int, error) {
	g, n, err := f.Rewritten(how)
	if err != nil || n == 0 {
		return f, 0, err
	}
	return g, n, nil
}

func has(f *core.Fusion, ops []*core.OpInfo) bool {
	for id := range f.NumExprs() {
		if slices.Contains(ops, f.Expr(core.ExprID(id)).Op) {
			return true
		}
	}
	return false
}

// deadCode leaves out what no output needs.
func deadCode(f *core.Fusion) (*core.Fusion, int, error) {
	dead := f.NumExprs() - len(f.Order())
	if dead == 0 {
		return f, 0, nil
	}
	g, _, err := f.Rewritten(core.Rewrite{})
	return g, dead, err
}

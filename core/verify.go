package core

import (
	"errors"
	"fmt"
	"slices"

	"nvfuser_go/core/scalar"
)

// Verify checks what every pass may rely on and must preserve:
//
//   - ids are in range; a tensor is an input or is listed by the one expression
//     that defines it, and no definition depends on itself;
//   - the arguments of an expression are those of its row's parameters;
//   - dtypes, axes and requirements are those that the row infers, of
//     expressions that the outputs need, if there are any; of the first step of a
//     reduction in two this holds for the root axes;
//   - an input scalar is a symbol of its own; every symbol belongs to an input;
//   - the allocation order is a permutation of the logical axes, with one
//     contiguity flag an axis, which is absent exactly for broadcasts and
//     reductions;
//   - outputs are tensors; an alias is an input tensor, of the same dtype and
//     rank, and of one output only;
//   - the use counts are those of the expressions;
//   - in a frozen fusion the random ops that are used have different streams.
//
// It reports all violations, not the first.
func (f *Fusion) Verify() error {
	w := &verifier{f: f}
	for i := range f.vals {
		w.val(ValID(i))
	}
	if len(w.errs) > 0 { // later checks follow ids
		return errors.Join(w.errs...)
	}
	again, needed := f.Clone(), f.needed()
	for i := range f.exprs {
		if needed[i] || len(f.outputs) == 0 {
			w.expr(ExprID(i), again)
		}
	}
	w.acyclic()
	w.outputs()
	w.uses()
	w.streams()
	return errors.Join(w.errs...)
}

type verifier struct {
	f    *Fusion
	errs []error
}

func (w *verifier) bad(format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf(format, args...))
}

func (w *verifier) val(v ValID) {
	f, x := w.f, &w.f.vals[v]
	if !x.Tensor {
		if int(x.Scalar) >= f.scalars.Len() {
			w.bad("scalar value %d wraps expression %d of %d", v, x.Scalar, f.scalars.Len())
		} else if x.Input && (f.scalars.Op(x.Scalar) != scalar.Symbol || f.scalars.Tag(x.Scalar) != scalar.Tag{Val: uint32(v), Dim: -1}) {
			w.bad("input scalar %d is not its own symbol", v)
		}
		return
	}
	if x.Input != (x.Def == NoExpr) || x.Input != slices.Contains(f.inputs, v) {
		w.bad("tensor %d: an input has no definition and is listed, any other tensor has one", v)
	}
	if !x.Input && (int(x.Def) >= len(f.exprs) || !slices.Contains(f.exprs[x.Def].Out, v)) {
		w.bad("tensor %d is not a result of expression %d, its definition", v, x.Def)
	}
	d := &x.Domain
	for _, axes := range [][]AxisID{d.Root, d.Logical, d.Alloc, d.Loop} {
		for _, a := range axes {
			if int(a) >= len(f.axes) {
				w.bad("tensor %d has axis %d of %d", v, a, len(f.axes))
				return
			}
		}
	}
	w.allocation(v, d)
}

func (w *verifier) allocation(v ValID, d *Domain) {
	alloc := d.Allocation()
	sorted := func(a []AxisID) []AxisID { return slices.Sorted(slices.Values(a)) }
	if !slices.Equal(sorted(alloc), sorted(d.Logical)) {
		w.bad("tensor %d: its allocation order is not a permutation of its axes", v)
	}
	if len(slices.Compact(sorted(alloc))) != len(alloc) {
		w.bad("tensor %d has an axis twice", v)
	}
	if len(d.Contig) != len(alloc) {
		w.bad("tensor %d has %d contiguity flags for %d axes", v, len(d.Contig), len(alloc))
		return
	}
	for k, a := range alloc {
		kind := w.f.axes[a].Kind
		if (d.Contig[k] == NotApplicable) != (kind == Broadcast || kind == Reduce) {
			w.bad("tensor %d: contiguity of axis %d does not fit its kind", v, k)
		}
	}
}

func (w *verifier) expr(id ExprID, again *Fusion) {
	f, e := w.f, &w.f.exprs[id]
	if len(e.Args) != len(e.Op.Params()) {
		w.bad("expression %d (%s) has %d arguments for %d parameters", id, e.Op.Name, len(e.Args), len(e.Op.Params()))
		return
	}
	for i, p := range e.Op.Params() {
		if !fits(p, e.Args[i].Kind) {
			w.bad("expression %d (%s): argument %s is of kind %d", id, e.Op.Name, p.Name, e.Args[i].Kind)
			return
		}
	}
	ok := true
	f.forEachTensor(e.Args, func(v ValID) {
		if int(v) >= len(f.vals) || !f.vals[v].Tensor {
			w.bad("expression %d (%s) reads %d, which is not a tensor", id, e.Op.Name, v)
			ok = false
		}
	})
	if !ok {
		return
	}
	inf, err := e.Op.infer(again, e.Args)
	if err != nil {
		w.bad("expression %d: %v", id, err)
		return
	}
	if len(inf.Results) != len(e.Out) {
		w.bad("expression %d (%s) has %d results, want %d", id, e.Op.Name, len(e.Out), len(inf.Results))
		return
	}
	if len(inf.Requires) != len(e.Requires) {
		w.bad("expression %d (%s) has %d requirements, want %d", id, e.Op.Name, len(e.Requires), len(inf.Requires))
	}
	for k, r := range inf.Results {
		w.result(id, k, again, r)
	}
}

// fits reports whether an argument kind is one that a parameter binds to.
func fits(p Param, k ArgKind) bool {
	if k == NoArg {
		return p.Optional
	}
	switch p.Kind {
	case Operand:
		return k == TensorArg || k == ScalarArg
	case TensorIn:
		return k == TensorArg
	case TensorsIn:
		return k == TensorsArg
	case Number, Extent:
		return k == ScalarArg
	case Shape:
		return k == ScalarsArg
	case Integer, Dim:
		return k == IntArg
	case Integers, Dims:
		return k == IntsArg
	case Flag:
		return k == BoolArg
	case Flags:
		return k == BoolsArg
	}
	return k == DTypeArg
}

// result compares what was inferred again with what is recorded.
func (w *verifier) result(id ExprID, k int, again *Fusion, want TensorResult) {
	x := &w.f.vals[w.f.exprs[id].Out[k]]
	op := w.f.exprs[id].Op.Name
	if x.DType != want.DType {
		w.bad("expression %d (%s): result %d is %v, want %v", id, op, k, x.DType, want.DType)
	}
	got, wanted := x.Domain.Logical, want.Domain.Logical
	partial := w.f.exprs[id].Op.Class == Reduction && w.f.isPartial(&x.Domain)
	if partial {
		got, wanted = x.Domain.Root, want.Domain.Root
	}
	if len(got) != len(wanted) {
		w.bad("expression %d (%s): result %d has %d axes, want %d", id, op, k, len(got), len(wanted))
		return
	}
	for i := range got {
		a, b := w.f.axes[got[i]], again.axes[wanted[i]]
		if partial && a.Kind == Iter && a.Extent == again.Size(wanted[i]) {
			continue // the second step reduces what the operand shows, expanded or not
		}
		if a.Kind != b.Kind || a.Extent != b.Extent || a.Expanded != b.Expanded {
			w.bad("expression %d (%s): axis %d of result %d differs from what is inferred", id, op, i, k)
		}
	}
	if !partial && !slices.Equal(x.Domain.Contig, want.Domain.Contig) || (x.Domain.Alloc == nil) != (want.Domain.Alloc == nil) {
		w.bad("expression %d (%s): the memory order of result %d differs from what is inferred", id, op, k)
	}
}

// acyclic removes expressions whose operands are all defined until none is left.
func (w *verifier) acyclic() {
	f := w.f
	missing, readers := make([]int, len(f.exprs)), make([][]ExprID, len(f.exprs))
	var ready []ExprID
	for i := range f.exprs {
		f.forEachTensor(f.exprs[i].Args, func(v ValID) {
			if d := f.vals[v].Def; d != NoExpr {
				missing[i]++
				readers[d] = append(readers[d], ExprID(i))
			}
		})
		if missing[i] == 0 {
			ready = append(ready, ExprID(i))
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		id := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, r := range readers[id] {
			if missing[r]--; missing[r] == 0 {
				ready = append(ready, r)
			}
		}
	}
	if done < len(f.exprs) {
		w.bad("%d expressions depend on their own results", len(f.exprs)-done)
	}
}

func (w *verifier) outputs() {
	taken := map[ValID]bool{}
	for i, o := range w.f.outputs {
		if int(o.Val) >= len(w.f.vals) || !w.f.vals[o.Val].Tensor {
			w.bad("output %d is not a tensor", i)
			continue
		}
		if o.Alias == NoVal {
			continue
		}
		a := &w.f.vals[o.Alias]
		if !a.Tensor || !a.Input || a.DType != w.f.vals[o.Val].DType || w.f.Rank(o.Alias) != w.f.Rank(o.Val) {
			w.bad("output %d: its alias is not an input tensor of its dtype and rank", i)
		}
		if taken[o.Alias] {
			w.bad("output %d: its alias is that of another output too", i)
		}
		taken[o.Alias] = true
	}
}

func (w *verifier) uses() {
	count := make([]int, len(w.f.vals))
	for i := range w.f.exprs {
		w.f.forEachTensor(w.f.exprs[i].Args, func(v ValID) { count[v]++ })
	}
	for v := range w.f.vals {
		if w.f.vals[v].Uses != count[v] {
			w.bad("value %d has %d uses counted, %d found", v, w.f.vals[v].Uses, count[v])
		}
	}
}

func (w *verifier) streams() {
	if !w.f.frozen {
		return
	}
	taken := map[int]bool{}
	for _, id := range w.f.Order() {
		if e := &w.f.exprs[id]; e.Op.Class == Random {
			if taken[e.Stream] {
				w.bad("expression %d (%s) has stream %d, which another one has too", id, e.Op.Name, e.Stream)
			}
			taken[e.Stream] = true
		}
	}
}

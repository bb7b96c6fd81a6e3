package core

import (
	"errors"
	"math/bits"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An InputValue is what a run gives for one input of a fusion, in order.
type InputValue struct {
	Tensor bool
	DType  dtype.Type
	Sizes  []int64      // of a tensor
	Scalar scalar.Value // of a scalar
}

// A Binding gives every size and scalar of a fusion its value for one set of
// inputs. It is used by one goroutine.
type Binding struct {
	f      *Fusion
	inputs []InputValue
	place  map[ValID]int // input value -> position
	memo   map[scalar.ID]scalar.Value
}

// Bind checks the inputs against the definition and every [Requirement] of the
// expressions that the outputs need, and returns the binding.
//
// Errors: InvalidArgument or InvalidType naming the input by position and name.
func (f *Fusion) Bind(inputs []InputValue) (*Binding, error) {
	if len(inputs) != len(f.inputs) {
		return nil, invalidArgument("execute(): the fusion has %d inputs, got %d%s", len(f.inputs), len(inputs), f.inputList())
	}
	b := &Binding{f: f, inputs: inputs, place: make(map[ValID]int, len(inputs))}
	for i, v := range f.inputs {
		b.place[v] = i
		if err := b.checkInput(i, v); err != nil {
			return nil, err
		}
	}
	b.memo = map[scalar.ID]scalar.Value{}
	for _, id := range f.Order() {
		if err := b.checkExpr(&f.exprs[id]); err != nil {
			return nil, err
		}
	}
	if err := b.checkBytes(); err != nil {
		return nil, err
	}
	return b, b.checkAliases()
}

func (f *Fusion) inputList() string {
	s := ": ("
	for i, v := range f.inputs {
		if i > 0 {
			s += ", "
		}
		if i == 8 {
			s += "..."
			break
		}
		s += f.Name(v)
	}
	return s + ")"
}

func (b *Binding) checkInput(i int, v ValID) error {
	f, in, x := b.f, &b.inputs[i], &b.f.vals[v]
	name := f.Name(v)
	switch {
	case x.Tensor && !in.Tensor:
		return invalidType("execute(): input %d (%s) must be a tensor, got a scalar", i, name)
	case !x.Tensor && in.Tensor:
		return invalidType("execute(): input %d (%s) must be a scalar of %v, got a tensor", i, name, x.DType)
	case !x.Tensor:
		if category(in.Scalar.Type) > category(x.DType) {
			return invalidType("execute(): input %d (%s) is a scalar of %v, got %v %s", i, name, x.DType, in.Scalar.Type, PythonLiteral(in.Scalar))
		}
		if !HoldsInteger(x.DType, in.Scalar) {
			return invalidArgument("execute(): input %d (%s) is %s, which does not fit %v", i, name, PythonLiteral(in.Scalar), x.DType)
		}
		in.Scalar = ConvertScalar(x.DType, in.Scalar)
		return nil
	case in.DType != x.DType && !(in.DType == dtype.Int && x.DType == dtype.Index): // the same in memory
		return invalidType("execute(): input %d (%s) has dtype %v, but the definition says %v", i, name, in.DType, x.DType)
	case len(in.Sizes) != len(x.Domain.Logical):
		return invalidArgument("execute(): input %d (%s) has %d dimensions, but the definition says %d", i, name, len(in.Sizes), len(x.Domain.Logical))
	}
	for d, a := range x.Domain.Logical {
		want, ok := f.scalars.ConstInt(f.Size(a))
		if ok && want != in.Sizes[d] {
			return invalidArgument("execute(): input %d (%s) has size %d in dimension %d, but the definition says %d", i, name, in.Sizes[d], d, want)
		}
	}
	return nil
}

func (b *Binding) symbol(s scalar.ID) (scalar.Value, error) {
	tag := b.f.scalars.Tag(s)
	in := &b.inputs[b.place[ValID(tag.Val)]]
	if tag.Dim < 0 {
		return in.Scalar, nil
	}
	return scalar.Value{Type: dtype.Index, I: in.Sizes[tag.Dim]}, nil
}

func (b *Binding) checkExpr(e *Expr) error {
	name := e.Called.Name
	for _, r := range e.Requires {
		v, err := b.Value(r.Cond)
		if err != nil {
			return b.located(e, invalidArgument("%s(): %v", name, err))
		}
		if v.I == 0 {
			return b.located(e, invalidArgument("%s(): %s%s", name, r.Text, b.show(r.Left, r.Right)))
		}
	}
	for k, v := range e.Out {
		sizes, err := b.Shape(v)
		if err != nil {
			return b.located(e, invalidArgument("%s(): %v", name, err))
		}
		if err := checkElements(sizes); err != nil {
			return b.located(e, invalidArgument("%s(): result %d: %v", name, k, err))
		}
	}
	return nil
}

// checkElements rejects sizes that no tensor has.
func checkElements(sizes []int64) error {
	for d, s := range sizes { // all of them: a dimension of size 0 excuses large ones, not negative ones
		if s < 0 {
			return invalidArgument("dimension %d has size %d; a size is not negative", d, s)
		}
	}
	if !slices.Contains(sizes, 0) && !fitsInt64(1, sizes) {
		return invalidArgument("shape %v has more than 2^63-1 elements", sizes)
	}
	return nil
}

// checkBytes rejects outputs of which torch could not count the bytes. A result
// that is not an output may have as many: it need not be in memory.
func (b *Binding) checkBytes() error {
	for k, o := range b.f.outputs {
		x := &b.f.vals[o.Val]
		sizes, err := b.Shape(o.Val)
		if err != nil {
			return err
		}
		stored := make([]int64, 0, len(sizes)) // an expanded dimension takes no memory; to the strides a size of 0 counts as 1
		for d, a := range b.f.Axes(o.Val) {
			if b.f.axes[a].Kind != Broadcast {
				stored = append(stored, max(sizes[d], 1))
			}
		}
		if o.Alias != NoVal || fitsInt64(x.DType.Size(), stored) {
			continue
		}
		if x.Def == NoExpr {
			return invalidArgument("execute(): output %d of shape %v and dtype %v has more than 2^63-1 bytes", k, sizes, x.DType)
		}
		e := &b.f.exprs[x.Def]
		return b.located(e, invalidArgument("%s(): output %d of shape %v and dtype %v has more than 2^63-1 bytes", e.Called.Name, k, sizes, x.DType))
	}
	return nil
}

// fitsInt64 reports whether n times the product of sizes, which are positive,
// is at most 2^63-1.
func fitsInt64(n int, sizes []int64) bool {
	product := uint64(n)
	for _, s := range sizes {
		hi, lo := bits.Mul64(product, uint64(s))
		if hi != 0 || lo > maxExtent {
			return false
		}
		product = lo
	}
	return true
}

// located adds the user's line to a mistake that shows only at run time.
func (b *Binding) located(e *Expr, err error) error {
	if e.Where.File == "" {
		return err
	}
	return invalidArgument("%v (defined at %v)", err, e.Where)
}

func (b *Binding) show(left, right scalar.ID) string {
	text := func(s scalar.ID) string {
		v, err := b.Value(s)
		if err != nil {
			return b.f.extentText(s)
		}
		return PythonLiteral(v)
	}
	switch {
	case left == scalar.None:
		return ""
	case right == scalar.None:
		return ", got " + text(left)
	}
	return ", got " + text(left) + " and " + text(right)
}

func (b *Binding) checkAliases() error {
	for _, o := range b.f.outputs {
		if o.Alias == NoVal {
			continue
		}
		want, err := b.Shape(o.Alias)
		if err != nil {
			return err
		}
		got, err := b.Shape(o.Val)
		if err != nil {
			return err
		}
		for d := range want {
			if want[d] != got[d] {
				return invalidArgument("execute(): output %s has shape %v, but its alias_input %s has shape %v", b.f.Name(o.Val), got, b.f.Name(o.Alias), want)
			}
		}
	}
	return nil
}

// Value returns the value of s. Its error says what is wrong in the user's
// terms, such as a division by zero or a size that does not fit in 64 bits.
func (b *Binding) Value(s scalar.ID) (scalar.Value, error) {
	v, err := b.f.scalars.Eval(s, b.symbol, EvalOpaque, b.memo)
	if err != nil {
		return v, b.f.ScalarError(err)
	}
	return v, nil
}

// ScalarError returns the error of an evaluation of a scalar of f with the
// names that [Fusion.Math] prints.
func (f *Fusion) ScalarError(err error) error {
	var failed *scalar.EvalError
	switch {
	case !errors.As(err, &failed):
		return invalidArgument("%v", err)
	case errors.Is(err, scalar.ErrOverflow):
		return invalidArgument("the size %s does not fit in 64 bits", f.extentText(failed.Expr))
	}
	return invalidArgument("%v in %s", failed.Err, f.extentText(failed.Expr))
}

// Int returns the value of an integer scalar.
func (b *Binding) Int(s scalar.ID) (int64, error) {
	v, err := b.Value(s)
	return v.I, err
}

// Shape returns the sizes of tensor v.
func (b *Binding) Shape(v ValID) ([]int64, error) {
	ids := b.f.Shape(v)
	if at, ok := b.place[v]; ok {
		return b.inputs[at].Sizes, nil
	}
	sizes := make([]int64, len(ids))
	for i, s := range ids {
		n, err := b.Int(s)
		if err != nil {
			return nil, err
		}
		sizes[i] = n
	}
	return sizes, nil
}

package executor

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A ShownCall is an expression of a fusion as torch would compute it.
type ShownCall struct {
	CallSpec
	Operands []ShownOperand `json:"operands"`
	Writes   []string       `json:"writes"` // names of tensors
}

// A ShownOperand is a tensor or a number, as Python.
type ShownOperand struct {
	Tensor string `json:"tensor"`
	Number string `json:"number"`
}

// ShowCalls returns the expressions of f, in order, as torch would compute them for
// inputs. Each gives dense results.
//
// Errors: those of a run; Unsupported if torch does not compute one.
func ShowCalls(f *core.Fusion, inputs []Input) ([]ShownCall, error) {
	b, err := check(f, inputs)
	if err != nil {
		return nil, err
	}
	if f, _, err = f.Concretize(b); err != nil {
		return nil, err
	}
	if b, err = f.Bind(valuesOf(inputs)); err != nil {
		return nil, err
	}
	all := []ShownCall{}
	for _, id := range f.Order() {
		call, err := showCall(f, b, f.Expr(id))
		if err != nil {
			return nil, err
		}
		all = append(all, call)
	}
	return all, nil
}

func showCall(f *core.Fusion, b *core.Binding, e *core.Expr) (ShownCall, error) {
	known := func(s scalar.ID) (scalar.Value, bool) {
		ofInput := false
		f.Scalars().Symbols(s, func(s scalar.ID) { ofInput = ofInput || f.Scalars().Tag(s).Dim < 0 })
		v, err := b.Value(s)
		return v, err == nil && !ofInput
	}
	form, operands, err := callOfExpr(f, e, known)
	if err != nil {
		return ShownCall{}, err
	}
	shown := ShownCall{CallSpec: form.spec(len(operands)), Operands: []ShownOperand{}}
	for _, o := range operands {
		if o.tensor != core.NoVal {
			shown.Operands = append(shown.Operands, ShownOperand{Tensor: f.Name(o.tensor)})
			continue
		}
		v, err := b.Value(o.number)
		if err != nil {
			return shown, err
		}
		shown.Operands = append(shown.Operands, ShownOperand{Number: core.PythonLiteral(core.ConvertScalar(o.dtype, v))})
	}
	for _, v := range e.Out {
		sizes, err := b.Shape(v)
		if err != nil {
			return shown, err
		}
		shown.Writes = append(shown.Writes, f.Name(v))
		shown.Results = append(shown.Results, ResultSpec{DType: f.Val(v).DType.Torch(), Sizes: slices.Clone(sizes), Strides: denseStrides(f, v, sizes, nil), Kept: true})
	}
	return shown, nil
}

package executor

import (
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A callOperand is an argument of a call: a tensor of f, or a number.
type callOperand struct {
	tensor core.ValID // NoVal: a number
	number scalar.ID
	dtype  dtype.Type // of the number
}

// callOf returns the call that the one expression of f is, without Results, and its
// arguments in order. known returns the value of a scalar that is the same in all
// calls.
func callOf(f *core.Fusion, known func(s scalar.ID) (scalar.Value, bool)) (CallSpec, []callOperand, error) {
	e := f.Expr(f.Order()[0])
	var all []callOperand
	for _, v := range f.TensorArgs(e) {
		all = append(all, callOperand{tensor: v})
	}
	return CallSpec{Called: e.Called.Name}, all, nil
}

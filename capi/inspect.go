package main

/*
#include "export_types.h"
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/executor"
)

// checkID reports ids that the fusion does not have.
func checkID(id C.uint32_t, n int, what string) error {
	if int(id) >= n {
		return core.InvalidArgumentf("the fusion has no %s %d: it has %d", what, uint32(id), n)
	}
	return nil
}

//export nvfi_list
func nvfi_list(h C.nvf_fusion, what C.int32_t, id C.uint32_t, items **C.nvf_value, count *C.int64_t, e *C.nvf_error) C.int {
	return on(h, e, named("list"), func(d *definition) error {
		list, err := d.list(h, what, id)
		if err != nil {
			return err
		}
		*count = C.int64_t(len(list))
		*items = (*C.nvf_value)(C.calloc(C.size_t(len(list)+1), C.sizeof_nvf_value))
		copy(unsafe.Slice(*items, len(list)), list)
		return nil
	})
}

func (d *definition) list(h C.nvf_fusion, what C.int32_t, id C.uint32_t) ([]C.nvf_value, error) {
	f := d.view()
	switch what {
	case C.NVFI_INPUTS:
		return d.values(h, f.Inputs()), nil
	case C.NVFI_OUTPUTS:
		var list []C.nvf_value
		for _, o := range f.Outputs() {
			alias := C.nvf_value{kind: C.NVF_KIND_NONE}
			if o.Alias != core.NoVal {
				alias = d.value(h, o.Alias)
			}
			list = append(list, d.value(h, o.Val), alias)
		}
		return list, nil
	case C.NVFI_VALS:
		list := make([]C.nvf_value, f.NumVals())
		for i := range list {
			list[i] = d.value(h, core.ValID(i))
		}
		return list, nil
	case C.NVFI_EXPRS:
		return numbers(f.Order()), nil
	case C.NVFI_EXPR_INPUTS, C.NVFI_EXPR_OUTPUTS:
		if err := checkID(id, f.NumExprs(), "expression"); err != nil {
			return nil, err
		}
		if what == C.NVFI_EXPR_OUTPUTS {
			return d.values(h, f.Expr(core.ExprID(id)).Out), nil
		}
		return d.values(h, d.operands(core.ExprID(id))), nil
	case C.NVFI_AXIS_EXTENT:
		if err := checkID(id, f.NumAxes(), "axis"); err != nil {
			return nil, err
		}
		return d.values(h, []core.ValID{f.ScalarVal(f.Size(core.AxisID(id)))}), nil
	}
	if what >= C.NVFI_AXIS_DEF && what <= C.NVFI_AXIS_FACTOR {
		return d.axisDefinition(h, what, id)
	}
	if err := checkID(id, f.NumVals(), "value"); err != nil {
		return nil, err
	}
	v := f.Val(core.ValID(id))
	switch what {
	case C.NVFI_VAL_DEF:
		if v.Def == core.NoExpr {
			return nil, nil
		}
		return numbers([]core.ExprID{v.Def}), nil
	case C.NVFI_VAL_USES:
		return numbers(d.uses(core.ValID(id))), nil
	case C.NVFI_VAL_ROOT:
		return numbers(v.Domain.Root), nil
	case C.NVFI_VAL_LOOP:
		if v.Domain.Loop != nil {
			return numbers(v.Domain.Loop), nil
		}
	}
	return numbers(v.Domain.Logical), nil
}

// axisDefinition lists what makes an axis, if something does.
func (d *definition) axisDefinition(h C.nvf_fusion, what C.int32_t, id C.uint32_t) ([]C.nvf_value, error) {
	f := d.view()
	if err := checkID(id, f.NumAxes(), "axis"); err != nil {
		return nil, err
	}
	def := f.Axis(core.AxisID(id)).Def
	if def == core.NoTransform {
		return nil, nil
	}
	t := f.Transform(def)
	isAxis := func(a core.AxisID) bool { return a != core.NoAxis }
	switch what {
	case C.NVFI_AXIS_SOURCES:
		return numbers(only(t.In[:], isAxis)), nil
	case C.NVFI_AXIS_RESULTS:
		return numbers(only(t.Out[:], isAxis)), nil
	case C.NVFI_AXIS_FACTOR:
		if t.Kind != core.Split {
			return nil, nil
		}
		return d.values(h, []core.ValID{f.ScalarVal(t.Factor)}), nil
	}
	inner := uint32(0)
	if t.Inner {
		inner = 1
	}
	return numbers([]uint32{uint32(t.Kind), inner}), nil
}

func only[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !keep(x) })
}

func (d *definition) values(h C.nvf_fusion, ids []core.ValID) []C.nvf_value {
	list := make([]C.nvf_value, len(ids))
	for i, v := range ids {
		list[i] = d.value(h, v)
	}
	return list
}

func numbers[T ~uint32](ids []T) []C.nvf_value {
	list := make([]C.nvf_value, len(ids))
	for i, id := range ids {
		list[i] = C.nvf_value{kind: C.NVF_KIND_INT, integer: C.int64_t(id)}
	}
	return list
}

// operands are the tensors and scalars that an expression reads, in order. A
// scalar value is a name for a part of the fusion that is there already, so
// making one changes nothing, also after Freeze.
func (d *definition) operands(id core.ExprID) []core.ValID {
	f, in := d.view(), []core.ValID(nil)
	scalars := func(ids ...scalar.ID) {
		for _, s := range ids {
			in = append(in, f.ScalarVal(s))
		}
	}
	for _, a := range f.Expr(id).Args {
		switch a.Kind {
		case core.TensorArg:
			in = append(in, a.Tensor)
		case core.TensorsArg:
			in = append(in, a.Tensors...)
		case core.ScalarArg:
			scalars(a.Scalar)
		case core.ScalarsArg:
			scalars(a.Scalars...)
		}
	}
	return in
}

func (d *definition) uses(v core.ValID) []core.ExprID {
	f, uses := d.view(), []core.ExprID(nil)
	isScalar := !f.Val(v).Tensor
	for i := range f.NumExprs() {
		id := core.ExprID(i)
		in := f.TensorArgs(f.Expr(id))
		if isScalar {
			in = d.operands(id)
		}
		for _, x := range in {
			if x == v {
				uses = append(uses, id)
				break
			}
		}
	}
	return uses
}

//export nvfi_fact
func nvfi_fact(h C.nvf_fusion, what C.int32_t, id C.uint32_t, out *C.int64_t, e *C.nvf_error) C.int {
	return on(h, e, named("fact"), func(d *definition) error {
		n, err := d.fact(what, id)
		if err == nil {
			*out = C.int64_t(n)
		}
		return err
	})
}

func (d *definition) fact(what C.int32_t, id C.uint32_t) (int64, error) {
	f := d.view()
	truth := func(b bool) (int64, error) {
		if b {
			return 1, nil
		}
		return 0, nil
	}
	switch what {
	case C.NVFI_FROZEN:
		return truth(d.fusion.Frozen())
	case C.NVFI_NUM_EXPRS:
		return int64(f.NumExprs()), nil
	case C.NVFI_IS_REDUCTION:
		if err := checkID(id, f.NumAxes(), "axis"); err != nil {
			return 0, err
		}
		return truth(f.Axis(core.AxisID(id)).Kind == core.Reduce)
	}
	if err := checkID(id, f.NumVals(), "value"); err != nil {
		return 0, err
	}
	v := f.Val(core.ValID(id))
	switch what {
	case C.NVFI_RANK:
		return int64(f.Rank(core.ValID(id))), nil
	case C.NVFI_DTYPE:
		return int64(v.DType), nil
	case C.NVFI_HAS_ROOT:
		return truth(v.Tensor && len(v.Domain.Root) > 0 && &v.Domain.Root[0] != &v.Domain.Logical[0])
	}
	constant, isConstant := scalar.Value{}, false
	if !v.Tensor {
		constant, isConstant = f.Scalars().ConstValue(v.Scalar)
	}
	if what == C.NVFI_IS_SYMBOLIC {
		return truth(!isConstant)
	}
	if !isConstant {
		return -1, nil
	}
	return truth(constant.I != 0 || constant.Re != 0 || constant.Im != 0)
}

//export nvfi_text
func nvfi_text(h C.nvf_fusion, what C.int32_t, id C.uint32_t, name C.const_text, out **C.char, e *C.nvf_error) C.int {
	return on(h, e, named("print"), func(d *definition) error {
		text, err := d.text(what, id, C.GoString(name))
		if err == nil {
			*out = cText(text)
		}
		return err
	})
}

func (d *definition) text(what C.int32_t, id C.uint32_t, name string) (string, error) {
	switch what {
	case C.NVFI_PYTHON:
		return d.fusion.Python(name), nil
	case C.NVFI_MATH:
		return d.fusion.Math(id == 1), nil
	case C.NVFI_REPRODUCER:
		if d.sched == nil {
			return "", nil
		}
		script, err := d.sched.Reproducer(d.fusion)
		return script.String(), err
	}
	f := d.view()
	switch what {
	case C.NVFI_VAL, C.NVFI_DOMAIN:
		if err := checkID(id, f.NumVals(), "value"); err != nil {
			return "", err
		}
		if what == C.NVFI_DOMAIN && d.sched != nil {
			return d.sched.LoopText(core.ValID(id)), nil
		}
		if what == C.NVFI_DOMAIN {
			return f.AxesString(f.Val(core.ValID(id)).Domain.Logical), nil
		}
		return f.ValString(core.ValID(id)), nil
	case C.NVFI_EXPR, C.NVFI_EXPR_NAME:
		if err := checkID(id, f.NumExprs(), "expression"); err != nil {
			return "", err
		}
		if what == C.NVFI_EXPR_NAME {
			return f.Expr(core.ExprID(id)).Op.Name, nil
		}
		return f.ExprString(core.ExprID(id)), nil
	case C.NVFI_AXIS:
		if err := checkID(id, f.NumAxes(), "axis"); err != nil {
			return "", err
		}
		if d.sched != nil {
			return d.sched.AxisText(core.AxisID(id)), nil
		}
		return f.AxisString(core.AxisID(id)), nil
	case C.NVFI_STAGE:
		return executor.InspectDefinition(d.fusion).Show(name)
	case C.NVFI_KERNEL:
		return d.kernel(dtype.Type(id))
	}
	return f.String(), nil
}

// kernel returns the text of the kernel by the schedule of d, or without one.
func (d *definition) kernel(index dtype.Type) (string, error) {
	switch index {
	case dtype.Null, dtype.Int, dtype.Int32:
	default:
		return "", core.InvalidArgumentf("print_kernel(): index_type is %v; indices are Int or Int32", index)
	}
	s := d.sched
	if s == nil {
		f := d.fusion.Clone()
		f.Freeze()
		s = schedule.New(f)
	}
	return executor.InspectSchedule(s, lower.Options{Index: index}).Show("cuda_kernel")
}

// stagesText lives in C memory for the life of the process.
var stagesText = sync.OnceValue(func() C.const_text {
	var b strings.Builder
	for _, s := range executor.Stages() {
		ofDefinition := 0
		if s.OfDefinition() {
			ofDefinition = 1
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%d\n", s.Name, s.Does, s.Arguments(), ofDefinition)
	}
	return C.const_text(C.CString(b.String()))
})

//export nvfi_stages
func nvfi_stages() C.const_text { return stagesText() }

//export nvfi_show
func nvfi_show(h C.nvf_executor, inputs C.const_inputs, n C.int32_t, request C.const_text, text **C.char, e *C.nvf_error) C.int {
	return inspected(h, inputs, n, e, func(x *executor.Inspection) error {
		words := strings.Split(C.GoString(request), "\n")
		shown, err := x.Show(words[0], words[1:]...)
		if err == nil {
			*text = cText(shown)
		}
		return err
	})
}

//export nvfi_explain
func nvfi_explain(h C.nvf_executor, inputs C.const_inputs, n C.int32_t, measures C.int32_t, stream C.uint64_t, text **C.char, e *C.nvf_error) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err != nil {
		return report(e, err)
	}
	return guard(e, func() string { return "explain\n\n" + x.Text() }, func() error {
		given, err := readInputs(inputs, n)
		if err != nil {
			return err
		}
		defer given.done()
		var after *uintptr
		if at := uintptr(stream); measures != 0 {
			after = &at
		}
		explained, err := x.Explain(given.inputs, x.options(setting{device: C.NVF_ANY_DEVICE, views: true}), after)
		if err != nil {
			return err
		}
		data, err := json.Marshal(struct {
			executor.Explanation
			Text string `json:"text"`
		}{explained, explained.String()})
		if err == nil {
			*text = cText(string(data))
		}
		return err
	})
}

//export nvfi_first_shown
func nvfi_first_shown(h C.nvf_executor, inputs C.const_inputs, n C.int32_t, first *C.int32_t, e *C.nvf_error) C.int {
	return inspected(h, inputs, n, e, func(x *executor.Inspection) error {
		*first = 0
		if x.FirstShown() {
			*first = 1
		}
		return nil
	})
}

//export nvfi_is_compiled
func nvfi_is_compiled(h C.nvf_executor, inputs C.const_inputs, n C.int32_t, is *C.int32_t, e *C.nvf_error) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err != nil {
		return report(e, err)
	}
	return guard(e, func() string { return "is_compiled\n\n" + x.Text() }, func() error {
		given, err := readInputs(inputs, n)
		if err != nil {
			return err
		}
		defer given.done()
		*is = 0
		compiled, err := x.IsCompiled(given.inputs, x.options(setting{device: C.NVF_ANY_DEVICE, views: true}))
		if compiled {
			*is = 1
		}
		return err
	})
}

// inspected runs body on what there is to see for inputs, or if n is negative for those of
// the plan that was prepared last.
func inspected(h C.nvf_executor, inputs C.const_inputs, n C.int32_t, e *C.nvf_error, body func(*executor.Inspection) error) C.int {
	x, err := get[execution](handle(h), "an executor")
	if err != nil {
		return report(e, err)
	}
	return guard(e, func() string { return "inspect\n\n" + x.Text() }, func() error {
		if n < 0 {
			if p := x.last.Load(); p != nil {
				return body(p.Inspection())
			}
			return core.InvalidArgumentf("the fusion has not been executed: there are no inputs to show it for")
		}
		given, err := readInputs(inputs, n)
		if err != nil {
			return err
		}
		defer given.done()
		of, err := x.inspect(given.inputs)
		if err != nil {
			return err
		}
		return body(of)
	})
}

//export nvfi_freeze
func nvfi_freeze(h C.nvf_fusion, e *C.nvf_error) C.int {
	return on(h, e, named("freeze"), func(d *definition) error {
		d.fusion.Freeze()
		return nil
	})
}

//export nvfi_verify
func nvfi_verify(h C.nvf_fusion, e *C.nvf_error) C.int {
	return on(h, e, named("verify"), func(d *definition) error { return d.fusion.Verify() })
}

//export nvfi_index_checks
func nvfi_index_checks(h C.nvf_fusion, out *C.nvf_fusion, text **C.char, e *C.nvf_error) C.int {
	return on(h, e, named("index_checks"), func(d *definition) error {
		checked, checks, err := d.fusion.WithIndexChecks()
		if err != nil {
			return err
		}
		var b strings.Builder
		for _, c := range checks {
			unsigned := 0
			if c.Unsigned {
				unsigned = 1
			}
			fmt.Fprintf(&b, "%s\t%s\t%s\t%d\t%s\t%d\t%v\n", c.Op.Name, c.Param, c.Tensor, unsigned, c.Of, c.Dim, c.Where)
		}
		*out, *text = C.nvf_fusion(handles.put(&definition{fusion: checked})), cText(b.String())
		return nil
	})
}

//export nvfi_provoke
func nvfi_provoke(h C.nvf_fusion, e *C.nvf_error) C.int {
	return on(h, e, named("provoke"), func(*definition) error { panic("provoked") })
}

package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A definition is a fusion that C holds. Executors work on copies, so its lock
// orders whatever happens to it.
type definition struct {
	mu      sync.Mutex
	fusion  *core.Fusion
	sched   *schedule.Scheduled // nil before the first call of a primitive
	file    string              // of the last location, kept to share its memory
	damaged error               // set by a panic while the fusion was being changed
}

// view returns the tables that handles are of: those of the schedule, once there
// is one, in which ids of the fusion keep their meaning.
func (d *definition) view() *core.Fusion {
	if d.sched != nil {
		return d.sched.Fusion()
	}
	return d.fusion
}

// The numbers of nvfuser_go.h are those of package dtype.
var _ = [1]struct{}{}[C.NVF_BOOL-dtype.Bool|C.NVF_INT-dtype.Int|C.NVF_INDEX-dtype.Index|C.NVF_FLOAT-dtype.Float|
	C.NVF_FLOAT8_E4M3FN-dtype.Float8E4M3FN|C.NVF_FLOAT4_E2M1FN_X2-dtype.Float4E2M1FNx2|C.NVF_COMPLEX_DOUBLE-dtype.ComplexDouble]

// on runs body on the fusion of h, alone. call says what is being done, for a
// reproducer; a panic leaves the fusion unusable.
func on(h C.nvf_fusion, e *C.nvf_error, call func() string, body func(d *definition) error) (status C.int) {
	d, err := get[definition](handle(h), "a fusion")
	if err != nil {
		return report(e, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.damaged != nil {
		return report(e, d.damaged)
	}
	defer func() {
		if r := recover(); r != nil {
			d.damaged = caught(r, func() string {
				return safely(call) + "\n\n" + safely(d.fusion.String) + "\n" + safely(func() string { return d.fusion.Python("nvfuser_fusion") }) +
					safely(d.script)
			})
			status = report(e, d.damaged)
		}
	}()
	return report(e, body(d))
}

// guard runs body, which is not about one fusion.
func guard(e *C.nvf_error, call func() string, body func() error) (status C.int) {
	defer func() {
		if r := recover(); r != nil {
			status = report(e, caught(r, call))
		}
	}()
	return report(e, body())
}

func named(call string) func() string { return func() string { return call } }

//export nvf_fusion_create
func nvf_fusion_create(out *C.nvf_fusion, e *C.nvf_error) C.int {
	return guard(e, named("create"), func() error {
		*out = C.nvf_fusion(handles.put(&definition{fusion: core.NewFusion()}))
		return nil
	})
}

//export nvf_fusion_parse
func nvf_fusion_parse(text C.const_text, length C.int64_t, out *C.nvf_fusion, e *C.nvf_error) C.int {
	if length < 0 {
		return report(e, core.InvalidArgumentf("parse(): length is %d, which is negative", int64(length)))
	}
	if text == nil && length > 0 {
		return report(e, core.InvalidArgumentf("parse(): text is NULL and length is %d", int64(length)))
	}
	source := string(unsafe.Slice((*byte)(unsafe.Pointer(text)), int(length)))
	return guard(e, named("parse\n\n"+source), func() error {
		f, err := core.Parse(source)
		if err == nil {
			*out = C.nvf_fusion(handles.put(&definition{fusion: f}))
		}
		return err
	})
}

//export nvf_fusion_destroy
func nvf_fusion_destroy(h C.nvf_fusion) { take[definition](handle(h)) }

//export nvf_fusion_text
func nvf_fusion_text(h C.nvf_fusion, out **C.char, e *C.nvf_error) C.int {
	return on(h, e, named("text"), func(d *definition) error {
		*out = cText(d.fusion.String())
		return nil
	})
}

//export nvf_define_tensor
func nvf_define_tensor(h C.nvf_fusion, t C.const_tensor, out *C.nvf_value, e *C.nvf_error) C.int {
	describe := func() string { return fmt.Sprintf("define_tensor %+v", *t) }
	return on(h, e, describe, func(d *definition) error {
		if t.rank < 0 || t.rank > core.MaxRank {
			return core.InvalidArgumentf("define_tensor(): shape has %d dimensions; at most %d are supported", t.rank, core.MaxRank)
		}
		n := int(t.rank)
		kind, err := dtypeOf(int64(t.dtype), "define_tensor(): dtype is")
		if err != nil {
			return err
		}
		description := core.TensorDescription{DType: kind, CPU: t.is_cpu != 0}
		description.Shape = append(description.Shape, unsafe.Slice((*int64)(unsafe.Pointer(t.shape)), n)...)
		for _, c := range unsafe.Slice((*int8)(unsafe.Pointer(t.contiguity)), n) {
			description.Contiguity = append(description.Contiguity, [...]core.Tri{core.NotApplicable, core.No, core.Yes}[min(max(c, -1), 1)+1])
		}
		if t.stride_order != nil {
			description.StrideOrder = append([]int64{}, unsafe.Slice((*int64)(unsafe.Pointer(t.stride_order)), n)...)
		}
		if d.sched != nil {
			return scheduledAlready("define_tensor")
		}
		v, err := d.fusion.DefineTensor(description)
		if err == nil {
			*out = d.value(h, v)
		}
		return err
	})
}

//export nvf_define_scalar
func nvf_define_scalar(h C.nvf_fusion, t C.int32_t, out *C.nvf_value, e *C.nvf_error) C.int {
	return on(h, e, named("define_scalar"), func(d *definition) error {
		kind, err := dtypeOf(int64(t), "define_scalar(): dtype is")
		if err != nil {
			return err
		}
		if d.sched != nil {
			return scheduledAlready("define_scalar")
		}
		v, err := d.fusion.DefineScalar(kind)
		if err == nil {
			*out = d.value(h, v)
		}
		return err
	})
}

//export nvf_define_constant
func nvf_define_constant(h C.nvf_fusion, number C.const_values, t C.int32_t, out *C.nvf_value, e *C.nvf_error) C.int {
	return on(h, e, named("define_constant"), func(d *definition) error {
		given, err := d.argument(h, number, "define_scalar", "value")
		if err != nil {
			return err
		}
		if given.Kind != core.GivenNumber {
			return core.InvalidTypef("define_scalar(): value must be a bool, an int, a float or a complex, got %s", describeGiven(given))
		}
		value := given.Num
		to, err := dtypeOf(int64(t), "define_scalar(): dtype is")
		if err == nil && to != dtype.Null {
			value, err = constantOf(to, value)
		}
		if err != nil {
			return err
		}
		*out = d.value(h, d.view().Constant(value))
		return nil
	})
}

// constantOf is value as a constant of type t: one that t can hold up to
// rounding.
func constantOf(t dtype.Type, value scalar.Value) (scalar.Value, error) {
	if t.Size() == 0 || t == dtype.Float4E2M1FNx2 {
		return value, core.InvalidTypef("define_scalar(): dtype is %v; a scalar has one of the whole-byte types", t)
	}
	switch {
	case value.Type.IsComplex() && !t.IsComplex(), value.Type.IsFloat() && (t.IsInt() || t.IsBool()):
		return value, core.InvalidTypef("define_scalar(): value is %s, which is not of type %v", core.PythonLiteral(value), t)
	case !core.HoldsInteger(t, value):
		return value, core.InvalidArgumentf("define_scalar(): value is %s, which does not fit %v", core.PythonLiteral(value), t)
	}
	return core.ConvertScalar(t, value), nil
}

//export nvf_add_output
func nvf_add_output(h C.nvf_fusion, tensor, alias C.const_values, e *C.nvf_error) C.int {
	return on(h, e, named("add_output"), func(d *definition) error {
		v, err := d.val(h, tensor, "output")
		if err != nil {
			return err
		}
		into := core.NoVal
		if alias != nil {
			if into, err = d.val(h, alias, "alias_input"); err != nil {
				return err
			}
		}
		if d.sched != nil {
			return scheduledAlready("add_output")
		}
		return d.fusion.AddOutput(v, into)
	})
}

// val returns a value that is an argument of add_output.
func (d *definition) val(h C.nvf_fusion, v C.const_values, name string) (core.ValID, error) {
	given, err := d.argument(h, v, "add_output", name)
	if err == nil && given.Kind != core.GivenVal {
		err = core.InvalidTypef("add_output(): %s must be a tensor, got %s", name, describeGiven(given))
	}
	return given.Val, err
}

package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func unsafePointer[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

// dtypeOf returns the type numbered n. what begins the text of the error if there
// is none.
func dtypeOf(n int64, what string) (dtype.Type, error) {
	if !isDType(n) {
		return dtype.Null, core.InvalidTypef("%s %d, which is not the number of a dtype", what, n)
	}
	return dtype.Type(n), nil
}

func isDType(n int64) bool { return n >= 0 && n <= 255 && dtype.Type(n).Valid() }

// value is v as C sees it.
func (d *definition) value(h C.nvf_fusion, v core.ValID) C.nvf_value {
	kind := C.int32_t(C.NVF_KIND_SCALAR)
	if d.view().Val(v).Tensor {
		kind = C.NVF_KIND_TENSOR
	}
	return C.nvf_value{kind: kind, id: C.uint32_t(v), fusion: h}
}

// given is v as package core takes it. Values of another fusion are refused. The
// text of an error goes on from the name of the argument: argument adds that.
func (d *definition) given(h C.nvf_fusion, v C.const_values) (core.Given, error) {
	if x, ok := numberOf(v.kind, v.integer, v.real, v.imag); ok {
		return core.Given{Kind: core.GivenNumber, Num: x}, nil
	}
	switch v.kind {
	case C.NVF_KIND_NONE:
		return core.Given{}, nil
	case C.NVF_KIND_TENSOR, C.NVF_KIND_SCALAR:
		if d == nil || v.fusion != h {
			return core.Given{}, core.InvalidArgumentf(" belongs to another fusion: a value is used only in the fusion that it was defined in")
		}
		if n := d.view().NumVals(); int(v.id) >= n {
			return core.Given{}, core.InvalidArgumentf(" is value %d, and the fusion has %d values", uint32(v.id), n)
		}
		return core.Given{Kind: core.GivenVal, Val: core.ValID(v.id)}, nil
	case C.NVF_KIND_AXIS:
		if d == nil || v.fusion != h {
			return core.Given{}, core.InvalidArgumentf(" is an axis of another fusion")
		}
		if n := d.view().NumAxes(); int(v.id) >= n {
			return core.Given{}, core.InvalidArgumentf(" is axis %d, and the fusion has %d axes", uint32(v.id), n)
		}
		return core.Given{Kind: core.GivenAxis, Axis: core.AxisID(v.id)}, nil
	case C.NVF_KIND_NAME:
		return core.Given{Kind: core.GivenName, Name: C.GoString(v.text)}, nil
	case C.NVF_KIND_DTYPE:
		t, err := dtypeOf(int64(v.integer), " is a dtype of number")
		return core.Given{Kind: core.GivenDType, Num: scalar.Value{I: int64(t)}}, err
	case C.NVF_KIND_LIST:
		if v.integer < 0 || v.integer > C.NVF_MAX_ITEMS {
			return core.Given{}, core.InvalidArgumentf(" is a list of %d items; it must have from 0 to %d", int64(v.integer), C.NVF_MAX_ITEMS)
		}
		list := make([]core.Given, int(v.integer))
		for i := range list {
			var err error
			if list[i], err = d.given(h, at(v.items, i)); err != nil {
				return core.Given{}, fmt.Errorf("[%d]%w", i, err)
			}
		}
		return core.Given{Kind: core.GivenList, List: list}, nil
	}
	return core.Given{Kind: core.GivenOther, Name: C.GoString(v.text)}, nil
}

// numberOf is the number that the fields of an nvf_value are, if its kind is that of
// one.
func numberOf(kind C.int32_t, integer C.int64_t, real, imag C.double) (scalar.Value, bool) {
	switch kind {
	case C.NVF_KIND_BOOL:
		x := scalar.Value{Type: dtype.Bool}
		if integer != 0 {
			x.I = 1
		}
		return x, true
	case C.NVF_KIND_INT:
		return scalar.Value{Type: dtype.Int, I: int64(integer)}, true
	case C.NVF_KIND_UINT:
		return scalar.Value{Type: dtype.UInt64, I: int64(integer)}, true
	case C.NVF_KIND_FLOAT:
		return scalar.Value{Type: dtype.Double, Re: float64(real)}, true
	case C.NVF_KIND_COMPLEX:
		return scalar.Value{Type: dtype.ComplexDouble, Re: float64(real), Im: float64(imag)}, true
	}
	return scalar.Value{}, false
}

// numberAs is an input of the number x, which numberOf has given.
func numberAs(x scalar.Value) C.nvf_input {
	kinds := map[dtype.Type]C.int32_t{dtype.Bool: C.NVF_KIND_BOOL, dtype.Int: C.NVF_KIND_INT, dtype.UInt64: C.NVF_KIND_UINT, dtype.Double: C.NVF_KIND_FLOAT,
		dtype.ComplexDouble: C.NVF_KIND_COMPLEX}
	return C.nvf_input{kind: kinds[x.Type], integer: C.int64_t(x.I), real: C.double(x.Re), imag: C.double(x.Im)}
}

// argument is given for the argument called name of the function called call.
func (d *definition) argument(h C.nvf_fusion, v C.const_values, call, name string) (core.Given, error) {
	g, err := d.given(h, v)
	if err != nil {
		err = fmt.Errorf("%s(): %s%w", call, name, err)
	}
	return g, err
}

func at(items C.const_values, i int) C.const_values {
	return C.const_values(unsafe.Add(unsafe.Pointer(items), i*C.sizeof_nvf_value))
}

// describeGiven names an argument that is not a value of a fusion.
func describeGiven(g core.Given) string {
	switch g.Kind {
	case core.GivenNone:
		return "None"
	case core.GivenNumber:
		return core.PythonLiteral(g.Num)
	case core.GivenList:
		return fmt.Sprintf("a list of %d", len(g.List))
	case core.GivenDType:
		return "DataType." + dtype.Type(g.Num.I).String()
	}
	return g.Name
}

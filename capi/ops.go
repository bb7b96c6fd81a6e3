package main

/*
#include "export_types.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

//export nvf_op
func nvf_op(name C.const_text) C.int32_t {
	if row := core.Lookup(C.GoString(name)); row != nil {
		return C.int32_t(row.Op())
	}
	return -1
}

func rowOf(op C.int32_t) (*core.OpInfo, error) {
	if op < 0 || int(op) >= len(core.Ops()) {
		return nil, core.InvalidArgumentf("there is no operation %d", int32(op))
	}
	return core.Ops()[op], nil
}

//export nvf_call
func nvf_call(h C.nvf_fusion, op C.int32_t, args C.const_values, positional C.int32_t, keywords C.const_texts, numKeywords C.int32_t,
	location C.const_location, results *C.nvf_value, numResults *C.int32_t, e *C.nvf_error) C.int {
	row, err := rowOf(op)
	if err == nil && (positional < 0 || numKeywords < 0) {
		err = core.InvalidArgumentf("%s(): a negative number of arguments", row.Name)
	}
	if err != nil {
		return report(e, err)
	}
	var given []core.Given
	describe := func() string { return fmt.Sprintf("%s %+v %d", row.Name, given, int(numKeywords)) }
	return on(h, e, describe, func(d *definition) error {
		total := int(positional) + int(numKeywords)
		given = make([]core.Given, total)
		for i := range given {
			if given[i], err = d.given(h, at(args, i)); err != nil {
				return fmt.Errorf("%s(): %s%w", row.Name, parameter(row, i, int(positional), keywords), err)
			}
		}
		var named []core.Keyword
		if numKeywords > 0 {
			named = make([]core.Keyword, int(numKeywords))
			for i := range named {
				named[i] = core.Keyword{Name: keyword(keywords, i), Given: given[int(positional)+i]}
			}
		}
		if d.sched != nil && row.Class != core.Query {
			return scheduledAlready(row.Name)
		}
		d.locate(location)
		out, err := d.view().Call(row, given[:positional], named)
		if err != nil {
			return err
		}
		return d.give(h, out, results, numResults)
	})
}

func keyword(keywords C.const_texts, i int) string {
	return C.GoString(*(**C.char)(unsafe.Add(unsafe.Pointer(keywords), i*int(unsafe.Sizeof(uintptr(0))))))
}

// parameter names argument i of a call for an error text.
func parameter(row *core.OpInfo, i, positional int, keywords C.const_texts) string {
	switch params := row.Params(); {
	case i >= positional:
		return keyword(keywords, i-positional)
	case i < len(params):
		return params[i].Name
	}
	return fmt.Sprintf("argument %d", i+1)
}

func (d *definition) give(h C.nvf_fusion, out []core.ValID, results *C.nvf_value, numResults *C.int32_t) error {
	if len(out) > C.NVF_MAX_RESULTS {
		panic(fmt.Sprintf("an operation with %d results", len(out)))
	}
	for i, v := range out {
		*(*C.nvf_value)(unsafe.Add(unsafe.Pointer(results), i*C.sizeof_nvf_value)) = d.value(h, v)
	}
	*numResults = C.int32_t(len(out))
	return nil
}

// locate tells the fusion where the user's program is. Most calls of a fusion
// come from one file, whose name is copied once.
func (d *definition) locate(l C.const_location) {
	if l == nil || l.file == nil {
		d.fusion.SetLocation(core.Location{})
		return
	}
	if name := unsafe.String((*byte)(unsafe.Pointer(l.file)), int(C.strlen(l.file))); d.file != name {
		d.file = strings.Clone(name)
	}
	d.fusion.SetLocation(core.Location{File: d.file, Line: int(l.line)})
}

//export nvfi_floor_divide
func nvfi_floor_divide(h C.nvf_fusion, operands C.const_values, location C.const_location, result *C.nvf_value, e *C.nvf_error) C.int {
	return on(h, e, named("floor_divide"), func(d *definition) error {
		x, err := d.argument(h, operands, "floor_divide", "x")
		if err != nil {
			return err
		}
		y, err := d.argument(h, at(operands, 1), "floor_divide", "y")
		if err != nil {
			return err
		}
		if d.sched != nil {
			return scheduledAlready("floor_divide")
		}
		d.locate(location)
		v, err := d.floorDivide(x, y)
		if err != nil {
			return core.CalledAs("floor_divide", err)
		}
		*result = d.value(h, v)
		return nil
	})
}

// floorDivide is x // y as Python has it: the quotient rounded down. The row
// div rounds integers towards zero, which is the same where neither operand can
// be negative.
func (d *definition) floorDivide(x, y core.Given) (core.ValID, error) {
	call := func(op string, operands ...core.Given) (core.Given, error) {
		out, err := d.fusion.Call(core.Lookup(op), operands, nil)
		if err != nil {
			return core.Given{}, err
		}
		return core.Given{Kind: core.GivenVal, Val: out[0]}, nil
	}
	class := max(d.classOf(x), d.classOf(y))
	switch {
	case class >= dtype.ClassFloat:
		q, err := call("truediv", x, y)
		if err == nil {
			q, err = call("floor", q)
		}
		return q.Val, err
	case d.notNegative(x) && d.notNegative(y):
		q, err := call("div", x, y)
		return q.Val, err
	}
	r, err := call("remainder", x, y) // has the sign of y
	if err == nil {
		r, err = call("sub", x, r)
	}
	if err == nil {
		r, err = call("div", r, y)
	}
	return r.Val, err
}

func (d *definition) classOf(g core.Given) dtype.Class {
	if g.Kind == core.GivenVal {
		return d.fusion.Val(g.Val).DType.Class()
	}
	return g.Num.Type.Class()
}

func (d *definition) notNegative(g core.Given) bool {
	if g.Kind == core.GivenNumber {
		return g.Num.Type == dtype.UInt64 || g.Num.I >= 0
	}
	v := d.fusion.Val(g.Val)
	return !v.Tensor && (v.DType == dtype.UInt64 || d.fusion.Scalars().Facts(v.Scalar).Lo >= 0)
}

//export nvfi_returns_list
func nvfi_returns_list(op C.int32_t) C.int {
	row, err := rowOf(op)
	if err == nil && row.Class == core.Query && row.Name == "shape" {
		return 1
	}
	return 0
}

// rows are the descriptions for Python, in C memory for the life of the process.
var rows = sync.OnceValue(func() *C.nvfi_op {
	n := len(core.Ops())
	first := (*C.nvfi_op)(C.calloc(C.size_t(n), C.sizeof_nvfi_op))
	for i, row := range core.Ops() {
		unsafe.Slice(first, n)[i] = C.nvfi_op{name: cText(row.Name), doc: cText(docstring(row))}
	}
	return first
})

//export nvfi_ops
func nvfi_ops(count *C.int32_t) C.const_ops {
	*count = C.int32_t(len(core.Ops()))
	return C.const_ops(rows())
}

// docstring is the docstring of an op: the signature that inspect reads, where
// there is one and Python can evaluate its defaults, then one line for each
// overload, then the row's text.
func docstring(row *core.OpInfo) string {
	var b strings.Builder
	if len(row.Signatures) == 1 {
		if s := row.Signatures[0].String(); !strings.Contains(s, "DataType") {
			fmt.Fprintf(&b, "%s%s\n--\n\n", row.Name, s)
		}
	}
	for i := range row.Signatures {
		fmt.Fprintf(&b, "%s%s\n", row.Name, row.Signatures[i].String())
	}
	b.WriteString("\n" + row.Doc)
	return b.String()
}

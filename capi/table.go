package main

/*
#include "export_types.h"
*/
import "C"

import (
	"encoding/json"
	"sync"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// A tableText is JSON in C memory for the life of the process, as versionText is.
func tableText[T any](describe func() []T) func() C.const_text {
	return sync.OnceValue(func() C.const_text {
		text, err := json.Marshal(describe())
		if err != nil {
			text = []byte("[]") // strings and numbers only: cannot happen
		}
		return C.const_text(C.CString(string(text)))
	})
}

var opTable, primitiveTable = tableText(core.DescribeOps), tableText(schedule.DescribePrimitives)

//export nvf_op_table
func nvf_op_table() C.const_text { return opTable() }

//export nvf_primitive_table
func nvf_primitive_table() C.const_text { return primitiveTable() }

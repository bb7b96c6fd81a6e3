package main

/*
#include "export_types.h"
*/
import "C"

import (
	"encoding/json"
	"sync"

	"nvfuser_go/core"
)

// tableText is in C memory for the life of the process, as versionText is.
var tableText = sync.OnceValue(func() C.const_text {
	text, err := json.Marshal(core.DescribeOps())
	if err != nil {
		text = []byte("[]") // strings and numbers only: cannot happen
	}
	return C.const_text(C.CString(string(text)))
})

//export nvf_op_table
func nvf_op_table() C.const_text { return tableText() }

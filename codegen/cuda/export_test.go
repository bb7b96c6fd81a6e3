package cuda

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// Row exports what tests of other packages' kernels share with this one's.
type Row = row

var Rows = rows

func (r row) Kernel() *kir.Kernel { return r.kernel() }

func (r row) Op() *core.OpInfo       { return r.op }
func (r row) Operands() []dtype.Type { return r.operands }
func (r row) Result() dtype.Type     { return r.result }

// CastKernel returns a kernel that converts elements.
func CastKernel(from, to dtype.Type) *kir.Kernel {
	return row{core.CastOp, []dtype.Type{from}, to}.kernel()
}

package cuda

import (
	"errors"
	"slices"

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
func (r row) Approximate() bool      { return r.approximate }

// CastKernel returns a kernel that converts elements.
func CastKernel(from, to dtype.Type) *kir.Kernel {
	return row{op: core.CastOp, operands: []dtype.Type{from}, result: to}.kernel()
}

// Body returns the text of a kernel without the device functions, and the names
// of those that it asks for itself.
func Body(k *kir.Kernel, o Options) (string, []string, error) {
	p := newPrinter(k, o)
	p.kernel()
	needs := slices.Clone(p.needs)
	slices.Sort(needs)
	return p.text.String(), slices.Compact(needs), errors.Join(p.problems...)
}

// FieldNames returns the names of the fields of a kernel's parameters.
func FieldNames(k *kir.Kernel) []string { return newPrinter(k, Options{}).arguments }

var (
	Compile = compile
	Python  = python
	Slow    = slow
)

const Root = root

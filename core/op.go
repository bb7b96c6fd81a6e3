package core

import (
	"fmt"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// An Op is an index into the op table. Everything the compiler knows about an
// operation is the row behind it. Numbers differ between builds: store names.
type Op uint16

// A Class says how an op relates the iteration space of its inputs to that of
// its outputs. Schedulers look at the class, not at the op.
type Class uint8

const (
	Elementwise Class = iota // an output element from the same element of each input
	Reduction                // combines the elements along some axes
	Scan                     // as Reduction, keeping every prefix
	View                     // the same elements under other axes: broadcast, permute, reshape, ...
	Resize                   // some of the elements, or more: slice, pad, cat
	Gather                   // positions are read from a tensor: select, gather, scatter, embedding
	Sort                     // argsort, topk
	Factory                  // elements from their position alone: full, iota
	Random                   // elements from a random stream
	Contraction              // matmul and its relatives
	Attention                // scaled dot product attention
	Composite                // always rewritten into other ops; never in an Expr
	Query                    // gives scalars; never in an Expr
)

var classNames = [...]string{"elementwise", "reduction", "scan", "view", "resize", "gather", "sort",
	"factory", "random", "contraction", "attention", "composite", "query"}

func (c Class) String() string { return classNames[c] }

// A Kernel is the meaning of an elementwise op on one domain, by arity.
type Kernel[T any] struct {
	F1 func(a T) T
	F2 func(a, b T) T
	F3 func(a, b, c T) T
}

// A Test is the meaning of an elementwise op with a Bool result on one domain.
type Test[T any] struct {
	T1 func(a T) bool
	T2 func(a, b T) bool
}

// A Meaning is what an elementwise op computes, per domain of the compute type.
// Int serves the signed integer types (the evaluator wraps Int32) and, where
// UInt is empty, UInt64 too. The result is rounded to the result type once.
type Meaning struct {
	Float       Kernel[float64]
	Int         Kernel[int64]
	UInt        Kernel[uint64]
	Bool        Kernel[bool]
	Complex     Kernel[complex128]
	FloatTest   Test[float64]
	IntTest     Test[int64]
	UIntTest    Test[uint64]
	BoolTest    Test[bool]
	ComplexTest Test[complex128]

	// Float32, where set, is a quicker function for compute type Float whose
	// result is within one ulp of Float's. It is then the meaning.
	Float32 Kernel[float32]

	// Any serves ops whose operands or result are of mixed domains (where,
	// complex, real, cast). result is the dtype of the result.
	Any func(result dtype.Type, args []scalar.Value) scalar.Value
}

// A Spelling is the CUDA expression of an elementwise op per domain; $0, $1, $2
// are the operands. F64 and C128 empty means: as F32, as C64. A name followed
// by "(" that is not CUDA's own is a device function of ours.
type Spelling struct {
	F32, F64, Int, UInt, Bool, C64, C128 string
}

// An Approximation is a CUDA text for Float that takes fewer instructions than that
// of the [Spelling], for results that are rounded to at most 16 bits. It has the
// value of the op for zeros, infinities, NaN and what overflows, and results below
// the normal numbers.
type Approximation struct {
	CUDA  string  // "": none
	Error float64 // at most, of a result: relative, beside half a step of what is below the normal numbers
}

// An Interval bounds the inputs that tests draw for an operand.
type Interval struct{ Lo, Hi float64 }

// An OpInfo is one row of the op table.
type OpInfo struct {
	Name       string      // as Python spells it
	Group      string      // heading of the documentation page
	Signatures []Signature // overloads, tried in order; an Expr's Args follow the last
	Results    []string    // their names, where there are several
	Class      Class
	Promote    Promotion // of an elementwise op's operands
	Doc        string    // one sentence that begins with the result; then details

	// Expand rewrites the call before it becomes an Expr, and is where a
	// composite op is defined. Nil: elementwise ops promote and broadcast,
	// others are appended as they are.
	Expand func(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error)
	// Infer gives the results of an Expr. Nil: the elementwise rule.
	Infer func(f *Fusion, op *OpInfo, args []Arg) (Inference, error)
	// AxisMap tells, for each root axis of result out, which logical axis of
	// the k-th tensor operand it runs along, or -1. Nil: the same position.
	AxisMap func(f *Fusion, e *Expr, k, out int) []int
	// NeedsWhole lists the logical axes of the first tensor operand that a
	// result element may read at every position. Nil: none.
	NeedsWhole func(f *Fusion, e *Expr) []int

	Meaning  Meaning                                           // of an elementwise op
	Eval     func(c *Evaluation) error                         // of any other op
	Scalar   func(t *scalar.Table, args []scalar.ID) scalar.ID // on integer scalars, if the algebra knows it
	Combine  func() Op                                         // of a Reduction or Scan: the binary op that it folds
	Identity func(t dtype.Type) scalar.Value                   // of Combine, in the accumulation type
	Merge    *OpInfo                                           // of a Reduction with several results: combines those of parts, given before dims
	Merges   bool                                              // is the Merge of another row

	Commutes, Associates, Idempotent bool    // of a binary elementwise op
	PlusOne                          *OpInfo // computes 1 more than this unary op, if not nil

	CUDA   Spelling
	Approx Approximation // where [Fusion.Approximable] allows it
	Cost   float64       // instruction weight of an element; add is 1
	ULP    float64       // error bound of the CUDA spelling in Float, in units in the last place
	Domain []Interval    // per operand; nil: any finite value
	Torch  string        // Python expression over the parameter names; operands promoted, result cast

	// TorchCall, if not "", is Torch as a run on a device calls it: over device too,
	// and rows, the functions of python/nvfuser_go/torch_rows.py.
	TorchCall string

	op Op
}

var (
	table  []*OpInfo
	byName = map[string]*OpInfo{}
)

// def adds a row. It is called only from package-level variable declarations,
// so that declaring an op registers it.
func def(i OpInfo) *OpInfo {
	switch {
	case i.Name == "" || i.Doc == "" || i.Group == "" || len(i.Signatures) == 0:
		panic(fmt.Sprintf("op %q: incomplete row", i.Name))
	case byName[i.Name] != nil:
		panic(fmt.Sprintf("op %q: declared twice", i.Name))
	}
	row := &i
	row.op = Op(len(table))
	table = append(table, row)
	byName[row.Name] = row
	return row
}

// Info returns the row of op.
func (op Op) Info() *OpInfo { return table[op] }

func (op Op) String() string { return table[op].Name }

// Op returns the index of the row.
func (i *OpInfo) Op() Op { return i.op }

// Params returns the parameters that an Expr's Args follow.
func (i *OpInfo) Params() []Param { return i.Signatures[len(i.Signatures)-1].Params }

// Ops returns all rows, in order of declaration.
func Ops() []*OpInfo { return table }

// Lookup returns the row called name, or nil.
func Lookup(name string) *OpInfo { return byName[name] }

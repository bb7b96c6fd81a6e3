package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A ParamKind says what a caller may pass for a parameter and what it becomes.
type ParamKind uint8

const (
	Operand   ParamKind = iota // tensor, scalar value or number -> TensorArg or ScalarArg
	TensorIn                   // tensor -> TensorArg
	TensorsIn                  // non-empty list of tensors -> TensorsArg
	Number                     // scalar value or number -> ScalarArg
	Extent                     // scalar value or int -> ScalarArg of dtype Index
	Shape                      // list of Extent -> ScalarsArg of dtype Index
	Integer                    // int -> IntArg
	Integers                   // list of int -> IntsArg
	Dim                        // int in [-rank, rank) of the first tensor -> IntArg, non-negative
	Dims                       // int or list of Dim, distinct -> IntsArg, ascending
	Flag                       // bool -> BoolArg
	Flags                      // list of bool -> BoolsArg
	Dtype                      // DataType -> DTypeArg
)

// A Param is one parameter of an op.
type Param struct {
	Name     string
	Kind     ParamKind
	Optional bool   // may be left out or None; then the Arg is NoArg or Default
	Default  Given  // of an optional parameter; GivenNone: none
	KeyOnly  bool   // only by keyword
	Text     string // the default as Python shows it; "" : derived from Default
}

// A Signature is one overload of an op.
type Signature struct{ Params []Param }

// An ArgKind tells which fields of an [Arg] are set.
type ArgKind uint8

const (
	NoArg      ArgKind = iota
	TensorArg          // Tensor
	ScalarArg          // Scalar
	IntArg             // Int
	BoolArg            // Int, 0 or 1
	DTypeArg           // Int, a dtype.Type
	TensorsArg         // Tensors
	ScalarsArg         // Scalars
	IntsArg            // Ints
	BoolsArg           // Ints, each 0 or 1
)

// An Arg is a bound, normalised argument of an Expr. Slices are never modified
// after the Expr is made, so copies of a Fusion share them.
type Arg struct {
	Kind    ArgKind
	Tensor  ValID
	Scalar  scalar.ID
	Int     int64
	Tensors []ValID
	Scalars []scalar.ID
	Ints    []int64
}

// Constructors of arguments, for composite ops and passes.

func TensorOf(v ValID) Arg         { return Arg{Kind: TensorArg, Tensor: v} }
func ScalarOf(s scalar.ID) Arg     { return Arg{Kind: ScalarArg, Scalar: s} }
func IntOf(n int64) Arg            { return Arg{Kind: IntArg, Int: n} }
func DTypeOf(t dtype.Type) Arg     { return Arg{Kind: DTypeArg, Int: int64(t)} }
func TensorsOf(v ...ValID) Arg     { return Arg{Kind: TensorsArg, Tensors: v} }
func ScalarsOf(s ...scalar.ID) Arg { return Arg{Kind: ScalarsArg, Scalars: s} }
func IntsOf(n ...int64) Arg        { return Arg{Kind: IntsArg, Ints: n} }
func BoolsOf(b ...bool) Arg {
	a := Arg{Kind: BoolsArg, Ints: make([]int64, len(b))}
	for i := range b {
		if b[i] {
			a.Ints[i] = 1
		}
	}
	return a
}
func BoolOf(b bool) Arg {
	if b {
		return Arg{Kind: BoolArg, Int: 1}
	}
	return Arg{Kind: BoolArg}
}

// Bool returns the value of a BoolArg; false for NoArg.
func (a Arg) Bool() bool { return a.Int != 0 }

// DType returns the value of a DTypeArg; Null for NoArg.
func (a Arg) DType() dtype.Type { return dtype.Type(a.Int) }

// A GivenKind is the kind of a [Given].
type GivenKind uint8

const (
	GivenNone   GivenKind = iota
	GivenVal              // Val
	GivenNumber           // Num: bool, int, float or complex literal
	GivenList             // List
	GivenDType            // Num.I
	GivenName             // Name: a word, such as a member of an enumeration
	GivenAxis             // Axis
	GivenOther            // anything else; Name is its type as the caller knows it
)

// A Given is an argument as the caller passed it, before binding.
type Given struct {
	Kind GivenKind
	Val  ValID
	Axis AxisID
	Num  scalar.Value
	List []Given
	Name string
}

// A Keyword is a Given passed by name.
type Keyword struct {
	Name string
	Given
}

// checkArgs holds the arguments of an Expr against what the kinds of op's
// parameters promise. Binding sees to it; a text or a pass may not.
func (f *Fusion) checkArgs(op *OpInfo, args []Arg) error {
	params, rank := op.Params(), int64(0)
	if len(args) != len(params) {
		return invalidType("%s(): %d arguments for %d parameters", op.Name, len(args), len(params))
	}
	seen := false
	f.forEachTensor(args, func(v ValID) {
		if !seen {
			seen, rank = true, int64(f.Rank(v))
		}
	})
	for i := range params {
		p, a := &params[i], &args[i]
		if !fits(*p, a.Kind) || p.Kind == TensorsIn && len(a.Tensors) == 0 {
			return invalidType("%s(): %s must be %v", op.Name, p.Name, p.Kind)
		}
		switch {
		case a.Kind == ScalarArg && p.Kind == Extent:
			if f.scalars.Type(a.Scalar) != dtype.Index {
				return invalidType("%s(): %s must be of dtype Index, got %v", op.Name, p.Name, f.scalars.Type(a.Scalar))
			}
		case p.Kind == Shape:
			for k, s := range a.Scalars {
				if f.scalars.Type(s) != dtype.Index {
					return invalidType("%s(): %s[%d] must be of dtype Index, got %v", op.Name, p.Name, k, f.scalars.Type(s))
				}
			}
		case a.Kind == IntArg && p.Kind == Dim:
			if a.Int < 0 || a.Int >= rank {
				return invalidArgument("%s(): %s is %d, which is not a dimension of a tensor of rank %d", op.Name, p.Name, a.Int, rank)
			}
		case p.Kind == Dims:
			for k, d := range a.Ints {
				if d < 0 || d >= rank || k > 0 && d <= a.Ints[k-1] {
					return invalidArgument("%s(): %s must be ascending dimensions of a tensor of rank %d, got %v", op.Name, p.Name, rank, a.Ints)
				}
			}
		}
	}
	return nil
}

package core

import (
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// scalarOp applies an elementwise op to scalars. Integer operations that the
// scalar algebra knows are its own; others are opaque nodes, folded if every
// operand is a constant.
func (f *Fusion) scalarOp(op *OpInfo, args []Arg) (scalar.ID, error) {
	t, err := f.promote(op, args)
	if err != nil {
		return scalar.None, err
	}
	var ids []scalar.ID
	for i, a := range args {
		switch a.Kind {
		case ScalarArg:
			want := op.operandCompute(i, t)
			if want.IsInt() {
				if err := f.checkValue(op, op.Params()[i].Name, a.Scalar, want); err != nil {
					return scalar.None, err
				}
			}
			ids = append(ids, f.castScalar(a.Scalar, want))
		case NoArg:
		default:
			return scalar.None, invalidType("%s(): argument %s does not apply to scalars", op.Name, op.Params()[i].Name)
		}
	}
	result := op.Promote.resultType(t)
	if op.Scalar != nil && (t.Class() == dtype.ClassInt || t.IsBool() && op.Promote.Skip > 0) { // of bools, the algebra knows the choice
		return op.Scalar(f.scalars, ids), nil
	}
	return f.opaque(op, result, ids)
}

func (f *Fusion) opaque(op *OpInfo, result dtype.Type, ids []scalar.ID) (scalar.ID, error) {
	values := make([]scalar.Value, len(ids))
	for i, id := range ids {
		v, ok := f.scalars.ConstValue(id)
		if !ok {
			return f.scalars.Apply(scalar.FirstOpaque+scalar.Op(op.op), result, ids...), nil
		}
		values[i] = v
	}
	v, err := EvalScalar(op, result, values)
	if err != nil {
		return scalar.None, err
	}
	return f.scalars.Value(v), nil
}

// castScalar returns s converted to t.
func (f *Fusion) castScalar(s scalar.ID, t dtype.Type) scalar.ID {
	from := f.scalars.Type(s)
	if from == t {
		return s
	}
	if t == dtype.Index && from == dtype.Int {
		return f.scalars.AsIndex(s)
	}
	if c, ok := f.scalars.ConstValue(s); ok {
		return f.scalars.Value(ConvertScalar(t, c))
	}
	return f.scalars.Apply(scalar.FirstOpaque+scalar.Op(Lookup("cast").op), t, s)
}

// EvalOpaque evaluates a node of the scalar algebra that stands for an op row.
func EvalOpaque(code scalar.Op, result dtype.Type, args []scalar.Value) (scalar.Value, error) {
	return EvalScalar(table[code-scalar.FirstOpaque], result, args)
}

// call applies the kernel function of the arity of a.
func call[T any](k *Kernel[T], a []T) (out T, ok bool) {
	switch {
	case len(a) == 1 && k.F1 != nil:
		return k.F1(a[0]), true
	case len(a) == 2 && k.F2 != nil:
		return k.F2(a[0], a[1]), true
	case len(a) == 3 && k.F3 != nil:
		return k.F3(a[0], a[1], a[2]), true
	}
	return out, false
}

func test[T any](k *Test[T], a []T) (out, ok bool) {
	switch {
	case len(a) == 1 && k.T1 != nil:
		return k.T1(a[0]), true
	case len(a) == 2 && k.T2 != nil:
		return k.T2(a[0], a[1]), true
	}
	return false, false
}

func each[T any](args []scalar.Value, get func(scalar.Value) T) []T {
	out := make([]T, len(args))
	for i, a := range args {
		out[i] = get(a)
	}
	return out
}

func asBool(v scalar.Value) bool          { return v.I != 0 }
func asInt(v scalar.Value) int64          { return v.I }
func asUint(v scalar.Value) uint64        { return uint64(v.I) }
func asFloat(v scalar.Value) float64      { return v.Re }
func asFloat32(v scalar.Value) float32    { return float32(v.Re) }
func asComplex(v scalar.Value) complex128 { return complex(v.Re, v.Im) }

// boolValue is b as a Bool value.
func boolValue(b bool) scalar.Value {
	v := scalar.Value{Type: dtype.Bool}
	if b {
		v.I = 1
	}
	return v
}

// EvalScalar is the meaning of an elementwise op on values of its compute type:
// the row's function in the domain of that type, rounded once to the result
// type.
func EvalScalar(op *OpInfo, result dtype.Type, args []scalar.Value) (scalar.Value, error) {
	m := &op.Meaning
	if m.Any != nil {
		return m.Any(result, args), nil
	}
	var ok bool
	out := scalar.Value{Type: result}
	switch t := args[len(args)-1].Type; {
	case op.Promote.Result == ToBool:
		var b bool
		switch t.Class() {
		case dtype.ClassBool:
			b, ok = test(&m.BoolTest, each(args, asBool))
		case dtype.ClassUInt:
			b, ok = test(&m.UIntTest, each(args, asUint))
		case dtype.ClassInt:
			b, ok = test(&m.IntTest, each(args, asInt))
		case dtype.ClassFloat:
			b, ok = test(&m.FloatTest, each(args, asFloat))
		case dtype.ClassComplex:
			b, ok = test(&m.ComplexTest, each(args, asComplex))
		}
		out = boolValue(b)
	case t.IsBool():
		var b bool
		b, ok = call(&m.Bool, each(args, asBool))
		out = boolValue(b)
	case t.Class() == dtype.ClassUInt:
		var u uint64
		if u, ok = call(&m.UInt, each(args, asUint)); ok {
			out.I = int64(u)
		} else {
			out.I, ok = call(&m.Int, each(args, asInt))
		}
	case t.Class() == dtype.ClassInt:
		out.I, ok = call(&m.Int, each(args, asInt))
		out.I = dtype.WrapInt(result, out.I)
	case t.IsFloat():
		if t == dtype.Float {
			var x float32
			if x, ok = call(&m.Float32, each(args, asFloat32)); ok {
				out.Re = float64(x)
				return out, nil
			}
		}
		out.Re, ok = call(&m.Float, each(args, asFloat))
		out.Re = dtype.Round(result, out.Re)
	case t.IsComplex():
		var c complex128
		c, ok = call(&m.Complex, each(args, asComplex))
		if !result.IsComplex() { // ToReal: the result is the real part
			out.Re = dtype.Round(result, real(c))
			break
		}
		c = dtype.RoundComplex(result, c)
		out.Re, out.Im = real(c), imag(c)
	}
	if !ok {
		return out, invalidType("%s(): the op is not defined on %v", op.Name, args[len(args)-1].Type)
	}
	return out, nil
}

// ConvertScalar returns v as a value of type t: floats to integers by
// truncation, numbers to Bool by "is not zero", complex to real by dropping
// the imaginary part. Every conversion has a result; see dtype.FloatToInt.
func ConvertScalar(t dtype.Type, v scalar.Value) scalar.Value {
	from := v.Type
	if from == t {
		return v
	}
	out := scalar.Value{Type: t}
	if from.IsInt() || from.IsBool() {
		return convertInteger(out, v)
	}
	switch t.Class() {
	case dtype.ClassBool:
		return boolValue(v.Re != 0 || v.Im != 0) // NaN is not zero
	case dtype.ClassUInt:
		out.I = int64(dtype.FloatToUint(v.Re))
	case dtype.ClassInt:
		if out.I = dtype.FloatToInt(v.Re); t == dtype.Int32 {
			out.I = int64(dtype.FloatToInt32(v.Re))
		}
	case dtype.ClassFloat:
		out.Re = dtype.Round(t, v.Re)
	case dtype.ClassComplex:
		c := dtype.RoundComplex(t, complex(v.Re, v.Im))
		out.Re, out.Im = real(c), imag(c)
	}
	return out
}

// HoldsInteger reports whether t has the value of v exactly, if both are of
// integer types; it is true of other types.
func HoldsInteger(t dtype.Type, v scalar.Value) bool {
	if !t.IsInt() || !v.Type.IsInt() {
		return true
	}
	changesSign := v.I < 0 && (t == dtype.UInt64) != (v.Type == dtype.UInt64)
	return !changesSign && dtype.WrapInt(t, v.I) == v.I
}

// convertInteger sets out, of another type, to the integer or bool v.
func convertInteger(out, v scalar.Value) scalar.Value {
	switch t := out.Type; t.Class() {
	case dtype.ClassBool, dtype.ClassInt, dtype.ClassUInt:
		out.I = dtype.WrapInt(t, v.I)
	case dtype.ClassFloat, dtype.ClassComplex:
		if v.Type == dtype.UInt64 {
			out.Re = dtype.UintToFloat(t.Real(), uint64(v.I))
		} else {
			out.Re = dtype.IntToFloat(t.Real(), v.I)
		}
	}
	return out
}

// scalarByName makes a derived scalar of the text form: an operation of the
// scalar algebra, or an op row on scalars whose result is of type t.
func (f *Fusion) scalarByName(name string, t dtype.Type, args []scalar.ID) (scalar.ID, error) {
	for op, n := range scalarNames {
		if n != name {
			continue
		}
		if err := f.checkAlgebra(op, name, args); err != nil {
			return scalar.None, err
		}
		return f.scalars.Apply(op, t, args...), nil
	}
	row := Lookup(name)
	if row == nil || row.Class != Elementwise {
		return scalar.None, invalidArgument("there is no scalar operation %q", name)
	}
	if row.Name == "cast" && len(args) == 1 {
		if err := checkCast(t); err != nil {
			return scalar.None, err
		}
		if t == dtype.Index && f.scalars.Type(args[0]) == t { // an Index as an Int, seen as an Index
			args = []scalar.ID{f.castScalar(args[0], dtype.Int)}
		}
		return f.castScalar(args[0], t), nil
	}
	if len(args) != len(row.Params()) {
		return scalar.None, invalidArgument("%s has %d operands, got %d", name, len(row.Params()), len(args))
	}
	given := make([]Arg, len(args))
	for i, a := range args {
		given[i] = ScalarOf(a)
	}
	compute, err := f.promote(row, given)
	if err != nil {
		return scalar.None, err
	}
	for i, a := range args {
		if want := row.operandCompute(i, compute); f.scalars.Type(a) != want {
			return scalar.None, invalidType("%s(): %s is %v and must be %v", name, row.Params()[i].Name, f.scalars.Type(a), want)
		}
	}
	s, err := f.opaque(row, row.Promote.resultType(compute), args)
	if err == nil && t == dtype.Index && f.scalars.Type(s) == dtype.Int {
		s = f.scalars.AsIndex(s)
	}
	return s, err
}

// checkAlgebra holds the operands of an operation of the scalar algebra against
// what it takes.
func (f *Fusion) checkAlgebra(op scalar.Op, name string, args []scalar.ID) error {
	least, most := 2, 2
	switch op {
	case scalar.Add, scalar.Mul, scalar.Min, scalar.Max:
		most = 1 << 30
	case scalar.Select:
		least, most = 3, 3
	}
	if len(args) < least || len(args) > most {
		return invalidArgument("%s takes %d operands, got %d", name, least, len(args))
	}
	rest := args
	if op == scalar.Select {
		if !f.scalars.Type(args[0]).IsBool() {
			return invalidType("the first operand of %s is a bool, got %v", name, f.scalars.Type(args[0]))
		}
		rest = args[1:]
	}
	for _, a := range rest {
		t, first := f.scalars.Type(a), f.scalars.Type(rest[0])
		mixed := (t == dtype.Int || t == dtype.Index) && (first == dtype.Int || first == dtype.Index)
		isBool := op == scalar.Select && t.IsBool()
		if !t.IsInt() && !isBool || t != first && !mixed {
			return invalidType("the operands of %s are integers of one dtype, got %v and %v", name, first, t)
		}
	}
	return nil
}

// Package dtype is the set of element types of the fusion IR: their names,
// sizes and classes, and the conversion between their bits and the wider types
// that arithmetic is defined on.
//
// Its central type is [Type]. Invariants: every type but [Null] has one name in
// Python ([Type.String]) and one in the text form ([Type.Text]), and both parse
// back; [Round] is idempotent, and is the only place where a value meets the
// precision of a type.
//
// It does not know about operations or promotion; those are in package core.
package dtype

// A Type is an element type. The zero value is [Null].
type Type uint8

const (
	Null           Type = iota // no type: "decide from the operands"
	Bool                       // one byte, 0 or 1
	Int32                      // two's complement, wraps
	Int                        // 64-bit two's complement, wraps
	UInt64                     // 64-bit unsigned, wraps
	Index                      // an extent or position: 64 bits in memory
	Half                       // IEEE binary16
	BFloat16                   // the upper half of a binary32
	Float                      // IEEE binary32
	Double                     // IEEE binary64
	Float8E4M3FN               // 4 exponent bits, 3 of mantissa, no infinity
	Float8E5M2                 // 5 exponent bits, 2 of mantissa, IEEE-like
	Float8E8M0FNU              // a power of two, no sign, no zero
	Float4E2M1FN               // 4 bits; named by the API, not held by a CPU
	Float4E2M1FNx2             // two of them in a byte
	ComplexFloat               // two Floats
	ComplexDouble              // two Doubles
	numTypes
)

// A Class groups the types that share arithmetic.
type Class uint8

const (
	ClassNone    Class = iota
	ClassBool          // bool
	ClassInt           // int64; Int32 wraps after each operation
	ClassUInt          // uint64
	ClassFloat         // float64, rounded to the type after each operation
	ClassComplex       // complex128, its parts rounded after each operation
)

type info struct {
	name, text string // in Python, in the text form
	torch      string // attribute of torch
	bits       uint8  // in memory
	class      Class
}

var infos = [numTypes]info{
	Null:           {"Null", "null", "", 0, ClassNone},
	Bool:           {"Bool", "bool", "bool", 8, ClassBool},
	Int32:          {"Int32", "i32", "int32", 32, ClassInt},
	Int:            {"Int", "i64", "int64", 64, ClassInt},
	UInt64:         {"UInt64", "u64", "uint64", 64, ClassUInt},
	Index:          {"Index", "index", "int64", 64, ClassInt},
	Half:           {"Half", "f16", "float16", 16, ClassFloat},
	BFloat16:       {"BFloat16", "bf16", "bfloat16", 16, ClassFloat},
	Float:          {"Float", "f32", "float32", 32, ClassFloat},
	Double:         {"Double", "f64", "float64", 64, ClassFloat},
	Float8E4M3FN:   {"Float8_e4m3fn", "f8e4m3", "float8_e4m3fn", 8, ClassFloat},
	Float8E5M2:     {"Float8_e5m2", "f8e5m2", "float8_e5m2", 8, ClassFloat},
	Float8E8M0FNU:  {"Float8_e8m0fnu", "f8e8m0", "float8_e8m0fnu", 8, ClassFloat},
	Float4E2M1FN:   {"Float4_e2m1fn", "f4e2m1", "", 4, ClassFloat},
	Float4E2M1FNx2: {"Float4_e2m1fn_x2", "f4e2m1x2", "float4_e2m1fn_x2", 8, ClassFloat},
	ComplexFloat:   {"ComplexFloat", "c64", "complex64", 64, ClassComplex},
	ComplexDouble:  {"ComplexDouble", "c128", "complex128", 128, ClassComplex},
}

// All returns every type in order of declaration, [Null] first.
func All() []Type {
	all := make([]Type, numTypes)
	for i := range all {
		all[i] = Type(i)
	}
	return all
}

// Valid reports whether t is one of the declared types.
func (t Type) Valid() bool { return t < numTypes }

// String returns the name of t in Python, such as "BFloat16".
func (t Type) String() string {
	if !t.Valid() {
		return "invalid"
	}
	return infos[t].name
}

// Text returns the name of t in the text form, such as "bf16".
func (t Type) Text() string { return infos[t].text }

// Torch returns the attribute of torch that names t, such as "bfloat16", or ""
// if there is none.
func (t Type) Torch() string { return infos[t].torch }

// Bits returns the number of bits of an element in memory.
func (t Type) Bits() int { return int(infos[t].bits) }

// Size returns the bytes of an element in memory; a type of less than a byte
// and [Null] have none.
func (t Type) Size() int { return int(infos[t].bits) / 8 }

// Computes reports whether arithmetic is defined on t: it has a value in
// package core. Others (fp4, Null) only name memory.
func (t Type) Computes() bool { return t.Valid() && t.Size() > 0 && t != Float4E2M1FNx2 }

// Class returns the arithmetic that t belongs to.
func (t Type) Class() Class { return infos[t].class }

func (t Type) IsBool() bool    { return t.Class() == ClassBool }
func (t Type) IsFloat() bool   { return t.Class() == ClassFloat }
func (t Type) IsComplex() bool { return t.Class() == ClassComplex }

// IsInt reports whether t is a signed or unsigned integer type.
func (t Type) IsInt() bool { return t.Class() == ClassInt || t.Class() == ClassUInt }

// IsReducedFloat reports whether t is a floating type narrower than Float:
// arithmetic on it is done in Float.
func (t Type) IsReducedFloat() bool { return t.IsFloat() && t.Bits() < 32 }

// Real returns the type of the parts of a complex type, and any other type
// itself.
func (t Type) Real() Type {
	switch t {
	case ComplexFloat:
		return Float
	case ComplexDouble:
		return Double
	}
	return t
}

// Complex returns the complex type whose parts hold t.
func (t Type) Complex() Type {
	if t == Double || t == ComplexDouble {
		return ComplexDouble
	}
	return ComplexFloat
}

// Parse returns the type called name in Python or in the text form.
func Parse(name string) (Type, bool) {
	for t := range infos {
		if infos[t].name == name || infos[t].text == name {
			return Type(t), true
		}
	}
	return Null, false
}

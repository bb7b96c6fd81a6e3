package cuda

import (
	"fmt"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// maxInline bounds the length of an expression that is written inside another
// one.
const maxInline = 90

// A statement's values are written inside each other, but for those that are
// read twice or are long, and shuffles where C++ might not evaluate them: these
// get names.

// begin prepares for the values of a statement that reads the given ones.
func (p *printer) begin(ids ...kir.ValueID) {
	p.uses, p.written = map[kir.ValueID]int{}, map[kir.ValueID]text{}
	for _, id := range ids {
		p.count(id)
	}
}

func (p *printer) count(id kir.ValueID) {
	p.uses[id]++
	if p.uses[id] > 1 {
		return
	}
	v := &p.k.Values[id]
	for slot, a := range v.Args {
		written := 1
		if v.Kind == kir.Operation && v.Op != core.CastOp {
			if t := p.template(v); t != nil {
				written = t.slots[slot]
			}
		}
		if written > 0 {
			p.count(a)
			p.uses[a] += written - 1
		}
	}
	if v.Kind == kir.Random && v.Stream < 0 {
		p.count(v.Seed)
		p.count(v.Offset)
	}
}

// value returns a value of its computed type.
func (p *printer) value(id kir.ValueID) text {
	if t, ok := p.written[id]; ok {
		return t
	}
	v := &p.k.Values[id]
	t := p.render(v)
	shared := p.uses[id] > 1 && !t.simple
	if shared || v.Kind == kir.Shuffle && p.lazy > 0 || len(t.code) > maxInline {
		name := p.names.numbered("v", &p.temporaries)
		p.line("const %s %s = %s;", p.computed(v.DType), name, t.code)
		t = text{code: name, level: levelAtom, simple: true}
	}
	p.written[id] = t
	return t
}

func (p *printer) render(v *kir.Value) text {
	switch v.Kind {
	case kir.Constant:
		code := literal(v.Const)
		level := levelAtom
		if code[0] == '-' {
			level = levelUnary
		}
		p.stored(v.DType) // declares complex types
		return text{code: code, level: level, simple: true}
	case kir.HostScalar:
		return p.fromStored(v.DType, text{code: "p." + p.arguments[v.Int], level: levelAtom, simple: true}, false)
	case kir.IndexValue:
		return p.indexValue(v)
	case kir.Load:
		if p.inWords[v.Access.Buffer] {
			p.need("BFloat16.inWords")
			return atom("toFloat(%s, %s)", p.buffers[v.Access.Buffer], p.index(v.Access.Index).code)
		}
		raw, isBool := p.loaded(&v.Access)
		return p.fromStored(v.DType, raw, isBool)
	case kir.Operation:
		if v.Op == core.CastOp {
			return p.convert(v.DType, p.k.Values[v.Args[0]].DType, p.value(v.Args[0]))
		}
		return p.operation(v)
	case kir.Shuffle:
		return p.shuffle(v)
	case kir.Order:
		p.need("orderOf")
		code := atom("orderOf(%s)", p.value(v.Args[0]).code)
		if p.k.Values[v.Args[0]].DType == dtype.BFloat16 {
			return atom("(%s >> 16)", code.code)
		}
		return code
	}
	stored := p.random(v)
	return p.fromStored(v.DType, stored, false)
}

// storedValue returns a value as it lies in memory. Elements that are only
// passed on are not converted.
func (p *printer) storedValue(id kir.ValueID) text {
	v := &p.k.Values[id]
	c := cppTypes[v.DType]
	if from := p.copiedBool(id); from != nil && !p.asBool[from.Access.Buffer] && p.uses[id] <= 1 {
		raw, _ := p.loaded(&from.Access)
		return raw
	}
	if p.uses[id] > 1 || c.convert == "" {
		return p.toStored(v.DType, p.value(id))
	}
	switch {
	case v.Kind == kir.Constant:
		return p.storedConstant(v)
	case v.Kind == kir.Load:
		raw, _ := p.loaded(&v.Access)
		return raw
	case v.Kind == kir.Operation && (v.Op == core.SetOp || v.Op == core.SegmentSetOp):
		return p.storedValue(v.Args[0])
	case v.Kind == kir.Operation && v.Op == core.CastOp:
		from := p.k.Values[v.Args[0]].DType
		return p.toStored(v.DType, p.roundable(v.DType, from, p.value(v.Args[0])))
	case v.Kind == kir.Random:
		return p.random(v)
	}
	return p.toStored(v.DType, p.value(id))
}

// storedConstant returns a constant of a narrow floating type by its code.
func (p *printer) storedConstant(v *kir.Value) text {
	var code [8]byte
	dtype.StoreFloat(v.DType, code[:], v.Const.Re)
	return atom("%s{0x%0*x}", p.stored(v.DType), 2*v.DType.Size(), uint(code[1])<<8|uint(code[0]))
}

// toStored returns an element in memory of a value in its computed type.
func (p *printer) toStored(t dtype.Type, x text) text {
	c := p.cpp(t)
	if c.convert == "" {
		return x
	}
	p.need(c.convert)
	return atom("%s(%s)", c.convert, x.code)
}

// fromStored returns the value of an element in memory. isBool says that a Bool
// is kept as one, and not as a byte.
func (p *printer) fromStored(t dtype.Type, x text, isBool bool) text {
	c := p.cpp(t)
	switch {
	case t.IsBool() && !isBool:
		return text{code: x.within(levelEqual) + " != 0", level: levelEqual}
	case c.convert == "":
		return x
	}
	p.need(c.section + ".toFloat")
	return atom("toFloat(%s)", x.code)
}

// rounded returns the float x rounded to a narrow type, as a float.
func (p *printer) rounded(t dtype.Type, x text) text {
	return p.fromStored(t, p.toStored(t, x), false)
}

// loaded returns an element as it lies in memory, and whether it is a bool of
// C++.
func (p *printer) loaded(a *kir.Access) (raw text, isBool bool) {
	b := &p.k.Buffers[a.Buffer]
	switch {
	case p.instead > 0 && b.Space == kir.Global && b.ReadOnly:
		p.need("apart")
		return atom("apart(&%s)", p.element(a).code), false
	case p.isConstant(b):
		p.need("readOnly")
		return atom("readOnly(&%s)", p.element(a).code), false
	}
	return p.element(a), p.asBool[a.Buffer]
}

func (p *printer) indexValue(v *kir.Value) text {
	x := p.index(v.Index)
	from := dtype.Int32
	if p.k.Scalars.Type(v.Index).IsBool() {
		from = dtype.Bool
	} else if p.wide(v.Index) {
		from = dtype.Int
	}
	if n, ok := p.k.Scalars.ConstInt(v.Index); ok && v.DType.Class() == dtype.ClassInt {
		return text{code: literal(scalar.Value{Type: v.DType, I: n}), level: levelUnary, simple: true}
	}
	return p.convert(v.DType, from, x)
}

// convert returns x of a type as one of another: see core.ConvertScalar.
func (p *printer) convert(to, from dtype.Type, x text) text {
	if to == from || to.Class() == dtype.ClassInt && from.Class() == dtype.ClassInt && to.Size() == from.Size() {
		return x
	}
	c := p.cpp(to)
	if from.IsComplex() && !to.IsComplex() && !to.IsBool() {
		p.need("complex.real")
		return p.convert(to, from.Real(), atom("real(%s)", x.code))
	}
	switch to.Class() {
	case dtype.ClassBool:
		if from.IsComplex() {
			p.need("complex.operators")
			return binary("!=", x, atom("%s{0, 0}", p.computed(from)))
		}
		return binary("!=", x, text{code: "0", level: levelAtom})
	case dtype.ClassInt, dtype.ClassUInt:
		if !from.IsFloat() {
			return cast(c.computed, x)
		}
		function := "toInt64"
		if to == dtype.Int32 {
			function = "toInt32"
		} else if to == dtype.UInt64 {
			function = "toUInt64"
		}
		p.need(function)
		return atom("%s(%s)", function, x.code)
	case dtype.ClassFloat:
		if c.convert == "" {
			if from.IsReducedFloat() && to == dtype.Float {
				return x
			}
			return cast(c.computed, x)
		}
		return p.rounded(to, p.roundable(to, from, x))
	}
	part := p.computed(to.Real())
	if from.IsComplex() {
		p.need("complexAs")
		return atom("complexAs<%s>(%s)", part, x.code)
	}
	p.need("makeComplex")
	return atom("makeComplex<%s>(%s, 0)", part, p.convert(to.Real(), from, x).code)
}

// cast returns x converted by C++.
func cast(to string, x text) text {
	return text{code: "(" + to + ")" + x.within(levelUnary), level: levelUnary}
}

// roundable returns x as a float that rounds to the narrow type as x does. That
// is x converted, unless the conversion rounds where the narrow type sees it.
func (p *printer) roundable(to, from dtype.Type, x text) text {
	switch {
	case from.IsComplex():
		p.need("complex.real")
		return p.roundable(to, from.Real(), atom("real(%s)", x.code))
	case from.IsReducedFloat() || from == dtype.Float:
		return x
	case from == dtype.Double:
	case from.IsBool() || to != dtype.BFloat16 && to != dtype.Float8E8M0FNU:
		return cast("float", x) // integers above 2^24 are beyond the other types
	}
	p.need("toFloatOdd")
	return atom("toFloatOdd(%s)", x.code)
}

// domainSpelling returns the CUDA text of an op for its compute type.
func domainSpelling(op *core.OpInfo, compute dtype.Type) string {
	s := &op.CUDA
	switch compute.Class() {
	case dtype.ClassBool:
		return s.Bool
	case dtype.ClassInt:
		return s.Int
	case dtype.ClassUInt:
		return s.UInt
	case dtype.ClassFloat:
		if compute == dtype.Double && s.F64 != "" {
			return s.F64
		}
		return s.F32
	}
	if compute == dtype.ComplexDouble && s.C128 != "" {
		return s.C128
	}
	return s.C64
}

// template returns the text of an operation, nil if it has none.
func (p *printer) template(v *kir.Value) *template {
	source := domainSpelling(v.Op, p.computeType(v))
	if v.Approximate {
		source = v.Op.Approx.CUDA
	}
	if source == "" {
		return nil
	}
	if p.templates[source] == nil {
		p.templates[source] = parseTemplate(source)
	}
	return p.templates[source]
}

// computeType is that of the last operand, as in core.EvalScalar.
func (p *printer) computeType(v *kir.Value) dtype.Type {
	return p.k.Values[v.Args[len(v.Args)-1]].DType
}

func (p *printer) operation(v *kir.Value) text {
	compute, t := p.computeType(v), p.template(v)
	if t == nil {
		p.unsupported("%s() of %v has no CUDA text", v.Op.Name, compute)
		return atom("0")
	}
	p.needsOf(t, compute)
	if t.lazy {
		p.lazy++
	}
	operands := make([]text, len(v.Args))
	for i, a := range v.Args {
		if t.slots[i] > 0 {
			operands[i] = p.value(a)
		}
	}
	if t.lazy {
		p.lazy--
	}
	x := t.apply(operands)
	switch {
	case v.DType.IsReducedFloat() && !t.only && (v.DType == dtype.Float8E8M0FNU || v.Op.ULP != 0):
		return p.rounded(v.DType, x) // others are exact in the operand's own type
	case len(t.pieces) == 1 || !v.DType.IsBool() && (t.level == levelEqual || t.level == levelCompare):
		return cast(p.computed(v.DType), x) // an int or a bool
	}
	return x
}

// needsOf requires the device functions that a text calls.
func (p *printer) needsOf(t *template, compute dtype.Type) {
	if compute.IsComplex() {
		p.need("complex.operators")
	}
	for _, name := range t.calls {
		for _, section := range sectionNames(name, compute) {
			if hasSection(section) {
				p.need(section)
				break
			}
		}
	}
	if compute.IsComplex() && t.divide {
		p.need("complex.divide")
	}
}

// sectionNames lists the sections that may hold the function called name for a
// compute type, best first. CUDA has the function if there is none.
func sectionNames(name string, compute dtype.Type) []string {
	switch compute.Class() {
	case dtype.ClassComplex:
		return []string{"complex." + name, name}
	case dtype.ClassFloat:
		return []string{"real." + name, name}
	}
	return []string{"integer." + name, name}
}

func (p *printer) shuffle(v *kir.Value) text {
	x := p.value(v.Args[0])
	if v.Mode == kir.WarpMaximum {
		p.need("warpMaximum")
		return text{code: fmt.Sprintf("warpMaximum(%s)", x.code), level: levelAtom}
	}
	p.need("shuffle")
	if v.DType.IsComplex() {
		p.need("shuffle.complex")
	}
	lane := fmt.Sprint(v.Int)
	function := [...]string{kir.ShuffleXor: "shuffleXor", kir.ShuffleDown: "shuffleDown", kir.ShuffleUp: "shuffleUp", kir.ShuffleAt: "shuffleAt"}[v.Mode]
	if v.Mode == kir.ShuffleAt {
		lane = p.index(v.Index).code
	}
	code := fmt.Sprintf("%s(%s, %s, %d)", function, x.code, lane, v.Width)
	if v.DType.IsBool() {
		code = fmt.Sprintf("%s(int(%s), %s, %d) != 0", function, x.code, lane, v.Width)
	}
	return text{code: code, level: levelEqual}
}

package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// MaxText bounds the text that Parse reads, in bytes.
const MaxText = 64 << 20

// Parse reads the text form. Empty lines and what follows # are ignored. Any
// text is answered by a fusion or by an error that starts with the line number.
func Parse(src string) (*Fusion, error) {
	if len(src) > MaxText {
		return nil, invalidArgument("the text has %d bytes; at most %d are read", len(src), MaxText)
	}
	p := &parser{f: NewFusion(), tensors: map[string]ValID{}, scalars: map[string]scalar.ID{}}
	for n, line := range strings.Split(src, "\n") {
		if i := strings.IndexByte(line, '#'); i >= 0 {
			line = line[:i]
		}
		if p.rest = strings.TrimSpace(line); p.rest == "" {
			continue
		}
		if err := p.line(); err != nil {
			return nil, invalidArgument("line %d: %v", n+1, err)
		}
	}
	return p.f, nil
}

type parser struct {
	f       *Fusion
	rest    string // of the line
	tensors map[string]ValID
	scalars map[string]scalar.ID
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

// accept skips token if it comes next.
func (p *parser) accept(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) expect(token string) error {
	if !p.accept(token) {
		return fmt.Errorf("want %q before %q", token, p.rest)
	}
	return nil
}

// word reads up to a separator; it may be empty.
func (p *parser) word() string {
	p.space()
	i := strings.IndexAny(p.rest, " \t,=[]():")
	if i < 0 {
		i = len(p.rest)
	}
	w := p.rest[:i]
	p.rest = p.rest[i:]
	return w
}

// line reads a statement, which must take the whole line.
func (p *parser) line() error {
	statement := p.definition
	if p.accept("output ") {
		statement = p.output
	}
	if err := statement(); err != nil {
		return err
	}
	if p.space(); p.rest != "" {
		return fmt.Errorf("%q is left over", p.rest)
	}
	return nil
}

func (p *parser) definition() error {
	var results []string
	for {
		name := p.word()
		if len(name) < 2 || name[0] != '%' && name[0] != '$' {
			return fmt.Errorf("want a result such as %%0 or $0, got %q", name)
		}
		if _, taken := p.tensors[name]; taken {
			return fmt.Errorf("%s is defined twice", name)
		}
		if _, taken := p.scalars[name]; taken {
			return fmt.Errorf("%s is defined twice", name)
		}
		results = append(results, name)
		if !p.accept(",") {
			break
		}
	}
	if err := p.expect("="); err != nil {
		return err
	}
	op := p.word()
	switch {
	case op == "tensor" && len(results) == 1 && results[0][0] == '%':
		return p.inputTensor(results[0])
	case op == "scalar" && len(results) == 1 && results[0][0] == '$':
		return p.inputScalar(results[0])
	case len(results) == 1 && results[0][0] == '$':
		return p.scalarExpr(results[0], op)
	}
	return p.tensorExpr(results, op)
}

func (p *parser) output() error {
	v, err := p.tensor()
	if err != nil {
		return err
	}
	alias := NoVal
	if p.accept("alias ") {
		if alias, err = p.tensor(); err != nil {
			return err
		}
	}
	return p.f.AddOutput(v, alias)
}

func (p *parser) tensor() (ValID, error) {
	name := p.word()
	v, ok := p.tensors[name]
	if !ok {
		return NoVal, fmt.Errorf("want a tensor, got %q", name)
	}
	return v, nil
}

func parseList[T any](p *parser, item func() (T, error)) ([]T, error) {
	if err := p.expect("["); err != nil {
		return nil, err
	}
	out := []T{}
	for !p.accept("]") {
		if len(out) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		x, err := item()
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

func (p *parser) integer() (int64, error) {
	w := p.word()
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a 64-bit integer", w)
	}
	return n, nil
}

func (p *parser) boolean() (int64, error) {
	switch w := p.word(); w {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	default:
		return 0, fmt.Errorf("%q is not true or false", w)
	}
}

func (p *parser) dtype() (dtype.Type, error) {
	w := p.word()
	t, ok := dtype.Parse(w)
	if !ok {
		return t, fmt.Errorf("there is no dtype %q", w)
	}
	return t, nil
}

func (p *parser) inputTensor(name string) error {
	var d TensorDescription
	var err error
	if d.DType, err = p.dtype(); err != nil {
		return err
	}
	if d.Shape, err = parseList(p, p.integer); err != nil {
		return err
	}
	if err = p.expect("contiguity="); err != nil {
		return err
	}
	d.Contiguity, err = parseList(p, func() (Tri, error) {
		switch w := p.word(); w {
		case "none":
			return NotApplicable, nil
		case "no":
			return No, nil
		case "yes":
			return Yes, nil
		default:
			return No, fmt.Errorf("%q is not yes, no or none", w)
		}
	})
	if err != nil {
		return err
	}
	if p.accept("stride_order=") {
		if d.StrideOrder, err = parseList(p, p.integer); err != nil {
			return err
		}
	}
	d.CPU = p.accept("cpu")
	v, err := p.f.DefineTensor(d)
	p.tensors[name] = v
	return err
}

func (p *parser) inputScalar(name string) error {
	t, err := p.dtype()
	if err != nil {
		return err
	}
	v, err := p.f.DefineScalar(t)
	if err != nil {
		return err
	}
	p.scalars[name] = p.f.vals[v].Scalar
	return nil
}

// scalarAtom reads $n, %n.d or a literal.
func (p *parser) scalarAtom() (scalar.ID, error) {
	p.space()
	switch {
	case p.accept("index("):
		s, err := p.scalarAtom()
		if err != nil {
			return s, err
		}
		if p.f.scalars.Type(s) != dtype.Int {
			return s, fmt.Errorf("index() takes a scalar of dtype i64")
		}
		return p.f.scalars.AsIndex(s), p.expect(")")
	case strings.HasPrefix(p.rest, "$"):
		w := p.word()
		s, ok := p.scalars[w]
		if !ok {
			return scalar.None, fmt.Errorf("%s is not defined", w)
		}
		return s, nil
	case strings.HasPrefix(p.rest, "%"):
		w := p.word()
		name, dim, _ := strings.Cut(w, ".")
		v, ok := p.tensors[name]
		d, err := strconv.Atoi(dim)
		if !ok || err != nil || d < 0 || d >= p.f.Rank(v) {
			return scalar.None, fmt.Errorf("%q is not the extent of a tensor", w)
		}
		return p.f.Shape(v)[d], nil
	}
	v, err := p.literal()
	if err != nil {
		return scalar.None, err
	}
	return p.f.scalars.Value(v), nil
}

// literal reads a constant.
func (p *parser) literal() (scalar.Value, error) {
	var re, im string
	var isComplex bool
	if isComplex = p.accept("("); isComplex {
		re = p.word()
		if err := p.expect(","); err != nil {
			return scalar.Value{}, err
		}
		im = p.word()
		if err := p.expect(")"); err != nil {
			return scalar.Value{}, err
		}
	} else {
		re = p.word()
	}
	v := scalar.Value{Type: dtype.Index}
	switch {
	case re == "true" || re == "false":
		return boolValue(re == "true"), nil
	case strings.HasPrefix(p.rest, ":"):
		p.rest = p.rest[1:]
		t, err := p.dtype()
		if err != nil {
			return v, err
		}
		if !t.Computes() {
			return v, fmt.Errorf("there are no numbers of dtype %s", t.Text())
		}
		v.Type = t
	}
	bad := func() (scalar.Value, error) {
		return v, fmt.Errorf("%q is not a number of dtype %s", re, v.Type.Text())
	}
	var err error
	switch v.Type.Class() {
	case dtype.ClassUInt:
		var u uint64
		u, err = strconv.ParseUint(re, 10, 64)
		v.I = int64(u)
	case dtype.ClassInt:
		v.I, err = strconv.ParseInt(re, 10, 64)
		if v.I != dtype.WrapInt(v.Type, v.I) {
			return bad()
		}
	case dtype.ClassFloat, dtype.ClassComplex:
		if v.Re, err = parseFloat(re); err == nil && isComplex {
			v.Im, err = parseFloat(im)
		}
		if isComplex != v.Type.IsComplex() {
			return bad()
		}
		v = ConvertScalar(v.Type, scalar.Value{Type: dtype.ComplexDouble, Re: v.Re, Im: v.Im})
	default:
		return bad()
	}
	if err != nil {
		return bad()
	}
	return v, nil
}

func parseFloat(s string) (float64, error) {
	switch s {
	case "nan":
		return math.NaN(), nil
	case "inf":
		return math.Inf(1), nil
	case "-inf":
		return math.Inf(-1), nil
	}
	return strconv.ParseFloat(s, 64)
}

func (p *parser) scalarExpr(name, opName string) error {
	var args []scalar.ID
	for {
		a, err := p.scalarAtom()
		if err != nil {
			return err
		}
		args = append(args, a)
		if !p.accept(",") {
			break
		}
	}
	if err := p.expect(":"); err != nil {
		return err
	}
	t, err := p.dtype()
	if err != nil {
		return err
	}
	s, err := p.f.scalarByName(opName, t, args)
	if err != nil {
		return err
	}
	if got := p.f.scalars.Type(s); got != t {
		return fmt.Errorf("%s has dtype %s, not %s", name, got.Text(), t.Text())
	}
	p.scalars[name] = s
	return nil
}

func (p *parser) tensorExpr(results []string, opName string) error {
	op := Lookup(opName)
	if op == nil || op.Class == Composite || op.Class == Query {
		return fmt.Errorf("there is no operation %q", opName)
	}
	args := make([]Arg, len(op.Params()))
	first := true
	for i, param := range op.Params() {
		if param.Kind != Operand && param.Kind != TensorIn && param.Kind != TensorsIn {
			continue
		}
		if !first {
			if err := p.expect(","); err != nil {
				return err
			}
		}
		first = false
		a, err := p.operandArg(&param)
		if err != nil {
			return err
		}
		args[i] = a
	}
	if err := p.namedArgs(op, args); err != nil {
		return err
	}
	out, err := p.f.Append(op, args)
	if err != nil {
		return err
	}
	if len(out) != len(results) {
		return fmt.Errorf("%s has %d results, not %d", opName, len(out), len(results))
	}
	for k, name := range results {
		if name[0] != '%' {
			return fmt.Errorf("%s is a tensor and must be called %%n, not %s", opName, name)
		}
		p.tensors[name] = out[k]
	}
	return nil
}

func (p *parser) operandArg(param *Param) (Arg, error) {
	p.space()
	switch {
	case param.Optional && p.accept("none"):
		return Arg{}, nil
	case param.Kind == TensorsIn:
		vs, err := parseList(p, p.tensor)
		if err == nil && len(vs) == 0 {
			err = fmt.Errorf("%s is empty", param.Name)
		}
		return TensorsOf(vs...), err
	}
	if strings.HasPrefix(p.rest, "%") {
		save := p.rest
		name := p.word()
		if v, ok := p.tensors[name]; ok {
			return TensorOf(v), nil
		}
		if !strings.Contains(name, ".") {
			return Arg{}, fmt.Errorf("%s is not defined", name)
		}
		p.rest = save
	}
	if param.Kind == TensorIn {
		return Arg{}, fmt.Errorf("%s must be a tensor before %q", param.Name, p.rest)
	}
	s, err := p.scalarAtom()
	return ScalarOf(s), err
}

func (p *parser) namedArgs(op *OpInfo, args []Arg) error {
	for p.space(); p.rest != ""; p.space() {
		name := p.word()
		if err := p.expect("="); err != nil {
			return err
		}
		found := false
		for i, param := range op.Params() {
			if param.Name != name || param.Kind == Operand || param.Kind == TensorIn || param.Kind == TensorsIn {
				continue
			}
			if args[i].Kind != NoArg {
				return fmt.Errorf("%s= is given twice", name)
			}
			a, err := p.named(param.Kind)
			if err != nil {
				return fmt.Errorf("%s=: %w", name, err)
			}
			args[i], found = a, true
		}
		if !found {
			return fmt.Errorf("%s has no argument %q", op.Name, name)
		}
	}
	for i, param := range op.Params() {
		if args[i].Kind == NoArg && !param.Optional {
			return fmt.Errorf("%s needs argument %q", op.Name, param.Name)
		}
	}
	return nil
}

func (p *parser) named(kind ParamKind) (Arg, error) {
	switch kind {
	case Number, Extent:
		s, err := p.scalarAtom()
		return ScalarOf(s), err
	case Shape:
		ss, err := parseList(p, p.scalarAtom)
		return ScalarsOf(ss...), err
	case Integer, Dim:
		n, err := p.integer()
		return IntOf(n), err
	case Integers, Dims:
		ns, err := parseList(p, p.integer)
		return IntsOf(ns...), err
	case Flag:
		n, err := p.boolean()
		return Arg{Kind: BoolArg, Int: n}, err
	case Flags:
		ns, err := parseList(p, p.boolean)
		return Arg{Kind: BoolsArg, Ints: ns}, err
	case Dtype:
		t, err := p.dtype()
		return DTypeOf(t), err
	}
	return Arg{}, fmt.Errorf("a parameter of kind %d has no text form", kind)
}

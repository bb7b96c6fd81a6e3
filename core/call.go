package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Call adds op as a caller spelled it: positional and keyword arguments are
// bound to the first signature that takes them. The results are values of f.
//
// Errors: InvalidType if an argument is of the wrong kind or missing,
// InvalidArgument if its value breaks a rule.
//
// A Query may be asked of a frozen fusion too, but by one goroutine at a time:
// it may name a scalar that had no name.
func (f *Fusion) Call(op *OpInfo, given []Given, keywords []Keyword) ([]ValID, error) {
	if err := f.checkBuilding(); err != nil && op.Class != Query {
		return nil, err
	}
	args, err := f.bind(op, given, keywords)
	if err != nil {
		return nil, err
	}
	f.called = op
	out, err := f.Apply(op, args...)
	f.called = nil
	if err != nil {
		return nil, CalledAs(op.Name, err)
	}
	f.records = append(f.records, Record{op, f.where, out})
	return out, nil
}

// bind normalises the arguments of a call. With several signatures the error
// of the one that came furthest is returned, of equals the last: an argument of
// the right kind with a wrong value came further than one of the wrong kind,
// and a signature that misses an argument did not begin.
func (f *Fusion) bind(op *OpInfo, given []Given, keywords []Keyword) ([]Arg, error) {
	var best error
	furthest := -1
	for i := range op.Signatures {
		b := binding{f: f, op: op, params: op.Signatures[i].Params}
		err := b.run(given, keywords)
		if err == nil {
			return spread(op, &op.Signatures[i], b.args), nil
		}
		var wrongValue *InvalidArgument
		if errors.As(err, &wrongValue) {
			b.progress++
		}
		if b.progress >= furthest {
			best, furthest = err, b.progress
		}
	}
	return nil, best
}

// spread moves the arguments of an overload to the places of the same names in
// the last signature.
func spread(op *OpInfo, s *Signature, args []Arg) []Arg {
	params := op.Params()
	if len(params) == 0 || &params[0] == &s.Params[0] {
		return args
	}
	out := make([]Arg, len(params))
	for i, p := range s.Params {
		for k, q := range params {
			if q.Name == p.Name || q.Name == p.Name+"s" { // dim of one overload is dims of another
				out[k] = args[i]
			}
		}
	}
	return out
}

type binding struct {
	f        *Fusion
	op       *OpInfo
	params   []Param
	args     []Arg
	progress int // arguments bound before the error
}

func (b *binding) run(given []Given, keywords []Keyword) error {
	positional := 0
	for _, p := range b.params {
		if !p.KeyOnly {
			positional++
		}
	}
	slots, present, err := Arrange(b.op.Name, func(i int) string { return b.params[i].Name }, len(b.params), positional, given, keywords)
	if err != nil {
		return err
	}
	b.args = make([]Arg, len(b.params))
	for i := range b.params {
		p := &b.params[i]
		g := slots[i]
		if !present[i] || g.Kind == GivenNone {
			if !p.Optional {
				if present[i] {
					return b.wrong(p, g)
				}
				b.progress = 0
				return Missing(b.op.Name, func(i int) string { return b.params[i].Name }, len(b.params), i)
			}
			g = p.Default
			if g.Kind == GivenNone {
				continue
			}
		}
		a, err := b.normalise(p, g)
		if err != nil {
			return err
		}
		b.args[i] = a
		b.progress++
	}
	return nil
}

// withDefaults returns args followed by what binding gives for the parameters
// that are left out.
func (f *Fusion) withDefaults(op *OpInfo, args []Arg) ([]Arg, error) {
	params := op.Params()
	b := binding{f: f, op: op, params: params, args: args}
	for i := len(args); i < len(params); i++ {
		a := Arg{}
		if g := params[i].Default; g.Kind != GivenNone {
			var err error
			if a, err = b.normalise(&params[i], g); err != nil {
				return nil, err
			}
		}
		b.args = append(b.args, a)
	}
	return b.args, nil
}

// Arrange puts the arguments of a call at the places of its n parameters, of
// which the first positional need no keyword, and tells which are present.
func Arrange(call string, name func(i int) string, n, positional int, given []Given, keywords []Keyword) (slots []Given, present []bool, err error) {
	if len(given) > positional {
		return nil, nil, invalidType("%s() takes at most %d positional arguments, got %d", call, positional, len(given))
	}
	slots, present = make([]Given, n), make([]bool, n)
	for i := range given {
		slots[i], present[i] = given[i], true
	}
	for _, k := range keywords {
		i := 0
		for i < n && name(i) != k.Name {
			i++
		}
		switch {
		case i == n:
			return nil, nil, invalidType("%s() has no argument %q; its arguments are %s", call, k.Name, parameterNames(name, n))
		case present[i]:
			return nil, nil, invalidType("%s() got argument %q twice", call, k.Name)
		}
		slots[i], present[i] = k.Given, true
	}
	return slots, present, nil
}

// Missing is the error of a call without an argument for parameter i of n.
func Missing(call string, name func(i int) string, n, i int) error {
	return invalidType("%s() needs argument %q; its arguments are %s", call, name(i), parameterNames(name, n))
}

func parameterNames(name func(i int) string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = name(i)
	}
	return strings.Join(names, ", ")
}

func (k ParamKind) String() string {
	return [...]string{"a tensor, a scalar or a number", "a tensor", "a non-empty list of tensors", "a scalar or a number",
		"an int or an integer scalar", "a list of ints and integer scalars", "an int", "a list of ints", "an int",
		"an int or a list of ints", "a bool", "a list of bools", "a DataType"}[k]
}

func (b *binding) wrong(p *Param, g Given) error {
	return invalidType("%s(): %s must be %v, got %s", b.op.Name, p.Name, p.Kind, b.f.GivenText(g))
}

// GivenText names a given argument for an error text.
func (f *Fusion) GivenText(g Given) string {
	switch g.Kind {
	case GivenNone:
		return "None"
	case GivenVal:
		if v := &f.vals[g.Val]; v.Tensor {
			return fmt.Sprintf("a tensor (%s, %v)", f.Name(g.Val), v.DType)
		}
		return fmt.Sprintf("a scalar (%s, %v)", f.Name(g.Val), f.vals[g.Val].DType)
	case GivenNumber:
		return PythonLiteral(g.Num)
	case GivenList:
		if len(g.List) > 8 {
			return fmt.Sprintf("a list of %d", len(g.List))
		}
		parts := make([]string, len(g.List))
		for i := range g.List {
			parts[i] = f.GivenText(g.List[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case GivenAxis:
		return "an axis"
	case GivenDType:
		return "DataType." + dtype.Type(g.Num.I).String()
	}
	return g.Name
}

func isIntLiteral(g Given) bool  { return g.Kind == GivenNumber && g.Num.Type == dtype.Int }
func isBoolLiteral(g Given) bool { return g.Kind == GivenNumber && g.Num.Type == dtype.Bool }

func (f *Fusion) isTensor(g Given) bool { return g.Kind == GivenVal && f.vals[g.Val].Tensor }

// normalise turns a given argument into what p's kind says.
func (b *binding) normalise(p *Param, g Given) (Arg, error) {
	f := b.f
	switch p.Kind {
	case TensorsIn, Shape, Flags:
		return b.list(p, g)
	case Number:
		return b.number(p, g)
	case Operand, TensorIn:
		if f.isTensor(g) {
			return TensorOf(g.Val), nil
		}
		if p.Kind == Operand {
			return b.number(p, g)
		}
	case Extent:
		if s, ok := f.index(g); ok {
			return ScalarOf(s), nil
		}
	case Integer:
		if n, ok := f.constantInt(g); ok {
			return IntOf(n), nil
		}
	case Integers:
		if ns, ok := f.integers(g); ok {
			return IntsOf(ns...), nil
		}
	case Dim:
		if n, ok := f.constantInt(g); ok {
			d, err := b.dim(p, n)
			return IntOf(d), err
		}
	case Dims:
		return b.dims(p, g)
	case Flag:
		if isBoolLiteral(g) {
			return BoolOf(g.Num.I != 0), nil
		}
	case Dtype:
		if g.Kind == GivenDType {
			return DTypeOf(dtype.Type(g.Num.I)), nil
		}
	}
	return Arg{}, b.wrong(p, g)
}

// list normalises the kinds whose errors name an item.
func (b *binding) list(p *Param, g Given) (Arg, error) {
	if g.Kind != GivenList || p.Kind == TensorsIn && len(g.List) == 0 {
		return Arg{}, b.wrong(p, g)
	}
	switch p.Kind {
	case TensorsIn:
		vs := make([]ValID, len(g.List))
		err := b.items(p, g.List, "a tensor", func(i int, x Given) bool {
			vs[i] = x.Val
			return b.f.isTensor(x)
		})
		return TensorsOf(vs...), err
	case Shape:
		ss := make([]scalar.ID, len(g.List))
		err := b.items(p, g.List, "an int or an integer scalar", func(i int, x Given) (ok bool) {
			ss[i], ok = b.f.index(x)
			return ok
		})
		return ScalarsOf(ss...), err
	}
	flags := make([]bool, len(g.List))
	err := b.items(p, g.List, "a bool", func(i int, x Given) bool {
		flags[i] = x.Num.I != 0
		return isBoolLiteral(x)
	})
	return BoolsOf(flags...), err
}

// items calls take for each item, and rejects the first that it does not take.
func (b *binding) items(p *Param, list []Given, kind string, take func(i int, x Given) bool) error {
	for i, x := range list {
		if !take(i, x) {
			return invalidType("%s(): %s[%d] must be %s, got %s", b.op.Name, p.Name, i, kind, b.f.GivenText(x))
		}
	}
	return nil
}

func (b *binding) number(p *Param, g Given) (Arg, error) {
	switch {
	case g.Kind == GivenNumber:
		return ScalarOf(b.f.scalars.Value(g.Num)), nil
	case g.Kind == GivenVal && !b.f.vals[g.Val].Tensor:
		return ScalarOf(b.f.vals[g.Val].Scalar), nil
	}
	return Arg{}, b.wrong(p, g)
}

// index returns g as a scalar of dtype Index.
func (f *Fusion) index(g Given) (scalar.ID, bool) {
	switch {
	case isIntLiteral(g):
		return f.scalars.Int(g.Num.I), true
	case g.Kind == GivenVal && !f.vals[g.Val].Tensor && f.vals[g.Val].DType.Class() == dtype.ClassInt:
		return f.castScalar(f.vals[g.Val].Scalar, dtype.Index), true
	}
	return scalar.None, false
}

func (f *Fusion) constantInt(g Given) (int64, bool) {
	if isIntLiteral(g) {
		return g.Num.I, true
	}
	if g.Kind == GivenVal && !f.vals[g.Val].Tensor && f.vals[g.Val].DType.IsInt() {
		return f.scalars.ConstInt(f.vals[g.Val].Scalar)
	}
	return 0, false
}

func (f *Fusion) integers(g Given) ([]int64, bool) {
	if g.Kind != GivenList {
		return nil, false
	}
	ns := make([]int64, len(g.List))
	for i, x := range g.List {
		n, ok := f.constantInt(x)
		if !ok {
			return nil, false
		}
		ns[i] = n
	}
	return ns, true
}

// rank is the number of dimensions that a Dim counts in: those of the first
// tensor argument.
func (b *binding) rank() int {
	for i := range b.args {
		switch a := &b.args[i]; a.Kind {
		case TensorArg:
			return b.f.Rank(a.Tensor)
		case TensorsArg:
			return b.f.Rank(a.Tensors[0])
		}
	}
	return 0
}

func (b *binding) dim(p *Param, n int64) (int64, error) {
	r := int64(b.rank())
	if r == 0 {
		return 0, invalidArgument("%s(): %s is %d, and a tensor with 0 dimensions has none", b.op.Name, p.Name, n)
	}
	if n < -r || n >= r {
		return 0, invalidArgument("%s(): %s is %d, which is not a dimension of a tensor of rank %d: it must be from %d to %d", b.op.Name, p.Name, n, r, -r, r-1)
	}
	if n < 0 {
		n += r
	}
	return n, nil
}

func (b *binding) dims(p *Param, g Given) (Arg, error) {
	ns, ok := b.f.integers(g)
	if n, isInt := b.f.constantInt(g); isInt {
		ns, ok = []int64{n}, true
	}
	if !ok {
		return Arg{}, b.wrong(p, g)
	}
	out := make([]int64, len(ns))
	for i, n := range ns {
		d, err := b.dim(p, n)
		if err != nil {
			return Arg{}, err
		}
		out[i] = d
	}
	slices.Sort(out)
	for i := 1; i < len(out); i++ {
		if out[i] == out[i-1] {
			return Arg{}, invalidArgument("%s(): %s names dimension %d twice", b.op.Name, p.Name, out[i])
		}
	}
	return IntsOf(out...), nil
}

package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A Script is calls of primitives in order. Its text has one a line, as Python
// spells them, with tensors named as the fusion names them:
//
//	tv3.split(0, 128)
//	tv9 = tv0.cache_after(cp_async)
//	tv9.set_allocation_domain([tv9.logical[1], tv9.logical[0]], True)
//	tv3.reorder({0: 1})
//	tv3.parallelize(0, grid_x)
//	inline_most()   # all tensors
//
// An axis is a place in a domain of its tensor: loop, logical, root, allocation,
// or axes, which are all of them. The names on the left are checked against those
// that the new tensors get.
type Script []Call

// A Call is one line of a script.
type Call struct {
	Note      string // instead of a call: what was done by other means
	Line      int    // in the text that it was parsed from; 0: none
	Results   []string
	Tensor    string // of a method
	Primitive *Primitive
	Arguments []Argument
}

// An Argument is one of a [Call]; one without a name goes by its place.
type Argument struct {
	Name string
	Value
}

// A Value is an argument as a script spells it.
type Value struct {
	Kind   ValueKind
	Int    int64   // also 1 for True, and the place of an axis
	Word   string  // also the tensor of an axis
	Domain string  // of an axis
	List   []Value // of a dict: keys and values in turn
}

// A ValueKind tells which fields of a [Value] are set.
type ValueKind uint8

const (
	NoneValue ValueKind = iota
	BoolValue
	IntValue
	WordValue // a tensor or the member of an enumeration
	ListValue
	DictValue
	AxisValue // tv3.loop[1]
)

func (c Script) String() string {
	var b strings.Builder
	for i := range c {
		b.WriteString(c[i].String() + "\n")
	}
	return b.String()
}

func (c *Call) String() string {
	if c.Note != "" {
		return "# " + c.Note
	}
	var b strings.Builder
	if len(c.Results) > 0 {
		b.WriteString(strings.Join(c.Results, ", ") + " = ")
	}
	if c.Tensor != "" {
		b.WriteString(c.Tensor + ".")
	}
	b.WriteString(c.Primitive.Name + "(")
	for i := range c.Arguments {
		if i > 0 {
			b.WriteString(", ")
		}
		if n := c.Arguments[i].Name; n != "" {
			b.WriteString(n + "=")
		}
		c.Arguments[i].print(&b)
	}
	b.WriteString(")")
	return b.String()
}

func (v *Value) print(b *strings.Builder) {
	switch v.Kind {
	case NoneValue:
		b.WriteString("None")
	case BoolValue:
		b.WriteString([...]string{"False", "True"}[v.Int])
	case IntValue:
		b.WriteString(strconv.FormatInt(v.Int, 10))
	case WordValue:
		b.WriteString(v.Word)
	case AxisValue:
		fmt.Fprintf(b, "%s.%s[%d]", v.Word, v.Domain, v.Int)
	case ListValue:
		b.WriteString("[")
		for i := range v.List {
			if i > 0 {
				b.WriteString(", ")
			}
			v.List[i].print(b)
		}
		b.WriteString("]")
	case DictValue:
		b.WriteString("{")
		for i := range v.List {
			switch {
			case i%2 == 1:
				b.WriteString(": ")
			case i > 0:
				b.WriteString(", ")
			}
			v.List[i].print(b)
		}
		b.WriteString("}")
	}
}

// valueOf is a, a bound argument of a call on tensor v, as a script spells it.
func (s *Scheduled) valueOf(kind ParameterKind, a *argument, v core.ValID) Value {
	list := func(n int, item func(i int) Value) Value {
		out := Value{Kind: ListValue, List: []Value{}}
		for i := range n {
			out.List = append(out.List, item(i))
		}
		return out
	}
	number := func(i int) Value { return Value{Kind: IntValue, Int: int64(a.numbers[i])} }
	word := func(name string) Value { return Value{Kind: WordValue, Word: name} }
	switch kind {
	case TensorParameter:
		return word(s.name(a.tensor))
	case TensorsParameter:
		return list(len(a.tensors), func(i int) Value { return word(s.name(a.tensors[i])) })
	case PlaceParameter, IntegerParameter:
		return Value{Kind: IntValue, Int: int64(a.number)}
	case PlacesParameter:
		return list(len(a.numbers), number)
	case MovesParameter:
		moves := list(len(a.numbers), number)
		moves.Kind = DictValue
		return moves
	case FlagParameter:
		return Value{Kind: BoolValue, Int: int64(a.number)}
	case ContiguityParameter:
		if a.numbers == nil {
			return Value{Kind: BoolValue, Int: int64(a.number)}
		}
		return list(len(a.numbers), func(i int) Value {
			return [...]Value{{Kind: NoneValue}, {Kind: BoolValue}, {Kind: BoolValue, Int: 1}}[a.numbers[i]+1]
		})
	case AxesParameter:
		return list(len(a.axes), func(i int) Value {
			x, _ := s.axisValue(v, a.axes[i])
			return x
		})
	case ParallelsParameter:
		return list(len(a.numbers), func(i int) Value { return word(enumerations[kind].nameOf(a.numbers[i])) })
	}
	return word(enumerations[kind].nameOf(a.number))
}

// domains are the lists of axes that a script may name one of, the first that
// has an axis first.
var domains = []string{"loop", "logical", "root", "allocation", "axes"}

func (s *Scheduled) domainOf(v core.ValID, name string) []core.AxisID {
	switch d := &s.f.Val(v).Domain; name {
	case "loop":
		return s.Loop(v)
	case "logical":
		return d.Logical
	case "root":
		return d.Root
	case "allocation":
		alloc, _ := s.Allocation(v)
		return alloc
	}
	return s.axesOf(v)
}

// axisValue names an axis of v.
func (s *Scheduled) axisValue(v core.ValID, a core.AxisID) (Value, bool) {
	for _, name := range domains {
		if k := slices.Index(s.domainOf(v, name), a); k >= 0 {
			return Value{Kind: AxisValue, Word: s.name(v), Domain: name, Int: int64(k)}, true
		}
	}
	return Value{}, false
}

// Script returns the calls made by [Scheduled.Call] and [Scheduled.Run], from
// which the schedule can be made again. What was done by other methods is not
// in it, but for a Note.
func (s *Scheduled) Script() Script { return slices.Clone(s.script) }

// Note adds a line to the script that says what was done by other means: a comment,
// without which the script does not make the schedule again.
func (s *Scheduled) Note(what string) { s.script = append(s.script, Call{Note: what}) }

// Reproducer returns a script that makes s of the fusion that is parsed from the
// text of f, of which s is a schedule. There tensors may have other names: what
// the outputs do not need is not in the text.
func (s *Scheduled) Reproducer(f *core.Fusion) (Script, error) {
	g, err := core.Parse(f.String())
	if err != nil {
		return nil, err
	}
	g.Freeze()
	r, names := New(g), map[string]string{}
	for v, name := range f.ParsedNames() {
		names[f.Name(v)] = name
	}
	for i := range s.script {
		c := s.script[i].renamed(names)
		if err := r.Run(Script{c}); err != nil {
			return nil, err
		}
		for k, name := range r.script[len(r.script)-1].Results {
			names[s.script[i].Results[k]] = name
		}
	}
	return r.Script(), nil
}

// renamed returns c without results and with other names of tensors.
func (c *Call) renamed(names map[string]string) Call {
	out := Call{Note: c.Note, Tensor: names[c.Tensor], Primitive: c.Primitive}
	var rename func(v Value) Value
	rename = func(v Value) Value {
		if name, ok := names[v.Word]; ok {
			v.Word = name
		}
		list := slices.Clone(v.List)
		for i := range list {
			list[i] = rename(list[i])
		}
		v.List = list
		return v
	}
	for _, a := range c.Arguments {
		out.Arguments = append(out.Arguments, Argument{a.Name, rename(a.Value)})
	}
	return out
}

// Run makes the calls of a script. If one fails nothing is changed.
//
// Errors: those of [Scheduled.Call], with the line; InvalidArgument for a name
// that the fusion does not have or that a new tensor does not get.
func (s *Scheduled) Run(script Script) error {
	c := s.Clone()
	names := map[string]core.ValID{}
	for v := range c.f.NumVals() {
		if c.f.Val(core.ValID(v)).Tensor {
			names[c.name(core.ValID(v))] = core.ValID(v)
		}
	}
	for i := range script {
		if err := c.runCall(&script[i], names); err != nil {
			if n := script[i].Line; n > 0 {
				return atLine(n, err)
			}
			return err
		}
	}
	*s = *c
	return nil
}

func (s *Scheduled) runCall(call *Call, names map[string]core.ValID) error {
	p := call.Primitive
	if p == nil {
		s.Note(call.Note)
		return nil
	}
	var given []core.Given
	var named []core.Keyword
	if p.Method {
		v, ok := names[call.Tensor]
		if !ok {
			return core.InvalidArgumentf("%s(): there is no tensor %s", p.Name, call.Tensor)
		}
		given = append(given, core.Given{Kind: core.GivenVal, Val: v})
	}
	for i := range call.Arguments {
		a := &call.Arguments[i]
		g, err := s.given(p, &a.Value, names)
		switch {
		case err != nil:
			return err
		case a.Name != "":
			named = append(named, core.Keyword{Name: a.Name, Given: g})
		case len(named) > 0:
			return core.InvalidTypef("%s(): an argument without a name follows one with a name", p.Name)
		default:
			given = append(given, g)
		}
	}
	out, err := s.Call(p, given, named)
	if err != nil {
		return err
	}
	got := make([]string, len(out.Tensors))
	for i, v := range out.Tensors {
		got[i] = s.name(v)
		names[got[i]] = v
	}
	if len(call.Results) > 0 && !slices.Equal(call.Results, got) {
		return core.InvalidArgumentf("%s(): the results are called %s on the left, but their names are [%s]", p.Name, call.Results, strings.Join(got, ", "))
	}
	return nil
}

// given is v as [Scheduled.Call] takes it.
func (s *Scheduled) given(p *Primitive, v *Value, names map[string]core.ValID) (core.Given, error) {
	switch v.Kind {
	case BoolValue:
		return core.Given{Kind: core.GivenNumber, Num: scalar.Value{Type: dtype.Bool, I: v.Int}}, nil
	case IntValue:
		return core.Given{Kind: core.GivenNumber, Num: scalar.Value{Type: dtype.Int, I: v.Int}}, nil
	case WordValue:
		if t, ok := names[v.Word]; ok {
			return core.Given{Kind: core.GivenVal, Val: t}, nil
		}
		return core.Given{Kind: core.GivenName, Name: v.Word}, nil
	case AxisValue:
		t, ok := names[v.Word]
		if !ok {
			return core.Given{}, core.InvalidArgumentf("%s(): there is no tensor %s", p.Name, v.Word)
		}
		axes := s.domainOf(t, v.Domain)
		if v.Int < 0 || v.Int >= int64(len(axes)) {
			return core.Given{}, core.InvalidArgumentf("%s(): %s.%s[%d] does not exist: there are %d axes", p.Name, v.Word, v.Domain, v.Int, len(axes))
		}
		return core.Given{Kind: core.GivenAxis, Axis: axes[v.Int]}, nil
	case ListValue, DictValue:
		g := core.Given{Kind: core.GivenList, List: []core.Given{}}
		for i := range v.List {
			x, err := s.given(p, &v.List[i], names)
			if err != nil {
				return x, err
			}
			g.List = append(g.List, x)
		}
		if v.Kind == DictValue { // as pairs
			pairs := make([]core.Given, 0, len(g.List)/2)
			for i := 0; i+1 < len(g.List); i += 2 {
				pairs = append(pairs, core.Given{Kind: core.GivenList, List: g.List[i : i+2]})
			}
			g.List = pairs
		}
		return g, nil
	}
	return core.Given{}, nil
}

// atLine adds the line of a script to the error of a call.
func atLine(n int, err error) error {
	var argument *core.InvalidArgument
	var kind *core.InvalidType
	var lacks *core.Unsupported
	switch {
	case errors.As(err, &argument):
		return core.InvalidArgumentf("line %d: %v", n, err)
	case errors.As(err, &kind):
		return core.InvalidTypef("line %d: %v", n, err)
	case errors.As(err, &lacks):
		return &core.Unsupported{What: fmt.Sprintf("line %d: %s", n, lacks.What), Refusals: lacks.Refusals}
	}
	return fmt.Errorf("line %d: %w", n, err)
}

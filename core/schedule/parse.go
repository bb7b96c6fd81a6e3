package schedule

import (
	"strconv"
	"strings"

	"nvfuser_go/core"
)

// maxDepth is how deep lists may be in lists.
const maxDepth = 4

// ParseScript reads the text of a script; see [Script].
//
// Errors: InvalidArgument naming the line and what was expected there.
func ParseScript(text string) (Script, error) {
	script := Script{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		p := &parser{rest: strings.TrimSpace(line)}
		if p.rest == "" {
			continue
		}
		c, err := p.call()
		if err != nil {
			return nil, atLine(i+1, err)
		}
		c.Line = i + 1
		script = append(script, c)
	}
	return script, nil
}

// A parser reads one line.
type parser struct{ rest string }

func (p *parser) expected(what string) error {
	got := p.rest
	if len(got) > 20 {
		got = got[:20] + "..."
	}
	if got == "" {
		return core.InvalidArgumentf("%s expected at the end", what)
	}
	return core.InvalidArgumentf("%s expected at %q", what, got)
}

func (p *parser) accept(token string) bool {
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = strings.TrimLeft(rest, " \t\r")
	}
	return ok
}

// word reads a name; "" if there is none.
func (p *parser) word() string {
	n := 0
	for n < len(p.rest) && (isLetter(p.rest[n]) || n > 0 && isDigit(p.rest[n])) {
		n++
	}
	w := p.rest[:n]
	p.rest = strings.TrimLeft(p.rest[n:], " \t\r")
	return w
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

func (p *parser) call() (c Call, err error) {
	names := []string{p.word()}
	for p.accept(",") {
		names = append(names, p.word())
	}
	if p.accept("=") {
		c.Results, names = names, []string{p.word()}
	}
	if len(names) > 1 {
		return c, p.expected("= after names")
	}
	if p.accept(".") {
		c.Tensor = names[0]
		names[0] = p.word()
	}
	c.Primitive = Lookup(names[0])
	switch {
	case names[0] == "":
		return c, p.expected("a primitive")
	case c.Primitive == nil:
		return c, core.InvalidArgumentf("there is no primitive %s", names[0])
	case c.Primitive.Method && c.Tensor == "":
		return c, core.InvalidArgumentf("%s(): it is called on a tensor, as tv1.%s()", names[0], names[0])
	case !c.Primitive.Method && c.Tensor != "":
		return c, core.InvalidArgumentf("%s(): it is not called on a tensor", names[0])
	}
	if c.Arguments, err = p.arguments(); err != nil {
		return c, err
	}
	if p.rest != "" {
		return c, p.expected("the end of the line")
	}
	return c, nil
}

func (p *parser) arguments() ([]Argument, error) {
	if !p.accept("(") {
		return nil, p.expected("(")
	}
	var out []Argument
	for !p.accept(")") {
		if len(out) > 0 && !p.accept(",") {
			return nil, p.expected(", or )")
		}
		a := Argument{}
		before := p.rest
		if a.Name = p.word(); a.Name == "" || !p.accept("=") {
			a.Name, p.rest = "", before
		}
		var err error
		if a.Value, err = p.value(0); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

func (p *parser) value(depth int) (Value, error) {
	switch {
	case depth > maxDepth:
		return Value{}, core.InvalidArgumentf("lists are more than %d deep", maxDepth)
	case p.accept("["):
		return p.list(depth, "]", false)
	case p.accept("{"):
		return p.list(depth, "}", true)
	case p.rest != "" && (p.rest[0] == '-' || isDigit(p.rest[0])):
		n, err := p.integer()
		return Value{Kind: IntValue, Int: n}, err
	}
	switch w := p.word(); {
	case w == "":
		return Value{}, p.expected("a value")
	case w == "None":
		return Value{}, nil
	case w == "True":
		return Value{Kind: BoolValue, Int: 1}, nil
	case w == "False":
		return Value{Kind: BoolValue}, nil
	case p.accept("."):
		return p.axis(w)
	default:
		return Value{Kind: WordValue, Word: w}, nil
	}
}

func (p *parser) integer() (int64, error) {
	n := 1
	for n < len(p.rest) && isDigit(p.rest[n]) {
		n++
	}
	i, err := strconv.ParseInt(p.rest[:n], 10, 64)
	if err != nil {
		return 0, p.expected("an int of 64 bits")
	}
	p.rest = strings.TrimLeft(p.rest[n:], " \t\r")
	return i, nil
}

// list reads the items of a list, or the keys and values of a dict, up to end.
func (p *parser) list(depth int, end string, isDict bool) (Value, error) {
	v := Value{Kind: ListValue, List: []Value{}}
	if isDict {
		v.Kind = DictValue
	}
	for !p.accept(end) {
		switch {
		case isDict && len(v.List)%2 == 1:
			if !p.accept(":") {
				return v, p.expected(":")
			}
		case len(v.List) > 0 && !p.accept(","):
			return v, p.expected(", or " + end)
		}
		x, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.List = append(v.List, x)
		if isDict && len(v.List)%2 == 1 && strings.HasPrefix(p.rest, end) {
			return v, p.expected(":")
		}
	}
	return v, nil
}

// axis reads what follows "tv3." up to "]".
func (p *parser) axis(tensor string) (Value, error) {
	v := Value{Kind: AxisValue, Word: tensor, Domain: p.word()}
	known := false
	for _, d := range domains {
		known = known || d == v.Domain
	}
	if !known {
		return v, core.InvalidArgumentf("%q is not a domain of %s: it has %s", v.Domain, tensor, strings.Join(domains, ", "))
	}
	if !p.accept("[") || p.rest == "" || !isDigit(p.rest[0]) {
		return v, p.expected("a place in [ ]")
	}
	var err error
	if v.Int, err = p.integer(); err == nil && !p.accept("]") {
		err = p.expected("]")
	}
	return v, err
}

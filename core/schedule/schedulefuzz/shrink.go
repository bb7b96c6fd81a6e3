package schedulefuzz

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// Shrink returns a smaller program of which fails is true, as it is of p: calls of
// the script, outputs and expressions are left out while it stays so. It asks at
// most tries times.
func Shrink(p *Program, fails func(*Program) bool, tries int) *Program {
	s := &shrinker{best: p, fails: fails, tries: tries}
	for before := -1; before != s.kept && s.tries > 0; {
		before = s.kept
		s.calls()
		s.outputs()
		s.expressions()
	}
	return s.best
}

type shrinker struct {
	best  *Program
	fails func(*Program) bool
	tries int
	kept  int // how many steps were kept
}

// try keeps p if it fails too.
func (s *shrinker) try(p *Program) bool {
	if p == nil || s.tries <= 0 {
		return false
	}
	s.tries--
	if !s.fails(p) {
		return false
	}
	s.best = p
	s.kept++
	return true
}

// calls leaves out runs of calls of the script, long ones first.
func (s *shrinker) calls() {
	for n := len(s.best.Schedule.Script()); n > 0; n /= 2 {
		for at := 0; at < len(s.best.Schedule.Script()); {
			script := s.best.Schedule.Script()
			p := newDraft(s.best).program(slices.Delete(script, at, min(at+n, len(script))))
			if p == nil || len(p.Schedule.Script()) >= len(s.best.Schedule.Script()) || !s.try(p) {
				at += n
			}
		}
	}
}

func (s *shrinker) outputs() {
	for k := len(s.best.Fusion.Outputs()) - 1; k >= 0 && len(s.best.Fusion.Outputs()) > 1; k-- {
		t := newDraft(s.best)
		t.lines = slices.DeleteFunc(t.lines, func(line string) bool { return line == t.outputs()[k] })
		s.try(t.program(s.best.Schedule.Script()))
	}
}

// expressions replaces what an expression computes by an input of the same
// values, or by one of its operands.
func (s *shrinker) expressions() {
	for back := 1; ; back++ {
		t := newDraft(s.best)
		at := len(t.lines) - len(t.outputs()) - back
		if at < 0 || t.isInput(at) {
			return
		}
		if s.try(t.withInput(at).program(s.best.Schedule.Script())) {
			back = 0
			continue
		}
		for _, operand := range tensors(t.value(at)) {
			if s.try(t.withOperand(at, operand).program(s.best.Schedule.Script())) {
				back = 0
				break
			}
		}
	}
}

// A draft is the text of a fusion as it is edited, with its inputs by name.
// Tensors keep their numbers until program counts them anew.
type draft struct {
	lines  []string
	inputs map[string]fusionfuzz.Input
	of     *Program
}

func newDraft(p *Program) *draft {
	t := &draft{lines: strings.Split(strings.TrimSuffix(p.Fusion.String(), "\n"), "\n"), inputs: map[string]fusionfuzz.Input{}, of: p}
	for i := range p.Inputs {
		t.inputs[t.names(i)] = p.Inputs[i]
	}
	return t
}

var (
	tensorName = regexp.MustCompile(`%\d+`)
	anyName    = regexp.MustCompile(`[%$]\d+`)
)

func tensors(text string) []string { return tensorName.FindAllString(text, -1) }

// names returns what line i defines, "" for an output.
func (t *draft) names(i int) string {
	names, _, _ := strings.Cut(t.lines[i], " = ")
	if strings.HasPrefix(names, "output") {
		return ""
	}
	return names
}

// value returns what line i says of the names it defines.
func (t *draft) value(i int) string {
	_, value, _ := strings.Cut(t.lines[i], " = ")
	return value
}

func (t *draft) isInput(i int) bool {
	return strings.HasPrefix(t.value(i), "tensor ") || strings.HasPrefix(t.value(i), "scalar ")
}

func (t *draft) outputs() []string {
	return slices.DeleteFunc(slices.Clone(t.lines), func(line string) bool { return !strings.HasPrefix(line, "output") })
}

// withInput returns t with an input in place of the one tensor that line i
// computes, or nil if that is not possible.
func (t *draft) withInput(i int) *draft {
	name := t.names(i)
	if strings.Contains(name, ", ") || !strings.HasPrefix(name, "%") || slices.ContainsFunc(t.outputs(), func(o string) bool { return slices.Contains(tensors(o), name) }) {
		return nil
	}
	v := t.of.tensor(name)
	shape := t.of.Fusion.Shape(v)
	for _, a := range t.of.Fusion.Axes(v) {
		if t.of.Fusion.Axis(a).Kind != core.Iter && t.of.Fusion.Axis(a).Kind != core.Broadcast {
			return nil
		}
	}
	array := t.of.values(strings.Join(t.lines[:len(t.lines)-len(t.outputs())], "\n") + "\noutput " + name + "\n")
	if array == nil || len(array.Shape) != len(shape) {
		return nil
	}
	in := fusionfuzz.Input{Array: array, Strides: make([]int64, len(shape))}
	sizes, contiguity, step := make([]string, len(shape)), make([]string, len(shape)), int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		sizes[d], contiguity[d] = "-1", "yes"
		if n, ok := t.of.Fusion.Scalars().ConstInt(shape[d]); ok {
			sizes[d] = fmt.Sprint(n)
		}
		if sizes[d] == "1" {
			contiguity[d] = "none"
		}
		in.Strides[d] = step
		step *= array.Shape[d]
	}
	line := fmt.Sprintf("%s = tensor %s [%s] contiguity=[%s]", name, t.of.Fusion.Val(v).DType.Text(), strings.Join(sizes, ", "), strings.Join(contiguity, ", "))
	u := t.clone()
	u.lines = slices.Insert(slices.Delete(u.lines, i, i+1), len(t.of.Inputs), line)
	u.inputs[name] = in
	return u
}

// withOperand returns t with an operand in place of what line i computes.
func (t *draft) withOperand(i int, operand string) *draft {
	name := t.names(i)
	if strings.Contains(name, ", ") || !strings.HasPrefix(name, "%") {
		return nil
	}
	u := t.clone()
	u.lines = slices.Delete(u.lines, i, i+1)
	for k := i; k < len(u.lines); k++ {
		u.lines[k] = tensorName.ReplaceAllStringFunc(u.lines[k], func(n string) string {
			if n == name {
				return operand
			}
			return n
		})
	}
	return u
}

func (t *draft) clone() *draft {
	u := &draft{lines: slices.Clone(t.lines), inputs: map[string]fusionfuzz.Input{}, of: t.of}
	for name, in := range t.inputs {
		u.inputs[name] = in
	}
	return u
}

// program returns the program of t, scheduled by what is possible of a script of
// t's program, or nil if the text is no fusion.
func (t *draft) program(script schedule.Script) *Program {
	if t == nil {
		return nil
	}
	t.dropUnused()
	var inputs []fusionfuzz.Input
	renamed, count := map[string]string{}, map[byte]int{}
	for i, line := range t.lines {
		if t.isInput(i) {
			inputs = append(inputs, t.inputs[t.names(i)])
		}
		t.lines[i] = anyName.ReplaceAllStringFunc(line, func(name string) string {
			if renamed[name] == "" {
				renamed[name] = fmt.Sprintf("%c%d", name[0], count[name[0]])
				count[name[0]]++
			}
			return renamed[name]
		})
	}
	f, err := core.Parse(strings.Join(t.lines, "\n") + "\n")
	if err != nil {
		return nil
	}
	printed := map[string]string{} // of tensors of f, which prints its expressions in another order
	for v, name := range f.ParsedNames() {
		printed[f.Name(v)] = name
	}
	p, err := parsed(f.String(), inputs)
	if err != nil {
		return nil
	}
	_, _, values := fusionfuzz.Arguments(inputs)
	if _, err := p.Fusion.Bind(values); err != nil {
		return nil
	}
	names := map[string]string{} // of tensors of the old schedule
	for from, to := range renamed {
		if from[0] == '%' {
			names["tv"+from[1:]] = printed["tv"+to[1:]]
		}
	}
	rerun(p.Schedule, script, names)
	return p
}

// dropUnused leaves out what no later line needs.
func (t *draft) dropUnused() {
	needed := map[string]bool{}
	for i := len(t.lines) - 1; i >= 0; i-- {
		names := anyName.FindAllString(t.names(i), -1)
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return needed[n] }) {
			t.lines = slices.Delete(t.lines, i, i+1)
			continue
		}
		for _, n := range anyName.FindAllString(t.lines[i], -1) {
			needed[n] = true
		}
	}
}

// rerun makes the calls of script on s that are possible there. Names has those
// in s of the tensors that the script names.
func rerun(s *schedule.Scheduled, script schedule.Script, names map[string]string) {
	for _, c := range script {
		known := true
		if c.Tensor != "" {
			c.Tensor, known = names[c.Tensor], names[c.Tensor] != ""
		}
		arguments := slices.Clone(c.Arguments)
		for i := range arguments {
			known = known && rename(&arguments[i].Value, names)
		}
		results := c.Results
		c.Arguments, c.Results, c.Line = arguments, nil, 0
		if !known || s.Run(schedule.Script{c}) != nil {
			continue
		}
		made := s.Script()
		for i, name := range made[len(made)-1].Results {
			if i < len(results) {
				names[results[i]] = name
			}
		}
	}
}

var scheduledName = regexp.MustCompile(`^tv\d+$`)

// rename replaces the tensors in v, and leaves unknown ones out of lists; it
// reports whether there was no other unknown one.
func rename(v *schedule.Value, names map[string]string) bool {
	if v.List != nil {
		list := slices.Clone(v.List)
		v.List = slices.DeleteFunc(list, func(x schedule.Value) bool {
			return x.Kind == schedule.WordValue && scheduledName.MatchString(x.Word) && names[x.Word] == ""
		})
		for i := range v.List {
			if !rename(&v.List[i], names) {
				return false
			}
		}
		return len(list) == 0 || len(v.List) > 0
	}
	if !scheduledName.MatchString(v.Word) {
		return true
	}
	v.Word = names[v.Word]
	return v.Word != ""
}

// tensor returns the one that the text of p calls name.
func (p *Program) tensor(name string) core.ValID {
	for v := range p.Fusion.NumVals() {
		if x := p.Fusion.Val(core.ValID(v)); x.Tensor && fmt.Sprintf("%%%d", x.Number) == name {
			return core.ValID(v)
		}
	}
	panic("schedulefuzz: the text names a tensor that is not there: " + name)
}

// values returns the output of a fusion on the inputs of p, or nil.
func (p *Program) values(text string) *core.Array {
	f, err := core.Parse(text)
	if err != nil {
		return nil
	}
	f.Freeze()
	arrays, scalars, _ := fusionfuzz.Arguments(p.Inputs)
	out, err := f.Eval(arrays, scalars, core.RandomState{})
	if err != nil {
		return nil
	}
	return out[0]
}

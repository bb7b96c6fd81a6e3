package schedule

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A Primitive is one row of the table of calls by which a program schedules by
// hand. Python, the C interface, scripts and their tests read the rows; nothing
// else mentions a primitive by name.
type Primitive struct {
	Name       string
	Method     bool        // called on a tensor, as tv3.split(0, 128); else as inline_most()
	Parameters []Parameter // less the tensor of a method
	Returns    Returns
	Does       string // one sentence or more, for the user
	do         func(c *call) error
}

// A Returns says what a primitive gives back.
type Returns uint8

const (
	Nothing     Returns = iota
	OneTensor           // a new tensor
	SomeTensors         // new tensors, one for each result of the expression
	Refusing            // why tensors could not follow
)

// A Parameter is one parameter of a primitive.
type Parameter struct {
	Name     string
	Kind     ParameterKind
	Optional bool       // may be left out or None
	Default  core.Given // of an optional parameter; GivenNone: none
}

// A ParameterKind says what a caller may pass.
type ParameterKind uint8

const (
	TensorParameter     ParameterKind = iota // a tensor
	TensorsParameter                         // a list of tensors; an empty one is as none
	PlaceParameter                           // an int that counts loop axes, or an axis of the tensor's loop domain
	PlacesParameter                          // a list of ints that count loop axes
	IntegerParameter                         // an int
	FlagParameter                            // a bool
	MovesParameter                           // a dict of ints: old place -> new place
	AxesParameter                            // a list of axes
	ContiguityParameter                      // a bool, or a list of bools and None
	ParallelParameter                        // a member of ParallelType
	ParallelsParameter                       // a set of them
	MemoryParameter                          // of MemoryType
	CopyParameter                            // of LoadStoreOpType
	CacheParameter                           // of CacheOp
)

func (k ParameterKind) String() string {
	return [...]string{"a tensor", "a list of tensors", "an int", "a list of ints", "an int", "a bool", "a dict of ints",
		"a list of axes", "a bool, or a list of bools and None", "a ParallelType", "a list of ParallelType", "a MemoryType",
		"a LoadStoreOpType", "a CacheOp"}[k]
}

// An Enumeration lists the members of one of Python's enumerations in the order
// of their values here. A member without a value has value -1.
type Enumeration struct {
	Name    string
	members []member
}

type member struct {
	name  string
	value int
}

var enumerations = map[ParameterKind]*Enumeration{
	ParallelParameter: {"ParallelType", []member{{"serial", int(Serial)}, {"grid_x", int(BIDx)}, {"grid_y", int(BIDy)}, {"grid_z", int(BIDz)},
		{"block_x", int(TIDx)}, {"block_y", int(TIDy)}, {"block_z", int(TIDz)}, {"unroll", int(Unroll)}, {"unswitch", int(Unswitch)},
		{"vectorize", int(Vectorize)}, {"group", int(Group)}, {"tma", int(Bulk)}, {"cluster", int(Cluster)}, {"stream", int(Stream)},
		{"mesh_x", int(MeshX)}, {"mesh_y", int(MeshY)}, {"mesh_z", int(MeshZ)}, {"mma", -1}}},
	MemoryParameter: {"MemoryType", []member{{"local", int(Local)}, {"shared", int(Shared)}, {"global", int(Global)}, {"tensor", -1}, {"symmetric", -1}}},
	CopyParameter:   {"LoadStoreOpType", []member{{"set", int(PlainCopy)}, {"load_matrix", int(LoadMatrix)}, {"cp_async", int(AsyncCopy)}, {"tma", int(BulkCopy)}}},
	CacheParameter: {"CacheOp", []member{{"unspecified", int(CacheUnspecified)}, {"all_levels", int(CacheAllLevels)},
		{"streaming", int(CacheStreaming)}, {"global", int(CacheGlobal)},
		{"evict_first", int(CacheEvictFirst)}, {"evict_last", int(CacheEvictLast)}}},
}

func init() { enumerations[ParallelsParameter] = enumerations[ParallelParameter] }

// PythonName returns the member of Python's ParallelType that p is.
func (p Parallel) PythonName() string { return enumerations[ParallelParameter].nameOf(int(p)) }

func (e *Enumeration) nameOf(value int) string {
	return e.members[slices.IndexFunc(e.members, func(m member) bool { return m.value == value })].name
}

// Lookup returns the primitive called name, or nil.
func Lookup(name string) *Primitive { return byName[name] }

// An Outcome is what a call gave back.
type Outcome struct {
	Tensors  []core.ValID   // new ones
	Refusals []core.Refusal // of tensors that could not follow
}

// Call makes a call of p as a caller spelled it; the tensor of a method comes
// first, or a loop axis of it, which stands for the two. A call that fails changes nothing; one that does not is kept for
// [Scheduled.Script].
//
// Errors: InvalidType if an argument is of the wrong kind or missing;
// InvalidArgument if a value breaks a rule, naming the tensor, the axis and the
// rule; Unsupported for what this build has no meaning for.
func (s *Scheduled) Call(p *Primitive, given []core.Given, keywords []core.Keyword) (Outcome, error) {
	c := &call{s: s, p: p, tensor: core.NoVal}
	record, err := c.bind(given, keywords)
	if err != nil {
		return Outcome{}, err
	}
	if err := p.do(c); err != nil {
		return Outcome{}, err
	}
	for _, v := range c.out.Tensors {
		record.Results = append(record.Results, s.name(v))
	}
	s.script = append(s.script, record)
	return c.out, nil
}

// A call is one with its arguments bound.
type call struct {
	s      *Scheduled
	p      *Primitive
	tensor core.ValID // of a method
	values []argument // by parameter
	out    Outcome
}

type argument struct {
	present bool
	tensor  core.ValID
	tensors []core.ValID
	number  int   // also a bool and the value of a member
	numbers []int // of a list; the old and new places in turn
	axes    []core.AxisID
}

func (c *call) argument(name string) *argument {
	for i := range c.p.Parameters {
		if c.p.Parameters[i].Name == name {
			return &c.values[i]
		}
	}
	panic("schedule: " + c.p.Name + " has no parameter " + name)
}

func (c *call) int(name string) int            { return c.argument(name).number }
func (c *call) flag(name string) bool          { return c.argument(name).number != 0 }
func (c *call) ints(name string) []int         { return c.argument(name).numbers }
func (c *call) of(name string) core.ValID      { return c.argument(name).tensor }
func (c *call) all(name string) []core.ValID   { return c.argument(name).tensors }
func (c *call) axes(name string) []core.AxisID { return c.argument(name).axes }

// bind turns arguments into what the kinds of p's parameters say, and returns
// the call as a script has it.
func (c *call) bind(given []core.Given, keywords []core.Keyword) (Call, error) {
	record := Call{Primitive: c.p}
	if c.p.Method {
		if len(given) > 0 && given[0].Kind == core.GivenAxis {
			v := c.s.loopOwner(given[0].Axis)
			if v == core.NoVal {
				return record, core.InvalidArgumentf("%s(): the axis is in no loop domain: it was split or merged", c.p.Name)
			}
			given = append([]core.Given{{Kind: core.GivenVal, Val: v}}, given...)
		}
		if len(given) == 0 || !c.isTensor(given[0]) {
			return record, core.InvalidTypef("%s(): it is called on a tensor, as tv1.%s()", c.p.Name, c.p.Name)
		}
		c.tensor, given = given[0].Val, given[1:]
		record.Tensor = c.s.name(c.tensor)
	}
	params := c.p.Parameters
	name := func(i int) string { return params[i].Name }
	slots, present, err := core.Arrange(c.p.Name, name, len(params), len(params), given, keywords)
	if err != nil {
		return record, err
	}
	c.values = make([]argument, len(params))
	left := false // a parameter was left out: what follows is named
	for i := range params {
		g := slots[i]
		if !present[i] || g.Kind == core.GivenNone {
			if !params[i].Optional {
				if present[i] {
					return record, c.wrong(&params[i], g)
				}
				return record, core.Missing(c.p.Name, name, len(params), i)
			}
			left = true
			if g = params[i].Default; g.Kind == core.GivenNone {
				continue
			}
			if err := c.take(&params[i], &c.values[i], g); err != nil {
				return record, err
			}
			continue
		}
		c.values[i].present = true
		if err := c.take(&params[i], &c.values[i], g); err != nil {
			return record, err
		}
		keyword := ""
		if left {
			keyword = params[i].Name
		}
		record.Arguments = append(record.Arguments, Argument{keyword, c.s.valueOf(params[i].Kind, &c.values[i], c.tensor)})
	}
	record.Arguments = c.needed(record.Arguments)
	return record, nil
}

// needed returns arguments, which are bound, less the last ones that say what
// leaving them out says too.
func (c *call) needed(arguments []Argument) []Argument {
	at := len(c.p.Parameters)
	for len(arguments) > 0 {
		for at--; !c.values[at].present; at-- {
		}
		p, last := &c.p.Parameters[at], &arguments[len(arguments)-1]
		isDefault := p.Optional && last.Kind == ListValue && len(last.List) == 0
		if p.Default.Kind != core.GivenNone {
			var a argument
			if err := c.take(p, &a, p.Default); err == nil {
				v := c.s.valueOf(p.Kind, &a, c.tensor)
				isDefault = v.Kind == last.Kind && v.Int == last.Int && v.Word == last.Word
			}
		}
		if !isDefault {
			break
		}
		arguments = arguments[:len(arguments)-1]
	}
	return arguments
}

// loopOwner returns the tensor that has a among its loop axes, or NoVal.
func (s *Scheduled) loopOwner(a core.AxisID) core.ValID {
	for v := range s.f.NumVals() {
		if v := core.ValID(v); s.f.Val(v).Tensor && slices.Contains(s.Loop(v), a) {
			return v
		}
	}
	return core.NoVal
}

func (c *call) isTensor(g core.Given) bool {
	return g.Kind == core.GivenVal && int(g.Val) < c.s.f.NumVals() && c.s.f.Val(g.Val).Tensor
}

func (c *call) wrong(p *Parameter, g core.Given) error {
	return core.InvalidTypef("%s(): %s must be %v, got %s", c.p.Name, p.Name, p.Kind, c.s.f.GivenText(g))
}

// take puts g into a, as the kind of p says.
func (c *call) take(p *Parameter, a *argument, g core.Given) error {
	ok := false
	switch p.Kind {
	case TensorParameter:
		a.tensor, ok = g.Val, c.isTensor(g)
	case TensorsParameter:
		ok = c.each(g, func(x core.Given) bool {
			a.tensors = append(a.tensors, x.Val)
			return c.isTensor(x)
		})
	case PlaceParameter:
		if g.Kind == core.GivenAxis {
			return c.place(p, a, g.Axis)
		}
		a.number, ok = integer(g)
	case IntegerParameter:
		a.number, ok = integer(g)
	case FlagParameter:
		a.number, ok = int(g.Num.I), isFlag(g)
	case PlacesParameter:
		ok = c.each(g, a.add)
	case MovesParameter:
		ok = c.each(g, func(x core.Given) bool { return len(x.List) == 2 && c.each(x, a.add) })
	case AxesParameter:
		ok = c.each(g, func(x core.Given) bool {
			a.axes = append(a.axes, x.Axis)
			return x.Kind == core.GivenAxis
		})
		for k, x := range a.axes {
			if _, known := c.s.axisValue(c.tensor, x); ok && !known {
				return core.InvalidArgumentf("%s(): %s[%d] is not an axis of %s", c.p.Name, p.Name, k, c.s.name(c.tensor))
			}
		}
	case ContiguityParameter:
		a.number, ok = int(g.Num.I), isFlag(g)
		if g.Kind == core.GivenList {
			a.numbers = []int{}
			ok = c.each(g, func(x core.Given) bool {
				n := -1
				if x.Kind != core.GivenNone {
					n = int(x.Num.I)
				}
				a.numbers = append(a.numbers, n)
				return x.Kind == core.GivenNone || isFlag(x)
			})
		}
	case ParallelsParameter:
		if g.Kind != core.GivenList {
			break
		}
		for _, x := range g.List {
			n, err := c.member(p, x)
			if err != nil {
				return err
			}
			a.numbers = append(a.numbers, n)
		}
		return nil
	default:
		var err error
		a.number, err = c.member(p, g)
		return err
	}
	if !ok {
		return c.wrong(p, g)
	}
	return nil
}

// place finds axis in the loop domain of the tensor.
func (c *call) place(p *Parameter, a *argument, axis core.AxisID) error {
	a.number = slices.Index(c.s.Loop(c.tensor), axis)
	if a.number < 0 {
		return core.InvalidArgumentf("%s(): the axis is not in the loop domain of %s, %s: it was split or merged, or is of another tensor",
			c.p.Name, c.s.name(c.tensor), c.s.domainText(c.s.Loop(c.tensor)))
	}
	return nil
}

func (c *call) each(g core.Given, take func(core.Given) bool) bool {
	if g.Kind != core.GivenList {
		return false
	}
	for _, x := range g.List {
		if !take(x) {
			return false
		}
	}
	return true
}

func (a *argument) add(g core.Given) bool {
	n, ok := integer(g)
	a.numbers = append(a.numbers, n)
	return ok
}

func integer(g core.Given) (int, bool) {
	return int(g.Num.I), g.Kind == core.GivenNumber && g.Num.Type == dtype.Int
}

func isFlag(g core.Given) bool { return g.Kind == core.GivenNumber && g.Num.Type == dtype.Bool }

// member returns the value of the enumeration's member that g names.
func (c *call) member(p *Parameter, g core.Given) (int, error) {
	e := enumerations[p.Kind]
	if g.Kind != core.GivenName {
		return 0, c.wrong(p, g)
	}
	at := slices.IndexFunc(e.members, func(m member) bool { return m.name == g.Name })
	switch {
	case at < 0:
		return 0, core.InvalidArgumentf("%s(): %s is %s, which is not a member of %s", c.p.Name, p.Name, g.Name, e.Name)
	case e.members[at].value < 0:
		return 0, c.unsupported(p.Name, "%s.%s has no meaning in this build", e.Name, g.Name)
	}
	return e.members[at].value, nil
}

// unsupported is the refusal of a call, by a rule.
func (c *call) unsupported(rule, format string, args ...any) error {
	name := ""
	if c.tensor != core.NoVal {
		name = c.s.name(c.tensor)
	}
	r := core.Refusal{By: "schedule", Rule: rule, Tensor: name, Sentence: core.InvalidArgumentf(format, args...).Error()}
	return &core.Unsupported{What: c.p.Name + "() is not supported", Refusals: []core.Refusal{r}}
}

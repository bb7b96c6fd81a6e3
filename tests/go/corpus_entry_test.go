package tests

import (
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/codegen/trial"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// An entry is one archive of testdata/corpus. Its sections are
//
//	fusion    a fusion in its text form
//	inputs    one set of inputs, any number of times: a line "%0 [3, 5]" for each
//	          tensor, in order, with "strides=[1, 3]" where they are not dense and
//	          "unique" where its elements are 0, 1, 2, ... in some order, "times=3"
//	          where they are 0, 3, 6, ...; a line
//	          "$0 2.5" for each scalar; "seed 7"
//	schedule  a schedule by hand, a [schedule.Script], any number of times. Without
//	          one the schedulers choose, and every candidate that can be lowered is
//	          a kernel
//	options   words: "int64" keeps the sizes of the launch from lowering, which then
//	          has to allow for any; "unpromised" also what divides them
//	expect    words that say what some kernel of the entry has: see featureNames.
//	          "conflicts=4" is the largest number of words that a request needs
//	          from one bank of shared memory; "spills" says that its kernels may take memory for registers,
//	          "stack" that they have arrays in memory, as functions of double
//	          precision have
//	needless  what a kernel of the entry can do without, a line each as TestCorpus
//	          names it, with a reason after " # "; it must be so at one place at least
type entry struct {
	name, point string
	fusion      *core.Fusion
	inputs      []inputs
	schedules   []string
	options     []string
	expect      []string
	needless    map[string]string // reasons
}

// An inputs is one set of inputs and what the fusion computes of it.
type inputs struct {
	label  string
	values []fusionfuzz.Input
	want   []*core.Array
}

// A subject is one kernel of an entry with one set of inputs.
type subject struct {
	entry  *entry
	inputs *inputs
	choice string // what made the schedule
	trial.Trial
}

func (s *subject) String() string {
	return fmt.Sprintf("%s, %s, %s", s.entry.name, s.inputs.label, s.choice)
}

// randomState is that of all runs.
var randomState = core.RandomState{Seed: 1234, Offset: 8}

// readEntries parses the archives.
func readEntries(pattern string) ([]*entry, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", pattern, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no archive matches %s in tests/go", pattern)
	}
	var all []*entry
	var problems []error
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err == nil {
			var e *entry
			e, err = parseEntry(strings.TrimSuffix(filepath.Base(file), ".txtar"), archive)
			all = append(all, e)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", file, err))
		}
	}
	return all, errors.Join(problems...)
}

func parseEntry(name string, archive *txtar.Archive) (*entry, error) {
	e := &entry{name: name, point: strings.TrimSpace(string(archive.Comment))}
	var given []string
	for _, section := range archive.Files {
		text := string(section.Data)
		switch section.Name {
		case "fusion":
			f, err := core.Parse(text)
			if err != nil {
				return nil, err
			}
			f.Freeze()
			e.fusion = f
		case "inputs":
			given = append(given, text)
		case "schedule":
			e.schedules = append(e.schedules, text)
		case "options":
			e.options = append(e.options, strings.Fields(text)...)
		case "expect":
			e.expect = append(e.expect, strings.Fields(text)...)
		case "needless":
			e.needless = map[string]string{}
			for line := range strings.Lines(text) {
				what, why, _ := strings.Cut(strings.TrimSpace(line), " # ")
				e.needless[what] = why
			}
		default:
			return nil, fmt.Errorf("there is no section %q", section.Name)
		}
	}
	if e.fusion == nil || len(given) == 0 || e.point == "" {
		return nil, fmt.Errorf("an entry needs a comment, a fusion and inputs")
	}
	for _, text := range given {
		in, err := parseInputs(e.fusion, text)
		if err != nil {
			return nil, err
		}
		if in.want, err = trial.Want(e.fusion, in.values, randomState); err != nil {
			return nil, err
		}
		e.inputs = append(e.inputs, *in)
	}
	return e, nil
}

// parseInputs reads a section "inputs".
func parseInputs(f *core.Fusion, text string) (*inputs, error) {
	in := &inputs{}
	var sizes, strides [][]int64
	var unique []bool
	var times []string
	scalars := map[int]string{} // by number
	seed := uint64(1)
	var labels []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		head, rest, _ := strings.Cut(line, " ")
		var err error
		switch {
		case line == "":
		case head == "seed":
			seed, err = strconv.ParseUint(rest, 10, 64)
		case strings.HasPrefix(head, "$"):
			labels = append(labels, line)
			scalars[len(scalars)] = rest
		case head == fmt.Sprintf("%%%d", len(sizes)):
			body, layout, _ := strings.Cut(rest, "]")
			labels = append(labels, body+"]"+layout)
			var shape, steps []int64
			shape, err = integers(body + "]")
			if list, ok := strings.CutPrefix(strings.TrimSpace(layout), "strides="); ok && err == nil {
				steps, err = integers(list)
			}
			layout = strings.TrimSpace(layout)
			factor, isTimes := strings.CutPrefix(layout, "times=")
			times = append(times, factor)
			if err == nil && steps == nil && layout != "" && layout != "unique" && !isTimes {
				err = fmt.Errorf("%q does not say how %s lies in memory", layout, head)
			}
			sizes, strides, unique = append(sizes, shape), append(strides, steps), append(unique, layout == "unique")
		default:
			err = fmt.Errorf("%q stands where input %%%d is expected", line, len(sizes))
		}
		if err != nil {
			return nil, err
		}
	}
	in.label = strings.Join(labels, " ")
	tensors, numbers := 0, 0
	for _, v := range f.Inputs() {
		if f.Val(v).Tensor {
			tensors++
		} else {
			numbers++
		}
	}
	if len(sizes) != tensors || len(scalars) != numbers {
		return nil, fmt.Errorf("the fusion has %d tensors and %d scalars, and %d and %d are given", tensors, numbers, len(sizes), len(scalars))
	}
	in.values = fusionfuzz.Inputs(f, seed, sizes...)
	tensors, numbers = 0, 0
	for i := range in.values {
		x := &in.values[i]
		if x.Array == nil {
			v, err := number(f.Val(f.Inputs()[i]).DType, scalars[numbers])
			if err != nil {
				return nil, err
			}
			x.Scalar, numbers = v, numbers+1
			continue
		}
		if strides[tensors] != nil {
			x.Strides = strides[tensors]
		}
		if unique[tensors] {
			permute(x.Array, seed)
		}
		if n, err := strconv.ParseInt(times[tensors], 10, 64); err == nil {
			for i := range int64(x.Array.Len()) {
				x.Array.Set(i, scalar.Value{Type: x.Array.Type, I: i * n})
			}
		}
		tensors++
	}
	return in, nil
}

// permute gives a the elements 0, 1, 2, ... in an order that depends on seed.
func permute(a *core.Array, seed uint64) {
	n := int64(a.Len())
	for i := range n {
		a.Set(i, scalar.Value{Type: a.Type, I: i})
	}
	for i := n - 1; i > 0; i-- {
		seed = seed*6364136223846793005 + 1442695040888963407
		j := int64(seed>>33) % (i + 1)
		x, y := a.At(i), a.At(j)
		a.Set(i, y)
		a.Set(j, x)
	}
}

func number(t dtype.Type, text string) (scalar.Value, error) {
	x, err := strconv.ParseFloat(text, 64)
	return core.ConvertScalar(t, scalar.Value{Type: dtype.Double, Re: x}), err
}

// integers parses "[1, 2]".
func integers(text string) ([]int64, error) {
	inside, ok := strings.CutPrefix(strings.TrimSpace(text), "[")
	inside, closed := strings.CutSuffix(inside, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("%q is no list", text)
	}
	list := []int64{}
	for word := range strings.FieldsFuncSeq(inside, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// subjects schedules and lowers the entry for each set of inputs.
func (e *entry) subjects() ([]*subject, error) {
	var all []*subject
	for i := range e.inputs {
		in := &e.inputs[i]
		scheduled, choices, err := e.scheduled(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.label, err)
		}
		var refused []error // candidates; the executor takes the next one too
		for k, s := range scheduled {
			x := &subject{entry: e, inputs: in, choice: choices[k]}
			err := x.lower(s)
			var unsupported *core.Unsupported
			switch {
			case err == nil:
				all = append(all, x)
			case e.schedules == nil && errors.As(err, &unsupported):
				refused = append(refused, fmt.Errorf("%v: %w", x, err))
			default:
				return nil, fmt.Errorf("%v: %w", x, err)
			}
		}
		if len(refused) == len(scheduled) {
			return nil, errors.Join(refused...)
		}
	}
	return all, nil
}

// scheduled returns the schedules of the entry for one set of inputs, and what
// made each.
func (e *entry) scheduled(in *inputs) (all []*schedule.Scheduled, choices []string, err error) {
	for k, script := range e.schedules {
		s := schedule.New(e.fusion)
		if err := runScript(s, script); err != nil {
			return nil, nil, err
		}
		all, choices = append(all, s), append(choices, fmt.Sprintf("schedule %d", k))
	}
	if e.schedules != nil {
		return all, choices, nil
	}
	bind, err := e.fusion.Bind(trial.Values(in.values))
	if err != nil {
		return nil, nil, err
	}
	segment, err := scheduler.Dense(e.fusion, bind)
	if err != nil {
		return nil, nil, err
	}
	chosen, refusals := schedulers.Choose(segment, scheduler.Hopper)
	if chosen == nil {
		return nil, nil, &core.Unsupported{What: "no scheduler takes this fusion", Refusals: refusals}
	}
	for _, p := range chosen.Candidates(segment, scheduler.Hopper) {
		if v, ok := p.(scheduler.Vectorized); ok && v.Width() > 1 && slices.Contains(e.options, "unpromised") {
			continue // sizes must be known to be multiples
		}
		s, err := chosen.Apply(segment, p)
		if err != nil {
			return nil, nil, err
		}
		all, choices = append(all, s), append(choices, p.String())
	}
	return all, choices, nil
}

// lower makes the kernel of s. Both are verified, the kernel after every pass
// that leaves it complete. The host promises what it could check: that sizes and
// strides which are not 0 stay so, which powers of two divide them, and which strides are of a few elements.
func (x *subject) lower(s *schedule.Scheduled) error {
	if err := s.Verify(); err != nil {
		return err
	}
	given, err := trial.Integers(s, x.inputs.values)
	if err != nil {
		return err
	}
	o := lower.Options{Alignment: func(core.ValID) int { return 16 }, Cooperative: true, After: func(p lower.Pass, k *kir.Kernel) error {
		if !p.Complete {
			return nil
		}
		return k.Verify()
	}}
	if !slices.Contains(x.entry.options, "unpromised") {
		o.Promise = func(h kir.HostValue) scalar.Facts {
			n, ok := given(h)
			if !ok || n <= 0 {
				return scalar.Unknown()
			}
			if h.Stride >= 0 && n > 1 && n <= kir.MaxStep {
				return scalar.Range(n, n)
			}
			return scalar.Facts{Lo: 1, Hi: 1 << 62, Divisor: 1 << min(bits.TrailingZeros64(uint64(n)), 4)}
		}
	}
	if !slices.Contains(x.entry.options, "int64") {
		o.Value = given
	}
	k, err := lower.Lower(s, o)
	if err != nil {
		return err
	}
	x.Trial = trial.Trial{Scheduled: s, Kernel: k, Inputs: x.inputs.values, Random: randomState}
	return errors.Join(k.Verify(), k.CheckLimits(kir.Hopper))
}

// runScript makes the calls of a section "schedule".
func runScript(s *schedule.Scheduled, text string) error {
	script, err := schedule.ParseScript(text)
	if err != nil {
		return err
	}
	return s.Run(script)
}

// classes returns the classes of the operations of the entry.
func (e *entry) classes() []core.Class {
	var all []core.Class
	for _, id := range e.fusion.Order() {
		if c := e.fusion.Expr(id).Op.Class; !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

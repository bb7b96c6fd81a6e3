package segmenter

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/scalar"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// A trial is a concrete fusion and inputs for it.
type trial struct {
	f       *core.Fusion
	b       *core.Binding
	arrays  []*core.Array
	scalars []scalar.Value
	random  core.RandomState
	values  []core.InputValue
}

// newTrial makes f concrete for inputs; its error is that of binding.
func newTrial(f *core.Fusion, inputs []fusionfuzz.Input) (*trial, error) {
	arrays, scalars, values := fusionfuzz.Arguments(inputs)
	b, err := f.Bind(slices.Clone(values))
	if err != nil {
		return nil, err
	}
	if f, _, err = f.Concretize(b); err != nil {
		return nil, err
	}
	if b, err = f.Bind(slices.Clone(values)); err != nil {
		return nil, err
	}
	return &trial{f, b, arrays, scalars, core.RandomState{Seed: 7, Offset: 40}, values}, nil
}

// parsed returns the trial of a text, with inputs of the given sizes.
func parsed(t testing.TB, text string, sizes ...[]int64) *trial {
	t.Helper()
	return parsedWith(t, text, nil, sizes...)
}

// parsedWith is parsed with integers for the scalars of the text, in order.
func parsedWith(t testing.TB, text string, scalars []int64, sizes ...[]int64) *trial {
	t.Helper()
	f, err := core.Parse(text)
	require.NoError(t, err)
	f.Freeze()
	inputs := fusionfuzz.Inputs(f, 3, sizes...)
	for i := range inputs {
		if inputs[i].Array == nil && len(scalars) > 0 {
			inputs[i].Scalar.I, scalars = scalars[0], scalars[1:]
		}
	}
	x, err := newTrial(f, inputs)
	require.NoError(t, err)
	return x
}

// run computes p segment by segment, with the memory of inputs as segments leave it.
func (x *trial) run(p *Program) ([]*core.Array, error) {
	f := x.f
	at := map[core.ValID]*core.Array{}
	inputScalars := map[scalar.ID]scalar.Value{}
	overwritten := map[core.ValID]bool{}
	strides, first := map[core.ValID][]int64{}, map[core.ValID]int64{} // of views
	for i, v := range f.Inputs() {
		at[v] = x.arrays[i]
		if val := f.Val(v); !val.Tensor {
			inputScalars[val.Scalar] = x.scalars[i]
		}
	}
	memory := map[core.ValID]core.ValID{} // of a view: the tensor whose memory it is
	base := func(v core.ValID) core.ValID {
		for {
			u, ok := memory[v]
			if !ok {
				return v
			}
			v = u
		}
	}
	for _, v := range p.Empty {
		shape, err := x.b.Shape(v)
		if err != nil {
			return nil, err
		}
		if core.NumElements(shape) != 0 {
			return nil, fmt.Errorf("%s has elements and is not computed", f.Name(v))
		}
		at[v] = core.NewArray(f.Val(v).DType, shape)
	}
	computed := map[core.ValID]bool{}
	for i, s := range p.Segments {
		var arrays []*core.Array
		var scalars []scalar.Value
		for k, in := range s.Inputs {
			if in.Val == core.NoVal {
				v, err := x.symbol(in.Scalar)
				if err != nil {
					return nil, err
				}
				arrays, scalars = append(arrays, nil), append(scalars, v)
				continue
			}
			if at[in.Val] == nil {
				return nil, fmt.Errorf("segment %d reads %s, which is not computed yet", i, f.Name(in.Val))
			}
			isTarget := slices.ContainsFunc(s.Fusion.Outputs(), func(o core.Output) bool { return o.Alias == s.Fusion.Inputs()[k] })
			if overwritten[base(in.Val)] && !isTarget {
				return nil, fmt.Errorf("segment %d reads %s, which is overwritten", i, f.Name(in.Val))
			}
			arrays, scalars = append(arrays, at[in.Val]), append(scalars, scalar.Value{})
		}
		out, err := s.Fusion.Eval(arrays, scalars, core.RandomState{Seed: x.random.Seed, Offset: x.random.Offset + 4*uint64(s.Draw)})
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", i, err)
		}
		for k, v := range s.Writes {
			if computed[v] {
				return nil, fmt.Errorf("segment %d computes %s again", i, f.Name(v))
			}
			computed[v], at[v] = true, out[k]
			if s.Kind == View {
				memory[v] = s.Inputs[0].Val
				if err := x.lies(s, base(v), at, strides, first); err != nil {
					return nil, fmt.Errorf("segment %d: %w", i, err)
				}
			}
			if a := s.Fusion.Outputs()[k].Alias; a != core.NoVal {
				target := s.Inputs[slices.Index(s.Fusion.Inputs(), a)].Val
				if overwritten[target] {
					return nil, fmt.Errorf("segment %d writes to %s again", i, f.Name(target))
				}
				overwritten[target] = true
			}
		}
	}
	var all []*core.Array
	for k, o := range p.Outputs {
		if o.Output != f.Outputs()[k] {
			return nil, fmt.Errorf("output %d is another one", k)
		}
		if o.InPlace && !overwritten[o.Alias] {
			return nil, fmt.Errorf("output %d is not in place", k)
		}
		if at[o.Val] == nil {
			return nil, fmt.Errorf("output %s is not computed", f.Name(o.Val))
		}
		all = append(all, at[o.Val])
	}
	return all, nil
}

// lies checks that the result of s, a view, lies in the memory of base, and notes its strides.
func (x *trial) lies(s *Segment, base core.ValID, at map[core.ValID]*core.Array, strides map[core.ValID][]int64, first map[core.ValID]int64) error {
	from, to := s.Inputs[0].Val, s.Writes[0]
	if strides[from] == nil {
		strides[from] = x.stored(from, at[from].Shape)
	}
	var values []core.InputValue
	for _, in := range s.Inputs {
		if in.Val != core.NoVal {
			values = append(values, core.InputValue{Tensor: true, DType: at[in.Val].Type, Sizes: at[in.Val].Shape})
			continue
		}
		v, err := x.b.Value(in.Scalar)
		if err != nil {
			return err
		}
		values = append(values, core.InputValue{Scalar: v})
	}
	scalars, err := s.Fusion.Bind(values)
	if err != nil {
		return err
	}
	var begin int64
	if strides[to], begin, err = s.Lies(scalars, at[from].Shape, strides[from], at[to].Shape); err != nil {
		return err
	}
	first[to] = first[from] + begin
	offset := func(v core.ValID, index []int64) int64 {
		o := first[v]
		for d, i := range index {
			o += i * strides[v][d]
		}
		return o
	}
	elements := map[int64]scalar.Value{}
	k := int64(0)
	core.EachIndex(at[base].Shape, func(index []int64) {
		elements[offset(base, index)] = at[base].At(k)
		k++
	})
	k = 0
	core.EachIndex(at[to].Shape, func(index []int64) {
		if v, ok := elements[offset(to, index)]; (!ok || fmt.Sprint(v) != fmt.Sprint(at[to].At(k))) && err == nil {
			err = fmt.Errorf("%s at %v is %v, and %v is in memory", x.f.Name(to), index, at[to].At(k), v)
		}
		k++
	})
	return err
}

// stored returns the strides of a tensor that is no view, with gaps where an input may have them.
func (x *trial) stored(v core.ValID, shape []int64) []int64 {
	strides, step := make([]int64, len(shape)), int64(1)
	domain := &x.f.Val(v).Domain
	axes := domain.Allocation()
	for k, a := range slices.Backward(axes) {
		d := slices.Index(x.f.Axes(v), a)
		if d < 0 || x.f.Axis(a).Kind == core.Broadcast && shape[d] != 1 {
			continue
		}
		if x.f.Val(v).Input && domain.Contig[k] == core.No {
			step += 3
		}
		strides[d] = step
		step *= shape[d]
	}
	return strides
}

func (x *trial) symbol(s scalar.ID) (scalar.Value, error) { return x.b.Value(s) }

// check cuts and compares with the whole: to the bit, as each operation rounds the same.
func (x *trial) check(o Options) (*Program, error) {
	p, err := Cut(x.f, x.b, scheduler.Hopper, o)
	if err != nil {
		return nil, err
	}
	want, err := x.f.Eval(x.arrays, x.scalars, x.random)
	if err != nil {
		return p, err
	}
	got, err := x.run(p)
	if err != nil {
		return p, err
	}
	for k := range want {
		if text := fusionfuzz.Difference(want[k], got[k], 0); text != "" {
			return p, fmt.Errorf("output %d: %s", k, text)
		}
	}
	return p, x.sound(p, o)
}

// sound checks what is promised of a program.
func (x *trial) sound(p *Program, o Options) error {
	for i, s := range p.Segments {
		if !s.Fusion.Frozen() {
			return fmt.Errorf("segment %d is not frozen", i)
		}
		if err := s.Fusion.Verify(); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		for _, id := range s.Exprs {
			e := x.f.Expr(id)
			if e.Op == core.SegmentSetOp && !x.f.Val(e.Args[0].Tensor).Input || o.apart != nil && o.apart(e.Out[0]) {
				for _, other := range s.Exprs {
					if slices.Contains(x.f.TensorArgs(x.f.Expr(other)), e.Out[0]) {
						return fmt.Errorf("segment %d reads %s, which it computes", i, x.f.Name(e.Out[0]))
					}
				}
			}
		}
		if s.Kind != Kernel {
			continue
		}
		g, err := x.asked(p, s)
		if err != nil {
			return err
		}
		if r := schedulers.Lookup(s.Scheduler).Accept(g, scheduler.Hopper); len(r) > 0 {
			return fmt.Errorf("segment %d is refused: %s", i, r[0].Sentence)
		}
	}
	return nil
}

// asked returns what schedulers are asked about s.
func (x *trial) asked(p *Program, s *Segment) (*scheduler.Segment, error) {
	values, err := x.inputsOf(s)
	if err != nil {
		return nil, err
	}
	b, err := s.Fusion.Bind(values)
	if err != nil {
		return nil, err
	}
	return scheduler.Dense(s.Fusion, b)
}

// inputsOf returns the inputs of s.
func (x *trial) inputsOf(s *Segment) ([]core.InputValue, error) {
	var values []core.InputValue
	for _, in := range s.Inputs {
		if in.Val == core.NoVal {
			v, err := x.symbol(in.Scalar)
			if err != nil {
				return nil, err
			}
			values = append(values, core.InputValue{Scalar: v})
			continue
		}
		shape, err := x.b.Shape(in.Val)
		if err != nil {
			return nil, err
		}
		values = append(values, core.InputValue{Tensor: true, DType: x.f.Val(in.Val).DType, Sizes: shape})
	}
	return values, nil
}

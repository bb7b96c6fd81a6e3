package schedulefuzz

import (
	"fmt"
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// The mover makes calls of primitives, so that the schedule keeps a script of
// them. Its methods have the names of those of the schedule.

func (m *mover) call(name string, args ...any) (schedule.Outcome, error) {
	list := make([]core.Given, len(args))
	for i, a := range args {
		list[i] = given(a)
	}
	return m.Call(schedule.Lookup(name), list, nil)
}

func given(a any) core.Given {
	number := func(t dtype.Type, n int64) core.Given {
		return core.Given{Kind: core.GivenNumber, Num: scalar.Value{Type: t, I: n}}
	}
	list := core.Given{Kind: core.GivenList, List: []core.Given{}}
	switch a := a.(type) {
	case nil:
		return core.Given{}
	case core.ValID:
		return core.Given{Kind: core.GivenVal, Val: a}
	case core.AxisID:
		return core.Given{Kind: core.GivenAxis, Axis: a}
	case int:
		return number(dtype.Int, int64(a))
	case bool:
		if a {
			return number(dtype.Bool, 1)
		}
		return number(dtype.Bool, 0)
	case string:
		return core.Given{Kind: core.GivenName, Name: a}
	case schedule.Parallel:
		return core.Given{Kind: core.GivenName, Name: a.PythonName()}
	case map[int]int:
		for _, k := range slices.Sorted(maps.Keys(a)) {
			list.List = append(list.List, given([]int{k, a[k]}))
		}
		return list
	case []int:
		return listOf(a)
	case []core.ValID:
		return listOf(a)
	case []core.AxisID:
		return listOf(a)
	}
	panic(fmt.Sprintf("schedulefuzz: an argument of type %T", a))
}

func listOf[T any](items []T) core.Given {
	list := core.Given{Kind: core.GivenList, List: []core.Given{}}
	for _, x := range items {
		list.List = append(list.List, given(x))
	}
	return list
}

func (m *mover) Split(v core.ValID, axis int, factor int64, inner bool) error {
	_, err := m.call("split", v, axis, int(factor), inner)
	return err
}

func (m *mover) Merge(v core.ValID, outer, inner int) error {
	_, err := m.call("merge", v, outer, inner)
	return err
}

func (m *mover) Reorder(v core.ValID, moves map[int]int) error {
	_, err := m.call("reorder", v, moves)
	return err
}

func (m *mover) Parallelize(v core.ValID, axis int, p schedule.Parallel) error {
	_, err := m.call("parallelize", v, axis, p)
	return err
}

func (m *mover) RFactor(v core.ValID, axes []int) error {
	_, err := m.call("rfactor", v, axes)
	return err
}

func (m *mover) SetMemory(v core.ValID, to schedule.Memory) error {
	_, err := m.call("set_memory_type", v, to.String())
	return err
}

func (m *mover) SetLoop(v core.ValID, axes []core.AxisID) error {
	_, err := m.call("set_loop_domain", v, axes)
	return err
}

func (m *mover) SetAllocation(v core.ValID, axes []core.AxisID) error {
	_, err := m.call("set_allocation_domain", v, axes, true)
	return err
}

func (m *mover) Swizzle(v core.ValID, row, column int) error {
	_, err := m.call("swizzle", v, row, column)
	return err
}

func (m *mover) SetBuffering(v core.ValID, stages, prefetch int) error {
	_, err := m.call("circular_buffer", v, stages, prefetch)
	return err
}

// TransformLike gives those of tensors that can follow the loops of reference.
func (m *mover) TransformLike(reference core.ValID, tensors []core.ValID) {
	if len(tensors) > 0 { // none would mean all
		_, _ = m.call("transform_like", reference, tensors)
	}
}

func (m *mover) InlineAt(v core.ValID, position int) error {
	_, err := m.call("inline_at", v, position, false, []core.ValID{v})
	return err
}

func (m *mover) InlineAllAt(reference core.ValID, position int, bestEffort bool) error {
	_, err := m.call("inline_at", reference, position, bestEffort)
	return err
}

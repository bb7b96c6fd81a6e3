package executor

import (
	flatbuffers "github.com/google/flatbuffers/go"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/executor/planfile"
)

func encodeWorkspace(b *flatbuffers.Builder, w *Workspace) flatbuffers.UOffsetT {
	sizes := integers(b, planfile.WorkspaceStartSizesVector, w.Sizes)
	strides := integers(b, planfile.WorkspaceStartStridesVector, w.Strides)
	planfile.WorkspaceStart(b)
	planfile.WorkspaceAddBytes(b, w.Bytes)
	planfile.WorkspaceAddZeroed(b, w.Zeroed)
	planfile.WorkspaceAddSemaphore(b, w.Semaphore)
	planfile.WorkspaceAddResult(b, w.Result)
	planfile.WorkspaceAddTensor(b, w.Tensor)
	planfile.WorkspaceAddDtype(b, byte(w.DType))
	planfile.WorkspaceAddSizes(b, sizes)
	planfile.WorkspaceAddStrides(b, strides)
	return planfile.WorkspaceEnd(b)
}

func (r *reader) workspace(x *planfile.Workspace) Workspace {
	w := Workspace{Bytes: x.Bytes(), Zeroed: x.Zeroed(), Semaphore: x.Semaphore(), Result: x.Result(), Tensor: x.Tensor(), DType: dtype.Type(x.Dtype())}
	if w.Tensor {
		w.Sizes, w.Strides = r.integers(x.Sizes, x.SizesLength()), r.integers(x.Strides, x.StridesLength())
	}
	return w
}

func encodePhase(b *flatbuffers.Builder, p *Phase) flatbuffers.UOffsetT {
	allocate := numbers(b, planfile.PhaseStartAllocateVector, p.Allocate)
	release := numbers(b, planfile.PhaseStartReleaseVector, p.Release)
	planfile.PhaseStart(b)
	planfile.PhaseAddAllocate(b, allocate)
	planfile.PhaseAddLaunches(b, uint32(p.Launches))
	planfile.PhaseAddCall(b, int32(p.Call))
	planfile.PhaseAddRelease(b, release)
	return planfile.PhaseEnd(b)
}

func (r *reader) phase(x *planfile.Phase) Phase {
	return Phase{Allocate: readNumbers[Slot](r, x.Allocate, x.AllocateLength()), Launches: int(x.Launches()), Call: int(x.Call()),
		Release: readNumbers[Slot](r, x.Release, x.ReleaseLength())}
}

// placesOf returns where in the order of f the first expression of each line is.
func placesOf(f *core.Fusion) map[core.Location]int {
	places := map[core.Location]int{}
	for i, id := range f.Order() {
		if where := f.Expr(id).Where; places[where] == 0 {
			places[where] = i + 1
		}
	}
	delete(places, core.Location{})
	return places
}

// encodeCall tells a line by places: another process may define the same elsewhere.
func encodeCall(b *flatbuffers.Builder, c *TorchCall, places map[core.Location]int) flatbuffers.UOffsetT {
	row, called := b.CreateString(c.form.row.Name), b.CreateString(c.form.called.Name)
	values := offsets(b, planfile.CallStartValuesVector, c.form.values, func(i int) flatbuffers.UOffsetT {
		v := &c.form.values[i]
		list := elements(b, planfile.ValueStartElementsVector, v.elements, func(e callElement) {
			planfile.CreateElement(b, int32(e.argument), e.value.I, e.value.Re, e.value.Im, byte(e.value.Type))
		})
		planfile.ValueStart(b)
		planfile.ValueAddList(b, v.isList)
		planfile.ValueAddDtype(b, byte(v.dtype))
		planfile.ValueAddElements(b, list)
		return planfile.ValueEnd(b)
	})
	arguments := offsets(b, planfile.CallStartArgumentsVector, c.Arguments, func(i int) flatbuffers.UOffsetT {
		g := &c.Arguments[i]
		sizes := integers(b, planfile.ArgumentStartSizesVector, g.Sizes)
		strides := integers(b, planfile.ArgumentStartStridesVector, g.Strides)
		planfile.ArgumentStart(b)
		planfile.ArgumentAddSlot(b, int32(g.Slot))
		planfile.ArgumentAddWhole(b, g.Whole)
		planfile.ArgumentAddDtype(b, byte(g.DType))
		planfile.ArgumentAddSizes(b, sizes)
		planfile.ArgumentAddStrides(b, strides)
		planfile.ArgumentAddOffset(b, g.Offset)
		planfile.ArgumentAddWord(b, int32(g.Word))
		return planfile.ArgumentEnd(b)
	})
	results := offsets(b, planfile.CallStartResultsVector, c.Results, func(i int) flatbuffers.UOffsetT {
		r := &c.Results[i]
		sizes := integers(b, planfile.ResultStartSizesVector, r.Sizes)
		strides := integers(b, planfile.ResultStartStridesVector, r.Strides)
		planfile.ResultStart(b)
		planfile.ResultAddSlot(b, int32(r.Slot))
		planfile.ResultAddDtype(b, byte(r.DType))
		planfile.ResultAddSizes(b, sizes)
		planfile.ResultAddStrides(b, strides)
		return planfile.ResultEnd(b)
	})
	planfile.CallStart(b)
	planfile.CallAddRow(b, row)
	planfile.CallAddCalled(b, called)
	planfile.CallAddPlace(b, int32(places[c.form.where]-1))
	planfile.CallAddValues(b, values)
	planfile.CallAddArguments(b, arguments)
	planfile.CallAddResults(b, results)
	return planfile.CallEnd(b)
}

func (r *reader) call(x *planfile.Call) (c TorchCall) {
	c.form = callForm{row: core.Lookup(r.text(x.Row())), called: core.Lookup(r.text(x.Called()))}
	if place := int(x.Place()); place >= 0 {
		c.form.where = r.of.Expr(r.of.Order()[place]).Where
	}
	c.form.values = tables(r, x.Values, x.ValuesLength(), func(v *planfile.Value) callValue {
		return callValue{v.List(), dtype.Type(v.Dtype()), tables(r, v.Elements, v.ElementsLength(), func(e *planfile.Element) callElement {
			return callElement{int(e.Argument()), number(e.Value(nil))}
		})}
	})
	c.Arguments = tables(r, x.Arguments, x.ArgumentsLength(), func(g *planfile.Argument) CallArgument {
		a := CallArgument{Slot: Slot(g.Slot()), Whole: g.Whole(), DType: dtype.Type(g.Dtype()), Offset: g.Offset(), Word: int(g.Word())}
		if a.Slot >= 0 {
			a.Sizes, a.Strides = r.integers(g.Sizes, g.SizesLength()), r.integers(g.Strides, g.StridesLength())
		}
		return a
	})
	c.Results = tables(r, x.Results, x.ResultsLength(), func(s *planfile.Result) CallResult {
		return CallResult{Slot(s.Slot()), dtype.Type(s.Dtype()), r.integers(s.Sizes, s.SizesLength()), r.integers(s.Strides, s.StridesLength())}
	})
	if err := c.check(); err != nil {
		panic(err)
	}
	if err := c.name(); err != nil {
		panic(err)
	}
	return c
}

// integers writes a vector of 64-bit integers.
func integers(b *flatbuffers.Builder, start startVector, list []int64) flatbuffers.UOffsetT {
	return elements(b, start, list, b.PrependInt64)
}

// integers reads n 64-bit integers into a list that is not nil.
func (r *reader) integers(at func(int) int64, n int) []int64 {
	r.take(8 * n)
	list := make([]int64, n)
	for i := range list {
		list[i] = at(i)
	}
	return list
}

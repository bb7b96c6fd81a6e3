package schedule

import (
	"fmt"
	"math/bits"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A Phase is how far the first element of each row lies behind where memory is a multiple
// of so many elements: row r, of Pitch elements, begins at r*Pitch, so that this is
// r*Pitch % Width; r counts the rows of several axes if memory goes on from one to the other. Where columns are shifted by it, vectors of Width elements of a tensor
// whose rows follow each other in memory are aligned, whatever the length of a row.
//
// All rows of a thread have one phase, that its place and its block's say: it has a single
// row, or such as are Width rows apart. So the phase is a number of the thread, which all
// that it computes is shifted by; of what has no rows, as the weights of a norm, a thread
// with rows of another phase reads other elements.
type Phase struct {
	Shift scalar.ID     // the symbol that it is in a [core.Shift]
	Rows  []core.AxisID // of some tensor, from the outermost
	Pitch scalar.ID     // elements of a row
	Width int64         // a power of two
}

// widestPhase is the largest width of a phase: elements of one byte in a line of memory.
const widestPhase = 128

// AlignRows replaces the axis column of v, of extent n, by one of extent n + width - 1,
// whose index is that of the column and the phase of the row: the index of the axis row
// times n, modulo width. The rows of the axes outer, from the outermost, precede it in memory: they
// are counted with it. Indices that lead to no column are computed for no element. The
// phase must follow from the indices of blocks and threads alone; lowering refuses others.
//
// Errors: InvalidArgument if an axis is not there, is inlined or parallel, if a row is
// reduced or the column itself or given twice, or if width is no power of two from 2 to 128.
func (s *Scheduled) AlignRows(v core.ValID, row, column int, width int64, outer ...int) error {
	const call = "align_rows"
	a, at, err := s.movable(call, v, column)
	if err != nil {
		return err
	}
	var rows []core.AxisID
	for _, row := range append(slices.Clone(outer), row) {
		r, k, err := s.axisAt(call, v, row)
		switch {
		case err != nil:
			return err
		case r == a:
			return core.InvalidArgumentf("%s(): %s is given as the row and as the column", call, s.axisText(v, at))
		case slices.Contains(rows, r):
			return core.InvalidArgumentf("%s(): %s is given twice", call, s.axisText(v, k))
		case s.kind(r) == core.Reduce:
			return core.InvalidArgumentf("%s(): %s is reduced; rows are what is kept", call, s.axisText(v, k))
		}
		rows = append(rows, r)
	}
	if width < 2 || width > widestPhase || bits.OnesCount64(uint64(width)) != 1 {
		return core.InvalidArgumentf("%s(): width is %d; it must be a power of two from 2 to 128", call, width)
	}
	t := s.f.Scalars()
	p := Phase{Rows: rows, Pitch: s.extent(a), Width: width}
	p.Shift = t.Symbol(dtype.Index, scalar.Tag{Val: uint32(v), Dim: int32(-2 - len(s.phases))}, scalar.Range(0, width-1))
	s.phases = append(s.phases, p)
	like := core.Transform{Factor: t.Int(width), Left: p.Shift}
	s.replace(v, at, 1, s.f.Transform(shiftAxis(s.f, a, &like, s.kind(a))).Out[0])
	return nil
}

// Phases returns those that columns are shifted by.
func (s *Scheduled) Phases() []Phase { return s.phases }

// movePhases lets phases go by copies of axes.
func (s *Scheduled) movePhases(copies map[core.AxisID]core.AxisID) {
	for i := range s.phases {
		rows := slices.Clone(s.phases[i].Rows)
		for k, r := range rows {
			if a, ok := copies[r]; ok {
				rows[k] = a
			}
		}
		s.phases[i].Rows = rows
	}
}

// phaseText shows what a column is shifted by.
func (s *Scheduled) phaseText(shift scalar.ID) string {
	for _, p := range s.phases {
		if p.Shift == shift {
			row := ""
			for k, r := range p.Rows {
				if k > 0 {
					row = fmt.Sprintf("(%s * %s + ", row, s.scalarText(s.extent(r)))
				}
				row += fmt.Sprintf("%s%d", kindLetters[s.kind(r)], r)
				if k > 0 {
					row += ")"
				}
			}
			return fmt.Sprintf("%s * %s %% %d", row, s.scalarText(p.Pitch), p.Width)
		}
	}
	return s.scalarText(shift)
}

package space

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/schedulers/scheduler"
)

// Rows are a space of which the innermost places are reduced. Others may be reduced too that
// lie outside of what is kept: a row is then made of pieces.
type Rows struct {
	*Space
	Kept          int   // places that are outside of the pieces of rows
	Piece         int64 // elements of a row that follow each other in the space
	Length, Count int64 // of a row, and how many there are

	Dimensions     []int // of the reference, in the order of the space, those that are kept first
	KeptDimensions int   // how many these are
}

// NewRows returns the rows that are reduced to reference in the segment g.
//
// Errors: a [scheduler.Refusals] of the scheduler called by, if what lies innermost in memory
// is not reduced; those of [New].
func NewRows(g *scheduler.Segment, reference core.ValID, by string) (*Rows, error) {
	p, err := New(g, reference)
	if err != nil {
		return nil, err
	}
	f := g.Fusion
	axes := f.Val(reference).Domain.Logical
	r := &Rows{Space: p, Kept: len(axes), Piece: 1, Length: 1, Count: 1}
	inside := core.NoAxis
	for k, d := range slices.Backward(p.Order) {
		n, isReduced := p.Extents[k], f.Axis(axes[d]).Kind == core.Reduce
		switch {
		case n == 1:
		case !isReduced:
			inside = axes[d]
		case inside != core.NoAxis && r.Piece > 1: // of another piece
		case inside != core.NoAxis:
			return nil, scheduler.Refused(f, by, "outer reduction", reference,
				"%s is reduced along dimensions outside of dimension %d in memory", f.Name(reference), slices.Index(axes, inside))
		default:
			r.Kept, r.Piece = k, r.Piece*n
		}
		if isReduced {
			r.Length *= n
		} else {
			r.Count *= n
		}
	}
	var reduced []int
	for _, d := range p.Order {
		if f.Axis(axes[d]).Kind == core.Reduce {
			reduced = append(reduced, d)
		} else {
			r.Dimensions = append(r.Dimensions, d)
		}
	}
	if r.Piece < r.Length {
		p.piece = r.Piece
	}
	r.KeptDimensions = len(r.Dimensions)
	r.Dimensions = append(r.Dimensions, reduced...)
	return r, nil
}

// Pitch is that of rows in steps of so many elements.
func (r *Rows) Pitch(elements int64) Pitch { return r.PitchOf(r.Kept, elements, 1) }

// Beside returns how many elements of t, which has one for a row, an access may have that are of rows next
// to each other: as [Pitch] has them of elements of a row.
func (r *Rows) Beside(t *Tensor) int64 {
	kept := *t
	kept.along = t.along[:r.Kept]
	return kept.width(r.reach(&kept, 0))
}

package core

// An IndexedRead says what an operation reads at a position that is a value: along one dimension
// of a table, and for each element of the result or for several, which an index lists.
type IndexedRead struct {
	Table int // place among the tensor operands
	Index int // the same; -1: the position is the same for all elements along other dimensions
	Dim   int // of the table
}

// IndexedRead returns that of an expression, if it is one. An embedding that changes the norm of
// rows is none.
func (e *Expr) IndexedRead() (IndexedRead, bool) {
	switch e.Op {
	case SelectOp:
		return IndexedRead{Index: -1, Dim: int(e.Args[2].Int)}, true
	case IndexSelectOp, TakeAlongAxisOp, GatherOp:
		return IndexedRead{Index: 1, Dim: int(e.Args[2].Int)}, true
	case SumSlicesOp: // at several positions, one after the other
		return IndexedRead{Table: 3, Index: -1}, true
	case SumPartsOp: // the same
		return IndexedRead{Table: 2, Index: -1}, true
	case EmbeddingFwdOp:
		return IndexedRead{Table: 1}, e.Args[3].Kind == NoArg
	}
	return IndexedRead{}, false
}

package schedule

// WellAligned is what allocators give, in bytes: the widest access.
const WellAligned = 16

// An Alignment is what is known of the address of the first element of a tensor. Below
// [WellAligned] it is a power of two that divides it; from there on it is so many bytes past a multiple
// of WellAligned, as it is known where a view begins in memory that is well aligned.
type Alignment int

// Divisor returns the largest power of two, up to [WellAligned], that is known to divide the address.
func (a Alignment) Divisor() int { return int(a & -a) }

// Past returns how many bytes the address is past a multiple of [WellAligned], if that is known.
func (a Alignment) Past() (bytes int, ok bool) { return int(a) - WellAligned, a >= WellAligned }

// Plus returns what is known of the address so many bytes on, or back.
func (a Alignment) Plus(bytes int64) Alignment {
	if past, ok := a.Past(); ok {
		return WellAligned + Alignment((int64(past)+bytes)&(WellAligned-1))
	}
	for bytes%int64(a) != 0 {
		a /= 2
	}
	return a
}

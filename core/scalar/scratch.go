package scalar

// A scratch hands out short slices, many from one allocation. What nobody refers to any
// more is collected, a piece of chunk elements at a time.
type scratch[T any] struct{ free []T }

const chunk = 64

// take returns an empty slice with room for n elements: what is appended beyond is moved
// elsewhere, as ever.
func (s *scratch[T]) take(n int) []T {
	if len(s.free) < n {
		s.free = make([]T, max(n, chunk))
	}
	x := s.free[:0:n]
	s.free = s.free[n:]
	return x
}

package kir

// MaxStep is how many elements those of an access may be apart.
const MaxStep = 4

// A Gathered is how a thread reads several elements that are a few apart: the vectors that have
// them and what is between them, one after another. Each vector has one of them at least, so that it is in
// memory that they are in. Of elements of 2 bytes that are 2 apart, 8 take 2 requests and not 8.
type Gathered struct {
	Vector int // bytes of a vector
	Count  int // vectors
	Past   int // elements before the first one in the first vector
}

// GatheredBy returns how width elements of b are read that are step apart, where the index of the first one
// is a multiple of the elements of a vector; false: not so, as the first one is not known to be in the first step
// of a vector, or a vector might have none.
func GatheredBy(b *Buffer, width, step int) (Gathered, bool) {
	size := b.DType.Size()
	g := Gathered{Vector: maxVectorBytes, Past: b.Past / size}
	bytes := size * width * step
	for bytes%g.Vector != 0 {
		g.Vector /= 2
	}
	g.Count = bytes / g.Vector
	known := b.Align
	if b.Past > 0 {
		known = maxVectorBytes
	}
	return g, step > 1 && step <= MaxStep && b.Past%size == 0 && g.Vector <= known && step*size <= g.Vector && g.Past < step
}

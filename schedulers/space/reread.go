package space

import "slices"

// reuseShare is the part of the second cache within which what is read again is still there: half of it has what the
// other half of the processors read, and the rest what other blocks read and write meanwhile.
const reuseShare = 0.25

// Reread returns what reading elements of inputs from memory again costs, in bytes for each point, if blocks go
// along p in its order, with a second cache of so many bytes; 0: of any. An input that has one element for all
// points along a place is read again after all that lies within that place, which is from memory if that is more than the
// cache keeps. In us on an H200 (second cache dirty), a copy of as many bytes, x + mask of bfloat16 in the order of x, and with the
// heads of each position one after another: 2 x 8 x 8192 x 8192 and a mask for all heads 1041, 1470, 1075; 4 x 16 x 2048 x 2048 and a mask for those of an
// image, of which with a head there are 24 MB, 263, 298, 268; softmax(x + mask) of the first 1041, 1481, 1105. What the cache keeps takes
// room from what is written: that is no more than 2 % of such a kernel, and not counted.
func (p *Space) Reread(cache int64) float64 {
	if cache <= 0 {
		return 0
	}
	cost := 0.0
	for i := range p.Tensors {
		t := &p.Tensors[i]
		for _, r := range p.repeats(t) {
			if float64(p.bytesWithin(r.End)) > reuseShare*float64(cache) {
				cost += float64(t.within(r.End)*t.Bytes) * float64(p.Size(r.Begin, r.End)-1) * float64(p.Size(0, r.Begin))
			}
		}
	}
	return cost / float64(max(p.Size(0, len(p.Extents)), 1))
}

// Repeats returns where inputs have one element for all points, and several within that.
func (p *Space) Repeats() []Range {
	var all []Range
	for i := range p.Tensors {
		for _, r := range p.repeats(&p.Tensors[i]) {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// leastGain is the share of all traffic that another order of blocks must save.
const leastGain = 0.01

// Across returns the dimensions that are kept in an order in which rows that read the same elements, such as a
// mask that the heads of an image share, come next to each other, where these would be read from memory again in
// the order of the space ([Space.Reread]), with a second cache of so many bytes; else nothing. In memory such rows
// are not next to each other.
func (r *Rows) Across(cache int64) []int {
	points := max(r.Size(0, len(r.Extents)), 1)
	best := r.Reread(cache) - leastGain*float64(r.bytesWithin(0))/float64(points)
	var dimensions []int
	for _, same := range r.Repeats() {
		if same.End > r.Kept {
			continue
		}
		p := r.Ordered(Range{0, same.Begin}, Range{same.End, r.Kept}, same, Range{r.Kept, len(r.Extents)})
		if cost := p.Reread(cache); cost < best {
			best, dimensions = cost, p.Order
		}
	}
	kept := r.Dimensions[:r.KeptDimensions]
	return slices.DeleteFunc(slices.Clone(dimensions), func(d int) bool { return !slices.Contains(kept, d) })
}

// repeats returns where t has one element for all points, and several within that.
func (p *Space) repeats(t *Tensor) (all []Range) {
	if t.IsOutput || t.isOpaque || t.isTable || t.isPart { // it is not known how often they are read, or they are not
		return nil
	}
	for k := 0; k < len(p.Extents); k++ {
		begin := k
		for k < len(p.Extents) && t.Step(k) == 0 {
			k++
		}
		if p.Size(begin, k) > 1 && t.within(k) > 1 {
			all = append(all, Range{begin, k})
		}
	}
	return all
}

// Bytes returns the bytes that all tensors have together.
func (p *Space) Bytes() int64 { return p.bytesWithin(0) }

// bytesWithin returns the bytes that all tensors have along the places from k on.
func (p *Space) bytesWithin(k int) int64 {
	n := int64(0)
	for i := range p.Tensors {
		n += p.Tensors[i].within(k) * p.Tensors[i].Bytes
	}
	return n
}

package space

import "nvfuser_go/core"

// mostApart is how many elements of memory those of an input are apart at most, for vectors to be read that have them
// and what is between. In us on an H200 (second cache dirty / clean), of 16384 x 8192 bfloat16 of which every other element is
// multiplied by the one beside it: element by element 148.6 / 147.9, in vectors 99.2 / 93.8, a copy 100.2 / 96.9. That both
// inputs read the same vectors costs nothing: by one that is taken apart in registers 99.3 / 93.6.
const mostApart = 4

// Wholes returns the places, in order, from which on a step may have all that there is, of a number of elements that
// does not vary: inputs are constant along those, and not along what is outside.
func (p *Space) Wholes(f *core.Fusion) (places []int) {
	logical := f.Val(p.Reference).Domain.Logical
	for k := len(p.Order) - 1; k > 0; k-- {
		if _, isConst := f.Scalars().ConstInt(f.Axis(logical[p.Order[k]]).Extent); !isConst || p.Size(k, len(p.Order)) > mostWhole {
			break
		}
		isRead := false
		for i := range p.Tensors {
			t := &p.Tensors[i]
			if t.isTable || t.isOpaque || t.IsResized() {
				return nil
			}
			isRead = isRead || !t.IsOutput && t.IsConstant(k, len(p.Order)) && !t.IsConstant(0, k)
		}
		if isRead && p.Size(k, len(p.Order)) > 1 {
			places = append(places, k)
		}
	}
	return places
}

// mostWhole is how many elements a step has at most of the innermost places, all of which it has.
const mostWhole = 4

// gatheredBytes is what each line costs that the requests of a warp look up so, in bytes for each element. Of
// 16384 x 2048 pixels of 4 bfloat16, of which 3 are added up, steps of 8, 4 and 2 take 205.2 / 204.4, 110.6 / 109.9 and 87.5 / 81.3, a
// copy 83.7 / 80.3.
const gatheredBytes = 1.0

// gathers returns how many elements of t an access of a step of e elements has where they are a few elements of memory apart,
// and how many vectors are read for the step; 0: they are not, or vectors are not known to begin
// within a step of the first one.
func (p *Space) gathers(t *Tensor, r reach, e int64) (w, requests int64) {
	if !p.Unaligned || t.IsOutput || t.isTable || t.isPart || t.isOpaque || t.IsResized() || r.apart < 2 || r.apart > mostApart || t.past < 0 || t.past%t.Bytes != 0 || t.past/t.Bytes >= r.apart {
		return 0, 0
	}
	for w = min(e, vectorBytes/t.Bytes); w > 1; w /= 2 {
		bytes, vector := w*r.apart*t.Bytes, int64(vectorBytes)
		for bytes%vector != 0 {
			vector /= 2
		}
		if r.apartRun%w == 0 && r.apart*t.Bytes <= vector && r.apartStep%(vector/t.Bytes) == 0 && (p.piece == 0 || p.piece%w == 0) {
			return w, e / w * (bytes / vector)
		}
	}
	return 0, 0
}

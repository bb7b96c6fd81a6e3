package sim

import "nvfuser_go/codegen/kir"

const (
	sectorBytes = 32
	banks       = 32
	bankBytes   = 4
)

// count adds the accesses of a statement to the counters, warp by warp.
func (b *block) count(a *access, w *located) {
	c := &b.m.counters
	bytes := a.span() * int64(a.element)
	total := int64(a.width*a.element) * int64(len(w.lanes))
	switch {
	case a.buffer.Space == kir.Shared:
	case a.way == reads:
		c.GlobalRead += total
	default:
		c.GlobalWritten += total
	}
	for first := 0; first < len(w.lanes); {
		end := first + 1
		for end < len(w.lanes) && w.lanes[end]>>5 == w.lanes[first]>>5 {
			end++
		}
		if warp := w.lanes[first:end]; a.buffer.Space == kir.Shared {
			c.SharedRequests++
			c.SharedWavefronts += b.wavefronts(w, warp, bytes, int64(a.element))
		} else {
			c.GlobalRequests++
			c.GlobalSectors += b.sectors(w, warp, bytes, int64(a.element))
		}
		first = end
	}
}

// sectors returns the number of sectors that a request of a warp touches.
func (b *block) sectors(w *located, warp []int32, bytes, element int64) int64 {
	seen := b.seen[:0]
	most := int64(-1)
	for _, l := range warp {
		address := w.element(l) * element
		for s := address / sectorBytes; s <= (address+bytes-1)/sectorBytes; s++ {
			if s > most {
				most = s
			} else if s == most || contains(seen, s) {
				continue
			}
			seen = append(seen, s)
		}
	}
	b.seen = seen
	return int64(len(seen))
}

// wavefronts returns the cycles that a request of a warp takes: it is served in
// phases of 128 bytes, and a phase takes as long as the bank of which it needs
// most words. Lanes that read one word share it.
func (b *block) wavefronts(w *located, warp []int32, bytes, element int64) int64 {
	lanes := int(max(32*bankBytes/max(bytes, bankBytes), 1)) // of a phase
	var cycles int64
	for first := 0; first < len(warp); {
		var perBank [banks]int64
		seen := b.seen[:0]
		phase := int(warp[first]&31) / lanes
		degree, most := int64(0), int64(-1)
		for ; first < len(warp) && int(warp[first]&31)/lanes == phase; first++ {
			address := w.base + w.element(warp[first])*element
			for word := address / bankBytes; word <= (address+bytes-1)/bankBytes; word++ {
				if word > most {
					most = word
				} else if word == most || contains(seen, word) {
					continue
				}
				seen = append(seen, word)
				perBank[word%banks]++
				degree = max(degree, perBank[word%banks])
			}
		}
		b.seen = seen
		cycles += degree
		b.m.counters.BankConflicts = max(b.m.counters.BankConflicts, degree)
	}
	return cycles
}

func contains(list []int64, x int64) bool {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == x {
			return true
		}
	}
	return false
}

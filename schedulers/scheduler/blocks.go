package scheduler

// leastBlock are the bytes that a block moves at least, where there are many blocks. A device begins some 0.82 of them in a
// nanosecond, whatever they do. In us on an H200 (second cache dirty), in blocks of 4 KB and fewer, in such as are made here, and a copy
// of as many bytes: RMS norm of 524288 x 512 bfloat16 318, 250, 256; RMS norm of 8 columns 633, 292, 256;
// sums of 64 columns 318, 183, 132, of 2 columns 1263, 468, 253; cumsum of 256 columns 318, 249, 257.
const leastBlock = 6 << 10

// HasMany reports whether so many blocks are enough for d to be busy with all but the last of them: they may
// be made larger then.
func (d Device) HasMany(blocks int64) bool { return blocks >= 16*int64(d.Processors) }

// A Row is what one of many rows is to a block: its threads, and the bytes that they move.
type Row struct{ Threads, Bytes int64 }

// OfBlock returns how many of count such rows a block has: enough for least threads, but where there would be fewer
// blocks than processors, and for what a block moves at least, with most threads at most.
func (r Row) OfBlock(count, least, most int64, device Device) int64 {
	rows := max(least/r.Threads, 1)
	for rows > 1 && CeilDiv(count, rows) < int64(device.Processors) && (rows/2)*r.Threads >= int64(device.Warp) {
		rows /= 2
	}
	return r.Enlarge(rows, count, most, device)
}

// Enlarge returns rows of a block, of count, or a multiple by which a block moves enough, with most threads at most.
func (r Row) Enlarge(rows, count, most int64, device Device) int64 {
	for rows*r.Bytes < leastBlock && 2*rows*r.Threads <= most && device.HasMany(count/(2*rows)) {
		rows *= 2
	}
	return rows
}

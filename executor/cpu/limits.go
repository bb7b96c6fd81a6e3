package cpu

// limits are sizes that decide how fast a program is, not what it computes.
// Only tests change them, so that small tensors take every path.
var limits = struct {
	whole          int64
	members        int
	foldingMembers int
	rootCandidates int

	tileBytes        int
	minTile, maxTile int
	squareTile       int64
	minRun           int64
	parts            int64
	smallWork        int64
}{
	// The elements of a fold that a tile holds whole: at 4 bytes, 128 KiB a
	// register, a few of which fit the second-level cache.
	whole: 32 << 10,
	// The nodes of a group, and so its registers and its tile memory; a group with
	// folds has larger tiles.
	members: 4096, foldingMembers: 512,
	// The groups that a node is offered to if nothing reads it in tiles.
	rootCandidates: 8,

	// The bytes of registers that a tile should need: they stay in the
	// second-level cache, beside the memory that streams through it.
	tileBytes: 128 << 10,
	// The elements of a tile. Below, the cost of an instruction per tile (some 20
	// ns) shows; above, nothing is gained.
	minTile: 1024, maxTile: 8192,
	// The side of a tile that is read by rows and by columns.
	squareTile: 64,
	// The elements below which the last axis is too short to be the inner axes
	// alone.
	minRun: 64,
	// The parts that a long fold is cut into at most. They depend on the sizes
	// alone, so that the result does not depend on the processors.
	parts: 16,
	// The element operations below which it is not worth waking another goroutine,
	// which takes some microseconds.
	smallWork: 1 << 15,
}

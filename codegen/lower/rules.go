package lower

// A rule is one that only rare schedules need. Tests lower the smallest of these
// without it, and must see them fail.
type rule uint8

const (
	allRules            rule = iota
	ownStorage               // what promoted loops compute is stored along the tensor's own axes
	ownLoopsFirst            // promoted loops are known after the tensor's own and what follows from those
	initByLogical            // a reduction is initialised where its logical index is in range
	forwardResize            // a cut axis walked forward may be negative or too large
	onceAtPromotedLoops      // a reduction adds once in loops that carry more than its axes
	onceAroundLoops          // and once in loops that it has no axis for
	dropsGlobal              // a statement on global memory keeps its tests
	dropsOutside             // and one that may access what is not there
	dropsSharedElements      // and one that may write an element of another point
	keptForIdentity          // and one that a reduction relies on
	storesIdentity           // which stores the identity where it has no element
	oneIdentity              // of one reduction, or of several that agree
	countsOne                // a reduction that counts elements keeps its tests
	sameReduction            // and one of the results of another
	ownResults               // and one whose results other threads have parts of
	sameTests                // and one of elements that exist where it has none
	shiftedBefore            // loops over shifted columns may lead to what is before the first one
	sharesShifted            // what is stored as they run is read by threads with the same shift
)

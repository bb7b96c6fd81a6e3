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
)

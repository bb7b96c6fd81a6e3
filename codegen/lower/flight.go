package lower

import (
	"math"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// A flight says which asynchronous copies of a thread may be under way: it has closed at least so many groups since that of
// each of them. Groups land in order, so that a wait for the others to land tells of all.
type flight int

const (
	openGroup flight = -1            // there may be copies that are in no group yet
	allLanded flight = math.MaxInt32 // none is under way
)

// flights follows the copies of a kernel whose waits are placed.
type flights struct {
	t *scalar.Table
	// ends has loops that end with closing a group, and whether nothing is under way where the last iteration does.
	ends map[*kir.For]bool
}

// emptyEnds returns the loops of a kernel that close a group last where nothing is under way. No wait counts that
// group: one counts those that follow a copy.
func emptyEnds(k *kir.Kernel) map[*kir.For]bool {
	f := flights{k.Scalars, map[*kir.For]bool{}}
	f.block(k.Body, allLanded)
	return f.ends
}

// block returns what is under way after statements.
func (f *flights) block(b kir.Block, at flight) flight {
	for _, s := range b {
		switch s := s.(type) {
		case *kir.If:
			at = min(f.block(s.Then, at), f.block(s.Else, at))
		case *kir.For:
			at = f.loop(s, at)
		case kir.AsyncCopy:
			at = openGroup
		case kir.AsyncCommit:
			if at != allLanded {
				at++
			}
		case kir.AsyncWait:
			if int(at) >= s.Pending {
				at = allLanded
			}
		}
	}
	return at
}

// loop returns what is under way after a loop. Few iterations are followed one by one, others until no more is under
// way where one begins.
func (f *flights) loop(s *kir.For, at flight) flight {
	turns, isKnown := f.t.ConstInt(s.Stop)
	isKnown = isKnown && s.Start == f.t.Int(0) && s.Step == f.t.Int(1)
	if isKnown && turns < 1 {
		return at
	}
	isCounted := isKnown && turns <= mostTurns
	after, isEmpty := at, false
	for i := int64(0); !isCounted || i < turns; i++ {
		after, isEmpty = f.iteration(s, at)
		next := after
		if !isCounted {
			next = min(at, after)
		}
		if next == at { // so are all others
			break
		}
		at = next
	}
	before, isSeen := f.ends[s]
	f.ends[s] = isEmpty && (before || !isSeen)
	if isKnown {
		return after
	}
	return min(at, after)
}

// iteration returns what is under way after the body of a loop, and whether it closes a group last where nothing is.
func (f *flights) iteration(s *kir.For, at flight) (after flight, isEmpty bool) {
	last := len(s.Body) - 1
	if last < 0 {
		return at, false
	}
	if _, ok := s.Body[last].(kir.AsyncCommit); !ok {
		return f.block(s.Body, at), false
	}
	at = f.block(s.Body[:last], at)
	return f.block(s.Body[last:], at), at == allLanded
}

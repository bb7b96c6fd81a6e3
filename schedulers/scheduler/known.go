package scheduler

import "sync"

// A Known is what was found out about a fusion, whatever the sizes: segments of fusions
// that are equal, names included, may share one. Any number of goroutines may use it.
type Known struct {
	Key string // equal for these fusions alone, as far as whoever made it remembers

	lock  sync.Mutex
	facts map[any]any
}

// maxFacts bounds what a Known holds; then it begins anew.
const maxFacts = 128

// Recall returns what found returns for key, which must depend on the fusion of g and on
// key alone. It is found once for all segments that share what is known, and then not
// looked for again.
func Recall[T any](g *Segment, key any, found func() T) T {
	k := g.Known
	if k == nil {
		return found()
	}
	k.lock.Lock()
	x, ok := k.facts[key]
	k.lock.Unlock()
	if ok {
		return x.(T)
	}
	fact := found()
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.facts == nil || len(k.facts) >= maxFacts {
		k.facts = map[any]any{}
	}
	k.facts[key] = fact
	return fact
}

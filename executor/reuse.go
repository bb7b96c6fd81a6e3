package executor

import (
	"container/list"
	"encoding/binary"
	"sync"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers/scheduler"
)

// A kernelStore keeps what was found out about fusions of kernels, and the kernels that
// were made, for other sizes, other plans and other executors. Any number of goroutines
// may use it.
type kernelStore struct {
	lock    sync.Mutex
	known   recentMap[*scheduler.Known] // by fusion and device
	kernels recentMap[*loadedKernel]    // by all but the answers that a kernel relies on, and a number
	reused  int
	crowded int // kernels that took the place of one with other answers
}

// Bounds of a store; what was used longest ago is forgotten. A kernel of ten operations takes
// 50 KB.
const (
	maxKnown   = 1024 // fusions
	maxKernels = 512
	maxAnswers = 8 // kernels that rely on different answers
)

func newKernelStore() *kernelStore {
	return &kernelStore{known: newRecentMap[*scheduler.Known](maxKnown), kernels: newRecentMap[*loadedKernel](maxKernels)}
}

// knownOf returns what is known of f, of which text has the text form, on a device.
func (s *kernelStore) knownOf(f *core.Fusion, text string, device int) *scheduler.Known {
	key := string(binary.AppendVarint(f.AppendUntold([]byte(text)), int64(device)))
	s.lock.Lock()
	defer s.lock.Unlock()
	k, ok := s.known.get(key)
	if !ok {
		k = &scheduler.Known{Key: key}
		s.known.put(key, k)
	}
	return k
}

// A loadedKernel is what is kept of a compiled one.
type loadedKernel struct {
	*lowered
	launch cudadrv.LaunchBlock // of the task that it was made for
	key    functionKey
}

// find completes c, which has a task and a choice, by a kernel that was made under key, if
// all that it relies on holds for the task. It returns whose kernel that was, nil if there
// is none.
func (s *kernelStore) find(key string, c *compiled) *loadedKernel {
	var made []*loadedKernel
	s.lock.Lock()
	for i := range maxAnswers {
		if x, ok := s.kernels.get(numbered(key, i)); ok {
			made = append(made, x)
		}
	}
	s.lock.Unlock()
	for _, x := range made {
		if c.takes(x.lowered) {
			s.lock.Lock()
			s.reused++
			s.lock.Unlock()
			return x
		}
	}
	return nil
}

func numbered(key string, i int) string { return key + string(rune(i)) }

// keep has c found under key.
func (s *kernelStore) keep(key string, c *compiled) {
	s.lock.Lock()
	defer s.lock.Unlock()
	at := 0
	for at < maxAnswers && s.kernels.has(numbered(key, at)) {
		at++
	}
	if at == maxAnswers {
		at = s.crowded % maxAnswers
		s.crowded++
	}
	s.kernels.put(numbered(key, at), &loadedKernel{c.lowered, c.launch, c.key})
}

// takes makes c one of the kernel of other, if lowering would make that for c too.
func (c *compiled) takes(other *lowered) bool {
	other.lock.Lock()
	defer other.lock.Unlock()
	own := c.lowered
	c.lowered, c.options = other, lower.Options{}
	if c.rely() == nil && c.conditions.Hold(c.options) {
		return true
	}
	c.lowered = own
	return false
}

// A lowered is a schedule and its kernel. Plans for other sizes share it.
type lowered struct {
	s          *schedule.Scheduled // nil: every scheduler refuses
	kernel     *kir.Kernel         // nil: lowering refuses
	conditions lower.Conditions    // of the kernel
	lock       sync.Mutex          // evaluating sizes adds to the tables of s and kernel
}

// kernelKey returns all that the kernel of t by the chosen schedule of g depends on, beside
// what lowering asks for.
func (a *assembly) kernelKey(c *compiled, g *scheduler.Segment, recipe string, draw int) string {
	key := append(append([]byte(g.Known.Key), c.scheduler...), 0)
	key = append(append(key, recipe...), 0)
	for k := range c.outputs {
		for _, d := range c.outputs[k].order() {
			key = binary.AppendVarint(key, int64(d))
		}
		key = append(key, 0)
	}
	if a.options.Exact {
		key = append(key, 'E')
	}
	if a.options.RandomInMemory {
		key = binary.AppendVarint(append(key, 'R'), int64(draw))
	}
	if c.follows {
		key = append(key, 'F')
	}
	if c.leads {
		key = append(key, 'L')
	}
	return string(key)
}

// A recentMap holds the entries used last.
type recentMap[T any] struct {
	limit  int
	byKey  map[string]*list.Element
	recent *list.List // of recentEntry[T], used last first
}

type recentEntry[T any] struct {
	key   string
	value T
}

func newRecentMap[T any](limit int) recentMap[T] {
	return recentMap[T]{limit, map[string]*list.Element{}, list.New()}
}

func (m *recentMap[T]) get(key string) (value T, ok bool) {
	x, ok := m.byKey[key]
	if !ok {
		return value, false
	}
	m.recent.MoveToFront(x)
	return x.Value.(recentEntry[T]).value, true
}

func (m *recentMap[T]) has(key string) bool { return m.byKey[key] != nil }

func (m *recentMap[T]) put(key string, value T) {
	if x, ok := m.byKey[key]; ok {
		x.Value = recentEntry[T]{key, value}
		m.recent.MoveToFront(x)
		return
	}
	m.byKey[key] = m.recent.PushFront(recentEntry[T]{key, value})
	if m.recent.Len() > m.limit {
		delete(m.byKey, m.recent.Remove(m.recent.Back()).(recentEntry[T]).key)
	}
}

package executor

import (
	"container/list"
	"encoding/binary"
	"sync"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/lower"
	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/schedulers/scheduler"
)

// A kernelStore keeps what was found out about fusions of kernels, and the kernels that
// were made, for other sizes, other plans and other executors. Any number of goroutines
// may use it.
type kernelStore struct {
	lock    sync.Mutex
	known   recentMap[*scheduler.Known] // by fusion and device
	kernels recentMap[[]*compiled]      // by all but the answers that a kernel relies on; used last first
	reused  int
}

// Bounds of a store; what was used longest ago is forgotten.
const (
	maxKnown   = 1024 // fusions
	maxKernels = 512  // keys of kernels
	maxAnswers = 8    // kernels of one key
)

func newKernelStore() *kernelStore {
	return &kernelStore{known: newRecentMap[*scheduler.Known](maxKnown), kernels: newRecentMap[[]*compiled](maxKernels)}
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

// find completes c, which has a task and a choice, by a kernel that was made under key, if
// all that it relies on holds for the task. It returns whose kernel that was, nil if there
// is none.
func (s *kernelStore) find(key string, c *compiled) *compiled {
	s.lock.Lock()
	made, _ := s.kernels.get(key)
	s.lock.Unlock()
	for _, x := range made {
		if c.takes(x) {
			s.lock.Lock()
			s.reused++
			s.lock.Unlock()
			return x
		}
	}
	return nil
}

// keep has c found under key.
func (s *kernelStore) keep(key string, c *compiled) {
	s.lock.Lock()
	defer s.lock.Unlock()
	made, _ := s.kernels.get(key)
	made = append([]*compiled{c}, made[:min(len(made), maxAnswers-1)]...)
	s.kernels.put(key, made)
}

// takes makes c one of the kernel of other, if lowering would make that for c too.
func (c *compiled) takes(other *compiled) bool {
	other.lock.Lock()
	defer other.lock.Unlock()
	own := c.lowered
	c.lowered, c.options = other.lowered, lower.Options{}
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
	if a.options.RandomInMemory {
		key = binary.AppendVarint(append(key, 'R'), int64(draw))
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

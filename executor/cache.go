package executor

import (
	"container/list"
	"sync"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers/model"
)

// A Cache keeps the executors of the definitions used last. It may be used by
// many goroutines.
type Cache struct {
	machine *machine
	kernels *kernelStore

	lock   sync.Mutex
	limit  int
	byText map[string]*list.Element // of *Executor
	recent *list.List               // used last first
	stats  Stats
}

// Stats counts what a cache was asked for.
type Stats struct {
	Hits, Misses, Evictions int
	Executors               int // held now
}

// NewCache returns a cache of at most maxExecutors executors, at least 1, which
// make plans for the CUDA devices of driver; nil: for none. The driver is first
// called when a device is first asked for.
func NewCache(maxExecutors int, driver cudadrv.Driver) *Cache {
	return &Cache{machine: newMachine(driver), kernels: newKernelStore(), limit: max(maxExecutors, 1), byText: map[string]*list.Element{}, recent: list.New()}
}

// UseModels has find tell how long kernels take on a device, instead of what is built in. Its
// errors are those of plans for the device. It must be called before anything is planned.
func (c *Cache) UseModels(find func(cudadrv.Properties) (model.Machine, error)) {
	if c.machine != nil {
		c.machine.findModel = find
	}
}

// Executor returns the executor of f, which is frozen. Definitions with the same
// canonical text share one.
func (c *Cache) Executor(f *core.Fusion) (*Executor, error) {
	if !f.Frozen() {
		return nil, core.InvalidArgumentf("execute(): the definition is not complete")
	}
	text := f.String()
	c.lock.Lock()
	defer c.lock.Unlock()
	if e, ok := c.byText[text]; ok {
		c.stats.Hits++
		c.recent.MoveToFront(e)
		return e.Value.(*Executor), nil
	}
	c.stats.Misses++
	x := newExecutor(f, text, c.machine, c.kernels)
	c.byText[text] = c.recent.PushFront(x)
	if c.recent.Len() > c.limit {
		last := c.recent.Back()
		delete(c.byText, c.recent.Remove(last).(*Executor).text)
		c.stats.Evictions++
	}
	return x, nil
}

// Scheduled returns an executor that the cache does not keep. It computes f, which
// is frozen, by s, a schedule of it: on a CUDA device, or in the simulator. Its
// plans fail with InvalidArgument if s is not legal, is not launched as demanded,
// or needs more than the device has, which for the simulator is one of compute
// capability 9.0, and with Unsupported if s cannot be lowered.
func (c *Cache) Scheduled(f *core.Fusion, s *schedule.Scheduled, demands Launch) *Executor {
	x := newExecutor(f, f.String(), c.machine, c.kernels)
	x.byHand, x.demands, x.views = s, demands, nil
	return x
}

// Stats returns the counts so far.
func (c *Cache) Stats() Stats {
	c.lock.Lock()
	defer c.lock.Unlock()
	s := c.stats
	s.Executors = c.recent.Len()
	return s
}

package executor

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A pool makes kernels, no more at once than there are processors, whichever plans they
// are for. Who waits for a kernel that another one makes holds its place: that one has
// a place too, so all get on.
type pool struct {
	lock    sync.Mutex
	left    sync.Cond // a place
	running int
	asked   int // since nothing was to be made
	done    int
}

func newPool() *pool {
	p := &pool{}
	p.left.L = &p.lock
	return p
}

// workers is that of the process.
var workers = newPool()

// Compiling returns how many of the kernels that plans of this process need are made,
// and how many they are, since none was to be made.
func Compiling() (done, all int) {
	workers.lock.Lock()
	defer workers.lock.Unlock()
	return workers.done, workers.asked
}

// each calls do, which does not panic and asks for no places, with 0 to n-1, no more at
// once than given, and returns when all is done.
func (p *pool) each(n, atOnce int, do func(i int)) {
	p.lock.Lock()
	p.asked += n
	p.lock.Unlock()
	if n == 1 {
		p.one(0, do)
		return
	}
	var all sync.WaitGroup
	var next atomic.Int64
	for range min(n, atOnce) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				p.one(i, do)
			}
		})
	}
	all.Wait()
}

// atOnce returns how many kernels of a plan are made at once.
func (o Options) atOnce() int {
	if o.Serial {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// one calls do when there is a place.
func (p *pool) one(i int, do func(i int)) {
	p.lock.Lock()
	for p.running >= runtime.GOMAXPROCS(0) {
		p.left.Wait()
	}
	p.running++
	p.lock.Unlock()
	defer func() {
		p.lock.Lock()
		defer p.lock.Unlock()
		p.running--
		if p.done++; p.done == p.asked {
			p.asked, p.done = 0, 0
		}
		p.left.Signal()
	}()
	do(i)
}

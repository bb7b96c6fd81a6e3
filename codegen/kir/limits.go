package kir

import (
	"errors"
	"fmt"
	"strings"

	"nvfuser_go/core/scalar"
)

// Limits is what a device can launch.
type Limits struct {
	Threads     int64    // of a block
	Grid, Block [3]int64 // per dimension
	Shared      int64    // bytes of a block
	Local       int64    // bytes of a thread
	Cluster     int64    // blocks of a cluster that every device of the kind takes
}

// Hopper is the limits of compute capability 9.0: CUDA C++ Programming Guide
// 12.9, section 17.2; the shared memory is what a kernel can opt in to.
var Hopper = Limits{Threads: 1024, Grid: [3]int64{1<<31 - 1, 65535, 65535}, Block: [3]int64{1024, 1024, 64},
	Shared: 227 * 1024, Local: 512 * 1024, Cluster: 16}

// CheckLimits returns an error with a line for each limit that every launch of
// the kernel exceeds. What depends on its arguments is checked by
// [Limits.Check] when they are known.
func (k *Kernel) CheckLimits(l Limits) error {
	least := func(ids [3]scalar.ID) (n [3]int64) {
		for i, id := range ids {
			n[i] = max(k.Scalars.Facts(id).Lo, 0)
		}
		return n
	}
	if err := l.Check(least(k.Launch.Grid), least(k.Launch.Block), k.Launch.Cluster, k.Scalars.Facts(k.Launch.Shared).Lo); err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	var local int64
	for i := range k.Buffers {
		if b := &k.Buffers[i]; b.Space == Local {
			n, _ := k.Scalars.ConstInt(b.Size)
			local += min(max(n, 0), 1<<32) * int64(b.DType.Size())
		}
	}
	if local > l.Local {
		return fmt.Errorf("kernel %s: the local memory of a thread is %d, and the device has at most %d", k.Name, local, l.Local)
	}
	return nil
}

// Check returns an error with a line for each limit that a launch exceeds. An
// empty grid exceeds none.
func (l Limits) Check(grid, block, cluster [3]int64, shared int64) error {
	var problems []string
	check := func(what string, n, most int64) {
		if n > most {
			problems = append(problems, fmt.Sprintf("%s is %d, and the device has at most %d", what, n, most))
		}
	}
	threads, blocks := int64(1), int64(1)
	for i, dim := range [3]string{"x", "y", "z"} {
		check("gridDim."+dim, grid[i], l.Grid[i])
		check("blockDim."+dim, block[i], l.Block[i])
		threads *= min(block[i], 1<<20)
		blocks *= min(max(cluster[i], 1), 1<<20)
		if c := cluster[i]; c > 1 && grid[i]%c != 0 {
			problems = append(problems, fmt.Sprintf("gridDim.%s is %d, not a multiple of the cluster's %d", dim, grid[i], c))
		}
	}
	check("the number of threads of a block", threads, l.Threads)
	check("the number of blocks of a cluster", blocks, l.Cluster)
	check("the shared memory of a block", shared, l.Shared)
	if problems == nil {
		return nil
	}
	return errors.New(strings.Join(problems, "\n"))
}

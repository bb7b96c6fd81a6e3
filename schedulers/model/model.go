// Package model estimates how long a kernel takes.
//
// Its central type is [Machine]: what was measured of a device. A time is that of the
// memory or of the instructions, whichever is longer, as they overlap, and what a launch
// takes. The memory's depends on how much of it is read, as a device reads faster than it
// does both. [H100] and [H200] are built in, [Derived] makes one of what any device says of
// itself, and package executor/calibration measures one and writes it down as [Machine.Text] does.
//
// Invariants: a time depends on the arguments alone; on a device as there are, more bytes,
// instructions or launches never take less of it. The package does not know fusions or schedules, and it measures
// nothing.
package model

import "math"

// A Machine is what a device does, as it was measured. Sizes are bytes, rates bytes in a us.
type Machine struct {
	Device string `json:"device"` // as its driver names it

	// Of launches, in us.
	Launch float64 `json:"launch_us"` // a kernel that does nothing, after another one
	Alone  float64 `json:"alone_us"`  // between events, a kernel that copies next to nothing

	// Of the memory.
	Read  float64 `json:"read_rate"`  // of a kernel that reads
	Copy  float64 `json:"copy_rate"`  // of one that writes as much as it reads: both together
	Write float64 `json:"write_rate"` // of one that writes
	Kept  float64 `json:"kept"`       // what a kernel wrote last, and the second cache holds when it ends
	Cache float64 `json:"cache_rate"` // of the second cache: what all multiprocessors together take

	// How many us longer a kernel takes if the second cache is full of what others wrote:
	// one that reads, one that copies; and the bytes from which on it takes all of that.
	DirtyRead float64 `json:"dirty_read_us"`
	DirtyCopy float64 `json:"dirty_copy_us"`
	DirtyFrom float64 `json:"dirty_from"`

	// Of the multiprocessors.
	Issue float64 `json:"issue_rate"` // instructions of threads in a us that kernels reach, of all of them
	Code  float64 `json:"code_us"`    // us of a KB of instructions of a thread that wait for each other

	// Of waiting, in us.
	Block   float64 `json:"block_us"`   // threads of a block exchange what they have
	Cluster float64 `json:"cluster_us"` // blocks of a cluster do
	Grid    float64 `json:"grid_us"`    // all blocks wait for each other
	Ticket  float64 `json:"ticket_us"`  // the last block to arrive reads what the others left
}

// H100 is an H100 SXM5, by kernels that do nothing or copy, and sums of rows, of 1 MB to 2 GB.
var H100 = Machine{Device: "NVIDIA H100 80GB HBM3", Launch: 2.05, Alone: 4.1, Read: 3.17e6, Copy: 3.04e6, Write: 3.26e6, Kept: 16e6,
	DirtyRead: 9.2, DirtyCopy: 6.3, DirtyFrom: 64e6, Cache: 7.5e6, Issue: h100Processors * 128 * 1750 * 0.65, Code: 0.2, Block: 0.2, Cluster: 0.8, Grid: 1.2, Ticket: 1.5}

// H200 is an H200 SXM5, as it measured itself: its memory is half as fast again as that of an
// H100, and its multiprocessors are the same.
var H200 = Machine{Device: "NVIDIA H200", Launch: 1.32, Alone: 4.16, Read: 4.63e6, Copy: 4.32e6, Write: 4.72e6, Kept: 8.98e6,
	DirtyRead: 8.45, DirtyCopy: 3.01, DirtyFrom: 61.6e6, Cache: 8.26e6, Issue: 20.7e6, Code: 0.219, Block: 0.224, Cluster: 0.36, Grid: 1.01, Ticket: 1.98}

// BuiltIn returns the machine that is built in for the device called name, if one is.
func BuiltIn(name string) (Machine, bool) {
	for _, m := range []Machine{H100, H200} {
		if m.Device == name {
			return m, true
		}
	}
	return Machine{}, false
}

const (
	h100Processors = 132
	h100Peak       = 3.352e6 // of the memory, as its clock and width have it
	h100L2         = 50 << 20
)

// Derived returns what a device that was not measured is likely to do, if it has the same
// shares of its memory, second cache and multiprocessors as an H100. peak is the rate of the
// memory as its clock and width have it; 0: it is not known.
func Derived(name string, processors int, peak, l2 float64) Machine {
	m := H100
	m.Device = name
	processing, memory, cache := float64(max(processors, 1))/h100Processors, peak/h100Peak, l2/h100L2
	if peak <= 0 {
		memory = processing
	}
	m.Issue *= processing
	m.Cache *= processing
	for _, rate := range []*float64{&m.Read, &m.Copy, &m.Write} {
		*rate *= memory
	}
	m.Kept *= cache
	m.DirtyFrom *= cache
	m.DirtyRead *= cache / memory
	m.DirtyCopy *= cache / memory
	return m
}

// A Kernel is what a kernel does, or several that run one after another.
type Kernel struct {
	Read, Written float64 // bytes, each once
	Instructions  float64 // of all threads
	Code          float64 // bytes of instructions
	Part          float64 // of the multiprocessors that it keeps busy; 0: all
	Waves         float64 // how often they are filled with blocks; 0: it is not known
	Launches      int     // 0: one
	Waits         Waits
}

// Waits are how often a block, one after another, waits for others.
type Waits struct{ Block, Cluster, Grid, Tickets int }

// A State is what the second cache holds before a kernel that is timed alone.
type State uint8

const (
	Clean State = iota // what others have read
	Dirty              // what others have written, which has to go to memory first
)

// InChain returns the us that k takes among other kernels.
func (m *Machine) InChain(k Kernel) float64 {
	return float64(max(k.Launches, 1))*m.Launch + m.work(k, 0, 0) + m.waiting(k.Waits)
}

// Time returns the us between events before and after k, which finds nothing that it reads
// in the second cache. A block's instructions take a while, in which other blocks use the
// memory if there are more than fit at once. A dirty cache costs some devices more where a
// kernel reads than where it copies, which takes no less than with fewer writes all the same.
func (m *Machine) Time(k Kernel, s State) float64 {
	us := m.alone(k, s)
	if s == Dirty {
		for _, written := range []float64{0, m.DirtyFrom - k.Read, 2 * m.Kept, k.Read} { // between these more is less only at first
			fewer := k
			if fewer.Written = max(written, 0); fewer.Written < k.Written {
				us = max(us, m.alone(fewer, s))
			}
		}
	}
	return us
}

func (m *Machine) alone(k Kernel, s State) float64 {
	more := 0.0
	if s == Dirty {
		more = between(0, m.DirtyCopy, m.DirtyRead, k.shareOfReads()) * min((k.Read+k.Written)/m.DirtyFrom, 1)
	}
	return m.Alone + float64(max(k.Launches, 1)-1)*m.Launch + m.Code*k.Code/1024/max(k.Waves, 1) + m.work(k, min(k.Written/2, m.Kept), more) + m.waiting(k.Waits)
}

// work returns the us of memory, which takes so many more, and instructions. The bytes in
// kept are not waited for.
func (m *Machine) work(k Kernel, kept, more float64) float64 {
	part := k.Part
	if part <= 0 || part > 1 {
		part = 1
	}
	bytes := k.Read + k.Written - kept
	memory := bytes/min(between(m.Write, m.Copy, m.Read, k.shareOfReads()), m.Cache*part) + more
	return max(memory, k.Instructions/(m.Issue*part)) * k.tail()
}

// tail returns how much longer k takes because its last wave of blocks does not fill the
// multiprocessors: half of what is missing of it, as blocks do not end together.
func (k *Kernel) tail() float64 {
	if k.Waves <= 1 {
		return 1
	}
	whole := math.Ceil(k.Waves)
	return 1 + (whole-k.Waves)/(2*whole)
}

func (m *Machine) waiting(w Waits) float64 {
	return float64(w.Block)*m.Block + float64(w.Cluster)*m.Cluster + float64(w.Grid)*m.Grid + float64(w.Tickets)*m.Ticket
}

func (k *Kernel) shareOfReads() float64 {
	if k.Read+k.Written == 0 {
		return 1
	}
	return k.Read / (k.Read + k.Written)
}

// between returns what there is at share, linear between what there is at 0, a half and 1.
func between(at0, atHalf, at1, share float64) float64 {
	if share < 0.5 {
		return at0 + 2*share*(atHalf-at0)
	}
	return atHalf + (2*share-1)*(at1-atHalf)
}

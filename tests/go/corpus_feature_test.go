package tests

import (
	"fmt"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// featureNames says what each word of a section "expect" means.
var featureNames = map[string]string{
	"int32":       "indices are of 32 bits",
	"int64":       "indices are of 64 bits",
	"vector2":     "vectors of 2 elements are moved",
	"vector4":     "vectors of 4 elements are moved",
	"vector8":     "vectors of 8 elements are moved",
	"vector16":    "vectors of 16 elements are moved",
	"unroll":      "a loop is unrolled",
	"loop":        "a loop is not",
	"guard":       "something is done under a condition",
	"branches":    "a condition has two sides",
	"zeros":       "what is read is zero under a condition",
	"blocks":      "the grid may have several blocks",
	"threads-x":   "a block has threads along x",
	"threads-y":   "and along y",
	"threads-z":   "and along z",
	"warp":        "threads of a warp exchange values",
	"shared":      "shared memory is used",
	"block":       "there is a barrier of the block",
	"ticket":      "blocks arrive at a counter",
	"grid":        "there is a barrier of the grid",
	"cluster":     "blocks of a cluster store in each other's shared memory",
	"arrivals":    "and wait for what they are sent alone",
	"cooperative": "all blocks of the launch are resident",
	"async":       "there are asynchronous copies",
	"pipeline":    "a wait leaves asynchronous copies pending",
	"atomic":      "there are atomic additions",
	"fence":       "there are fences",
	"workspace":   "there is memory that is no tensor of the caller",
	"random":      "random numbers are made",
	"hoist":       "an index expression has a name",
	"approximate": "operations are approximated",
	"unaligned":   "vectors are read from addresses that may be any",
	"gathered":    "vectors are read that have more than what is copied of them",
	"inplace":     "an output is written to the memory of an input",
	"streaming":   "something is moved that is read or written once",
	"evict_first": "something is moved that the second cache gives up first",
	"evict_last":  "and last",
}

// features returns the words that hold of a kernel.
func features(x *subject) map[string]bool {
	k, has := x.Kernel, map[string]bool{}
	has["int32"], has["int64"] = k.Index == dtype.Int32, k.Index == dtype.Int
	for d, word := range []string{"threads-x", "threads-y", "threads-z"} {
		n, known := k.Scalars.ConstInt(k.Launch.Block[d])
		has[word] = !known || n > 1
		n, known = k.Scalars.ConstInt(k.Launch.Grid[d])
		has["blocks"] = has["blocks"] || !known || n > 1
	}
	has["cooperative"] = k.Launch.Cooperative
	for _, a := range k.Arguments {
		has["workspace"] = has["workspace"] || a.Kind == kir.Pointer && a.Host.Tensor == core.NoVal
	}
	for i := range k.Buffers {
		has["shared"] = has["shared"] || k.Buffers[i].Space == kir.Shared
	}
	for _, o := range x.Scheduled.Fusion().Outputs() {
		has["inplace"] = has["inplace"] || o.Alias != core.NoVal
	}
	for i := range k.Values {
		has["approximate"] = has["approximate"] || k.Values[i].Approximate
		switch k.Values[i].Kind {
		case kir.Shuffle:
			has["warp"] = true
		case kir.Random:
			has["random"] = true
		}
	}
	barriers := 0
	defer func() { has[fmt.Sprintf("barriers=%d", barriers)] = true }()
	k.Body.Walk(func(s kir.Statement) {
		switch s := s.(type) {
		case kir.Move:
			has[fmt.Sprintf("vector%d", s.Dst.Width)] = true
			has["zeros"] = has["zeros"] || s.Guarded
			has["unaligned"] = has["unaligned"] || s.Unaligned
			has["gathered"] = has["gathered"] || s.Src.Step > 1
			has["streaming"] = has["streaming"] || s.Cache == kir.CacheStreaming
			has["evict_first"] = has["evict_first"] || s.Cache == kir.CacheEvictFirst
			has["evict_last"] = has["evict_last"] || s.Cache == kir.CacheEvictLast
		case *kir.For:
			has["unroll"] = has["unroll"] || s.Unroll == kir.UnrollFull
			has["loop"] = has["loop"] || s.Unroll != kir.UnrollFull
		case *kir.If:
			has["guard"] = true
			has["branches"] = has["branches"] || len(s.Else) > 0
		case kir.Barrier:
			barriers++
			has["block"] = has["block"] || s.Scope == kir.BlockScope
			has["group"] = has["group"] || s.Scope == kir.GroupScope
			has["grid"] = has["grid"] || s.Scope == kir.GridScope
		case kir.Arrived:
			barriers++
			has["arrivals"] = true
		case kir.Send:
			has["cluster"] = true
		case kir.AsyncCopy:
			has["async"] = true
		case kir.AsyncWait:
			has["pipeline"] = has["pipeline"] || s.Pending > 0
		case kir.AtomicAdd:
			has["atomic"] = has["atomic"] || s.Old == kir.NoSymbol
			has["ticket"] = has["ticket"] || s.Old != kir.NoSymbol
		case kir.Fence:
			has["fence"] = true
		case kir.Hoist:
			has["hoist"] = true
		}
	})
	return has
}

// countStatements returns the number of statements in the text of a kernel.
func countStatements(k *kir.Kernel) (n int) {
	k.Body.Walk(func(kir.Statement) { n++ })
	return n
}

package tests

import (
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// A mutant is a kernel without one of its protections.
type mutant struct {
	what   string
	kernel *kir.Kernel
	// needless says why the protection may protect nothing, or is "".
	needless string
}

// mutants returns the kernels that are k without one barrier, wait, commit,
// fence, condition, guard or initial value.
func mutants(k *kir.Kernel) []mutant {
	var all []mutant
	mutated(k, k.Body, func(what, needless string, b kir.Block) {
		changed := *k
		changed.Body = b
		all = append(all, mutant{what, &changed, needless})
	})
	return all
}

// mutated calls emit for each way to take one protection from b.
func mutated(k *kir.Kernel, b kir.Block, emit func(what, needless string, b kir.Block)) {
	for i, s := range b {
		with := func(instead ...kir.Statement) kir.Block { return slices.Concat(b[:i], instead, b[i+1:]) }
		text := k.Text(s)
		switch s := s.(type) {
		case kir.Barrier:
			emit("without "+text, sameThreads(b[:i], b[i+1:]), with())
		case kir.AsyncWait:
			needless := landed(b[:i])
			emit("without "+text, needless, with())
			emit("one group more pending at "+text, needless, with(kir.AsyncWait{Pending: s.Pending + 1}))
		case kir.AsyncCommit, kir.ClusterStart, kir.Fence, kir.Expect, kir.Arrived:
			emit("without "+text, "", with())
		case kir.Assign:
			if k.Values[s.Value].Kind == kir.Constant {
				emit("without "+text, deadStore(k, s, b[:i], b[i+1:]), with())
			}
		case kir.AsyncCopy:
			if s.Guard != scalar.None {
				s.Guard = scalar.None
				emit("without the guard of "+text, "", with(s))
			}
		case kir.Move:
			if s.Guarded {
				s.Guarded = false
				emit("without the guard of "+text, "", with(s))
			}
		case *kir.For:
			mutated(k, s.Body, func(what, needless string, body kir.Block) {
				loop := *s
				loop.Body = body
				emit(what, needless, with(&loop))
			})
		case *kir.If:
			if len(s.Then) > 0 {
				needless := idle(k, s.Then, s.Cond)
				if ownElements(b[:i], s.Then) {
					needless = "conditions around stores of a thread to its own element"
				}
				if chooses(s) {
					needless = "choices of an element, of which one may be all that is left where they are reached"
				}
				emit("always "+text, needless, with(s.Then...))
			} else {
				needless := ""
				if loads(k, s.Else) {
					needless = "conditions that spare loads of what a vector has read, of elements that exist"
				}
				emit("never "+text, needless, with(s.Else...))
			}
			mutated(k, s.Then, func(what, needless string, then kir.Block) {
				emit(what, needless, with(&kir.If{Cond: s.Cond, Then: then, Else: s.Else}))
			})
			mutated(k, s.Else, func(what, needless string, other kir.Block) {
				emit(what, needless, with(&kir.If{Cond: s.Cond, Then: s.Then, Else: other}))
			})
		}
	}
}

// loads reports whether b does nothing but load what no thread writes to registers, and, under
// conditions, replace what was loaded.
func loads(k *kir.Kernel, b kir.Block) bool {
	found := false
	for _, s := range b {
		switch s := s.(type) {
		case *kir.For:
			if !loads(k, s.Body) {
				return false
			}
		case *kir.If:
			if !replaces(k, s.Then) && !loads(k, s.Then) || !replaces(k, s.Else) && !loads(k, s.Else) {
				return false
			}
		case kir.Assign:
			if v := k.Values[s.Value]; k.Buffers[s.Dst.Buffer].Space != kir.Local || v.Kind != kir.Load || !k.Buffers[v.Access.Buffer].ReadOnly {
				return false
			}
		default:
			return false
		}
		found = true
	}
	return found
}

// replaces reports whether b does nothing but store constants in registers.
func replaces(k *kir.Kernel, b kir.Block) bool {
	return !slices.ContainsFunc(b, func(s kir.Statement) bool {
		x, isStore := s.(kir.Assign)
		return !isStore || k.Buffers[x.Dst.Buffer].Space != kir.Local || k.Values[x.Value].Kind != kir.Constant
	})
}

// chooses reports whether both branches of s store one element, and nothing else: the last
// of the parts of a join is chosen by a condition too, which always holds where parts before
// it have been taken in whole vectors.
func chooses(s *kir.If) bool {
	if len(s.Then) != 1 || len(s.Else) != 1 {
		return false
	}
	x, isStore := s.Then[0].(kir.Assign)
	y, isOther := s.Else[0].(kir.Assign)
	return isStore && isOther && x.Dst.Buffer == y.Dst.Buffer && x.Dst.Index == y.Dst.Index
}

// deadStore returns why a constant that is stored between two parts of a block is
// not needed: it is there already, or the first statement of b that touches its
// buffer overwrites it, at least for all elements that exist.
func deadStore(k *kir.Kernel, s kir.Assign, before, b kir.Block) string {
	if holds(k, before, s) {
		return "initial values that are there already"
	}
	if meanOfNothing(k, b) {
		return "means of no elements, which their count of 0 takes from the results"
	}
	if sumOfNothing(k, before, s, b) {
		return "one of a largest element of minus infinity and a sum of 0, each of which leaves the part out"
	}
	for _, next := range b {
		reads, writes := touches(k, next, s.Dst.Buffer)
		if !reads && !writes {
			continue
		}
		overwrites := func(next kir.Statement) bool {
			w, ok := next.(kir.Assign)
			return ok && w.Dst.Buffer == s.Dst.Buffer && w.Dst.Index == s.Dst.Index
		}
		if extreme(k, next, s.Dst.Buffer) {
			return "extremes that begin with another element of theirs"
		}
		switch next := next.(type) {
		case kir.Assign:
			if !reads && overwrites(next) {
				return "initial values that are overwritten at once"
			}
		case *kir.If:
			if !reads && len(next.Else) == 0 && idle(k, next.Then, next.Cond) != "" && !storesShared(k, next.Then) && slices.ContainsFunc(next.Then, overwrites) {
				return "initial values of elements that do not exist"
			}
		}
		return ""
	}
	return ""
}

// sameThreads returns why a barrier between two parts of a block orders nothing:
// the statements beside it are executed by the same threads.
func sameThreads(before, after kir.Block) string {
	isDeclaration := func(s kir.Statement) bool { _, ok := s.(kir.Declare); return ok }
	for len(after) > 0 && isDeclaration(after[0]) {
		after = after[1:]
	}
	if len(before) == 0 || len(after) == 0 {
		return ""
	}
	x, ok := before[len(before)-1].(*kir.If)
	y, too := after[0].(*kir.If)
	if ok && too && x.Cond == y.Cond && len(x.Else)+len(y.Else) == 0 {
		return "barriers between what the same threads do"
	}
	return ""
}

// landed returns why no copy can be under way after the statements before: the last ones
// that begin any are a loop that waits for its tiles, and begins none past the last tile.
func landed(before kir.Block) string {
	for _, s := range slices.Backward(before) {
		copies, waits := 0, 0
		kir.Block{s}.Walk(func(s kir.Statement) {
			switch s.(type) {
			case kir.AsyncCopy:
				copies++
			case kir.AsyncWait:
				waits++
			}
		})
		if copies+waits > 0 {
			loop, isLoop := s.(*kir.For)
			if isLoop && waits > 0 && !alwaysCopies(loop.Body) {
				return "waits after loops that wait for all of their tiles"
			}
			return ""
		}
	}
	return ""
}

// alwaysCopies reports whether an asynchronous copy of b is under no condition.
func alwaysCopies(b kir.Block) bool {
	return slices.ContainsFunc(b, func(s kir.Statement) bool {
		loop, isLoop := s.(*kir.For)
		_, isCopy := s.(kir.AsyncCopy)
		return isCopy || isLoop && alwaysCopies(loop.Body)
	})
}

// holds reports whether the last of the statements before s that touches its
// buffer stores the same.
func holds(k *kir.Kernel, before kir.Block, s kir.Assign) bool {
	for _, last := range slices.Backward(before) {
		reads, writes := touches(k, last, s.Dst.Buffer)
		if !reads && !writes {
			continue
		}
		same, ok := last.(kir.Assign)
		return ok && same.Dst.Index == s.Dst.Index && k.Values[same.Value].Kind == kir.Constant && k.Values[same.Value].Const == k.Values[s.Value].Const
	}
	return false
}

// meanOfNothing reports whether the two stores after one are of 0 as well, the
// second an integer: Welford's mean, sum of squares and count start so.
func meanOfNothing(k *kir.Kernel, b kir.Block) bool {
	n := 0
	for _, s := range b {
		switch s := s.(type) {
		case kir.Declare:
		case kir.Assign:
			if n++; k.Values[s.Value].Kind != kir.Constant || k.Values[s.Value].DType.IsInt() != (n == 2) {
				return false
			}
		default:
			return false
		}
		if n == 2 {
			return true
		}
	}
	return false
}

// sumOfNothing reports whether s is one of two stores, of minus infinity and then
// of 0: a part without elements of a largest element and a sum of exponentials.
func sumOfNothing(k *kir.Kernel, before kir.Block, s kir.Assign, after kir.Block) bool {
	is := func(s kir.Statement, x float64) bool {
		a, ok := s.(kir.Assign)
		return ok && k.Values[a.Value].Kind == kir.Constant && k.Values[a.Value].DType.IsFloat() && k.Values[a.Value].Const.Re == x
	}
	isDeclaration := func(s kir.Statement) bool { _, ok := s.(kir.Declare); return ok }
	for len(before) > 0 && isDeclaration(before[len(before)-1]) {
		before = before[:len(before)-1]
	}
	for len(after) > 0 && isDeclaration(after[0]) {
		after = after[1:]
	}
	return is(s, math.Inf(-1)) && len(after) > 0 && is(after[0], 0) || is(s, 0) && len(before) > 0 && is(before[len(before)-1], math.Inf(-1))
}

// extreme reports whether s, or a loop around it, replaces what a buffer holds by
// the larger or the smaller of that and something else.
func extreme(k *kir.Kernel, s kir.Statement, buffer kir.BufferID) bool {
	if loop, ok := s.(*kir.For); ok {
		return len(loop.Body) > 0 && extreme(k, loop.Body[len(loop.Body)-1], buffer)
	}
	x, ok := s.(kir.Assign)
	op := k.Values[x.Value].Op
	return ok && x.Dst.Buffer == buffer && (op == core.MaximumOp || op == core.MinimumOp)
}

// idle returns why the statements of b may be executed where a condition does
// not hold: what they compute there is thrown away, which the simulator sees, or
// a condition inside implies it.
func idle(k *kir.Kernel, b kir.Block, condition scalar.ID) string {
	t, inner, copies := k.Scalars.Clone(), false, false
	var may func(b kir.Block) bool
	may = func(b kir.Block) bool {
		for _, s := range b {
			switch s := s.(type) {
			case *kir.For:
				if !may(s.Body) {
					return false
				}
			case *kir.If:
				implied := implies(t, s.Cond, condition)
				inner = inner || implied
				if !implied && !may(s.Then) || !may(s.Else) {
					return false
				}
			case kir.AsyncCommit:
			case kir.AsyncCopy:
				if copies = true; s.Guard == scalar.None {
					return false
				}
			default:
				if !staysInBlock(k, s, isOfWarps(k, condition)) {
					return false
				}
			}
		}
		return true
	}
	switch {
	case !may(b) && loadsUnderConditions(k, b, false):
		return "conditions around loads that have conditions of their own"
	case !may(b):
		return ""
	case storesShared(k, b):
		return "conditions around stores to shared memory that reach no result"
	case inner:
		return "conditions that one inside implies"
	case isOfWarps(k, condition):
		return "conditions by which whole warps compute nothing"
	case copies:
		return "conditions around asynchronous copies with conditions of their own"
	}
	return "conditions around registers alone"
}

// ownElements reports whether b stores again where the same thread stored
// before, which others do not touch.
func ownElements(before, b kir.Block) bool {
	for _, s := range b {
		again, ok := s.(kir.Assign)
		if !ok || !slices.ContainsFunc(before, func(s kir.Statement) bool {
			first, ok := s.(kir.Assign)
			return ok && first.Dst.Buffer == again.Dst.Buffer && first.Dst.Index == again.Dst.Index
		}) {
			return false
		}
	}
	return true
}

// loadsUnderConditions reports whether b stores nothing in memory that other threads have,
// and loads from it only under conditions inside: those of a pad or a join say of each
// element whose it is, and beyond the last element it may be nobody's.
func loadsUnderConditions(k *kir.Kernel, b kir.Block, isInside bool) bool {
	return !slices.ContainsFunc(b, func(s kir.Statement) bool {
		switch s := s.(type) {
		case *kir.For:
			return !loadsUnderConditions(k, s.Body, isInside)
		case *kir.If:
			return !loadsUnderConditions(k, s.Then, true) || !loadsUnderConditions(k, s.Else, true)
		case kir.Declare, kir.Hoist, kir.Assign, kir.Move, kir.Let:
			return !staysInBlock(k, s, false) && (!isInside || storesMemory(k, s))
		}
		return true
	})
}

// storesMemory reports whether a statement writes to what is no register.
func storesMemory(k *kir.Kernel, s kir.Statement) (stores bool) {
	eachBuffer(k, s, func(id kir.BufferID, write bool) { stores = stores || write && k.Buffers[id].Space != kir.Local })
	return stores
}

// storesShared reports whether a statement of b writes shared memory itself.
func storesShared(k *kir.Kernel, b kir.Block) (stores bool) {
	b.Walk(func(s kir.Statement) {
		if x, ok := s.(kir.Assign); ok {
			stores = stores || k.Buffers[x.Dst.Buffer].Space == kir.Shared
		}
	})
	return stores
}

// isOfWarps reports whether a condition holds for the first warps of a block, along x, and for
// no others.
func isOfWarps(k *kir.Kernel, condition scalar.ID) bool {
	t := k.Scalars
	if t.Op(condition) != scalar.Lt {
		return false
	}
	args := t.Args(condition)
	n, ok := t.ConstInt(args[1])
	return ok && n%32 == 0 && t.Op(args[0]) == scalar.Symbol && k.Symbols[t.Tag(args[0]).Val].Kind == kir.ThreadIdx && k.Symbols[t.Tag(args[0]).Val].Dim == 0
}

// staysInBlock reports whether a statement reads and writes nothing but
// registers and shared memory, and of other threads nothing but what shuffles read.
func staysInBlock(k *kir.Kernel, s kir.Statement, shuffles bool) bool {
	switch s.(type) {
	case kir.Declare, kir.Assign, kir.Move, kir.Hoist, kir.Let:
	default:
		return false
	}
	stays := true
	eachBuffer(k, s, func(id kir.BufferID, _ bool) { stays = stays && k.Buffers[id].Space != kir.Global })
	eachValue(k, s, func(v *kir.Value) { stays = stays && (shuffles || v.Kind != kir.Shuffle) })
	return stays
}

// implies reports whether one comparison holds wherever another does, as far as
// a constant difference tells.
func implies(t *scalar.Table, holds, follows scalar.ID) bool {
	if holds == follows {
		return true
	}
	if t.Op(holds) == scalar.Select { // an and
		args := t.Args(holds)
		if not := t.Not(args[0]); holds != follows && t.And(not, args[2]) == holds {
			return not == follows || implies(t, args[2], follows)
		}
		return t.And(args[0], args[1]) == holds && (implies(t, args[0], follows) || implies(t, args[1], follows))
	}
	if t.Op(holds) != scalar.Lt || t.Op(follows) != scalar.Lt {
		return false
	}
	x, y := t.Args(holds), t.Args(follows)
	n, ok := t.ConstInt(t.Sub(t.Sub(y[0], y[1]), t.Sub(x[0], x[1])))
	return ok && n <= 0
}

// touches reports whether a statement, or one inside it, reads or writes a
// buffer.
func touches(k *kir.Kernel, s kir.Statement, buffer kir.BufferID) (reads, writes bool) {
	kir.Block{s}.Walk(func(s kir.Statement) {
		eachBuffer(k, s, func(id kir.BufferID, isWrite bool) {
			if id == buffer {
				reads, writes = reads || !isWrite, writes || isWrite
			}
		})
	})
	return reads, writes
}

// eachBuffer calls f for the accesses of a statement, less those of statements
// inside it.
func eachBuffer(k *kir.Kernel, s kir.Statement, f func(id kir.BufferID, isWrite bool)) {
	switch s := s.(type) {
	case kir.Assign:
		f(s.Dst.Buffer, true)
	case kir.Send:
		f(s.Dst.Buffer, true)
	case kir.Move:
		f(s.Dst.Buffer, true)
		f(s.Src.Buffer, false)
	case kir.AsyncCopy:
		f(s.Dst.Buffer, true)
		f(s.Src.Buffer, false)
	case kir.AtomicAdd:
		f(s.Dst.Buffer, true)
	}
	eachValue(k, s, func(v *kir.Value) {
		if v.Kind == kir.Load {
			f(v.Access.Buffer, false)
		}
	})
}

// eachValue calls f for the values that a statement itself computes.
func eachValue(k *kir.Kernel, s kir.Statement, f func(*kir.Value)) {
	var walk func(id kir.ValueID)
	walk = func(id kir.ValueID) {
		if id == kir.NoValue {
			return
		}
		v := &k.Values[id]
		f(v)
		for _, a := range v.Args {
			walk(a)
		}
	}
	switch s := s.(type) {
	case kir.Assign:
		walk(s.Value)
	case kir.Send:
		walk(s.Value)
	case kir.AtomicAdd:
		walk(s.Value)
	case kir.Let:
		walk(s.Value)
	}
}

// mutate takes each protection from each kernel: some of its runs must then be
// reported, or give other results. Protections that may protect nothing are
// counted, as work that a kernel could do without, and so is what is found. An entry may
// name those of its kernels, which then must be needless.
func (c *corpus) mutate(t *testing.T) {
	var lock sync.Mutex
	count, needless, found := 0, map[string]int{}, map[string]int{}
	inParallel(len(c.kernels), func(i int) {
		u := c.kernels[i]
		all, named := mutants(u.kernel), u.subjects[0].entry.needless
		needed := maps.Clone(named)
		for _, m := range all {
			problem := u.problem(m)
			if why := named[m.what]; why != "" && problem == "" {
				m.needless = why
				delete(needed, m.what)
			}
			if problem == "" && m.needless == "" {
				t.Errorf("%s %s: nothing is reported and the results are the same\n%v", u.name, m.what, u.kernel)
			}
			lock.Lock()
			if problem != "" {
				found[problem]++
			} else {
				needless[m.needless]++
			}
			lock.Unlock()
		}
		for what := range needed {
			t.Errorf("%s cannot do %q, which is said to be needless", u.name, what)
		}
		lock.Lock()
		defer lock.Unlock()
		count += len(all)
	})
	t.Logf("%d kernels without one protection; what is found first: %v; that do as well without it: %v", count, found, needless)
}

// problem returns the kind of the first thing that is wrong with the runs of a
// mutant: what the simulator reports, or that it is not run or its results
// differ. It returns "" if every run is as if nothing were amiss.
func (u *uniqueKernel) problem(m mutant) string {
	if m.kernel.Verify() != nil {
		return "refused by the verifier"
	}
	for _, x := range u.subjects {
		trial := x.Trial
		trial.Kernel = m.kernel
		for _, order := range []sim.Order{sim.Forward, sim.Reverse} {
			got, report, err := trial.Simulate(sim.Options{Order: order})
			switch {
			case err != nil:
				return "not run"
			case len(report.Findings) > 0:
				return report.Findings[0].Kind.String()
			case x.differs(got) != "":
				return "other results"
			}
		}
	}
	return ""
}

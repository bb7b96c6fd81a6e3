package lower

import (
	"fmt"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// A Decision says of a statement with index tests whether it kept them.
type Decision struct {
	Tensor  string // the first one that the statement defines
	Dropped bool
	Rule    string // for which it kept them: one of those of [lowering.dropTests]
	Why     string // a sentence
}

func (d Decision) String() string {
	if d.Dropped {
		return d.Tensor + ": dropped"
	}
	return d.Tensor + ": kept (" + d.Rule + "): " + d.Why
}

// A guarded is a statement as it was emitted under its guard.
type guarded struct {
	*context
	id   core.ExprID
	g    guard
	s    *kir.If
	fold *fold // of a reduction; it is then in the threads that have a part
	// lane, of a vector of width elements, is the symbol of which one in g.
	lane  scalar.ID
	width int64
	each  *kir.If // copies one of them where not all exist; nil: they do if one does
	fast  bool    // in a copy that makes no tests
	own   []kir.BufferID
	kept  []scalar.ID // of a reduction: see [guarded.keptTests]

	wanted   *fold // of the reduction that relies on its identity here
	passed   bool  // what it reads holds that identity
	decision Decision
}

// note remembers a statement for the pass that drops tests.
func (l *lowering) note(s *guarded) {
	s.fast = l.fast != nil
	s.kept = s.keptTests()
	for _, v := range l.f.Expr(s.id).Out {
		s.own = append(s.own, l.buffers[v])
	}
	l.guarded = append(l.guarded, s)
}

// dropTests is a pass. A statement may run at points that have no element as
// well, without its index tests, if nothing of that is seen:
//
//   - global: it accesses no global memory, and does nothing but store elements;
//   - whole: it copies no vector of which some elements may exist without the
//     others, unless each has a place of its own where it is stored;
//   - inside: the facts show that what it accesses exists, also for threads
//     beyond the end of a loop;
//   - own element: each point of its loops has an element of its own to write;
//   - operation: it computes single elements, be it from positions;
//   - identity: no reduction relies on what it leaves where there is no element,
//     or it is a conversion of that from where it reads.
//
// A reduction adds the identity there, if its operand holds it: see
// [lowering.relyOnIdentity].
//
// What is undefined at such points stays in elements that no other point reads.
// Integer division is no exception, as nothing traps.
func (l *lowering) dropTests() error {
	writers := l.writers()
	reductions := func(s *guarded) bool { return s.fold != nil }
	for _, decide := range []struct {
		of   func(*guarded) bool
		rule func(*guarded) (rule, why string)
	}{
		{reductions, func(s *guarded) (string, string) { return l.relyOnIdentity(s, writers) }},
		{func(s *guarded) bool { return !reductions(s) }, l.mustTest},
	} {
		for _, s := range slices.Backward(l.guarded) { // readers first
			if decide.of(s) && s.wanted != nil {
				l.passIdentity(s, writers)
			}
		}
		for _, s := range l.guarded {
			if !decide.of(s) || s.fast || len(s.open()) == 0 {
				continue
			}
			s.decision = Decision{Tensor: l.f.Name(s.tensor.v)}
			s.decision.Rule, s.decision.Why = decide.rule(s)
			if s.decision.Rule == "" {
				s.decision.Dropped = true
				s.s.Cond = l.all(s.g.once, s.g.among) // where that fails, a part is its identity as before
			}
		}
	}
	for _, s := range l.guarded {
		if s.wanted != nil && !s.passed && len(s.open()) > 0 && !s.fast {
			s.storeIdentity()
		}
		if s.decision.Tensor != "" && l.options.Decided != nil {
			l.options.Decided(s.decision)
		}
	}
	k := l.b.Kernel()
	k.Body = l.flat(k.Body)
	return nil
}

// writers returns the statements that write each buffer, as far as all that do
// are known.
func (l *lowering) writers() map[kir.BufferID][]*guarded {
	k := l.b.Kernel()
	unknown, writers := map[kir.BufferID]int{}, map[kir.BufferID][]*guarded{}
	k.Body.Walk(func(s kir.Statement) {
		eachAccess(k, s, func(a *kir.Access, write bool) {
			if write {
				unknown[a.Buffer]++
			}
		})
	})
	for _, s := range l.guarded {
		s.eachAccess(func(a *kir.Access, write bool) {
			if !write {
				return
			}
			unknown[a.Buffer]--
			if list := writers[a.Buffer]; len(list) == 0 || list[len(list)-1] != s {
				writers[a.Buffer] = append(list, s)
			}
		})
	}
	for b, list := range writers {
		if unknown[b] > 0 && list[0].fold == nil { // a reduction is initialised as well
			delete(writers, b)
		}
	}
	return writers
}

// open returns the tests of s that the facts do not decide.
func (s *guarded) open() []scalar.ID {
	return slices.DeleteFunc(s.conditions(s.g.tests), func(x scalar.ID) bool {
		_, decided := s.t.ConstInt(x)
		return decided
	})
}

// needed returns the open tests of s that fail for elements of results that exist.
func (s *guarded) needed() []scalar.ID {
	return slices.DeleteFunc(s.open(), func(x scalar.ID) bool { return slices.Contains(s.kept, x) })
}

// keptTests returns the tests of a reduction that are made of its loops along which nothing is reduced, and of no other loop,
// if a thread has all of each result in registers: where one fails the result is of no element, and nothing reads it.
// Distances of all pairs of 4096 rows of 16 float32 take 60.8 us on an H200 without these tests, and 65.6 with them.
func (s *guarded) keptTests() (kept []scalar.ID) {
	if s.fold == nil || s.fold.op.Class == core.Scan || !s.hasResults() && s.omitted != ownResults {
		return nil
	}
	own := map[core.AxisID]bool{}
	for _, a := range s.tensor.loop {
		own[s.m.LoopClass(a)] = !s.isReduced(a)
	}
	isKept, isOther := map[scalar.ID]bool{}, map[scalar.ID]bool{}
	for class, value := range s.loops {
		into := isOther
		if own[class] {
			into = isKept
		}
		s.t.Symbols(value, func(x scalar.ID) { into[x] = true })
	}
	for _, cond := range s.conditions(s.g.tests[:s.g.ranges]) {
		some, all := false, true
		s.t.Symbols(cond, func(x scalar.ID) {
			some, all = some || isKept[x], all && !isOther[x]
		})
		if some && all {
			kept = append(kept, cond)
		}
	}
	return kept
}

// hasResults reports whether a thread has all of each result of s, a reduction, in registers.
func (s *guarded) hasResults() bool {
	isReduction := func(id core.ExprID) bool { return s.f.Expr(id).Op.Class == core.Reduction }
	return len(s.lowering.across(s.id)) == 0 && !slices.ContainsFunc(s.f.Expr(s.id).Out, func(v core.ValID) bool {
		return s.lowering.s.Memory(v) != schedule.Local || slices.ContainsFunc(s.readers[v], isReduction)
	})
}

// eachAccess calls yield for the accesses of s to what is declared outside it.
func (s *guarded) eachAccess(yield func(a *kir.Access, write bool)) {
	inside := map[kir.BufferID]bool{}
	then := s.s.Then
	if s.each != nil {
		then = slices.Concat(then, s.each.Then)
	}
	then.Walk(func(x kir.Statement) {
		if d, ok := x.(kir.Declare); ok {
			inside[d.Buffer] = true
		}
		eachAccess(s.b.Kernel(), x, func(a *kir.Access, write bool) {
			if !inside[a.Buffer] {
				yield(a, write)
			}
		})
	})
}

// mustTest returns the rule for which a statement that is no reduction keeps its
// tests, "" if it does not.
func (l *lowering) mustTest(s *guarded) (rule, why string) {
	e := l.f.Expr(s.id)
	if s.wanted != nil && !s.passed && l.omitted != keptForIdentity {
		return "identity", fmt.Sprintf("%s(), which reads it, relies on its identity where there is no element", s.wanted.op.Name)
	}
	switch e.Op.Class {
	case core.Elementwise, core.View, core.Random, core.Scan:
	default:
		return "operation", fmt.Sprintf("%s() does more than compute one element", e.Op.Name)
	}
	return l.mustStay(s)
}

// mustStay checks the rules that reductions have as well.
func (l *lowering) mustStay(s *guarded) (rule, why string) {
	k := l.b.Kernel()
	if s.each != nil && !s.tensor.storage.onto {
		return "whole", "some elements of a vector may exist without the others"
	}
	for _, x := range s.s.Then {
		switch x.(type) {
		case kir.Assign, kir.Declare:
		default:
			if m, ok := x.(kir.Move); !ok || m.Src.Width < 1 {
				return "global", "it does more than store elements"
			}
		}
	}
	s.eachAccess(func(a *kir.Access, write bool) {
		b := &k.Buffers[a.Buffer]
		switch {
		case rule != "":
		case b.Space == kir.Global && l.omitted != dropsGlobal:
			rule, why = "global", b.Name+" is in global memory"
		case write && s.tensor.storage.compact && slices.Contains(s.own, a.Buffer):
			rule, why = "own element", b.Name+" has no room for points without an element"
		case write && (s.g.redundant || !s.tensor.storage.onto && !l.isPlain(a)) && l.omitted != dropsSharedElements:
			rule, why = "own element", "several points write one element of "+b.Name
		case b.Space != kir.Global && !l.isInside(a) && l.omitted != dropsOutside:
			rule, why = "inside", "an index of "+b.Name+" may be outside where there is no element"
		}
	})
	return rule, why
}

// isPlain reports whether a is at a loop, thread or block index of its own, or a
// constant, along each axis.
func (l *lowering) isPlain(a *kir.Access) bool {
	for i, x := range a.Coords {
		if _, isConst := l.t.ConstInt(x); !isConst && (l.t.Op(x) != scalar.Symbol || slices.Contains(a.Coords[:i], x)) {
			return false
		}
	}
	return true
}

// isInside reports whether the facts show all of a to be in its buffer, and
// that its indices have values.
func (l *lowering) isInside(a *kir.Access) bool {
	b := &l.b.Kernel().Buffers[a.Buffer]
	for i, x := range a.Coords {
		n, isConst := l.t.ConstInt(b.Shape[i])
		f, more := l.t.Facts(x), int64(0)
		if i == len(a.Coords)-1 {
			more = int64(a.Width) - 1
		}
		if !isConst || f.Lo < 0 || f.Hi >= n-more || !isTotal(l.t, x, map[scalar.ID]bool{}) {
			return false
		}
	}
	return len(a.Coords) == len(b.Shape)
}

// relyOnIdentity returns the rule for which a reduction keeps its tests, "" if
// the operands hold its identity wherever a test of it fails, but for those that only results fail that
// do not exist. A scan does without it where all of its elements come before those that do not exist:
//
//   - direct: an operand is in registers, and the statements that write it fail
//     one of the same tests at the same element; they keep them, and store the
//     identity there. An earlier step of the same reduction began with it;
//   - conflict: no other reduction relies on another value there;
//   - count: what is added counts, whatever it is, as what welford reads does.
func (l *lowering) relyOnIdentity(s *guarded, writers map[kir.BufferID][]*guarded) (rule, why string) {
	if rule, why = l.mustStay(s); rule != "" || s.fold.op.Class == core.Scan && !s.g.hasBefore() {
		return rule, why
	}
	if len(s.needed()) == 0 && l.foldsComputed(s, writers) {
		return "", ""
	}
	var providers []*guarded
	mine := map[kir.BufferID]bool{}
	s.eachAccess(func(a *kir.Access, write bool) { mine[a.Buffer] = mine[a.Buffer] || write })
	s.eachAccess(func(a *kir.Access, write bool) {
		if write || mine[a.Buffer] || rule != "" {
			return
		}
		b := &l.b.Kernel().Buffers[a.Buffer]
		if b.Space != kir.Local || len(writers[a.Buffer]) == 0 {
			rule, why = "direct", b.Name+" is not in registers"
			return
		}
		for _, p := range writers[a.Buffer] {
			if rule, why = l.provides(p, s, a); rule != "" {
				return
			}
			providers = append(providers, p)
		}
	})
	if rule == "" && l.omitted != storesIdentity {
		for _, p := range providers {
			if p.fold == nil {
				p.wanted = s.fold
			}
		}
	}
	return rule, why
}

// foldsComputed reports whether s, a reduction, reads what would be computed under its tests as well to leave the identity. What is
// loaded under them leaves it at no cost: sums of rows of two bfloat16 take 1 % less on an H200 so than with nothing there.
func (l *lowering) foldsComputed(s *guarded, writers map[kir.BufferID][]*guarded) (is bool) {
	s.eachAccess(func(a *kir.Access, write bool) {
		is = is || !write && slices.ContainsFunc(writers[a.Buffer], func(p *guarded) bool {
			op := l.f.Expr(p.id).Op
			return p.fold == nil && op.Class == core.Elementwise && op != core.CastOp && op != core.SetOp
		})
	})
	return is
}

// passIdentity has what a conversion reads hold the identity that is relied on
// in its result, so that it makes no tests: a vector is loaded as identities.
func (l *lowering) passIdentity(s *guarded, writers map[kir.BufferID][]*guarded) {
	if op := l.f.Expr(s.id).Op; op != core.CastOp && op != core.SetOp || s.fast || s.width > 0 || len(s.open()) == 0 {
		return
	}
	stored := true // by statements that are no reductions: those begin with the identity of another type
	s.eachAccess(func(a *kir.Access, write bool) {
		isFold := func(p *guarded) bool { return p.fold != nil }
		stored = stored && (write || !slices.ContainsFunc(writers[a.Buffer], isFold))
	})
	as := *s
	as.fold = s.wanted
	if stored {
		rule, _ := l.relyOnIdentity(&as, writers)
		s.passed = rule == ""
	}
}

// provides checks that p leaves the identity of s where a test of s fails: at,
// which s reads, is an element of p.
func (l *lowering) provides(p, s *guarded, at *kir.Access) (rule, why string) {
	b := &l.b.Kernel().Buffers[at.Buffer]
	switch {
	case len(p.aliens) > 0 || p.g.redundant || p.tensor.storage.compact || len(p.shownTests()) > 0:
		return "direct", b.Name + " is computed at more points than it has elements"
	case p.fold == nil && len(p.own) > 1: // there may be no room for the identity in the others
		return "direct", b.Name + " is one of several results"
	case p.fold == nil && s.fold.state != nil && s.fold.state.counts(s.fold) && l.omitted != countsOne:
		return "count", "what it counts is no element"
	case p.fold != nil && core.MergeOp(p.fold.op) != s.fold.op && l.omitted != sameReduction:
		return "direct", b.Name + " is the result of another reduction"
	case p.fold == nil && core.ConvertScalar(s.fold.types[0], s.fold.stored(b)) != s.fold.identity(0):
		return "direct", fmt.Sprintf("%v has no identity of %s()", b.DType, s.fold.op.Name)
	case p.fold == nil && p.wanted != nil && p.wanted.stored(b) != s.fold.stored(b) && l.omitted != oneIdentity:
		return "conflict", fmt.Sprintf("%s() relies on another value of %s where there is no element", p.wanted.op.Name, b.Name)
	}
	with, ok := l.whereWritten(p, at)
	if !ok {
		return "direct", b.Name + " is not read as it is written"
	}
	fails := map[scalar.ID]bool{}
	for _, x := range p.conditions(p.g.tests) {
		fails[l.t.Substitute(x, with)] = true
	}
	for _, x := range s.needed() {
		if !fails[x] && l.omitted != sameTests {
			return "direct", "where there is no element, " + b.Name + " may have one"
		}
	}
	return "", ""
}

// whereWritten returns the values of the loops of p in the iteration that writes
// the element at.
func (l *lowering) whereWritten(p *guarded, at *kir.Access) (with func(scalar.ID) (scalar.ID, bool), ok bool) {
	value := map[scalar.ID]scalar.ID{}
	ok = true
	p.eachAccess(func(a *kir.Access, write bool) {
		if !write || a.Buffer != at.Buffer {
			return
		}
		ok = ok && l.isPlain(a) && l.isInside(a) && l.isInside(at)
		for i, x := range a.Coords {
			_, isConst := l.t.ConstInt(x)
			if i == len(a.Coords)-1 && p.width > 0 {
				x, isConst = p.lane, false
			}
			old, twice := value[x]
			ok = ok && (!isConst || x == at.Coords[i]) && (!twice || old == at.Coords[i])
			value[x] = at.Coords[i]
		}
	})
	return func(x scalar.ID) (scalar.ID, bool) { v, ok := value[x]; return v, ok }, ok
}

// stored returns the identity of f, which is one value, as an element of b.
func (f *fold) stored(b *kir.Buffer) scalar.Value { return core.ConvertScalar(b.DType, f.identity(0)) }

// storeIdentity lets s store the identity that is wanted where it has no element.
func (s *guarded) storeIdentity() {
	k := s.b.Kernel()
	for _, a := range s.written() {
		b := &k.Buffers[a.Buffer]
		if s.each != nil {
			if a.Width == 1 {
				s.each.Else = append(s.each.Else, kir.Assign{Dst: a, Value: s.b.Const(s.wanted.stored(b))})
			}
			continue
		}
		for i := range max(a.Width, 1) {
			to := kir.Access{Buffer: a.Buffer, Coords: slices.Clone(a.Coords), Index: s.t.Add(a.Index, s.t.Int(int64(i))), Width: 1}
			if n := len(to.Coords) - 1; n >= 0 {
				to.Coords[n] = s.t.Add(to.Coords[n], s.t.Int(int64(i)))
			}
			s.s.Else = append(s.s.Else, kir.Assign{Dst: to, Value: s.b.Const(s.wanted.stored(b))})
		}
	}
}

// written returns what s writes outside it, each access once: of a loop in s those of all
// its iterations.
func (s *guarded) written() (all []kir.Access) {
	loops := map[scalar.ID]int64{} // iterations, by symbol
	s.s.Then.Walk(func(x kir.Statement) {
		if f, ok := x.(*kir.For); ok && s.each == nil {
			if n, isConst := s.t.ConstInt(f.Stop); isConst && f.Start == s.t.Int(0) && f.Step == s.t.Int(1) {
				loops[s.b.Kernel().Symbols[f.Symbol].Expr] = n
			}
		}
	})
	var note func(a kir.Access)
	note = func(a kir.Access) {
		loop := scalar.None
		s.t.Symbols(a.Index, func(x scalar.ID) {
			if loops[x] > 0 {
				loop = x
			}
		})
		if loop == scalar.None {
			if !slices.ContainsFunc(all, func(x kir.Access) bool { return x.Buffer == a.Buffer && x.Index == a.Index && x.Width == a.Width }) {
				all = append(all, a)
			}
			return
		}
		for i := range loops[loop] {
			in := func(x scalar.ID) scalar.ID {
				return s.t.Substitute(x, func(x scalar.ID) (scalar.ID, bool) { return s.t.Int(i), x == loop })
			}
			at := a
			at.Index, at.Coords = in(a.Index), slices.Clone(a.Coords)
			for d, x := range at.Coords {
				at.Coords[d] = in(x)
			}
			note(at)
		}
	}
	s.eachAccess(func(a *kir.Access, write bool) {
		if write {
			note(*a)
		}
	})
	return all
}

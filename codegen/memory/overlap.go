package memory

import (
	"math"
	"slices"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/scalar"
)

// A pairing says which threads' accesses are compared.
type pairing uint8

const (
	sameThread pairing = iota
	otherThread
	otherGroup // threads of one block with different indices along z
	otherBlock
	anyPeer // a thread of the same block or of another one of its cluster
)

type meetKey struct {
	a, b string
	p    pairing
}

type renamedKey struct {
	id scalar.ID
	p  pairing
}

// meets reports whether the accesses of two threads may touch the same element
// of one buffer: false is a proof that they do not.
//
// The proof takes the element that both touch: it gives an equation for each
// coordinate, and the conditions of both sides give bounds and more equations.
// From equations sums of terms with coefficients of different size are taken
// apart as the digits of a number are, and terms that turn out to be equal are
// replaced by each other. Either there is a contradiction, or the two threads
// turn out to be one.
func (p *plan) meets(a, b footprint, how pairing) bool {
	var pairs []position
	switch how {
	case otherThread:
		pairs = p.threads
	case otherGroup:
		pairs = p.groups
	case otherBlock:
		pairs = p.blocks
	}
	if how != sameThread {
		if len(pairs) == 0 && how != anyPeer {
			return false
		}
		a = p.renamed(a, how)
	}
	key := meetKey{a.key(), b.key(), how}
	if known, ok := p.memoMeets[key]; ok {
		return known
	}
	q := problem{p: p, t: p.t, bounds: map[scalar.ID]interval{}, equal: map[[2]scalar.ID]bool{}, pairs: slices.Clone(pairs)}
	q.conds = slices.Concat(a.conds, b.conds)
	q.equate(a, b)
	meets := true
	for range maxRounds {
		q.changed = false
		if q.impossible = q.impossible || !q.round(); q.impossible || !q.changed {
			break
		}
	}
	if q.impossible || len(pairs) > 0 && q.isOne() {
		meets = false
	}
	p.memoMeets[key] = meets
	return meets
}

const (
	maxRounds    = 8
	maxEquations = 64
)

func (f *footprint) key() string {
	out := make([]byte, 0, 4*(len(f.coords)+len(f.conds)+4))
	add := func(x uint32) { out = append(out, byte(x), byte(x>>8), byte(x>>16), byte(x>>24)) }
	add(uint32(f.buffer))
	add(uint32(f.width))
	add(uint32(f.span))
	add(uint32(f.index))
	for _, id := range slices.Concat(f.coords, f.conds) {
		add(uint32(id))
	}
	return string(out)
}

// renamed returns the footprint of another thread, perhaps of another block.
func (p *plan) renamed(f footprint, how pairing) footprint {
	rename := func(s scalar.ID) (scalar.ID, bool) {
		if p.isShared(s, how) {
			return s, false
		}
		return p.copyOf(otherRole, s), true
	}
	one := func(id scalar.ID) scalar.ID {
		out, ok := p.memoRenamed[renamedKey{id, how}]
		if !ok {
			out = p.t.Substitute(id, rename)
			p.memoRenamed[renamedKey{id, how}] = out
		}
		return out
	}
	list := func(ids []scalar.ID) []scalar.ID {
		out := make([]scalar.ID, len(ids))
		for i, id := range ids {
			out[i] = one(id)
		}
		return out
	}
	return footprint{f.buffer, one(f.index), list(f.coords), f.width, f.span, list(f.conds)}
}

// isShared reports whether a symbol has one value for all threads of a block, or
// of the grid.
func (p *plan) isShared(s scalar.ID, how pairing) bool {
	if how == otherGroup {
		how = otherThread
	}
	i := p.t.Tag(s).Val
	if int(i) >= len(p.k.Symbols) {
		return true // stands for any value already
	}
	switch p.k.Symbols[i].Kind {
	case kir.Parameter:
		return true
	case kir.ThreadIdx:
		return false
	case kir.BlockIdx:
		if how == anyPeer {
			return p.k.Symbols[i].Dim != 0
		}
	case kir.LoopIndex:
		return p.sharedLoops[s] || how == anyPeer && p.clusterLoops[s] || how == otherThread && p.agreement.Uniform(s)
	case kir.LetIndex:
		return how == otherThread && p.agreement.Uniform(s)
	}
	return how == otherThread
}

// An interval is lo to hi, both included; beyond the largest finite it has no
// end.
type interval struct{ lo, hi int64 }

const largest = int64(1) << 50

func (x interval) finite() bool { return -largest <= x.lo && x.hi <= largest }

// A problem is a proof under way.
type problem struct {
	p          *plan
	t          *scalar.Table
	conds      []scalar.ID
	equations  []equation
	bounds     map[scalar.ID]interval // of terms, narrower than their facts
	equal      map[[2]scalar.ID]bool  // quotients and remainders that are equal, smaller first
	pairs      []position
	changed    bool
	impossible bool
}

// An equation says that an expression is within an interval: 0 to 0 for most.
type equation struct {
	expr   scalar.ID
	window interval
}

func (q *problem) equate(a, b footprint) {
	overlap := interval{-int64(a.width - 1), int64(b.width - 1)}
	q.add(q.t.Sub(a.index, b.index), overlap)
	buffer := &q.p.k.Buffers[a.buffer]
	if len(a.coords) != len(b.coords) || !q.isNested(buffer) {
		return
	}
	last := len(a.coords) - 1
	x, y := a.coords, b.coords
	if a.width+b.width > 2 && !q.isWithinRow(buffer, a, b) {
		from, ends := q.rowsOf(buffer, a, b)
		if from < 0 {
			return
		}
		last = from
		x, y = append(slices.Clone(x[:from]), ends[0]), append(slices.Clone(y[:from]), ends[1])
	}
	for i := range x {
		window := interval{}
		if i == last {
			window = overlap
		}
		q.add(q.t.Sub(x[i], y[i]), window)
	}
}

// rowsOf returns from which axis on rows go on in memory one where the other ends, so that the
// conditions of a and b say of each that it does not go beyond the last of those, and where they
// begin, counted in elements along all of these axes; -1: there is none.
func (q *problem) rowsOf(buffer *kir.Buffer, a, b footprint) (from int, begin [2]scalar.ID) {
	last := len(buffer.Shape) - 1
	if n, ok := q.t.ConstInt(buffer.Stride[last]); !ok || n != 1 || a.span == kir.InMemory || b.span == kir.InMemory {
		return -1, begin
	}
	begin, extent := [2]scalar.ID{a.coords[last], b.coords[last]}, buffer.Shape[last]
	for from = last; ; from-- {
		if q.isBelow(a, begin[0], extent) && q.isBelow(b, begin[1], extent) {
			return from, begin
		}
		if from == 0 || buffer.Stride[from-1] != extent {
			return -1, begin
		}
		for i, f := range []footprint{a, b} {
			begin[i] = q.t.Add(q.t.Mul(f.coords[from-1], extent), begin[i])
		}
		extent = q.t.Mul(extent, buffer.Shape[from-1])
	}
}

// isBelow reports whether a condition of f says that its elements, from begin on, end before
// extent.
func (q *problem) isBelow(f footprint, begin, extent scalar.ID) bool {
	if f.width == 1 {
		return true
	}
	beyond := q.t.Sub(q.t.Add(begin, q.t.Int(int64(f.width-1))), extent)
	for conds := slices.Clone(f.conds); len(conds) > 0; conds = conds[1:] {
		args := q.t.Args(conds[0])
		switch q.t.Op(conds[0]) {
		case scalar.Lt:
			if !q.t.Type(args[0]).IsBool() && q.t.Sub(args[0], args[1]) == beyond {
				return true
			}
		case scalar.Select:
			if n, ok := q.t.ConstInt(args[2]); ok && n == 0 { // both hold
				conds = append(conds, args[:2]...)
			}
		}
	}
	return false
}

// isWithinRow reports whether vectors are along the last axis and do not go on
// in the next row: who made them says so, or they are at multiples of their width, and
// so is the row.
func (q *problem) isWithinRow(buffer *kir.Buffer, a, b footprint) bool {
	last := len(buffer.Shape) - 1
	if last < 0 {
		return false
	}
	if n, ok := q.t.ConstInt(buffer.Stride[last]); !ok || n != 1 {
		return false
	}
	for _, f := range []footprint{a, b} {
		width := q.t.Int(int64(f.width))
		switch {
		case f.span == kir.InMemory:
			return false
		case f.span == kir.InRow || f.width == 1:
			continue
		}
		if !q.t.Divides(width, buffer.Shape[last]) || !q.t.Divides(width, f.coords[last]) {
			return false
		}
	}
	return true
}

// isNested reports whether different coordinates are different elements: rows
// do not overlap.
func (q *problem) isNested(b *kir.Buffer) bool {
	last := len(b.Shape) - 1
	for i := range b.Stride {
		if i == last {
			return q.t.Facts(b.Stride[i]).Lo >= 1
		}
		if inner := q.t.Mul(b.Shape[i+1], b.Stride[i+1]); inner != b.Stride[i] && q.t.Facts(q.t.Sub(b.Stride[i], inner)).Lo < 0 {
			return false
		}
	}
	return true
}

func (q *problem) add(expr scalar.ID, window interval) {
	e := equation{expr, window}
	if len(q.equations) < maxEquations && !slices.Contains(q.equations, e) {
		q.equations = append(q.equations, e)
		q.changed = true
	}
}

// round learns from all that is known. It reports false at a contradiction.
func (q *problem) round() bool {
	for i := 0; i < len(q.conds); i++ { // grows
		if !q.condition(q.conds[i]) {
			return false
		}
	}
	for i := 0; i < len(q.equations); i++ { // grows
		if !q.solve(q.equations[i]) {
			return false
		}
	}
	q.digits()
	return true
}

// condition takes bounds and equations from something that holds.
func (q *problem) condition(c scalar.ID) bool {
	if n, ok := q.t.ConstInt(c); ok {
		return n != 0
	}
	args := q.t.Args(c)
	switch op := q.t.Op(c); op {
	case scalar.Lt, scalar.Le:
		most := int64(0)
		if op == scalar.Lt {
			most = -1
		}
		if q.t.Type(args[0]).IsBool() {
			return true
		}
		return q.atMost(q.t.Sub(args[0], args[1]), most)
	case scalar.Eq:
		if !q.t.Type(args[0]).IsBool() {
			q.add(q.t.Sub(args[0], args[1]), interval{})
		}
	case scalar.Select:
		if n, ok := q.t.ConstInt(args[2]); ok && n == 0 { // both hold
			for _, x := range args[:2] {
				if !slices.Contains(q.conds, x) {
					q.conds = append(q.conds, x)
				}
			}
		}
	}
	return true
}

// atMost takes a bound of a single term from an expression that is at most n.
func (q *problem) atMost(expr scalar.ID, n int64) bool {
	terms, constant := q.terms(expr)
	if len(terms) != 1 {
		return q.interval(terms, constant).lo <= n
	}
	x := terms[0]
	b := q.bound(x.id)
	if x.coef > 0 {
		b.hi = min(b.hi, floorDiv(n-constant, x.coef))
	} else {
		b.lo = max(b.lo, -floorDiv(n-constant, -x.coef))
	}
	return q.narrow(x.id, b)
}

func floorDiv(a, b int64) int64 {
	d := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		d--
	}
	return d
}

func (q *problem) bound(id scalar.ID) interval {
	if b, ok := q.bounds[id]; ok {
		return b
	}
	f := q.t.Facts(id)
	return interval{max(f.Lo, -2*largest), min(f.Hi, 2*largest)}
}

func (q *problem) narrow(id scalar.ID, b interval) bool {
	if b.lo > b.hi {
		return false
	}
	if q.bound(id) != b {
		q.bounds[id], q.changed = b, true
	}
	if b.lo == b.hi && q.t.Op(id) == scalar.Symbol {
		q.replace(id, q.t.Int(b.lo))
	}
	return true
}

// A term is a part of a sum.
type term struct {
	id   scalar.ID
	coef int64
}

// terms takes a sum apart: see the normal form of package scalar.
func (q *problem) terms(id scalar.ID) ([]term, int64) {
	parts := []scalar.ID{id}
	if q.t.Op(id) == scalar.Add {
		parts = q.t.Args(id)
	}
	var terms []term
	var constant int64
	for _, x := range parts {
		if n, ok := q.t.ConstInt(x); ok {
			constant += n
			continue
		}
		if args := q.t.Args(x); q.t.Op(x) == scalar.Mul && len(args) == 2 {
			if n, ok := q.t.ConstInt(args[1]); ok {
				terms = append(terms, term{args[0], n})
				continue
			}
		}
		terms = append(terms, term{x, 1})
	}
	slices.SortStableFunc(terms, func(a, b term) int {
		if x, y := abs(a.coef), abs(b.coef); x != y {
			return int(max(min(y-x, 1), -1))
		}
		return int(a.id) - int(b.id)
	})
	return terms, constant
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

// interval returns the bounds of a sum.
func (q *problem) interval(terms []term, constant int64) interval {
	out, below, above := interval{constant, constant}, true, true
	for _, x := range terms {
		b := q.bound(x.id)
		if x.coef < 0 {
			b = interval{-b.hi, -b.lo}
		}
		lo, okLo := multiplied(b.lo, abs(x.coef))
		hi, okHi := multiplied(b.hi, abs(x.coef))
		below, above = below && okLo, above && okHi
		out.lo, out.hi = out.lo+lo, out.hi+hi
	}
	if !below {
		out.lo = -2 * largest
	}
	if !above {
		out.hi = 2 * largest
	}
	return out
}

// multiplied returns a*b if it is finite.
func multiplied(a, b int64) (int64, bool) {
	if math.Abs(float64(a)*float64(b)) > float64(largest) {
		return 0, false
	}
	return a * b, true
}

// solve learns from an equation. It reports false if it cannot hold.
func (q *problem) solve(e equation) bool {
	terms, constant := q.terms(e.expr)
	terms = q.cancelled(terms)
	all := q.interval(terms, constant)
	if all.hi < e.window.lo || all.lo > e.window.hi {
		return false
	}
	for i := range terms {
		g := int64(0)
		for _, x := range terms[:i+1] {
			g = gcd(g, abs(x.coef))
		}
		// The first terms are a multiple of g; what is it, if the rest is small?
		rest := q.interval(terms[i+1:], constant)
		if !rest.finite() {
			continue
		}
		lo, hi := -floorDiv(rest.hi-e.window.lo, g), floorDiv(e.window.hi-rest.lo, g)
		if lo > hi {
			return false
		}
		if lo < hi || i == len(terms)-1 && g == 1 && e.window == (interval{}) {
			continue
		}
		q.add(q.sum(terms[:i+1], -lo*g, g), interval{})
		if i < len(terms)-1 {
			q.add(q.sum(terms[i+1:], constant+lo*g, 1), e.window)
		}
		return true
	}
	return e.window != (interval{}) || q.learn(terms, constant)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sum returns the sum of terms and a constant, all divided by a common divisor.
func (q *problem) sum(terms []term, constant, divisor int64) scalar.ID {
	out := q.t.Int(constant / divisor)
	for _, x := range terms {
		out = q.t.Add(out, q.t.Mul(x.id, q.t.Int(x.coef/divisor)))
	}
	return out
}

// learn uses that a sum of one or two terms is 0.
func (q *problem) learn(terms []term, constant int64) bool {
	switch {
	case len(terms) == 1:
		x := terms[0]
		if constant%x.coef != 0 {
			return false
		}
		v := -constant / x.coef
		b := q.bound(x.id)
		return q.narrow(x.id, interval{max(b.lo, v), min(b.hi, v)})
	case len(terms) == 2 && terms[0].coef == -terms[1].coef && constant%terms[0].coef == 0:
		x, y, n := terms[0].id, terms[1].id, -constant/terms[0].coef // x = y + n
		switch {
		case q.t.Op(x) == scalar.Symbol:
			q.replace(x, q.t.Add(y, q.t.Int(n)))
		case q.t.Op(y) == scalar.Symbol:
			q.replace(y, q.t.Sub(x, q.t.Int(n)))
		case n == 0:
			return q.same(x, y)
		}
	}
	return true
}

// same uses that two terms are equal.
func (q *problem) same(x, y scalar.ID) bool {
	op, a, b := q.t.Op(x), q.t.Args(x), q.t.Args(y)
	if op != q.t.Op(y) || op != scalar.Mod && op != scalar.FloorDiv || a[1] != b[1] {
		return true
	}
	if key := ordered(x, y); !q.equal[key] {
		q.equal[key], q.changed = true, true
		for i := range q.equations { // others may be of it, as the phases of rows are
			if q.t.Type(x) == q.t.Type(y) {
				q.equations[i].expr = q.t.Replace(q.equations[i].expr, key[1], key[0])
			}
		}
	}
	if op == scalar.Mod {
		f := q.t.Facts(q.t.Mod(q.t.Sub(a[0], b[0]), a[1]))
		return f.Lo <= 0 && f.Hi >= 0
	}
	return true
}

func ordered(x, y scalar.ID) [2]scalar.ID { return [2]scalar.ID{min(x, y), max(x, y)} }

// digits finds numbers whose quotients and remainders by something are equal:
// then so are they.
func (q *problem) digits() {
	for _, key := range q.equalities() {
		a, b := q.t.Args(key[0]), q.t.Args(key[1])
		other := q.t.Mod
		if q.t.Op(key[0]) == scalar.Mod {
			other = q.t.FloorDiv
		}
		if q.agree(other(a[0], a[1]), other(b[0], b[1])) {
			q.add(q.t.Sub(a[0], b[0]), interval{})
		}
	}
}

// equalities returns the keys of equal, in order.
func (q *problem) equalities() [][2]scalar.ID {
	keys := make([][2]scalar.ID, 0, len(q.equal))
	for k := range q.equal {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [2]scalar.ID) int { return slices.Compare(a[:], b[:]) })
	return keys
}

// agree reports whether two terms are known to be equal.
func (q *problem) agree(x, y scalar.ID) bool {
	if x == y || q.equal[ordered(x, y)] {
		return true
	}
	a, b := q.bound(x), q.bound(y)
	return a.lo == a.hi && a == b
}

// alike reports whether two terms are equal as what they are computed from is known to be: the
// phases of a row, of two blocks that have parts of it.
func (q *problem) alike(x, y scalar.ID) bool {
	if q.agree(x, y) {
		return true
	}
	a, b := q.t.Args(x), q.t.Args(y)
	return len(a) > 0 && q.t.Op(x) == q.t.Op(y) && slices.EqualFunc(a, b, q.alike)
}

// cancelled returns terms without those of which one is subtracted from another that is equal.
func (q *problem) cancelled(terms []term) []term {
	if len(q.equal) == 0 {
		return terms
	}
	for i, x := range terms {
		for j := i + 1; j < len(terms) && abs(terms[j].coef) == abs(x.coef); j++ {
			if x.coef == -terms[j].coef && q.t.Op(x.id) != scalar.Symbol && !q.equal[ordered(x.id, terms[j].id)] && q.alike(x.id, terms[j].id) {
				return q.cancelled(slices.Concat(terms[:i], terms[i+1:j], terms[j+1:]))
			}
		}
	}
	return terms
}

// replace puts an expression in the place of a symbol everywhere.
func (q *problem) replace(symbol, by scalar.ID) {
	within := false
	q.t.Symbols(by, func(s scalar.ID) { within = within || s == symbol })
	if within {
		return
	}
	with := func(s scalar.ID) (scalar.ID, bool) { return by, s == symbol }
	one := func(id scalar.ID) scalar.ID { return q.t.Substitute(id, with) }
	if b, ok := q.bounds[symbol]; ok && q.t.Op(by) == scalar.Symbol {
		o := q.bound(by)
		q.bounds[by] = interval{max(o.lo, b.lo), min(o.hi, b.hi)}
		q.impossible = q.impossible || q.bounds[by].lo > q.bounds[by].hi
	}
	for i := range q.conds {
		q.conds[i] = one(q.conds[i])
	}
	for i := range q.equations {
		q.equations[i].expr = one(q.equations[i].expr)
	}
	for i := range q.pairs {
		q.pairs[i].own, q.pairs[i].other = one(q.pairs[i].own), one(q.pairs[i].other)
	}
	equal := map[[2]scalar.ID]bool{}
	for _, k := range q.equalities() {
		x, y := one(k[0]), one(k[1])
		if op := q.t.Op(x); x != y && op == q.t.Op(y) && (op == scalar.Mod || op == scalar.FloorDiv) && q.t.Args(x)[1] == q.t.Args(y)[1] {
			equal[ordered(x, y)] = true
		}
	}
	q.equal = equal
	q.changed = true
}

// isOne reports whether the two threads, or blocks, are one.
func (q *problem) isOne() bool {
	for _, x := range q.pairs {
		if !q.agree(x.own, x.other) {
			return false
		}
	}
	return true
}

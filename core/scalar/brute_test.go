package scalar

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

// A plan is a source of choices: random numbers, or the bytes of the fuzzer.
type plan func(n int) int

func randomPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	return r.IntN
}

func bytePlan(data []byte) plan {
	i := 0
	return func(n int) int {
		if i >= len(data) {
			return 0
		}
		i++
		return int(data[i-1]) % n
	}
}

// A tree is an expression that no rule has touched: op, and its value by the
// definition of op in this file.
type tree struct {
	op     Op
	symbol int   // of a Symbol
	n      int64 // of a Const
	args   []*tree
	id     ID
}

type domain struct {
	facts  Facts
	values []int64
}

func symbolDomain(choose plan) domain {
	choices := []Facts{
		{0, 5, 1}, {0, 3, 1}, {1, 6, 1}, {-4, 3, 1}, {0, 12, 4}, {-6, 6, 3}, {1, 3, 1}, {4, 24, 4}, {2, 2, 1}, {0, 7, 1},
		{math.MaxInt64 - 2, math.MaxInt64, 1}, {math.MinInt64, math.MinInt64 + 2, 1}, {1 << 61, 1<<61 + 1, 1},
		{-3, -1, 1}, Unknown(), {0, math.MaxInt64, 1}, {1, math.MaxInt64, 1}, {0, math.MaxInt64, 8},
	}
	i := choose(40)
	switch {
	case i >= 32:
		i = 15 + i%3 // extents
	case i >= len(choices):
		i %= 10
	}
	facts := choices[i]
	d := domain{facts: facts}
	if facts.Lo == math.MinInt64 && facts.Hi == math.MaxInt64 {
		d.values = []int64{math.MinInt64, math.MinInt64 + 1, -7, -1, 0, 1, 6, math.MaxInt64 - 1, math.MaxInt64}
		return d
	}
	if facts.Hi == math.MaxInt64 && facts.Lo <= 1 {
		for _, n := range []int64{0, 1, 2, 3, 8, 1 << 31, 1<<62 - 1, 1 << 62, 1<<62 + 8, math.MaxInt64 - 7, math.MaxInt64} {
			if facts.Hold(n) {
				d.values = append(d.values, n)
			}
		}
		return d
	}
	for n := facts.Lo; ; n++ {
		if facts.Hold(n) {
			d.values = append(d.values, n)
		}
		if n == facts.Hi {
			return d
		}
	}
}

func constant(choose plan) int64 {
	small := []int64{0, 1, 2, 3, 4, 6, 8, 12, 5, 7, 16, 32, -1, -2, -3, -4, -8}
	if i := choose(60); i == 0 {
		return []int64{math.MaxInt64, math.MinInt64, 1 << 62, -1 << 62, 1 << 32, math.MaxInt64 - 1}[choose(6)]
	}
	return small[choose(len(small))]
}

// integerTree returns an integer expression over symbols.
func integerTree(choose plan, symbols, depth int) *tree {
	if depth == 0 || choose(8) == 0 {
		if choose(3) == 0 {
			return &tree{op: Const, n: constant(choose)}
		}
		return &tree{op: Symbol, symbol: choose(symbols)}
	}
	if choose(5) == 0 {
		return patternTree(choose, symbols, depth-1)
	}
	ops := []Op{Add, Add, Add, Mul, Mul, FloorDiv, FloorDiv, Mod, Mod, TruncDiv, Rem, Min, Max, Xor, Xor, Select, opSub, opCeilDiv}
	op := ops[choose(len(ops))]
	x := &tree{op: op, args: []*tree{integerTree(choose, symbols, depth-1)}}
	divisor := op == FloorDiv || op == Mod || op == opCeilDiv
	switch {
	case op == Select:
		x.args = []*tree{boolTree(choose, symbols, depth-1), x.args[0], integerTree(choose, symbols, depth-1)}
	case divisor && choose(3) > 0 || op == Mul && choose(2) > 0:
		x.args = append(x.args, &tree{op: Const, n: constant(choose)})
	default:
		x.args = append(x.args, integerTree(choose, symbols, depth-1))
	}
	return x
}

// patternTree returns an expression of the shapes that the rules look for, with
// operands that may or may not satisfy their conditions.
func patternTree(choose plan, symbols, depth int) *tree {
	node := func(op Op, a, b *tree) *tree { return &tree{op: op, args: []*tree{a, b}} }
	number := func(n int64) *tree { return &tree{op: Const, n: n} }
	m, b := integerTree(choose, symbols, depth), integerTree(choose, symbols, depth)
	c, k := int64(1+choose(6)), int64(1+choose(4))
	d := number(c)
	if choose(3) == 0 {
		d = &tree{op: Symbol, symbol: choose(symbols)}
	}
	switch choose(8) {
	case 0:
		return node(Add, node(Mul, node(FloorDiv, m, d), d), node(Mod, m, d))
	case 1:
		return node(opSub, m, node(Mul, node(FloorDiv, m, d), d))
	case 2:
		op := []Op{FloorDiv, Mod}[choose(2)]
		return node(op, node(Add, node(Mul, m, d), b), node(Mul, d, number(k)))
	case 3:
		op := []Op{FloorDiv, Mod}[choose(2)]
		return node(op, node(Mod, m, node(Mul, d, number(k))), d)
	case 4:
		return node(FloorDiv, node(Add, node(FloorDiv, m, d), b), number(k))
	case 5:
		return node(Mul, node(opCeilDiv, m, number(c*k)), number(c))
	case 6:
		return node(Add, node(Mul, node(FloorDiv, m, d), number(c*k)), node(Mul, node(Mod, m, d), number(k)))
	}
	n := node(Lt, node(Add, node(Mul, m, d), b), node(Mul, integerTree(choose, symbols, depth), d))
	return &tree{op: Select, args: []*tree{n, m, b}}
}

func boolTree(choose plan, symbols, depth int) *tree {
	op := []Op{Lt, Lt, Le, Eq}[choose(4)]
	c := &tree{op: op, args: []*tree{integerTree(choose, symbols, depth), integerTree(choose, symbols, depth)}}
	switch choose(8) {
	case 0:
		return &tree{op: opNot, args: []*tree{c}}
	case 1:
		if depth > 0 {
			return &tree{op: Eq, args: []*tree{c, boolTree(choose, symbols, depth-1)}}
		}
	}
	return c
}

// Operations of trees that the table writes with others.
const (
	opSub Op = 1000 + iota
	opCeilDiv
	opNot
)

func (x *tree) build(tab *Table, symbols []ID) ID {
	var ids []ID
	for _, a := range x.args {
		ids = append(ids, a.build(tab, symbols))
	}
	dt := tab.Type(symbols[0])
	switch x.op {
	case Const:
		x.id = tab.Value(Value{Type: dt, I: x.n})
	case Symbol:
		x.id = symbols[x.symbol]
	case opSub:
		x.id = tab.Sub(ids[0], ids[1])
	case opCeilDiv:
		x.id = tab.CeilDiv(ids[0], ids[1])
	case opNot:
		x.id = tab.Not(ids[0])
	default:
		x.id = tab.Apply(x.op, dt, ids...)
	}
	return x.id
}

// eval is the definition: integers, which those of an Index are, and those of
// other types modulo the range of dt. It returns nil for a division by zero.
func (x *tree) eval(dt dtype.Type, values []int64) *big.Int {
	switch x.op {
	case Const:
		return number(dt, x.n)
	case Symbol:
		return number(dt, values[x.symbol])
	case Select:
		c := x.args[0].eval(dt, values)
		if c == nil {
			return nil
		}
		return x.args[2-c.Int64()].eval(dt, values)
	}
	var v []*big.Int
	for _, a := range x.args {
		n := a.eval(dt, values)
		if n == nil {
			return nil
		}
		v = append(v, n)
	}
	a := v[0]
	b := v[len(v)-1]
	r := new(big.Int)
	switch x.op {
	case Add:
		r.Add(a, b)
	case opSub:
		r.Sub(a, b)
	case Mul:
		r.Mul(a, b)
	case Min:
		r = v[truth(a.Cmp(b) > 0)]
	case Max:
		r = v[truth(a.Cmp(b) < 0)]
	case Xor:
		r.Xor(a, b)
	case Lt:
		r.SetInt64(truth(a.Cmp(b) < 0))
	case Le:
		r.SetInt64(truth(a.Cmp(b) <= 0))
	case Eq:
		r.SetInt64(truth(a.Cmp(b) == 0))
	case opNot:
		r.SetInt64(1 - a.Int64())
	case FloorDiv, Mod, TruncDiv, Rem, opCeilDiv:
		if b.Sign() == 0 {
			return nil
		}
		q, m := new(big.Int).QuoRem(a, b, new(big.Int))
		opposite := a.Sign()*b.Sign() < 0
		switch {
		case x.op == Rem:
			q = m
		case x.op == FloorDiv && opposite && m.Sign() != 0:
			q.Sub(q, big.NewInt(1))
		case x.op == opCeilDiv && !opposite && m.Sign() != 0:
			q.Add(q, big.NewInt(1))
		case x.op == Mod:
			q = m
			if opposite && m.Sign() != 0 {
				q.Add(m, b)
			}
		}
		r = q
	}
	if dt == dtype.Index {
		return r
	}
	low := new(big.Int).And(r, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	if dt == dtype.Int32 {
		return big.NewInt(int64(int32(low)))
	}
	return number(dt, int64(low))
}

// number returns the integer that n, as a Value of dt holds it, stands for.
func number(dt dtype.Type, n int64) *big.Int {
	switch dt {
	case dtype.UInt64:
		return new(big.Int).SetUint64(uint64(n))
	case dtype.Int32:
		return big.NewInt(int64(int32(n)))
	}
	return big.NewInt(n)
}

func (x *tree) String() string {
	switch x.op {
	case Const:
		return fmt.Sprint(x.n)
	case Symbol:
		return fmt.Sprintf("i%d", x.symbol)
	}
	name := map[Op]string{
		Add: "add", Mul: "mul", FloorDiv: "floorDiv", Mod: "mod", TruncDiv: "truncDiv", Rem: "rem", Min: "min", Max: "max", Xor: "xor",
		Lt: "lt", Le: "le", Eq: "eq", Select: "select", opSub: "sub", opCeilDiv: "ceilDiv", opNot: "not",
	}[x.op]
	s := name + "("
	for i, a := range x.args {
		if i > 0 {
			s += ", "
		}
		s += a.String()
	}
	return s + ")"
}

// verify compares a random expression with its simplified form for every
// binding: the value, which is an error only if it does not fit, and the facts
// of all nodes of the table that the form reads.
func verify(t testing.TB, dt dtype.Type, choose plan, symbols, depth int) {
	domains := make([]domain, symbols)
	for i := range domains {
		domains[i] = symbolDomain(choose)
		if dt == dtype.Int32 {
			domains[i].values = []int64{math.MinInt32, -7, -1, 0, 1, 12, math.MaxInt32}
		} else if dt == dtype.UInt64 {
			domains[i].values = []int64{math.MinInt64, -1, 0, 1, 12, math.MaxInt64}
		}
	}
	x := boolTree(choose, symbols, depth)
	if choose(4) > 0 {
		x = integerTree(choose, symbols, depth)
	}
	compare(t, NewTable(), dt, x, domains)
}

// compare is verify for a given expression.
func compare(t testing.TB, tab *Table, dt dtype.Type, x *tree, domains []domain) {
	symbols := len(domains)
	ids := make([]ID, symbols)
	for i, d := range domains {
		ids[i] = tab.Symbol(dt, Tag{uint32(i), -1}, d.facts)
	}
	id := x.build(tab, ids)
	context := func(values []int64) string {
		s := fmt.Sprintf("%v\nsimplified: %s\n", x, tab.String(id))
		for i, n := range values {
			s += fmt.Sprintf("i%d = %d of %+v\n", i, n, domains[i].facts)
		}
		return s
	}
	if tab.Len() > 20000 {
		t.Fatalf("%d nodes for %s", tab.Len(), context(nil))
	}
	values := make([]int64, symbols)
	bind := func(s ID) (Value, error) {
		return Value{Type: dt, I: values[tab.Tag(s).Val]}, nil
	}
	compiled := tab.Compile([]ID{id})
	program, problem := NewProgram(compiled.Data())
	if problem != nil {
		t.Fatal(problem)
	}
	registers := make([]Value, program.Registers())
	substituted := 0
	var enumerate func(i int)
	enumerate = func(i int) {
		if i < symbols {
			for _, n := range domains[i].values {
				values[i] = n
				enumerate(i + 1)
			}
			return
		}
		want := x.eval(dt, values)
		if want == nil {
			return
		}
		fits := dt == dtype.UInt64 || want.IsInt64()
		e := evaluation{t: tab, bind: bind, memo: map[ID]Value{}}
		got, err := e.value(id)
		check := func(got Value, err error) {
			if fits && err != nil || !fits && !errors.Is(err, ErrOverflow) {
				t.Fatalf("%v, want %v: %s", err, want, context(values))
			}
			if got := number(tab.Type(id), got.I); fits && got.Cmp(want) != 0 {
				t.Fatalf("got %d, want %d: %s", got, want, context(values))
			}
		}
		check(got, err)
		for i := range program.Symbols() {
			registers[i], _ = bind(compiled.Symbol(i))
		}
		if program.Run(registers, nil) {
			check(program.Result(registers, 0), nil)
		} else if small := !slices.ContainsFunc(values, func(n int64) bool { return n < -100 || n > 100 }); small && err == nil && e.wide == nil && len(e.memo) == len(program.data.Symbols)+len(program.data.Code) {
			t.Fatalf("the program has no value, want %d: %s", want, context(values))
		}
		if substituted++; substituted <= 2 {
			r := tab.Substitute(id, func(s ID) (ID, bool) { return tab.integer(dt, values[tab.Tag(s).Val]), true })
			check(tab.Eval(r, nil, nil, nil))
			if fits && e.wide == nil && tab.Op(r) != Const {
				t.Fatalf("substituted to %s, want %d: %s", tab.String(r), want, context(values))
			}
		}
		here := map[ID]Facts{}
		with := func(s ID) Facts {
			if i := tab.Tag(s).Val; i > 0 {
				return Facts{values[i], values[i], values[i]}.normal()
			}
			return tab.Facts(s)
		}
		for n, v := range e.memo {
			if !tab.Facts(n).Hold(v.I) {
				t.Fatalf("%s = %d against %+v: %s", tab.String(n), v.I, tab.Facts(n), context(values))
			}
			if f := tab.FactsWhere(n, with, here); !f.Hold(v.I) {
				t.Fatalf("%s = %d against %+v where all but i0 are known: %s", tab.String(n), v.I, f, context(values))
			}
		}
		for n, v := range e.wide {
			f := tab.Facts(n)
			negative := v.Sign() < 0
			if negative && f.Lo > math.MinInt64 || !negative && f.Hi < math.MaxInt64 || new(big.Int).Rem(v, big.NewInt(max(f.Divisor, 1))).Sign() != 0 {
				t.Fatalf("%s = %d against %+v: %s", tab.String(n), v, f, context(values))
			}
		}
	}
	enumerate(0)
}

func TestSimplifiedEqualsOriginal(t *testing.T) {
	rounds := 6000
	if testing.Short() {
		rounds = 1500
	}
	for seed := range rounds {
		choose := randomPlan(uint64(seed))
		verify(t, dtype.Index, choose, 2+choose(2), 1+choose(4))
	}
}

func TestOtherIntegersEqualOriginal(t *testing.T) {
	for _, dt := range []dtype.Type{dtype.Int, dtype.Int32, dtype.UInt64} {
		for seed := range 1500 {
			choose := randomPlan(uint64(seed))
			verify(t, dt, choose, 2+choose(2), 1+choose(4))
		}
	}
}

func FuzzSimplify(f *testing.F) {
	f.Add([]byte{})
	for seed := range 32 {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		data := make([]byte, 8+seed*2)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 128 {
			return
		}
		choose := bytePlan(data)
		dt := []dtype.Type{dtype.Index, dtype.Index, dtype.Int, dtype.Int32, dtype.UInt64}[choose(5)]
		verify(t, dt, choose, 2+choose(2), 1+choose(4))
	})
}

func TestDivisionByZeroIsAnError(t *testing.T) {
	tab := NewTable()
	n := tab.Symbol(dtype.Index, Tag{0, 0}, Range(0, 2))
	for _, id := range []ID{
		tab.FloorDiv(tab.Int(0), n), tab.Mod(tab.Int(0), n), tab.Mod(tab.Int(7), n), tab.Rem(tab.Int(-7), n), tab.FloorDiv(tab.Int(7), n),
		tab.FloorDiv(tab.Add(n, tab.Int(7)), n), tab.CeilDiv(tab.Int(7), n), tab.FloorDiv(n, tab.Int(0)), tab.FloorDiv(tab.Int(0), tab.Int(0)),
		tab.CeilDiv(tab.Int(0), tab.Int(0)), tab.Mod(n, tab.Int(0)), tab.FloorDiv(tab.Mul(n, tab.Int(0)), n),
	} {
		_, err := tab.Eval(id, func(ID) (Value, error) { return Value{Type: dtype.Index}, nil }, nil, nil)
		require.ErrorIs(t, err, ErrDivisionByZero, tab.String(id))
		require.ErrorContains(t, err, "division by zero in "+tab.String(id)[:1])
	}
	for want, id := range map[int64]ID{1: tab.FloorDiv(n, n), 0: tab.Mod(n, n)} {
		require.Equal(t, tab.Int(want), id, "what cancels is not computed")
	}
}

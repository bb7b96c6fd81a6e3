package scalar

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

func symbols(tab *Table, n int) []ID {
	ids := make([]ID, n)
	for i := range ids {
		ids[i] = tab.Symbol(dtype.Index, Tag{uint32(i), 0}, Range(0, 1000))
	}
	return ids
}

func TestBuildOrderDoesNotMatter(t *testing.T) {
	tab := NewTable()
	s := symbols(tab, 4)
	ab, cd := tab.Mul(s[0], s[1]), tab.Mul(s[3], s[2])
	require.Equal(t, tab.Add(ab, cd), tab.Add(tab.Mul(s[2], s[3]), tab.Mul(s[1], s[0])))
	x := tab.Add(tab.Add(s[0], tab.Int(3)), tab.Add(s[1], s[2]))
	y := tab.Add(s[2], tab.Add(s[1], tab.Add(tab.Int(1), tab.Add(s[0], tab.Int(2)))))
	require.Equal(t, x, y)
	require.Equal(t, tab.Mul(tab.Add(s[0], s[1]), s[2]), tab.Add(tab.Mul(s[2], s[0]), tab.Mul(s[1], s[2])))
	require.Equal(t, tab.Int(0), tab.Sub(x, y))
	require.Equal(t, tab.Min(s[0], tab.Min(s[1], s[2])), tab.Min(tab.Min(s[2], s[0]), s[1]))
	// Every order of the terms, and every tree of a product.
	var terms []ID
	for i := range s {
		terms = append(terms, tab.Mul(s[i], s[(i+1)%4]), tab.Mod(s[i], tab.Int(7)))
	}
	want := tab.Apply(Add, dtype.Index, terms...)
	for shift := range terms {
		sum := tab.Int(0)
		for i := range terms {
			sum = tab.Add(terms[(i*3+shift)%len(terms)], sum)
		}
		require.Equal(t, want, sum)
	}
}

func TestConstantsAreInternedByBits(t *testing.T) {
	tab := NewTable()
	nan := tab.Value(Value{Type: dtype.Double, Re: math.NaN()})
	require.Equal(t, nan, tab.Value(Value{Type: dtype.Double, Re: math.NaN()}))
	zero := tab.Value(Value{Type: dtype.Double})
	require.NotEqual(t, zero, tab.Value(Value{Type: dtype.Double, Re: math.Copysign(0, -1)}))
	require.NotEqual(t, zero, tab.Value(Value{Type: dtype.Float}))
	require.NotEqual(t, tab.Int(1), tab.Value(Value{Type: dtype.Int, I: 1}))
	require.Equal(t, tab.Bool(true), tab.Value(Value{Type: dtype.Bool, I: 7}))
	v, ok := tab.ConstValue(nan)
	require.True(t, ok && math.IsNaN(v.Re))
	_, ok = tab.ConstInt(nan)
	require.False(t, ok)
}

func TestIndexAndInt(t *testing.T) {
	tab := NewTable()
	n := tab.Symbol(dtype.Int, Tag{3, -1}, Range(0, 100))
	require.Equal(t, n, tab.Symbol(dtype.Int, Tag{3, -1}, Unknown()), "one symbol for a tag")
	view := tab.AsIndex(n)
	require.NotEqual(t, n, view)
	require.Equal(t, view, tab.Symbol(dtype.Index, Tag{3, -1}, Unknown()))
	require.Equal(t, n, tab.Declared(view))
	require.Equal(t, Range(0, 100), tab.Facts(view))
	e := tab.Symbol(dtype.Index, Tag{4, 0}, Range(0, 100))

	two := tab.Value(Value{Type: dtype.Int, I: 2})
	x := tab.Select(tab.Lt(n, two), tab.Add(tab.Mul(n, two), tab.Apply(FirstOpaque, dtype.Int, n)), n)
	require.Equal(t, dtype.Int, tab.Type(x))
	opaque := tab.Apply(FirstOpaque, dtype.Index, n)
	y := tab.Select(tab.Lt(view, tab.Int(2)), tab.Add(tab.Mul(view, tab.Int(2)), opaque), view)
	require.Equal(t, y, tab.AsIndex(x), "an extent is one ID whichever type it was computed in")
	require.Equal(t, dtype.Index, tab.Type(tab.Add(n, e)))
	require.Equal(t, tab.Add(view, e), tab.Add(e, n))
	require.Equal(t, tab.Eq(view, e), tab.Eq(n, tab.Apply(Add, dtype.Int, e, tab.Value(Value{Type: dtype.Int}))))

	var seen []ID
	tab.Symbols(tab.Add(y, e), func(s ID) { seen = append(seen, s) })
	require.Equal(t, []ID{n, e}, seen, "as declared, each once")

	bind := func(s ID) (Value, error) {
		require.Equal(t, s, tab.Declared(s))
		return Value{Type: tab.Type(s), I: 1}, nil
	}
	sum := func(op Op, dt dtype.Type, args []Value) (Value, error) {
		return Value{Type: dt, I: args[0].I + 40}, nil
	}
	v, err := tab.Eval(y, bind, sum, nil)
	require.NoError(t, err)
	require.Equal(t, Value{Type: dtype.Index, I: 43}, v)

	five := tab.Substitute(y, func(s ID) (ID, bool) { return tab.Value(Value{Type: dtype.Int, I: 5}), true })
	require.Equal(t, tab.Int(5), five, "the symbol and its view are one")
	require.PanicsWithValue(t, "scalar: symbol {Val:3 Dim:-1} is declared as Int and as Float", func() { tab.Symbol(dtype.Float, Tag{3, -1}, Facts{}) })
}

func TestEvalChecksBindings(t *testing.T) {
	tab := NewTable()
	n := tab.Symbol(dtype.Index, Tag{1, 0}, Facts{0, 100, 4})
	for value, message := range map[Value]string{
		{Type: dtype.Index, I: 6}:   "the value of i1.d0 is 6, which is not a multiple of 4 between 0 and 100",
		{Type: dtype.Int, I: 104}:   "the value of i1.d0 is 104, which is not a multiple of 4 between 0 and 100",
		{Type: dtype.Double, Re: 4}: "the value of i1.d0 is a Double, not a Index",
	} {
		_, err := tab.Eval(n, func(ID) (Value, error) { return value, nil }, nil, nil)
		require.EqualError(t, err, message)
	}
	_, err := tab.Eval(n, func(ID) (Value, error) { return Value{}, fmt.Errorf("unbound") }, nil, nil)
	require.EqualError(t, err, "unbound")
	_, err = tab.Eval(tab.Apply(FirstOpaque+2, dtype.Double), nil, nil, nil)
	require.EqualError(t, err, "operation 66 has no evaluation")
}

func TestEvalComputesTheChosenOperandOnly(t *testing.T) {
	tab := NewTable()
	s := symbols(tab, 1)[0]
	id := tab.Select(tab.Eq(s, tab.Int(0)), tab.Int(-1), tab.FloorDiv(tab.Int(100), s))
	for _, test := range [][2]int64{{0, -1}, {7, 14}} {
		v, err := tab.Eval(id, func(ID) (Value, error) { return Value{Type: dtype.Index, I: test[0]}, nil }, nil, nil)
		require.NoError(t, err)
		require.Equal(t, test[1], v.I)
	}
}

// grow makes n expressions that depend on seed.
func grow(tab *Table, seed, n int) []ID {
	s := symbols(tab, 3)
	x := s[0]
	var ids []ID
	for i := range n {
		k := tab.Int(int64(2 + (i*7+seed)%13))
		switch (i + seed) % 4 {
		case 0:
			x = tab.Add(tab.Mul(x, k), s[1])
		case 1:
			x = tab.Mod(x, tab.Mul(k, tab.Int(16)))
		case 2:
			x = tab.Add(tab.FloorDiv(x, k), s[2])
		default:
			x = tab.Select(tab.Lt(x, k), x, tab.Min(x, s[1]))
		}
		ids = append(ids, x)
	}
	return ids
}

func dump(tab *Table) string {
	var text strings.Builder
	for id := range ID(tab.Len()) {
		fmt.Fprintf(&text, "%d %d %v %v %+v\n", id, tab.Op(id), tab.Type(id), tab.Args(id), tab.Facts(id))
	}
	return text.String()
}

func TestClonesAreIndependent(t *testing.T) {
	tab := NewTable()
	grow(tab, 0, 100)
	before := dump(tab)
	a, b := tab.Clone(), tab.Clone()
	var wait sync.WaitGroup
	for i, c := range []*Table{a, b} {
		wait.Go(func() { grow(c, i+1, 200) })
	}
	wait.Go(func() { tab.Clone() })
	wait.Wait()
	require.Equal(t, before, dump(tab))
	for i, c := range []*Table{a, b} {
		require.Greater(t, c.Len(), tab.Len())
		require.True(t, strings.HasPrefix(dump(c), before), "ids keep their meaning")
		alone := NewTable()
		grow(alone, 0, 100)
		grow(alone, i+1, 200)
		require.Equal(t, dump(alone), dump(c), "the other clone left no trace")
	}
	grow(tab, 2, 200)
	require.Equal(t, dump(b), dump(tab), "the original goes on like a clone")
}

// A deep chain of opaque nodes, which nothing simplifies.
func chain(tab *Table, s ID, depth int) ID {
	x := s
	for range depth {
		x = tab.Apply(FirstOpaque, dtype.Int, x)
	}
	return x
}

func TestDeepExpressions(t *testing.T) {
	const depth = 100_000
	tab := NewTable()
	n := tab.Symbol(dtype.Int, Tag{0, -1}, Unknown())
	deep := chain(tab, n, depth)
	increment := func(op Op, dt dtype.Type, args []Value) (Value, error) { return Value{Type: dt, I: args[0].I + 1}, nil }
	v, err := tab.Eval(deep, func(ID) (Value, error) { return Value{Type: dtype.Int, I: 5}, nil }, increment, nil)
	require.NoError(t, err)
	require.EqualValues(t, depth+5, v.I)

	var found []ID
	tab.Symbols(deep, func(s ID) { found = append(found, s) })
	require.Equal(t, []ID{n}, found)

	m := tab.Symbol(dtype.Int, Tag{1, -1}, Unknown())
	replaced := tab.Substitute(deep, func(ID) (ID, bool) { return m, true })
	require.Equal(t, chain(tab, m, depth), replaced)

	other := NewTable()
	require.Equal(t, chain(other, other.Symbol(dtype.Int, Tag{7, -1}, Unknown()), depth),
		other.Import(tab, deep, func(ID) ID { return other.Symbol(dtype.Int, Tag{7, -1}, Unknown()) }))
	require.Contains(t, tab.String(deep), "...")
	require.Equal(t, dtype.Index, tab.Type(tab.AsIndex(tab.Add(deep, n))))

	// A chain that is simplified at each step.
	x := tab.AsIndex(n)
	for i := range depth {
		x = tab.Select(tab.Lt(x, tab.Int(int64(i))), tab.Mod(tab.Add(x, tab.Int(int64(i))), tab.Int(1<<20)), tab.FloorDiv(x, tab.Int(3)))
	}
	_, err = tab.Eval(x, func(ID) (Value, error) { return Value{Type: dtype.Int, I: 5}, nil }, nil, nil)
	require.NoError(t, err)
	tab.Substitute(x, func(ID) (ID, bool) { return m, true })
}

// TestGrowth bounds the expressions and operands that a construction makes: the
// work of a rule is within a constant of them.
func TestGrowth(t *testing.T) {
	const n = 10_000
	for _, test := range []struct {
		name  string
		build func(tab *Table, s []ID)
		nodes int // per step
		args  int
	}{
		{"sum", func(tab *Table, s []ID) {
			x := tab.Int(0)
			for i := range s {
				x = tab.Add(x, tab.Mul(s[i], tab.Int(int64(i))))
			}
		}, 4, maxTerms + 4},
		{"sum that cancels", func(tab *Table, s []ID) {
			x := tab.Int(0)
			for i := range s {
				x = tab.Add(x, tab.Sub(s[i], s[(i*7)%len(s)]))
			}
		}, 4, maxTerms + 4},
		{"product", func(tab *Table, s []ID) {
			x := tab.Int(1)
			for i := range s {
				x = tab.Mul(x, s[i])
			}
		}, 2, maxFactors + 2},
		{"product of sums", func(tab *Table, s []ID) {
			x := tab.Int(1)
			for i := range s {
				x = tab.Mul(x, tab.Add(s[i], tab.Int(1)))
			}
		}, maxExpand, maxTerms},
		{"polynomial", func(tab *Table, s []ID) {
			x := tab.Int(0)
			for i := range s {
				x = tab.Add(tab.Mul(x, tab.Add(s[i%4], tab.Int(1))), s[(i+1)%4])
			}
		}, maxExpand, maxTerms},
		{"divisions", func(tab *Table, s []ID) {
			x := s[0]
			for i := range s {
				d := tab.Int(int64(2 + i%7))
				x = tab.Add(tab.Add(tab.FloorDiv(x, d), tab.Mod(x, d)), s[i])
			}
		}, 20, maxTerms * 2},
		{"sum of divisions", func(tab *Table, s []ID) {
			x := tab.Int(0)
			for i := range s {
				d := tab.Int(int64(2 + i%7))
				x = tab.Add(x, tab.Add(tab.FloorDiv(s[i], d), tab.Mod(s[i], d)))
			}
		}, 10, maxTerms * 2},
		{"minimum", func(tab *Table, s []ID) {
			x := s[0]
			for i := range s {
				x = tab.Min(x, tab.Add(s[i], s[(i+1)%len(s)]))
			}
		}, 4, 2 * maxExtremum},
		{"comparisons", func(tab *Table, s []ID) {
			x := s[0]
			for i := range s {
				x = tab.Select(tab.Lt(tab.FloorDiv(x, tab.Int(3)), s[i]), tab.Add(x, s[i]), tab.Int(int64(i)))
			}
		}, 12, maxTerms},
	} {
		t.Run(test.name, func(t *testing.T) {
			tab := NewTable()
			s := symbols(tab, n)
			test.build(tab, s)
			nodes, args := tab.Len()-n, len(tab.args)
			t.Logf("%.1f nodes, %.1f operands a step", float64(nodes)/n, float64(args)/n)
			require.LessOrEqual(t, nodes, test.nodes*n)
			require.LessOrEqual(t, args, test.args*n)
		})
	}
}

func TestString(t *testing.T) {
	tab := NewTable()
	s := symbols(tab, 2)
	u := tab.Symbol(dtype.Double, Tag{9, -1}, Facts{})
	for want, id := range map[string]ID{
		"ceilDiv(i0.d0, 4)*8":            tab.Mul(tab.CeilDiv(s[0], tab.Int(4)), tab.Int(8)),
		"i0.d0 - i1.d0*3 - 2":            tab.Sub(s[0], tab.Add(tab.Mul(s[1], tab.Int(3)), tab.Int(2))),
		"(i0.d0 + i1.d0) / 8":            tab.FloorDiv(tab.Add(s[0], s[1]), tab.Int(8)),
		"i1.d0*(i0.d0 % 8)":              tab.Mul(tab.Mod(s[0], tab.Int(8)), s[1]),
		"i0.d0 / (i1.d0 + 1)":            tab.FloorDiv(s[0], tab.Add(s[1], tab.Int(1))),
		"i0.d0 < i1.d0":                  tab.Lt(s[0], s[1]),
		"select(i0.d0 < i1.d0, 1, 2)":    tab.Select(tab.Lt(s[0], s[1]), tab.Int(1), tab.Int(2)),
		"op70(i9, 1.5)":                  tab.Apply(70, dtype.Double, u, tab.Value(Value{Type: dtype.Double, Re: 1.5})),
		"18446744073709551615":           tab.Value(Value{Type: dtype.UInt64, I: -1}),
		"max(i1.d0, min(i0.d0, 5))":      tab.Max(tab.Min(s[0], tab.Int(5)), s[1]),
		"truncDiv(i0.d0 - i1.d0, i0.d0)": tab.TruncDiv(tab.Sub(s[0], s[1]), s[0]),
	} {
		require.Equal(t, want, tab.String(id))
	}
	require.Equal(t, "x*8", tab.Format(tab.Mul(s[0], tab.Int(8)), func(ID) string { return "x" }, nil))
}

// Whatever an expression is of is replaced, wherever it occurs.
func TestReplace(t *testing.T) {
	b := NewTable()
	symbol := func(k uint32) ID { return b.Symbol(dtype.Index, Tag{Val: k}, Range(0, 1000)) }
	x, y, n := symbol(1), symbol(2), symbol(3)
	old, by := b.FloorDiv(x, b.Int(8)), b.FloorDiv(y, b.Int(8))
	of := func(q ID) ID { return b.Add(b.Mod(b.Add(b.Mul(q, n), x), b.Int(16)), b.Mul(q, b.Int(3))) }
	require.Equal(t, of(by), b.Replace(of(old), old, by))
	require.Equal(t, of(old), b.Replace(of(old), by, old), "it does not occur")
	require.Equal(t, by, b.Replace(old, old, by))
	require.Equal(t, b.Int(0), b.Replace(b.Sub(old, by), old, by))
}

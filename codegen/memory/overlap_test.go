package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// Extents of the symbols of random accesses.
const extentX, extentY, extentCommon, extentInner = 8, 4, 3, 3

// A pairMaker makes kernels of two accesses to one buffer, in two inner loops of
// one loop.
type pairMaker struct {
	*kir.Builder
	r       *rand.Rand
	x, y    scalar.ID
	symbols []scalar.ID
}

func (m *pairMaker) pick(from ...int64) scalar.ID { return m.T.Int(from[m.r.IntN(len(from))]) }

// expr returns an expression that is not negative.
func (m *pairMaker) expr(depth int) scalar.ID {
	if depth == 0 || m.r.IntN(4) == 0 {
		if m.r.IntN(6) == 0 {
			return m.pick(0, 1, 2, 5)
		}
		return m.symbols[m.r.IntN(len(m.symbols))]
	}
	a := m.expr(depth - 1)
	switch m.r.IntN(6) {
	case 0:
		return m.T.FloorDiv(a, m.pick(2, 4, 8))
	case 1:
		return m.T.Mod(a, m.pick(2, 3, 4, 8))
	case 2:
		return m.T.Mul(a, m.pick(2, 3, 4, 8))
	}
	return m.T.Add(a, m.T.Mul(m.expr(depth-1), m.pick(1, 2, 4, 8, 32)))
}

func (m *pairMaker) cond() scalar.ID {
	a := m.expr(1)
	switch m.r.IntN(4) {
	case 0:
		return m.T.Lt(a, m.pick(1, 2, 4, 6))
	case 1:
		return m.T.Le(m.pick(1, 2, 4), a)
	case 2:
		return m.T.Eq(a, m.pick(0, 1, 2))
	}
	return m.T.And(m.T.Lt(m.x, m.pick(2, 4, 7)), m.T.Lt(a, m.pick(2, 8)))
}

// randomPair returns the plan of such a kernel, and its accesses.
func randomPair(seed uint64) (p *plan, a, b *access) {
	builder := kir.NewBuilder("pair", dtype.Int32)
	m := &pairMaker{Builder: builder, r: rand.New(rand.NewPCG(seed, 7))}
	m.x, m.y = m.Thread(0, extentX), m.Thread(1, extentY)
	var coords [2][]scalar.ID
	rank := 1 + m.r.IntN(2)
	var shared []scalar.ID // both have it, up to the name of the inner loop
	var id kir.BufferID
	vector := int64(1) << m.r.IntN(3)
	crossing := m.r.IntN(4) == 0 // vectors may go on in the next row
	m.Repeat("i", extentCommon, kir.UnrollNone, func(i scalar.ID) {
		var inner [2]scalar.ID
		for side := range 2 {
			m.Repeat("e", extentInner, kir.UnrollNone, func(e scalar.ID) {
				inner[side] = e
				m.symbols = []scalar.ID{m.x, m.x, m.y, m.y, i, e}
				for k := range rank {
					c := m.expr(3)
					if side == 0 {
						shared = append(shared, c)
					} else if m.r.IntN(3) > 0 {
						c = m.T.Substitute(shared[k], func(s scalar.ID) (scalar.ID, bool) { return e, s == inner[0] })
					}
					if k == rank-1 {
						c = m.T.Mul(c, m.T.Int(vector))
					}
					coords[side] = append(coords[side], c)
				}
			})
		}
		shape := make([]scalar.ID, rank)
		for k := range rank {
			n := vector
			if crossing {
				n = 1
			}
			step := n
			for side := range 2 {
				n = max(n, (m.T.Facts(coords[side][k]).Hi/step+1)*step)
			}
			shape[k] = m.T.Int(n)
		}
		id = m.Buffer("s", kir.Shared, dtype.Float, shape...)
		if m.r.IntN(4) == 0 { // rows overlap
			m.Kernel().Buffers[id].Stride[0] = m.T.Int(vector)
		}
	})
	k := builder.Kernel()
	outer := k.Body[0].(*kir.For)
	zero := builder.Float(dtype.Float, 0)
	for side := range 2 {
		width := int(vector)
		loop := outer.Body[side].(*kir.For)
		if m.r.IntN(2) == 0 {
			width = 1
		}
		if width == 1 && !crossing { // any element of a vector
			last := &coords[side][rank-1]
			*last = m.T.Add(*last, m.T.Mod(k.Symbols[loop.Symbol].Expr, m.T.Int(vector)))
		}
		var s kir.Statement = kir.Assign{Dst: builder.Vector(width, id, coords[side]...), Value: zero}
		for range m.r.IntN(3) {
			s = &kir.If{Cond: m.condFor(outer, loop), Then: kir.Block{s}}
		}
		loop.Body = kir.Block{s}
	}
	p = newPlan(k)
	return p, p.accesses[0], p.accesses[1]
}

func (m *pairMaker) condFor(outer, loop *kir.For) scalar.ID {
	k := m.Kernel()
	m.symbols = []scalar.ID{m.x, m.y, k.Symbols[outer.Symbol].Expr, k.Symbols[loop.Symbol].Expr}
	return m.cond()
}

// touched returns the elements that an access touches in an iteration of the
// outer loop, with the threads that do.
func touched(t *testing.T, p *plan, a *access, common int64) map[int64]map[int64]bool {
	out := map[int64]map[int64]bool{}
	inner := p.loopSymbol(a.at.loops[1])
	outer := p.loopSymbol(a.at.loops[0])
	for thread := range int64(extentX * extentY) {
		for e := range int64(extentInner) {
			eval := func(id scalar.ID) int64 {
				v, err := p.t.Eval(id, func(s scalar.ID) (scalar.Value, error) {
					n := map[scalar.ID]int64{inner: e, outer: common, p.threads[0].own: thread % extentX, p.threads[1].own: thread / extentX}[s]
					return scalar.Value{Type: dtype.Index, I: n}, nil
				}, nil, nil)
				require.NoError(t, err)
				return v.I
			}
			active := true
			for _, c := range a.conds {
				active = active && eval(c) != 0
			}
			if !active {
				continue
			}
			for w := range int64(a.width) {
				element := eval(a.index) + w
				if out[element] == nil {
					out[element] = map[int64]bool{}
				}
				out[element][thread] = true
			}
		}
	}
	return out
}

// TestMeetsHasProofs compares the proofs with the enumeration of all threads and
// iterations: what is claimed never to meet does not.
func TestMeetsHasProofs(t *testing.T) {
	var separate, proved int
	for seed := range uint64(1000) {
		p, a, b := randomPair(seed)
		a.at.loops[0].open = true
		e := &entry{a: a, rel: relations([]byte{byte(current), 0, byte(anyOne), 0})}
		there, here := p.resolved(e), b.footprint
		for _, how := range []pairing{sameThread, otherThread} {
			meets := false
			for i := range int64(extentCommon) {
				of := touched(t, p, b, i)
				for element, threads := range touched(t, p, a, i) {
					for x := range threads {
						for y := range of[element] {
							meets = meets || (x == y) == (how == sameThread)
						}
					}
				}
			}
			claim := p.meets(there, here, how)
			require.False(t, meets && !claim, "seed %d, pairing %d: %s and %s\n%v", seed, how, p.k.Text(a.at.s), p.k.Text(b.at.s), p.k)
			separate += 1 - truth(meets)
			proved += 1 - truth(meets || claim)
		}
	}
	t.Logf("%d pairs of accesses do not meet, %d of them are proved", separate, proved)
	require.Greater(t, 2*proved, separate)
}

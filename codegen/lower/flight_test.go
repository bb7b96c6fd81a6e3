package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// A group that the last iteration of a loop closes counts for nothing only where no copy is under way: not its own, nor
// any before the loop that a wait after it may be for.
func TestEmptyEnds(t *testing.T) {
	const turns = 4
	type maker struct {
		*kir.Builder
		copy func()
	}
	commit := func(m *maker) { m.Add(kir.AsyncCommit{}) }
	wait := func(pending int) func(*maker) {
		return func(m *maker) { m.Add(kir.AsyncWait{Pending: pending}) }
	}
	one := func(m *maker) { m.copy() }
	repeat := func(n int64, parts ...func(*maker)) func(*maker) {
		return func(m *maker) {
			m.Repeat("i", n, kir.UnrollNone, func(scalar.ID) {
				for _, p := range parts {
					p(m)
				}
			})
		}
	}
	often := func(parts ...func(*maker)) func(*maker) {
		return func(m *maker) {
			m.For("r", m.T.Int(0), m.Integer("n", scalar.Range(0, 1<<20)), m.T.Int(1), kir.UnrollNone, func(scalar.ID) {
				for _, p := range parts {
					p(m)
				}
			})
		}
	}
	perhaps := func(part func(*maker)) func(*maker) {
		return func(m *maker) { m.If(m.T.Lt(m.Thread(0, 32), m.T.Int(7)), func() { part(m) }, nil) }
	}
	fill, reader := repeat(turns, one, commit), repeat(turns, wait(turns-1), commit)
	for _, test := range []struct {
		name  string
		parts []func(*maker)
		empty []bool // of the loops that close a group last
	}{
		{"in turn", []func(*maker){fill, reader}, []bool{false, true}},
		{"copies that wait", []func(*maker){repeat(turns, wait(0), one, commit), wait(0), reader}, []bool{false, true}},
		{"a wait for fewer", []func(*maker){fill, repeat(turns, wait(turns), commit)}, []bool{false, false}},
		{"copies before", []func(*maker){one, fill, reader}, []bool{false, true}},
		{"copies between", []func(*maker){fill, one, reader, wait(turns - 1)}, []bool{false, false}},
		{"a group between", []func(*maker){fill, one, commit, reader, wait(turns - 1)}, []bool{false, true}},
		{"copies between of some threads", []func(*maker){fill, perhaps(one), reader}, []bool{false, false}},
		{"a wait of some threads", []func(*maker){fill, repeat(turns, perhaps(wait(0)), commit)}, []bool{false, false}},
		{"in each iteration", []func(*maker){often(fill, reader)}, []bool{false, true}},
		{"of the next iteration", []func(*maker){fill, often(reader, fill)}, []bool{false, true, false}},
		{"of an open group of the one before", []func(*maker){fill, often(reader, one)}, []bool{false, false}},
		{"perhaps no copies", []func(*maker){one, often(wait(0)), repeat(turns, commit)}, []bool{false}},
		{"no iterations", []func(*maker){repeat(0, one), repeat(turns, commit)}, []bool{true}},
		{"many iterations", []func(*maker){fill, repeat(100, wait(turns-1), commit)}, []bool{false, false}},
		{"many iterations with nothing under way", []func(*maker){fill, wait(0), repeat(100, commit)}, []bool{false, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &maker{Builder: kir.NewBuilder("kernel", dtype.Int)}
			in := m.Input("x", dtype.Float, m.T.Int(4))
			to := m.Shared("s", dtype.Float, 0, m.T.Int(4))
			m.copy = func() {
				m.Add(kir.AsyncCopy{Dst: m.Vector(4, to, m.T.Int(0)), Src: m.Vector(4, in, m.T.Int(0)), Guard: scalar.None, Last: scalar.None})
			}
			for _, p := range test.parts {
				p(m)
			}
			ends := emptyEnds(m.Kernel())
			var empty []bool
			m.Kernel().Body.Walk(func(s kir.Statement) {
				if f, ok := s.(*kir.For); ok && len(f.Body) > 0 {
					if _, ok := f.Body[len(f.Body)-1].(kir.AsyncCommit); ok {
						empty = append(empty, ends[f])
					}
				}
			})
			require.Equal(t, test.empty, empty, "%v", m.Kernel())
		})
	}
}

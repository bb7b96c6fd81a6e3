package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// Each rule of the verifier is broken by one change, and reported.
func TestVerifyReports(t *testing.T) {
	const text = `%0 = tensor f32 [8, 6] contiguity=[yes, yes]
%1 = set %0
%2 = neg %1
%3 = exp %2
%4, %5, %6 = welford %3 dims=[1]
output %4
output %5
output %6
output %3
`
	for _, c := range []struct {
		name, want string
		damage     func(s *Scheduled, v func(int) core.ValID)
	}{
		{"fusion", "uses counted", func(s *Scheduled, v func(int) core.ValID) { s.f.Val(v(1)).Uses++ }},
		{"symbolic", "whether dimension 0 broadcasts is not known", func(s *Scheduled, v func(int) core.ValID) {
			for _, n := range []int{1, 2, 3, 4, 5, 6} {
				s.f.Axis(s.f.Val(v(n)).Domain.Logical[0]).Kind = core.Symbolic
			}
			s.f.Axis(s.f.Val(v(0)).Domain.Logical[0]).Kind = core.Symbolic
		}},
		{"input loops", "is an input and has loops", func(s *Scheduled, v func(int) core.ValID) { s.setLoop(v(0), s.Loop(v(0))[:1]) }},
		{"input position", "is an input and has loops", func(s *Scheduled, v func(int) core.ValID) { s.tensors[v(0)].position = 1 }},
		{"input parallel", "is an input and has a parallel axis", func(s *Scheduled, v func(int) core.ValID) { s.setParallel(s.Loop(v(0))[0], TIDx) }},
		{"lost axis", "not made from all of its axes", func(s *Scheduled, v func(int) core.ValID) { s.setLoop(v(2), s.Loop(v(2))[:1]) }},
		{"axis twice", "is there twice", func(s *Scheduled, v func(int) core.ValID) {
			a := s.Loop(v(2))[0]
			s.setLoop(v(2), []core.AxisID{a, a})
		}},
		{"siblings", "have different loops", func(s *Scheduled, v func(int) core.ValID) { require.NoError(t, s.Split(v(5), 0, 4, true)) }},
		{"siblings of other axes", "their loops differ from place 1 on", func(s *Scheduled, v func(int) core.ValID) {
			for n := 4; n <= 6; n++ {
				require.NoError(t, s.Split(v(n), 0, 6, true)) // now 2, 6, and 6 that are reduced
			}
			_, err := Map(s)
			require.NoError(t, err)
			require.NoError(t, s.Reorder(v(6), map[int]int{1: 2}))
		}},
		{"sibling positions", "have different loops", func(s *Scheduled, v func(int) core.ValID) { s.tensors[v(5)].position = 1 }},
		{"position range", "has position 3 and 2 axes", func(s *Scheduled, v func(int) core.ValID) { s.tensors[v(2)].position = 3 }},
		{"position", "has position 2, but axis 1 of tv2 does not correspond", func(s *Scheduled, v func(int) core.ValID) {
			require.NoError(t, s.Split(v(2), 1, 2, true))
			s.tensors[v(2)].position = 2
		}},
		{"thread twice", "has two axes that are threadIdx.x", func(s *Scheduled, v func(int) core.ValID) {
			s.setParallel(s.Loop(v(2))[0], TIDx)
			s.setParallel(s.Loop(v(2))[1], TIDx)
		}},
		{"vector not last", "it must be the last axis", func(s *Scheduled, v func(int) core.ValID) { s.setParallel(s.Loop(v(1))[0], Vectorize) }},
		{"vector width", "it must be the last axis", func(s *Scheduled, v func(int) core.ValID) { s.setParallel(s.Loop(v(1))[1], Vectorize) }},
		{"output memory", "is an input or output and is in shared memory", func(s *Scheduled, v func(int) core.ValID) { s.tensors[v(4)].memory = Shared }},
		{"allocation", "allocation domain(): the domain for tv2 is not made from all", func(s *Scheduled, v func(int) core.ValID) {
			s.tensors[v(2)].alloc = s.Loop(v(2))[:1]
		}},
		{"contiguity", "has 0 contiguity flags", func(s *Scheduled, v func(int) core.ValID) { s.tensors[v(2)].alloc = s.Loop(v(2)) }},
		{"swizzle", "has a swizzle", func(s *Scheduled, v func(int) core.ValID) {
			s.tensors[v(2)].swizzle = []Swizzle{{s.Loop(v(2))[0], s.Loop(v(2))[1]}}
		}},
		{"buffering", "has a circular buffer", func(s *Scheduled, v func(int) core.ValID) { s.tensors[v(1)].buffering = Buffering{2, 2} }},
		{"copy", "is not a copy", func(s *Scheduled, v func(int) core.ValID) { s.tensors[v(2)].copyKind = AsyncCopy }},
		{"two parallel types", "share a loop that is threadIdx.x for one and threadIdx.y for the other", func(s *Scheduled, v func(int) core.ValID) {
			s.setParallel(s.Loop(v(2))[0], TIDx)
			s.setParallel(s.Loop(v(3))[0], TIDy)
			s.tensors[v(2)].position = 1
		}},
		{"registers of another thread", "keep it in shared memory", func(s *Scheduled, v func(int) core.ValID) {
			s.setParallel(s.Loop(v(2))[0], TIDx)
			s.setParallel(s.Loop(v(3))[0], TIDy)
		}},
		{"memory of another block", "keep it in global memory", func(s *Scheduled, v func(int) core.ValID) {
			s.setParallel(s.Loop(v(2))[0], BIDx)
			s.tensors[v(2)].memory = Shared
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parsed(t, text)
			require.NoError(t, s.Verify())
			c.damage(s, func(n int) core.ValID { return tv(s, n) })
			require.ErrorContains(t, s.Verify(), c.want)
		})
	}
}

func TestVerifyReportsPositionsWithoutLoops(t *testing.T) {
	s := parsed(t, softmaxLike)
	s.tensors[tv(s, 1)].position = 1
	require.ErrorContains(t, s.Verify(), "cannot be put in an order")
}

// Another thread's value may be read from shared memory, another block's from
// global memory, and a thread's own from registers.
func TestVerifyAllowsExchange(t *testing.T) {
	const text = "%0 = tensor f32 [8, 6] contiguity=[yes, yes]\n%1 = neg %0\n%2 = exp %1\noutput %2\n"
	for _, c := range []struct {
		producer, consumer Parallel
		memory             Memory
	}{{TIDx, TIDx, Local}, {BIDx, BIDx, Local}, {TIDx, TIDy, Shared}, {BIDx, TIDx, Global}, {Serial, TIDx, Local}, {TIDx, Serial, Shared}} {
		s := parsed(t, text)
		require.NoError(t, s.Parallelize(tv(s, 1), 0, c.producer))
		require.NoError(t, s.Parallelize(tv(s, 2), 0, c.consumer))
		require.NoError(t, s.SetMemory(tv(s, 1), c.memory))
		require.NoError(t, s.Verify())
	}
}

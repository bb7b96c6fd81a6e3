package segmenter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/schedulers/scheduler"
)

func setting(name string, n int) int {
	if k, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return k
	}
	return n
}

// A found counts what random programs were.
type found struct{ ran, segments, kernels, torch, views int }

// check compares the fusion of data, cut as the cost model says and also at random by salt,
// with the whole.
func (n *found) check(t *testing.T, program string, data []byte, salt uint64) {
	c := fusionfuzz.Decode(data)
	x, err := newTrial(c.Fusion, c.Inputs)
	if err != nil {
		return // sizes that do not go together
	}
	for k, o := range []Options{{}, {apart: func(v core.ValID) bool { return (uint64(v)+1)*(salt|1)>>7%3 == 0 }}} {
		p, err := x.check(o)
		if errors.As(err, new(*core.Unsupported)) {
			require.Contains(t, err.Error(), "uniform", "%v", x.f)
			continue
		}
		if err != nil {
			text := ""
			if p != nil {
				text = p.Dump()
			}
			t.Fatalf("%s, options %d: %v\n%v\n%v", program, k, err, x.f, text)
		}
		n.ran++
		n.segments += len(p.Segments)
		for _, s := range p.Segments {
			switch s.Kind {
			case Kernel:
				n.kernels++
			case TorchCall:
				n.torch++
			default:
				n.views++
			}
		}
	}
}

// TestRandom checks random fusions: SEGMENTER_PROGRAMS of them from SEGMENTER_SEED on.
func TestRandom(t *testing.T) {
	most := 600
	if testing.Short() {
		most = 150
	}
	programs, seed := setting("SEGMENTER_PROGRAMS", most), setting("SEGMENTER_SEED", 1)
	n := found{}
	for k := range programs {
		r := rand.New(rand.NewPCG(uint64(seed), uint64(k)))
		data := make([]byte, 40+r.IntN(200))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		program := fmt.Sprintf("program %d of seed %d", k, seed)
		n.check(t, program, data, r.Uint64())
	}
	t.Logf("%+v", n)
	require.Greater(t, n.ran, programs/2)
}

func FuzzSegmenter(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, uint64(7))
	f.Fuzz(func(t *testing.T, data []byte, salt uint64) { new(found).check(t, "fuzzed", data, salt) })
}

// TestSummaries holds what groups sum up as they are joined against their nodes.
func TestSummaries(t *testing.T) {
	joined := 0
	for k := range 150 {
		r := rand.New(rand.NewPCG(9, uint64(k)))
		data := make([]byte, 40+r.IntN(200))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		x, err := newTrial(c.Fusion, c.Inputs)
		if err != nil {
			continue
		}
		work := &Work{}
		j := &judge{device: scheduler.Hopper, work: work, verdicts: map[string]verdict{}}
		n := x.f.NumExprs()
		o := Options{inputs: map[core.ValID]int{}}
		for i, v := range x.f.Inputs() {
			o.inputs[v] = i
		}
		g, err := newGraph(x.f, x.b, o, make([]bool, n), make([]bool, n), make([]bool, n))
		require.NoError(t, err)
		p := &partition{graph: g, work: work, of: make([]int32, len(g.nodes)), recent: map[core.ValID][]int32{}, judge: j, doubtful: make([]bool, n)}
		for i := range g.nodes {
			require.NoError(t, p.arrive(int32(i)))
		}
		for _, a := range p.groups {
			if p.find(a.id) != a {
				continue
			}
			if len(a.nodes) > 1 {
				joined++
			}
			reads, inside := map[core.ValID]int32{}, map[core.ValID]int32{}
			var want total
			for _, i := range a.nodes {
				for _, v := range g.nodes[i].reads {
					d := p.definer(v)
					require.True(t, d == nil || d == a || d.level < a.level)
					if d == a {
						inside[v]++
						continue
					}
					if reads[v]++; reads[v] == 1 {
						want.bytes += g.values[v].bytes
					}
				}
			}
			for _, i := range a.nodes {
				for _, v := range x.f.Expr(g.nodes[i].expr).Out {
					if u := &g.values[v]; u.output || u.readers > inside[v] {
						want.writes++
						want.bytesTo += u.bytes
					}
				}
			}
			want.work = a.work
			require.Equal(t, want, a.total(), "%v", x.f)
			require.Len(t, a.reads, len(reads))
		}
	}
	require.Greater(t, joined, 50)
}

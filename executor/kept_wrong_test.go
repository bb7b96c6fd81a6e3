package executor_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/executor"
)

// altered is a keeper whose plans are altered under a right checksum.
type altered struct {
	*process
	alter func([]byte) []byte
}

func (a *altered) Kept(of string) ([]byte, bool) {
	what, ok := a.process.Kept(of)
	if ok {
		what = a.alter(slices.Clone(what))
	}
	return what, ok
}

// TestKeptWrong has any bytes for a plan, as if they had been kept: what is
// launched is a launch, reads what calls bring, and words have values. Where they are not
// believed a plan is made, which is done for those at random alone: it takes long.
func TestKeptWrong(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range keptTexts {
		t.Run(c.name, func(t *testing.T) {
			folder, inputs := keptFolder(t), c.inputs()
			newProcess(h100s(1), folder).plan(t, c.text, inputs, executor.Options{})
			believed := 0
			tries := setting("KEPT_ALTERATIONS", 100) // at random, beside each byte
			values, step, size := []byte{0, 1, 2, 255}, 1, len(keptFile(t, folder, "*.plan"))
			if testing.Short() {
				step = 4 * (1 + size/1000) // integers of 32 bits begin there
			}
			for i := -len(values) * (size / step); i < tries; i++ {
				p := &altered{process: newProcess(h100s(1), folder), alter: func(b []byte) []byte {
					switch k := -i - 1; {
					case i < 0 && k/len(values)*step < len(b):
						b[k/len(values)*step] = values[k%len(values)]
					case i%4 == 0:
						return b[:r.IntN(len(b))]
					default:
						for range 1 + r.IntN(3) {
							b[r.IntN(len(b))] = byte(r.Uint32() >> r.IntN(16))
						}
					}
					return b
				}}
				e, err := executor.NewCache(1, p).Executor(parsed(t, c.text))
				require.NoError(t, err)
				planned := e.Plan
				if i < 0 {
					planned = e.Restored
				}
				plan, err := planned(inputs)
				requireNoError(t, err)
				if plan == nil {
					continue
				}
				if p.found() {
					believed++
				}
				requireFeasible(t, plan)
				_ = plan.Evaluate(inputs, make([]uint64, plan.Device.Scalars))
			}
			t.Logf("%d believed", believed)
		})
	}
}

// requireFeasible holds a plan to what its callers rely on, whatever its kernels and calls do.
func requireFeasible(t testing.TB, plan *executor.Plan) {
	t.Helper()
	d, n := plan.Device, plan.Counts()
	launch, call, isThere := 0, 0, map[executor.Slot]bool{}
	for i := range n.Inputs {
		isThere[executor.Slot(i)] = true
	}
	for k, o := range plan.Outputs {
		isThere[executor.Slot(n.Inputs+k)] = o.Hidden
	}
	for _, w := range d.Workspaces {
		require.GreaterOrEqual(t, w.Bytes, int64(0))
		require.Len(t, w.Strides, len(w.Sizes))
	}
	for _, p := range d.Phases {
		for _, s := range p.Allocate {
			require.False(t, isThere[s])
			require.GreaterOrEqual(t, int(s), n.Inputs)
			require.Less(t, int(s), n.Inputs+n.Outputs+n.Workspaces)
			isThere[s] = true
		}
		for range p.Launches {
			l := &d.Launches[launch]
			launch++
			require.NoError(t, l.Check())
			for _, patch := range l.Patches {
				at, err := n.Place(patch)
				require.NoError(t, err)
				require.True(t, at >= n.Inputs+n.Outputs+n.Workspaces || isThere[executor.Slot(at)])
			}
		}
		if p.Call >= 0 {
			require.Equal(t, call, p.Call)
			for _, a := range d.Calls[call].Arguments {
				require.True(t, a.Slot < 0 && a.Word >= 0 && a.Word < n.Scalars || isThere[a.Slot])
				require.Len(t, a.Strides, len(a.Sizes))
			}
			require.True(t, json.Valid([]byte(d.Calls[call].Spec)))
			for _, r := range d.Calls[call].Results {
				require.Len(t, r.Strides, len(r.Sizes))
				if r.Slot >= 0 {
					require.False(t, isThere[r.Slot])
					isThere[r.Slot] = true
				}
			}
			call++
		}
		for _, s := range p.Release {
			require.True(t, isThere[s] && int(s) >= n.Inputs+n.Outputs)
			isThere[s] = false
		}
	}
	require.Equal(t, []int{len(d.Launches), len(d.Calls)}, []int{launch, call})
	for k, o := range plan.Outputs {
		require.True(t, o.SameAs >= 0 || isThere[executor.Slot(n.Inputs+k)])
	}
}

// TestKeptByAnother: a plan of a file as other versions wrote it, or one that some bytes follow,
// is made anew.
func TestKeptByAnother(t *testing.T) {
	folder := keptFolder(t)
	inputs := []executor.Input{vector(0x1000, 1000)}
	want := newProcess(h100s(1), folder).plan(t, reluText, inputs, executor.Options{})
	for _, version := range []string{"NVFP", "NVP3", "NVP5", "\x00\x00\x00\x00"} {
		p := &altered{process: newProcess(h100s(1), folder), alter: func(b []byte) []byte {
			require.Equal(t, "NVP4", string(b[4:8]))
			copy(b[4:8], version)
			return b
		}}
		_, e := cacheOf(t, p, parsed(t, reluText))
		plan, err := e.Plan(inputs)
		require.NoError(t, err)
		requireSame(t, want, plan)
		require.EqualValues(t, 1, p.keeps.Load())
	}
}

// TestKeptLines: calls name the lines of the definition that is run, whoever made the plan.
func TestKeptLines(t *testing.T) {
	folder := keptFolder(t)
	for i, line := range []int{10, 20} {
		p := newProcess(h100s(1), folder)
		f := frozen(t, func(p *program) {
			x, w := p.tensor(-1, -1), p.tensor(-1, -1)
			for k, op := range []string{"relu", "linear", "neg", "linear"} {
				if p.f.SetLocation(core.Location{File: "model.py", Line: line + k}); op == "linear" {
					x = p.call(op, x, w)
				} else {
					x = p.call(op, x)
				}
			}
			p.output(x)
		})
		plan := p.planOf(t, f, []executor.Input{onDevice(0, 0x1000, []int64{8, 8}, []int64{8, 1}), onDevice(0, 0x2000, []int64{8, 8}, []int64{8, 1})})
		require.EqualValues(t, i, p.finds.Load())
		require.Len(t, plan.Device.Calls, 2)
		for k, c := range plan.Device.Calls {
			var spec executor.CallSpec
			require.NoError(t, json.Unmarshal([]byte(c.Spec), &spec))
			require.Equal(t, core.Location{File: "model.py", Line: line + 1 + 2*k}.String(), spec.Where)
		}
	}
}

// FuzzKept has any bytes for a plan of one of keptTexts.
func FuzzKept(f *testing.F) {
	folder := keptFolder(f)
	for i, c := range keptTexts {
		made := &altered{process: newProcess(h100s(1), folder)}
		made.alter = func(b []byte) []byte { f.Add(uint8(i), b); return b }
		newProcess(h100s(1), folder).plan(f, c.text, c.inputs(), executor.Options{})
		_, e := cacheOf(f, made, parsed(f, c.text))
		_, err := e.Plan(c.inputs())
		require.NoError(f, err)
	}
	f.Fuzz(func(t *testing.T, i uint8, bytes []byte) {
		c := &keptTexts[int(i)%len(keptTexts)]
		p := &altered{process: newProcess(h100s(1), folder), alter: func([]byte) []byte { return slices.Clone(bytes) }}
		_, e := cacheOf(t, p, parsed(t, c.text))
		inputs := c.inputs()
		plan, err := e.Plan(inputs)
		require.NoError(t, err)
		requireFeasible(t, plan)
		_ = plan.Evaluate(inputs, make([]uint64, plan.Device.Scalars))
	})
}

// TestKeptInfeasible changes one thing of a program at a time, which callers rely on.
func TestKeptInfeasible(t *testing.T) {
	p := newProcess(h100s(1), keptFolder(t))
	inputs := keptTexts[slices.IndexFunc(keptTexts, func(c keptText) bool { return c.name == "calls" })].inputs()
	plan := p.plan(t, callsText, inputs, executor.Options{})
	require.NoError(t, plan.Feasible(plan.Device))
	n := plan.Counts()
	output, workspace := executor.Slot(n.Inputs), executor.Slot(n.Inputs+n.Outputs)
	for name, change := range map[string]func(d *executor.DeviceProgram){
		"no such slot":             func(d *executor.DeviceProgram) { d.Phases[0].Allocate[0] = workspace + 9 },
		"input allocated":          func(d *executor.DeviceProgram) { d.Phases[0].Allocate[0] = 0 },
		"result allocated":         func(d *executor.DeviceProgram) { d.Phases[0].Allocate[0] = workspace + 1 },
		"allocated twice":          func(d *executor.DeviceProgram) { d.Phases[2].Allocate = append(d.Phases[2].Allocate, output) },
		"allocated again":          func(d *executor.DeviceProgram) { d.Phases[2].Allocate = append(d.Phases[2].Allocate, workspace) },
		"allocated and made":       func(d *executor.DeviceProgram) { d.Phases[0].Allocate = append(d.Phases[0].Allocate, output+1) },
		"output never there":       func(d *executor.DeviceProgram) { d.Calls[2].Results[0].Slot = -1 },
		"released early":           func(d *executor.DeviceProgram) { d.Phases[0].Release = append(d.Phases[0].Release, workspace+1) },
		"released twice":           func(d *executor.DeviceProgram) { d.Phases[1].Release = append(d.Phases[1].Release, workspace) },
		"output released":          func(d *executor.DeviceProgram) { d.Phases[2].Release = append(d.Phases[2].Release, output) },
		"call left out":            func(d *executor.DeviceProgram) { d.Phases[2].Call = -1 },
		"calls out of order":       func(d *executor.DeviceProgram) { d.Phases[0].Call, d.Phases[1].Call = 1, 0 },
		"launch left out":          func(d *executor.DeviceProgram) { d.Phases[2].Launches = 0 },
		"too many launches":        func(d *executor.DeviceProgram) { d.Phases[2].Launches = 2 },
		"launches without an end":  func(d *executor.DeviceProgram) { d.Phases[0].Launches = 1 << 40 },
		"launch before its memory": func(d *executor.DeviceProgram) { d.Phases[1].Launches, d.Phases[2].Launches = 1, 0 },
		"past its memory":          func(d *executor.DeviceProgram) { d.Launches[0].Patches[1].Add = 1 << 20 },
		"argument not there":       func(d *executor.DeviceProgram) { d.Calls[0].Arguments[0].Slot = output },
		"argument from nowhere":    func(d *executor.DeviceProgram) { d.Calls[0].Arguments[0].Slot = workspace + 9 },
		"argument past its memory": func(d *executor.DeviceProgram) { d.Calls[1].Arguments[0].Offset = 1 },
		"argument before it":       func(d *executor.DeviceProgram) { d.Calls[1].Arguments[0].Offset = -1 },
		"argument too long":        func(d *executor.DeviceProgram) { d.Calls[1].Arguments[0].Sizes[0] = 9 },
		"argument without an end":  func(d *executor.DeviceProgram) { d.Calls[1].Arguments[0].Sizes[0] = 1 << 62 },
		"argument backwards":       func(d *executor.DeviceProgram) { d.Calls[1].Arguments[0].Strides[0] = -1 },
		"argument of other rank":   func(d *executor.DeviceProgram) { d.Calls[1].Arguments[0].Strides = nil },
		"number without a word":    func(d *executor.DeviceProgram) { d.Calls[0].Arguments[0] = executor.CallArgument{Slot: -1, Word: 7} },
		"result of other sizes":    func(d *executor.DeviceProgram) { d.Calls[0].Results[0].Sizes[0] = 7 },
		"result in an input":       func(d *executor.DeviceProgram) { d.Calls[0].Results[0].Slot = 0 },
		"result in a workspace":    func(d *executor.DeviceProgram) { d.Calls[0].Results[0].Slot = workspace },
		"workspace of other bytes": func(d *executor.DeviceProgram) { d.Workspaces[1].Bytes = 8 },
		"workspace of no bytes":    func(d *executor.DeviceProgram) { d.Workspaces[0].Bytes = -1 },
		"result of zeros":          func(d *executor.DeviceProgram) { d.Workspaces[1].Zeroed = true },
		"semaphore of no zeros":    func(d *executor.DeviceProgram) { d.Workspaces[0].Semaphore = true },
	} {
		d := newProcess(h100s(1), keptFolder(t)).plan(t, callsText, inputs, executor.Options{}).Device
		change(d)
		require.Error(t, plan.Feasible(d), name)
	}
}

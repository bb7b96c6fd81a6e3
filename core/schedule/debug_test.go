package schedule

import (
	"os"
	"strconv"
	"testing"
)

func TestDebugOne(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("SCHEDULE_ONE"), 10, 64)
	if err != nil {
		t.Skip()
	}
	s, result, err := outcome(seed, os.Getenv("SCHEDULE_SET"), true)
	t.Logf("%v %v\n%v\n%v", result, err, s, g(s))
	t.Log(s.f.String())
	if m, err := Map(s); err == nil {
		c := *m.s
		c.f = m.f
		for i, id := range m.transforms {
			tr := m.f.Transform(id)
			t.Log(i, id, c.transformText(id), extents(&c, inputs(tr)), extents(&c, results(tr)), "loop", m.LoopClass(tr.Out[0]), "exact", m.Exact(tr.In[0]), m.Exact(tr.Out[0]), "ae", m.AlmostExact(tr.In[0]), m.AlmostExact(tr.Out[0]))
		}
		for _, v := range s.Tensors() {
			for _, a := range s.Loop(v) {
				if !s.isInput(v) {
					t.Log(s.name(v), s.axisName(a), m.Promotion(a), m.f.Scalars().String(m.f.Axis(m.Promotion(a)).Extent), m.f.Axis(m.Promotion(a)).Def, s.Position(v))
				}
			}
		}
	}
}

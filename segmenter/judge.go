package segmenter

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/schedulers"
	"nvfuser_go/schedulers/scheduler"
)

// A verdict is what the schedulers say of a part.
type verdict struct {
	scheduler string             // that takes it, or ""
	refusals  []core.Refusal     // of those before, in the names of the part
	asked     *scheduler.Segment // what they were asked about; nil if that was another part
}

// A judge asks the schedulers, once for all parts that are alike.
type judge struct {
	device   scheduler.Device
	o        Options
	work     *Work
	verdicts map[string]verdict
}

// accepts reports whether a scheduler takes nodes as one segment.
func (j *judge) accepts(p *partition, nodes []int32) (bool, error) {
	x, err := p.graph.extract(sorted(nodes), nil)
	if err != nil {
		return false, err
	}
	j.work.Extracted += len(x.exprs)
	v, err := j.verdict(p.graph, x)
	if err == nil && v.scheduler == "" {
		j.logf(p.graph, v, x, "%s is not one segment", func() string { return p.graph.named(nodes) })
	}
	return v.scheduler != "", err
}

// takes returns the scheduler that takes nodes as one segment, or "".
func (j *judge) takes(p *partition, nodes []int32) (string, error) {
	x, err := p.graph.extract(sorted(slices.Clone(nodes)), nil)
	if err != nil {
		return "", err
	}
	j.work.Extracted += len(x.exprs)
	v, err := j.verdict(p.graph, x)
	return v.scheduler, err
}

// logf tells the log something of the nodes that names names, and why schedulers
// refuse x.
func (j *judge) logf(g *graph, v verdict, x *part, format string, names func() string) {
	if j.o.Log == nil {
		return
	}
	j.o.Log(fmt.Sprintf(format, names()))
	for _, r := range x.named(g, v.refusals) {
		j.o.Log(fmt.Sprintf("  %s refuses (%s): %s", r.By, r.Rule, r.Sentence))
	}
}

// named lists what nodes compute.
func (g *graph) named(nodes []int32) string {
	var names []string
	for _, i := range nodes {
		for _, v := range g.f.Expr(g.nodes[i].expr).Out {
			names = append(names, g.f.Name(v))
		}
	}
	return strings.Join(names, ", ")
}

// verdict returns what the schedulers say of x.
func (j *judge) verdict(g *graph, x *part) (verdict, error) {
	key := j.question(g, x)
	if v, ok := j.verdicts[key]; ok {
		return v, nil
	}
	j.work.Asked++
	s, err := j.segment(g, x)
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	if j.o.Refused != nil {
		if v.refusals = j.o.Refused(x.key()); len(v.refusals) > 0 {
			j.verdicts[key] = v
			return v, nil
		}
	}
	by, refusals := schedulers.Choose(s, j.device)
	if v.refusals = refusals; by != nil {
		v.scheduler = by.Name()
	}
	j.verdicts[key] = v
	v.asked = s
	return v, nil
}

// question returns all that an answer depends on.
func (j *judge) question(g *graph, x *part) string {
	var b strings.Builder
	b.WriteString(x.key())
	for i, in := range x.values {
		if v := x.inputs[i].Val; in.Tensor {
			fmt.Fprint(&b, in.Sizes)
			if at := g.place(v); at != nil {
				fmt.Fprint(&b, *at)
			}
			continue
		}
		fmt.Fprint(&b, in.Scalar)
	}
	for _, v := range x.writes {
		fmt.Fprint(&b, g.memoryOrder(v))
	}
	return b.String()
}

// segment returns what the schedulers are asked about.
func (j *judge) segment(g *graph, x *part) (*scheduler.Segment, error) {
	b, err := x.fusion.Bind(x.values)
	if err != nil {
		return nil, err
	}
	concrete, decided, err := x.fusion.Concretize(b)
	if err != nil {
		return nil, err
	}
	if len(decided) > 0 {
		x.fusion = concrete
		if b, err = concrete.Bind(x.values); err != nil {
			return nil, err
		}
	}
	s, err := scheduler.Dense(x.fusion, b)
	if err != nil {
		return nil, err
	}
	s.Cache = j.device.Cache
	for i, in := range x.inputs {
		if at := g.place(in.Val); at != nil {
			s.Inputs[i] = *at
		}
	}
	for k, v := range x.writes {
		if s.Outputs[k], err = scheduler.Ordered(x.fusion, b, x.vals[v], g.memoryOrder(v)); err != nil {
			return nil, err
		}
	}
	if j.o.Known != nil {
		s.Known = j.o.Known(x.fusion, x.key())
	}
	return s, nil
}

// named returns refusals of x with the names that its tensors have in the whole fusion.
// A name that schedulers made for a copy stays.
func (x *part) named(g *graph, refusals []core.Refusal) []core.Refusal {
	if len(refusals) == 0 {
		return nil
	}
	names := map[string]string{}
	for v, w := range x.vals {
		if here, there := x.fusion.Name(w), g.f.Name(v); here != there {
			names[here] = there
		}
	}
	if len(names) == 0 {
		return refusals
	}
	rename := func(text string) string {
		return tensorName.ReplaceAllStringFunc(text, func(name string) string {
			if other, ok := names[name]; ok {
				return other
			}
			return name
		})
	}
	all := slices.Clone(refusals)
	for i := range all {
		all[i].Tensor, all[i].Sentence = rename(all[i].Tensor), rename(all[i].Sentence)
	}
	return all
}

var tensorName = regexp.MustCompile(`\btv[0-9]+\b`)

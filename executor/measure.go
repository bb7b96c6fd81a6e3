package executor

import (
	"errors"
	"slices"
	"strings"

	"nvfuser_go/cudadrv"
)

// Explain returns what the stage explain shows. If stream is not nil and the run would be on a
// CUDA device, it measures how long each kernel takes on copies of the inputs: nothing that it
// does can be seen elsewhere. *stream is what the inputs were made on; it waits for that. Why
// times could not be measured is part of the explanation.
//
// Errors: as of [Inspection.Show] for the stage.
func (e *Executor) Explain(inputs []Input, o Options, stream *uintptr) (Explanation, error) {
	x, err := e.Inspect(inputs, o)
	if err != nil {
		return Explanation{}, err
	}
	var explained Explanation
	err = e.guard(x.inputs, func() error {
		x.complete()
		if x.made == nil || x.made.program == nil {
			_, err := x.show(stageCalled("explain"), nil) // which says what is missing
			return err
		}
		explained = x.made.explain()
		if stream == nil || x.plan == nil || !x.plan.OnDevice() || x.failed != nil {
			return nil
		}
		if err := x.plan.measure(&explained, x.made, inputs, *stream); err != nil {
			explained.NotMeasured = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		return nil
	})
	return explained, err
}

// Rounds of a measurement: as many as take no longer than patience, in us.
const (
	mostRounds  = 21
	leastRounds = 3
	patience    = 2e5
)

// measure times the launches of the plan, and adds what they took to what is explained of m.
func (p *Plan) measure(explained *Explanation, m *made, inputs []Input, stream uintptr) (err error) {
	bench, err := p.e.machine.driver.Bench(p.Device.Device, stream)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bench.Close()) }()
	values, zero, err := p.scratch(bench, inputs)
	if err != nil {
		return err
	}
	soil, err := p.soil(bench, m)
	if err != nil {
		return err
	}
	work := make([]cudadrv.Work, len(p.Device.Launches))
	for i := range work {
		l := p.Device.Launches[i]
		l.Early = false // it is timed alone
		work[i] = cudadrv.Work{Launch: &l, Values: values}
	}
	// Once in order: kernels find what those before them compute. Results of torch are zeros.
	if _, err := bench.Time(1, zero, work); err != nil {
		return err
	}
	took := make([]float64, len(work))
	for i := range work {
		if took[i], err = medianOf(bench, soil, work[i:i+1]); err != nil {
			return err
		}
	}
	launch := 0
	for i := range m.parts {
		if c := m.parts[i].c; c == nil || c.kernel == nil || launch == len(took) {
			continue
		}
		if memory := explained.Segments[i].Memory; memory != nil {
			memory.Measured = &took[launch]
		}
		launch++
	}
	explained.NotMeasured = ""
	return nil
}

func medianOf(bench cudadrv.Bench, before, timed []cudadrv.Work) (float64, error) {
	first, err := bench.Time(1, before, timed)
	if err != nil {
		return 0, err
	}
	rounds := mostRounds
	if first[0] > 0 {
		rounds = int(min(max(patience/first[0], leastRounds), mostRounds))
	}
	us, err := bench.Time(rounds, before, timed)
	if err != nil {
		return 0, err
	}
	slices.Sort(us)
	return us[len(us)/2], nil
}

// scratch returns a call of the plan with memory of the bench, into which the inputs are
// copied, and what sets all other memory to zero.
func (p *Plan) scratch(bench cudadrv.Bench, inputs []Input) (values cudadrv.CallValues, zero []cudadrv.Work, err error) {
	n, bytes := p.Counts(), p.slotBytes()
	addresses := make([]uintptr, len(bytes))
	for s, size := range bytes {
		isInput, output := s < n.Inputs, s-n.Inputs
		switch {
		case size == 0, isInput && inputs[s].Device.Type != CUDA, output >= 0 && output < n.Outputs && !p.Outputs[output].isOwn(n.Inputs):
			continue
		}
		if addresses[s], err = bench.Memory(size); err != nil {
			return values, nil, err
		}
		if isInput {
			if err := bench.Copy(addresses[s], uintptr(inputs[s].Data), size); err != nil {
				return values, nil, err
			}
			continue
		}
		zero = append(zero, cudadrv.Work{Zero: addresses[s], Bytes: size})
	}
	for k := range p.Outputs {
		switch o := &p.Outputs[k]; {
		case o.Alias >= 0:
			addresses[n.Inputs+k] = addresses[o.Alias]
		case o.SameAs >= 0:
			addresses[n.Inputs+k] = addresses[n.Inputs+o.SameAs]
		}
	}
	values = cudadrv.CallValues{Inputs: addresses[:n.Inputs], Outputs: addresses[n.Inputs:][:n.Outputs], Workspaces: addresses[n.Inputs+n.Outputs:],
		Scalars: make([]uint64, p.Device.Scalars)}
	return values, zero, p.Evaluate(inputs, values.Scalars)
}

// soil returns what fills the second cache with what has to be written to memory.
func (p *Plan) soil(bench cudadrv.Bench, m *made) ([]cudadrv.Work, error) {
	bytes := max(4*m.of.properties.L2, 1<<24)
	at, err := bench.Memory(bytes)
	return []cudadrv.Work{{Zero: at, Bytes: bytes}}, err
}

// stageCalled returns the stage of a name that there is.
func stageCalled(name string) *Stage {
	return &stages[slices.IndexFunc(stages, func(s Stage) bool { return s.Name == name })]
}

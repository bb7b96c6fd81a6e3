package executor

import "encoding/json"

// A ShownMemory is what a run of a program allocates and gives back, for whoever
// counts how much there is at a time.
type ShownMemory struct {
	Inputs  []int64      `json:"inputs"`  // bytes of each
	Outputs int          `json:"outputs"` // how many there are
	Bytes   int64        `json:"bytes"`   // as of [DeviceProgram].PeakBytes
	Phases  []ShownPhase `json:"phases"`
}

// A ShownPhase is a [Phase].
type ShownPhase struct {
	Allocates []ShownSlot      `json:"allocates"`
	Launches  int              `json:"launches"`
	Call      *ShownPhasedCall `json:"call"` // null: none
	Releases  []Slot           `json:"releases"`
}

// A ShownSlot is memory that is allocated.
type ShownSlot struct {
	Slot  Slot  `json:"slot"`
	Bytes int64 `json:"bytes"`
}

// A ShownPhasedCall is a [TorchCall].
type ShownPhasedCall struct {
	Spec      json.RawMessage `json:"spec"` // a [CallSpec]
	Arguments []ShownArgument `json:"arguments"`
	Results   []ShownSlot     `json:"results"` // slot -1: nobody reads it
}

// A ShownArgument is a tensor in the memory of a slot, or a number where that is -1.
type ShownArgument struct {
	Slot    Slot    `json:"slot"`
	DType   string  `json:"dtype"` // as torch names it
	Sizes   []int64 `json:"sizes"`
	Strides []int64 `json:"strides"`
	Offset  int64   `json:"offset"` // in elements
}

// peakBytes returns DeviceProgram.PeakBytes.
func (p *Plan) peakBytes() int64 {
	bytes, now, most := p.slotBytes(), int64(0), int64(0)
	for _, x := range p.Device.Phases {
		for _, s := range x.Allocate {
			now += bytes[s]
		}
		if x.Call >= 0 {
			for _, r := range p.Device.Calls[x.Call].Results {
				if r.Slot >= 0 {
					now += bytes[r.Slot]
				}
			}
		}
		most = max(most, now)
		for _, s := range x.Release {
			now -= bytes[s]
		}
	}
	return most
}

// slotBytes returns the bytes of each slot.
func (p *Plan) slotBytes() []int64 {
	var all []int64
	for i := range p.inputs {
		x, n := &p.inputs[i], int64(0)
		if x.Tensor {
			n = (&OutputDescription{DType: x.DType, Sizes: x.Sizes, Strides: x.Strides}).NumBytes()
		}
		all = append(all, n)
	}
	for k := range p.Outputs {
		all = append(all, p.Outputs[k].NumBytes())
	}
	for i := range p.Device.Workspaces {
		all = append(all, p.Device.Workspaces[i].Bytes)
	}
	return all
}

// shownMemory returns what a run of the plan, which has a program, allocates and gives back.
func (p *Plan) shownMemory() *ShownMemory {
	bytes := p.slotBytes()
	m := &ShownMemory{Inputs: bytes[:len(p.inputs)], Outputs: len(p.Outputs), Bytes: p.Device.PeakBytes}
	shown := func(slots []Slot) []ShownSlot {
		all := []ShownSlot{}
		for _, s := range slots {
			x := ShownSlot{Slot: s}
			if s >= 0 {
				x.Bytes = bytes[s]
			}
			all = append(all, x)
		}
		return all
	}
	for _, x := range p.Device.Phases {
		phase := ShownPhase{Allocates: shown(x.Allocate), Launches: x.Launches, Releases: append([]Slot{}, x.Release...)}
		if x.Call >= 0 {
			c := &p.Device.Calls[x.Call]
			call := &ShownPhasedCall{Spec: json.RawMessage(c.Spec), Arguments: []ShownArgument{}}
			for _, a := range c.Arguments {
				call.Arguments = append(call.Arguments, ShownArgument{a.Slot, a.DType.Torch(), a.Sizes, a.Strides, a.Offset})
			}
			var results []Slot
			for _, r := range c.Results {
				results = append(results, r.Slot)
			}
			call.Results = shown(results)
			phase.Call = call
		}
		m.Phases = append(m.Phases, phase)
	}
	return m
}

// showMemory shows the memory of a plan as JSON.
func showMemory(x *Inspection, _ []string) (string, error) {
	text, err := json.Marshal(x.plan.shownMemory())
	return string(text) + "\n", err
}

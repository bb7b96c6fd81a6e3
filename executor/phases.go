package executor

import (
	"encoding/json"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A Slot is memory of a run, by the place of its address among the words of a call:
// inputs, outputs, workspaces ([Plan.Counts]).
type Slot int

// A Phase is what a run does without going back to torch but for memory: it
// allocates, launches, calls torch at most once, and gives memory back, in this
// order. All of it is ordered on one stream, so that memory may be given back as soon
// as the work that uses it was submitted.
type Phase struct {
	Allocate []Slot // outputs and workspaces that are no results of calls
	Launches int    // how many of the program's: those after the ones of phases before
	Call     int    // of the program's Calls; -1: none
	Release  []Slot // workspaces that nothing reads any more, also results of calls
}

// A Workspace is memory of a run that is no input and no output.
type Workspace struct {
	Bytes  int64
	Result bool // a call of torch makes it: it is not allocated

	// Zeroed: it must hold zeros when a launch that uses it begins, and does again when that
	// ends, so that it may be memory which launches before have used for
	// the same. Semaphore: it is that of barriers, of which the top bit may be set both times.
	Zeroed, Semaphore bool

	// What it is to torch. Where Tensor is false it is Bytes elements of a byte, in
	// which several tensors may lie.
	Tensor         bool
	DType          dtype.Type
	Sizes, Strides []int64
}

// A TorchCall computes one expression by torch.
type TorchCall struct {
	Name      string         // of the operation, as the user called it
	Spec      string         // what is called, as JSON: see CallSpec
	Arguments []CallArgument // in the order that the spec numbers them
	Results   []CallResult

	form callForm // of which Name and Spec say all
}

// A madeCall is what a call was made from.
type madeCall struct {
	f    *core.Fusion // the expression alone
	task *task        // of f
	from []callSource // by input of f
}

// A callSource is where an input of a call is.
type callSource struct {
	at  int   // the slot of a tensor; the input of the plan that a scalar is, -1 if it is the same in all calls
	add int64 // bytes, of a tensor
}

// name sets Name and Spec, when all else is there.
func (c *TorchCall) name() error {
	spec := c.form.spec(len(c.Arguments))
	for i := range c.Results {
		r := &c.Results[i]
		spec.Results = append(spec.Results, ResultSpec{r.DType.Torch(), r.Sizes, r.Strides, r.Slot >= 0})
	}
	text, err := json.Marshal(spec)
	c.Name, c.Spec = spec.Called, string(text)
	return err
}

// A CallArgument is a tensor, or a number of the words of a call.
type CallArgument struct {
	Slot Slot // -1: a number
	// Whole: the tensor is that of the slot, as it was allocated, or given as an input.
	// Else it is seen as below.
	Whole          bool
	DType          dtype.Type // of a number too
	Sizes, Strides []int64
	Offset         int64 // in elements

	Word int // of a number: the first of its words, by position among scalars
}

// A CallResult is where a result of a call goes. It is memory of its own, with these
// strides; the caller copies what torch returned if it is not.
type CallResult struct {
	Slot           Slot // an output, or a workspace that is a Result; -1: nobody reads it
	DType          dtype.Type
	Sizes, Strides []int64 // strides are 0 along dimensions of which all elements are equal
}

// onePhase returns the phase of a program without calls.
func (p *Plan) onePhase() Phase {
	phase, n := Phase{Call: -1}, p.Counts()
	if p.Device != nil {
		phase.Launches = len(p.Device.Launches)
	}
	for k := range p.Outputs {
		if p.Outputs[k].isOwn(n.Inputs) {
			phase.Allocate = append(phase.Allocate, Slot(n.Inputs+k))
		}
	}
	for i := range n.Workspaces {
		phase.Allocate = append(phase.Allocate, Slot(n.Inputs+n.Outputs+i))
	}
	return phase
}

// A CallSpec says what a call of torch is, in JSON, for whoever makes a callable of
// it. That takes the tensors and numbers of [TorchCall].Arguments, by position, and
// gives a tensor for each of Results, of its dtype, sizes and strides, which shares no
// memory with others.
type CallSpec struct {
	Called     string       `json:"called"`     // as the user called the operation, for messages
	Where      string       `json:"where"`      // the user's line
	Expression string       `json:"expression"` // of Python, over the names of parameters and torch, F, device, rows, attention and wanted (which results are kept)
	Parameters [][2]string  `json:"parameters"` // names and values, as Python: "_0" is argument 0, others are constants
	Arguments  int          `json:"arguments"`  // how many there are
	Own        bool         `json:"own"`        // torch allocates what it computes: no result is a view
	Results    []ResultSpec `json:"results"`
}

// A ResultSpec is what a result must be.
type ResultSpec struct {
	DType   string  `json:"dtype"` // as torch names it, such as "bfloat16"
	Sizes   []int64 `json:"sizes"`
	Strides []int64 `json:"strides"`
	Kept    bool    `json:"kept"` // false: None may stand for it
}

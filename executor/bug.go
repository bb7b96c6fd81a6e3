package executor

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"nvfuser_go/executor/cpu"
)

// A Bug is a mistake of this program, not of the user's.
type Bug struct {
	What       any    // what was panicked with
	Stack      []byte // of the goroutine that did
	Reproducer string // the definition and the inputs' shapes

	text string // what a compiler refused
}

func (b *Bug) Error() string { return fmt.Sprintf("internal error: %v", b.What) }

// guard calls f and makes a Bug of a panic in it or in its goroutines.
func (e *Executor) guard(inputs []Input, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Bug{What: v, Stack: debug.Stack()}
		}
		var p *cpu.Panic
		if errors.As(err, &p) {
			err = &Bug{What: p.Value, Stack: p.Stack}
		}
		if b, ok := err.(*Bug); ok {
			b.Reproducer = e.reproducer(inputs) + commented(b.text)
		}
	}()
	return f()
}

// commented returns text as lines that a reproducer does not read.
func commented(text string) string {
	if text == "" {
		return ""
	}
	return "# " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n# ") + "\n"
}

// reproducer is the text of the definition, the schedule if it was made by hand,
// and a line for each input.
func (e *Executor) reproducer(inputs []Input) string {
	var b strings.Builder
	b.WriteString(e.text)
	if e.byHand != nil {
		script, err := e.byHand.Reproducer(e.f)
		fmt.Fprintf(&b, "# scheduled by\n")
		if err != nil {
			fmt.Fprintf(&b, "#   (%v)\n", err)
		}
		for i := range script {
			fmt.Fprintf(&b, "#   %v\n", script[i].String())
		}
	}
	for i := range inputs {
		x := &inputs[i]
		if !x.Tensor {
			fmt.Fprintf(&b, "# input %d: %v %v %v %v\n", i, x.Scalar.Type, x.Scalar.I, x.Scalar.Re, x.Scalar.Im)
			continue
		}
		fmt.Fprintf(&b, "# input %d: %v sizes %v strides %v on %v\n", i, x.DType, x.Sizes, x.Strides, x.Device)
	}
	return b.String()
}

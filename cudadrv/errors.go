package cudadrv

import (
	"fmt"
	"strings"
)

// Unavailable means that a library is not there or cannot be loaded.
type Unavailable struct {
	Library string    // "the CUDA driver (libcuda)"
	Tried   []Attempt // in order
	Install string    // what to do, a sentence without its full stop
}

// An Attempt is one place where a library was looked for.
type Attempt struct{ Path, Problem string }

func (e *Unavailable) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s was not found; %s. Tried:", e.Library, e.Install)
	for _, a := range e.Tried {
		fmt.Fprintf(&b, "\n  %s: %s", a.Path, a.Problem)
	}
	return b.String()
}

// Unsupported means that the libraries or the device are there and too old, or
// too new, for what was asked.
type Unsupported struct{ What string }

func (e *Unsupported) Error() string { return e.What }

// A CompileError means that the compiler did not take a text that this program
// wrote, which is a mistake of this program.
type CompileError struct {
	Source string
	Flags  []string
	Log    string
}

func (e *CompileError) Error() string {
	return fmt.Sprintf("a generated kernel does not compile with %s:\n%s", strings.Join(e.Flags, " "), strings.TrimSpace(e.Log))
}

// Reproducer returns the text of a file that compiles to the same error.
func (e *CompileError) Reproducer() string {
	return "// " + strings.Join(e.Flags, " ") + "\n" + e.Source
}

// A CallError is a call of the driver or the compiler that failed.
type CallError struct {
	Call string // such as "cuModuleLoadData"
	Code int
	Name string // of the code: "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // what the library says of it
}

func (e *CallError) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

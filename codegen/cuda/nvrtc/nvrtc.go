// Package nvrtc compiles CUDA text with NVRTC, which needs no GPU, and tells
// what the compiler says of it. It is for tests: a Python program loads the
// library, so that no C is linked.
//
// Its central type is [Compiler].
package nvrtc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNone is the error where there is no Python or no NVRTC that it can load.
var ErrNone = errors.New("there is no NVRTC here, such as torch brings")

// A Compiler is where to find the Python program.
type Compiler struct {
	Python string // the interpreter
	Root   string // of the repository
	Cubins string // a folder for the machine code, named kernel0.cubin and so on; empty: not kept
}

// A Result is what is known of one text.
type Result struct {
	OK        bool                `json:"ok"`
	Log       string              `json:"log"` // errors and warnings
	Seconds   float64             `json:"seconds"`
	Functions map[string]Function `json:"functions"` // by name
}

// A Function is a kernel of a text: registers of a thread, and bytes.
type Function struct {
	Registers   int `json:"registers"`
	SpillStores int `json:"spill_stores"`
	SpillLoads  int `json:"spill_loads"`
	Stack       int `json:"stack"`
}

// Compile compiles texts for an architecture such as "sm_90a", with options of
// NVRTC in addition. An error is that of the program; that a text is not taken
// is in its result.
func (c Compiler) Compile(arch string, texts []string, options ...string) ([]Result, error) {
	folder, err := os.MkdirTemp("", "nvrtc")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	args := []string{filepath.Join(c.Root, "tools", "nvrtc_compile.py"), "--arch", arch}
	for _, o := range options {
		args = append(args, "--option="+o)
	}
	if c.Cubins != "" {
		args = append(args, "--cubin", c.Cubins)
	}
	for i, text := range texts {
		file := filepath.Join(folder, fmt.Sprintf("kernel%d.cu", i))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
		args = append(args, file)
	}
	return c.run(args, len(texts))
}

func (c Compiler) run(args []string, count int) ([]Result, error) {
	var out, problems bytes.Buffer
	command := exec.Command(c.Python, args...)
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	const none = 3 // its exit status without a library
	if command.ProcessState == nil || command.ProcessState.ExitCode() == none {
		return nil, fmt.Errorf("%w: %w\n%s", ErrNone, err, &problems)
	}
	var all []Result
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var r Result
		if err := decoder.Decode(&r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if len(all) != count {
		return nil, fmt.Errorf("%d of %d texts were compiled: %w\n%s", len(all), count, err, &problems)
	}
	return all, nil
}

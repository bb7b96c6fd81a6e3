package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/kir"
)

// findUnique gives each kernel a name, and subjects whose kernels have one text
// the same kernel.
func (c *corpus) findUnique() error {
	known, numbers := map[string]*uniqueKernel{}, map[*entry]int{}
	for _, x := range c.subjects {
		x.Kernel.Name = "kernel"
		s, err := cuda.Print(x.Kernel, cuda.Options{Arch: 90})
		if err != nil {
			return fmt.Errorf("%v: %w", x, err)
		}
		u := known[s.Text]
		if u == nil {
			name := regexp.MustCompile(`\W`).ReplaceAllString(x.entry.name, "_")
			u = &uniqueKernel{name: fmt.Sprintf("%s_%d", name, numbers[x.entry]), kernel: x.Kernel}
			numbers[x.entry]++
			known[s.Text], c.kernels = u, append(c.kernels, u)
		}
		x.Kernel.Name = u.name
		u.subjects, c.of[x] = append(u.subjects, x), u
	}
	return nil
}

func kernelsOf(list []*uniqueKernel) []*kir.Kernel {
	var all []*kir.Kernel
	for _, u := range list {
		all = append(all, u.kernel)
	}
	return all
}

// launch returns a launch of x and a function that compares its outputs.
func (c *corpus) launch(x *subject) (*hostshim.Launch, func() string, error) {
	l, err := x.Launch()
	if err != nil {
		return nil, nil, err
	}
	var arguments []hostshim.Argument
	for _, a := range l.Arguments {
		given := hostshim.Argument{Number: a.Number}
		if a.Memory != nil {
			given.Memory = a.Memory.Data
		}
		arguments = append(arguments, given)
	}
	made, err := hostshim.NewLaunch(x.Kernel, c.of[x].name, arguments...)
	return made, func() string { return x.differs(l.Results()) }, err
}

// run launches subjects by p, and says what is wrong with each that does not
// compute what it should.
func (c *corpus) run(p *hostshim.Program, subjects []*subject, reverse bool) error {
	var launches []*hostshim.Launch
	var compare []func() string
	for _, x := range subjects {
		l, check, err := c.launch(x)
		if err != nil {
			return fmt.Errorf("%v: %w", x, err)
		}
		l.Reverse = reverse
		launches, compare = append(launches, l), append(compare, check)
	}
	var problems []error
	if err := p.Run(launches...); err != nil {
		if len(subjects) == 1 {
			return fmt.Errorf("%v: %w\n%v", subjects[0], err, subjects[0].Kernel)
		}
		for i := range subjects { // which one?
			problems = append(problems, c.run(p, subjects[i:i+1], reverse))
		}
		return errors.Join(problems...)
	}
	for i, check := range compare {
		if text := check(); text != "" {
			problems = append(problems, fmt.Errorf("%v: %s\n%v", subjects[i], text, subjects[i].Kernel))
		}
	}
	return errors.Join(problems...)
}

// runOnHost compiles the kernels for the CPU, in parts, and runs them in two
// orders of threads.
func (c *corpus) runOnHost(t *testing.T) {
	parts := runtime.GOMAXPROCS(0)
	inParallel(parts, func(part int) {
		var mine []*uniqueKernel
		var subjects []*subject
		for i, u := range c.kernels {
			if i%parts == part {
				mine, subjects = append(mine, u), append(subjects, u.subjects...)
			}
		}
		if len(mine) == 0 {
			return
		}
		s, err := cuda.PrintAll(kernelsOf(mine), cuda.Options{Arch: 90})
		if err != nil {
			t.Error(err)
			return
		}
		p, err := hostshim.Build(t.TempDir(), s)
		if err != nil {
			t.Error(err)
			return
		}
		for _, reverse := range []bool{false, true} {
			if err := c.run(p, subjects, reverse); err != nil {
				t.Error(err)
			}
		}
	})
}

// compiler is NVRTC as the Python of the project loads it, or the one that
// PYTHON names.
func compiler() nvrtc.Compiler {
	python := os.Getenv("PYTHON")
	if python == "" {
		python = filepath.Join(root, ".venv", "bin", "python")
	}
	return nvrtc.Compiler{Python: python, Root: root}
}

// compile compiles each kernel alone for each architecture: none may take
// memory for registers, or for arrays, but where its entry says so.
func (c *corpus) compile(t *testing.T) {
	var group sync.WaitGroup
	for i, arch := range architectures {
		group.Go(func() {
			var texts []string
			for _, u := range c.kernels {
				s, err := cuda.Print(u.kernel, cuda.Options{Arch: arch.sm})
				if err != nil {
					t.Error(err)
					return
				}
				texts = append(texts, s.Text)
			}
			// 550: a variable is set and not used, such as a count of Welford's.
			results, err := compiler().Compile(arch.name, texts, "--diag-suppress=550")
			if errors.Is(err, nvrtc.ErrNone) && os.Getenv("CI") == "" {
				t.Logf("not compiled: %v", err)
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			for k, r := range results {
				c.kernels[k].compiled[i] = r
				if text := complaint(c.kernels[k], r); text != "" {
					t.Errorf("%s for %s: %s", c.kernels[k].name, arch.name, text)
				}
			}
		})
	}
	group.Wait()
}

var architectures = [...]struct {
	name string
	sm   int
}{{"sm_80", 80}, {"sm_90a", 90}}

// complaint says what is wrong with a compiled kernel.
func complaint(u *uniqueKernel, r nvrtc.Result) string {
	f, ok := r.Functions[u.name]
	switch {
	case !r.OK || r.Log != "":
		return r.Log
	case !ok:
		return "ptxas does not say what it needs"
	case f.SpillStores+f.SpillLoads > 0 && !u.expects("spills"):
		return fmt.Sprintf("%d bytes spilled and %d read again", f.SpillStores, f.SpillLoads)
	case f.Stack > 0 && !u.expects("stack") && !u.expects("spills"):
		return fmt.Sprintf("%d bytes of stack", f.Stack)
	}
	return ""
}

func (u *uniqueKernel) expects(word string) bool {
	return slices.Contains(u.subjects[0].entry.expect, word)
}

// runOnGPU compiles the kernels into one file of machine code and runs them by
// one process of Python.
func (c *corpus) runOnGPU(t *testing.T) {
	folder := t.TempDir()
	if *sanitize != "" {
		folder = *sanitize
		require.NoError(t, os.MkdirAll(folder, 0o755))
	}
	s, err := cuda.PrintAll(kernelsOf(c.kernels), cuda.Options{Arch: 90})
	require.NoError(t, err)
	with := compiler()
	with.Cubins = folder
	results, err := with.Compile("sm_90a", []string{s.Text})
	require.NoError(t, err)
	require.True(t, results[0].OK, results[0].Log)
	command := []string{with.Python, filepath.Join(root, "tools", "cuda_run.py"), filepath.Join(folder, "kernel0.cubin")}
	if *sanitize != "" {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "kernels.cu"), []byte(s.Text), 0o644))
		c.writeSanitizer(t, folder, command)
	}
	if err := c.run(hostshim.Command(command...), c.subjects, false); err != nil {
		t.Error(err)
	}
}

// writeSanitizer writes the launches of the corpus, and a script that runs them
// under compute-sanitizer.
func (c *corpus) writeSanitizer(t *testing.T, folder string, command []string) {
	file, err := os.Create(filepath.Join(folder, "launches"))
	require.NoError(t, err)
	defer file.Close()
	for _, x := range c.subjects {
		l, _, err := c.launch(x)
		require.NoError(t, err)
		_, err = l.WriteTo(file)
		require.NoError(t, err)
	}
	absolute := make([]string, len(command))
	for i, word := range command {
		if absolute[i] = word; strings.Contains(word, "/") {
			absolute[i], err = filepath.Abs(word)
			require.NoError(t, err)
		}
	}
	text := "#!/bin/sh\n# Runs the corpus under compute-sanitizer; what it says is in *.log.\nset -e\ncd \"$(dirname \"$0\")\"\n"
	for _, tool := range []string{"memcheck", "racecheck", "synccheck", "initcheck"} {
		text += fmt.Sprintf("compute-sanitizer --tool %[1]s --log-file %[1]s.log --error-exitcode 1 %s <launches >/dev/null\n", tool, strings.Join(absolute, " "))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "commands.sh"), []byte(text), 0o755))
}

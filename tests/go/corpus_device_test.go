package tests

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/cuda"
	"nvfuser_go/codegen/cuda/hostshim"
	"nvfuser_go/codegen/cuda/nvrtc"
	"nvfuser_go/codegen/kir"
	"nvfuser_go/cudadrv"
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

// A launch is one run of the kernel of a subject.
type launch struct {
	*hostshim.Launch
	undefined []bool // by buffer: whether it holds nothing yet
	gathered  []bool // by buffer: whether what is between its elements is read with them
	zeroed    []zeroed
	check     func() string // looks at the outputs, and at what is zeroed, afterwards
}

// zeroed is memory that is zero before and after, or of a semaphore all but the top bits of
// its words.
type zeroed struct {
	memory    []byte
	semaphore bool
}

// begin has semaphores be as a launch before may have left them: with the top bit set, or not.
func (l *launch) begin(set bool) {
	for _, z := range l.zeroed {
		for i := 7; z.semaphore && set && i < len(z.memory); i += 8 {
			z.memory[i] = 0x80
		}
	}
}

// left says what is not zero afterwards, or is "".
func (l *launch) left() string {
	for _, z := range l.zeroed {
		for i, x := range z.memory {
			if z.semaphore && i%8 == 7 {
				x &= 0x7f
			}
			if x != 0 {
				return fmt.Sprintf("byte %d of memory that is zeroed holds %#x afterwards", i, x)
			}
		}
	}
	return ""
}

// launch returns a launch of x, whose kernel is printed under that name.
func (x *subject) launch(name string) (*launch, error) {
	l, err := x.Launch()
	if err != nil {
		return nil, err
	}
	made := &launch{}
	made.check = func() string { return cmp.Or(x.differs(l.Results()), made.left()) }
	var arguments []hostshim.Argument
	for i, a := range l.Arguments {
		given := hostshim.Argument{Number: a.Number}
		if a.Memory != nil {
			given.Memory = a.Memory.Data
			made.undefined = append(made.undefined, a.Memory.Undefined)
			b := x.Kernel.Arguments[i].Buffer
			made.gathered = append(made.gathered, isGathered(x.Kernel, b))
			if x.Kernel.Buffers[b].Zeroed {
				made.zeroed = append(made.zeroed, zeroed{given.Memory, x.Kernel.IsSemaphore(b)})
			}
		}
		arguments = append(arguments, given)
	}
	made.Launch, err = hostshim.NewLaunch(x.Kernel, name, arguments...)
	return made, err
}

func isGathered(k *kir.Kernel, id kir.BufferID) (is bool) {
	k.Body.Walk(func(s kir.Statement) {
		m, isMove := s.(kir.Move)
		is = is || isMove && m.Src.Buffer == id && m.Src.Step > 1
	})
	return is
}

// run launches subjects by p, and says what is wrong with each that does not
// compute what it should.
func (c *corpus) run(p *hostshim.Program, subjects []*subject, reverse bool) error {
	var launches []*hostshim.Launch
	var compare []func() string
	for _, x := range subjects {
		l, err := x.launch(c.of[x].name)
		if err != nil {
			return fmt.Errorf("%v: %w", x, err)
		}
		l.Reverse = reverse
		l.begin(reverse)
		launches, compare = append(launches, l.Launch), append(compare, l.check)
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
			var kernels []*uniqueKernel
			for _, u := range c.kernels {
				if u.kernel.Launch.Cluster[0] > 1 && arch.sm < 90 {
					continue // it has no clusters
				}
				kernels = append(kernels, u)
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
				kernels[k].compiled[i] = r
				if text := complaint(kernels[k], r); text != "" {
					t.Errorf("%s for %s: %s", kernels[k].name, arch.name, text)
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

// load compiles the kernels for the device, on all processors, and loads them.
func (c *corpus) load(g *gpu) (map[*uniqueKernel]cudadrv.Function, error) {
	functions, problems := make([]cudadrv.Function, len(c.kernels)), make([]error, len(c.kernels))
	inParallel(len(c.kernels), func(i int) { functions[i], problems[i] = c.kernels[i].load(g) })
	loaded := map[*uniqueKernel]cudadrv.Function{}
	for i, u := range c.kernels {
		loaded[u] = functions[i]
	}
	return loaded, errors.Join(problems...)
}

func (u *uniqueKernel) load(g *gpu) (f cudadrv.Function, err error) {
	s, err := cuda.Print(u.kernel, cuda.Options{Arch: g.properties.Major*10 + g.properties.Minor})
	if err != nil {
		return f, err
	}
	code, err := g.driver.Compile(s.Text, cudadrv.CompileOptions{Arch: g.properties.Arch()})
	if err != nil {
		return f, err
	}
	shared, threads := int64(0), int64(0)
	for _, x := range u.subjects {
		l, err := x.launch(u.name)
		if err != nil {
			return f, err
		}
		shared, threads = max(shared, l.Shared), max(threads, l.Block[0]*l.Block[1]*l.Block[2])
	}
	o := cudadrv.LoadOptions{DynamicShared: int(shared)}
	if blocks := u.kernel.Launch.Cluster[0]; blocks > cudadrv.PortableCluster {
		o.Cluster = cudadrv.LargeCluster{Blocks: int(blocks), Threads: int(threads), Shared: int(shared)}
	}
	return g.driver.Load(0, code.Cubin, u.name, o)
}

// runOnGPU runs every subject by the driver that the product has, up to the
// first after which the device does no more.
func (c *corpus) runOnGPU(t *testing.T) {
	g := newGPU(t)
	functions, err := c.load(g)
	require.NoError(t, err)
	for i, x := range c.subjects {
		if *every > 1 && i%*every != 0 {
			continue
		}
		l, err := x.launch(c.of[x].name)
		require.NoError(t, err)
		l.begin(i%2 > 0)
		err = g.run(functions[c.of[x]], l.Launch, l.undefined, l.gathered)
		if lost(err) {
			t.Fatalf("%v: %v; subjects from number %d on were not run\n%v", x, err, i, x.Kernel)
		}
		if err != nil {
			t.Errorf("%v: %v\n%v", x, err, x.Kernel)
		} else if text := l.check(); text != "" {
			t.Errorf("%v: %s\n%v", x, text, x.Kernel)
		}
	}
}

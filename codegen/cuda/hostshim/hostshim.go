// Package hostshim runs the text that package cuda prints on a CPU: a C++
// compiler of the host takes it behind a header that stands for CUDA.
//
// Its central type is [Program]. Invariants: the text is compiled as NVRTC gets
// it, but for what is between "#ifdef __CUDA_ARCH__" and "#else"; threads run
// one at a time, in an order that the [Launch] chooses, until they wait for each
// other; a write beyond a buffer, a barrier that some threads do not reach, and
// what C++ leaves undefined end the program with an error.
//
// It does not find races or reads of undefined memory: the simulator does. It
// is for tests, on Linux and x86-64.
package hostshim

import (
	"bytes"
	"embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"nvfuser_go/codegen/cuda"
)

//go:embed *.h
var headers embed.FS

// A Program is compiled kernels.
type Program struct{ command []string }

// Command returns the program of another command that reads launches and writes
// buffers as those do that Build makes, such as one that has a GPU.
func Command(command ...string) *Program { return &Program{command} }

// A Launch is one run of a kernel.
type Launch struct {
	Kernel      string // name of its function
	Grid, Block [3]int64
	Cluster     [3]int64 // zeros count as ones
	Shared      int64    // bytes of a block
	Cooperative bool     // all blocks run together
	Reverse     bool     // the last blocks and threads run first
	Parameters  []byte   // laid out by cuda.Layout
	Buffers     []Buffer // which Run updates
}

// A Buffer is memory of the device; it begins at a multiple of 256 bytes. Two
// buffers whose Bytes begin at one address are the same memory.
type Buffer struct {
	Parameter int // where its address is in Parameters
	Bytes     []byte
}

// Build compiles a text into a program in the folder dir, with the command c++.
func Build(dir string, s cuda.Source) (*Program, error) {
	for _, name := range []string{"cuda_on_host.h", "run.h"} {
		text, err := headers.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	file, program := filepath.Join(dir, "kernels.cpp"), filepath.Join(dir, "kernels")
	if err := os.WriteFile(file, []byte(whole(s)), 0o644); err != nil {
		return nil, err
	}
	command := exec.Command("c++", "-std=c++17", "-O1", "-fno-strict-aliasing", "-ffp-contract=off",
		"-fsanitize=undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all",
		"-w", file, "-o", program)
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the host's compiler does not take the kernels: %w\n%s", err, out)
	}
	return Command(program), nil
}

// whole returns the kernels between the headers.
func whole(s cuda.Source) string {
	var b strings.Builder
	b.WriteString("#include \"cuda_on_host.h\"\n\n" + s.Text + "#include \"run.h\"\n\n")
	for _, k := range s.Kernels {
		call := k.Name + "()"
		if k.Parameters != "" {
			call = fmt.Sprintf("%s(*(const %s*)p)", k.Name, k.Parameters)
		}
		fmt.Fprintf(&b, "static host::Register register_%s(\"%s\", [](void* p) { (void)p; %s; });\n", k.Name, k.Name, call)
	}
	return b.String()
}

// Run runs launches one after the other and updates their buffers.
func (p *Program) Run(launches ...*Launch) error {
	var in, out, problems bytes.Buffer
	for _, l := range launches {
		l.write(&in)
	}
	command := exec.Command(p.command[0], p.command[1:]...)
	command.Stdin, command.Stdout, command.Stderr = &in, &out, &problems
	if err := command.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(problems.String()))
	}
	for _, l := range launches {
		for i := range l.Buffers {
			if l.First(i) == i {
				copy(l.Buffers[i].Bytes, out.Next(len(l.Buffers[i].Bytes)))
			}
		}
	}
	return nil
}

// First returns the first buffer that is the same memory as buffer i.
func (l *Launch) First(i int) int {
	return slices.IndexFunc(l.Buffers, func(b Buffer) bool {
		return unsafe.SliceData(b.Bytes) == unsafe.SliceData(l.Buffers[i].Bytes)
	})
}

func (l *Launch) write(b *bytes.Buffer) {
	number := func(values ...int64) {
		for _, x := range values {
			var word [4]byte
			binary.LittleEndian.PutUint32(word[:], uint32(x))
			b.Write(word[:])
		}
	}
	flag := func(set bool) {
		if set {
			number(1)
		} else {
			number(0)
		}
	}
	number(int64(len(l.Kernel)))
	b.WriteString(l.Kernel)
	number(l.Grid[:]...)
	number(l.Block[:]...)
	for _, n := range l.Cluster {
		number(max(n, 1))
	}
	number(l.Shared)
	flag(l.Cooperative)
	flag(l.Reverse)
	number(int64(len(l.Parameters)))
	b.Write(l.Parameters)
	number(int64(len(l.Buffers)))
	for i, buffer := range l.Buffers {
		first := l.First(i)
		number(int64(buffer.Parameter), int64(first))
		if first == i {
			number(int64(len(buffer.Bytes)), int64(len(buffer.Bytes))>>32)
			b.Write(buffer.Bytes)
		}
	}
}

package executor

import (
	"crypto/sha256"
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
	"nvfuser_go/cudadrv"
	"nvfuser_go/executor/planfile"
)

// encode returns the program as data, without what is loaded on a device. of is the
// definition.
func (d *DeviceProgram) encode(of *core.Fusion) []byte {
	b := flatbuffers.NewBuilder(1024)
	launches := offsets(b, planfile.PlanStartLaunchesVector, d.Launches, func(i int) flatbuffers.UOffsetT {
		return encodeLaunch(b, &d.Launches[i], &d.functions[i])
	})
	programs := offsets(b, planfile.PlanStartProgramsVector, d.words.programs, func(i int) flatbuffers.UOffsetT {
		return encodeProgram(b, &d.words.programs[i])
	})
	workspaces := offsets(b, planfile.PlanStartWorkspacesVector, d.Workspaces, func(i int) flatbuffers.UOffsetT {
		return encodeWorkspace(b, &d.Workspaces[i])
	})
	phases := offsets(b, planfile.PlanStartPhasesVector, d.Phases, func(i int) flatbuffers.UOffsetT {
		return encodePhase(b, &d.Phases[i])
	})
	var places map[core.Location]int
	if len(d.Calls) > 0 {
		places = placesOf(of)
	}
	calls := offsets(b, planfile.PlanStartCallsVector, d.Calls, func(i int) flatbuffers.UOffsetT {
		return encodeCall(b, &d.Calls[i], places)
	})
	words := elements(b, planfile.PlanStartWordsVector, d.words.list, func(w hostWord) {
		planfile.CreateWord(b, int32(w.input), byte(w.to), byte(w.at))
	})
	planfile.PlanStart(b)
	planfile.PlanAddLaunches(b, launches)
	planfile.PlanAddWorkspaces(b, workspaces)
	planfile.PlanAddWords(b, words)
	planfile.PlanAddPrograms(b, programs)
	planfile.PlanAddPhases(b, phases)
	planfile.PlanAddCalls(b, calls)
	planfile.FinishPlanBuffer(b, planfile.PlanEnd(b))
	return b.FinishedBytes()
}

func encodeLaunch(b *flatbuffers.Builder, l *cudadrv.LaunchBlock, f *functionKey) flatbuffers.UOffsetT {
	text, name, arguments := b.CreateByteVector(f.text[:]), b.CreateString(f.name), b.CreateByteVector(l.Arguments)
	patches := elements(b, planfile.LaunchStartPatchesVector, l.Patches, func(p cudadrv.Patch) {
		planfile.CreatePatch(b, uint32(p.Offset), uint32(p.Size), uint32(p.Value), uint32(p.Index), p.Add)
	})
	planfile.LaunchStart(b)
	planfile.LaunchAddText(b, text)
	planfile.LaunchAddName(b, name)
	planfile.LaunchAddRegisters(b, uint32(f.registers))
	planfile.LaunchAddGrid(b, planfile.CreateSize(b, l.Grid[0], l.Grid[1], l.Grid[2]))
	planfile.LaunchAddBlock(b, planfile.CreateSize(b, l.Block[0], l.Block[1], l.Block[2]))
	planfile.LaunchAddCluster(b, planfile.CreateSize(b, l.Cluster[0], l.Cluster[1], l.Cluster[2]))
	planfile.LaunchAddShared(b, l.Shared)
	planfile.LaunchAddCooperative(b, l.Cooperative)
	planfile.LaunchAddArguments(b, arguments)
	planfile.LaunchAddPatches(b, patches)
	planfile.LaunchAddEarly(b, l.Early)
	return planfile.LaunchEnd(b)
}

func encodeProgram(b *flatbuffers.Builder, p *hostProgram) flatbuffers.UOffsetT {
	d := p.program.Data()
	code := offsets(b, planfile.ProgramStartCodeVector, d.Code, func(i int) flatbuffers.UOffsetT {
		x := &d.Code[i]
		operands := numbers(b, planfile.InstructionStartOperandsVector, x.Operands)
		planfile.InstructionStart(b)
		planfile.InstructionAddOp(b, uint16(x.Op))
		planfile.InstructionAddSource(b, byte(x.From))
		planfile.InstructionAddValue(b, planfile.CreateNumber(b, x.Value.I, x.Value.Re, x.Value.Im, byte(x.Value.Type)))
		planfile.InstructionAddOperands(b, operands)
		return planfile.InstructionEnd(b)
	})
	words := numbers(b, planfile.ProgramStartWordsVector, p.words)
	results := numbers(b, planfile.ProgramStartResultsVector, d.Results)
	planfile.ProgramStartSymbolsVector(b, len(p.symbols))
	for i := len(p.symbols) - 1; i >= 0; i-- {
		s, from := &d.Symbols[i], &p.symbols[i]
		planfile.CreateSymbol(b, byte(s.Type), s.Facts.Lo, s.Facts.Hi, s.Facts.Divisor, int32(from.input), byte(from.dt),
			from.value.I, from.value.Re, from.value.Im, byte(from.value.Type))
	}
	symbols := b.EndVector(len(p.symbols))
	planfile.ProgramStart(b)
	planfile.ProgramAddWords(b, words)
	planfile.ProgramAddSymbols(b, symbols)
	planfile.ProgramAddCode(b, code)
	planfile.ProgramAddResults(b, results)
	return planfile.ProgramEnd(b)
}

// A startVector begins a vector of n elements, which are written from the last on.
type startVector func(b *flatbuffers.Builder, n int) flatbuffers.UOffsetT

// elements writes a vector of structures.
func elements[T any](b *flatbuffers.Builder, start startVector, list []T, write func(T)) flatbuffers.UOffsetT {
	start(b, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		write(list[i])
	}
	return b.EndVector(len(list))
}

// numbers writes a vector of 32-bit integers.
func numbers[T ~int | int32](b *flatbuffers.Builder, start startVector, list []T) flatbuffers.UOffsetT {
	return elements(b, start, list, func(n T) { b.PrependInt32(int32(n)) })
}

// offsets writes a vector of tables, which write has written before.
func offsets[T any](b *flatbuffers.Builder, start startVector, list []T, write func(i int) flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	at := make([]flatbuffers.UOffsetT, len(list))
	for i := range list {
		at[i] = write(i)
	}
	return elements(b, start, at, func(x flatbuffers.UOffsetT) { b.PrependUOffsetT(x) })
}

// A keptText is which text a function is compiled from, and how.
type keptText struct {
	sum       [sha256.Size]byte
	registers int
}

// decode returns the program for a device that encode wrote, and what its
// functions, which but for the name are missing, are compiled from. What is in it
// may be anything, but programs of words can be run, and calls have a text.
//
// Errors: one that says what is wrong with the bytes.
func decode(file []byte, of *core.Fusion, device int) (d *DeviceProgram, texts []keptText, err error) {
	defer func() {
		if v := recover(); v != nil { // an offset leads out of the file
			err = fmt.Errorf("no plan: %v", v)
		}
	}()
	if len(file) < 8 || !planfile.PlanBufferHasIdentifier(file) {
		return nil, nil, errors.New("no plan: it has another name")
	}
	r := &reader{of, len(file)}
	p := planfile.GetRootAsPlan(file, 0)
	d = &DeviceProgram{Device: device}
	for i := range r.count(p.LaunchesLength()) {
		var x planfile.Launch
		p.Launches(&x, i)
		l, text := r.launch(&x)
		d.Launches, texts = append(d.Launches, l), append(texts, text)
	}
	d.Workspaces = tables(r, p.Workspaces, p.WorkspacesLength(), r.workspace)
	d.Phases = tables(r, p.Phases, p.PhasesLength(), r.phase)
	d.Calls = tables(r, p.Calls, p.CallsLength(), r.call)
	d.words.list = tables(r, p.Words, p.WordsLength(), func(w *planfile.Word) hostWord {
		return hostWord{int(w.Input()), dtype.Type(w.Dtype()), int(w.At())}
	})
	d.words.programs = tables(r, p.Programs, p.ProgramsLength(), r.words)
	return d, texts, nil
}

// A reader reads the elements of a file. It panics where they are none of what encode writes.
type reader struct {
	of   *core.Fusion // the definition
	left int          // bytes of the file that can hold what is still to come
}

// count returns n, the number of elements of a vector: each takes 4 bytes at least, and
// none is in two vectors. So the time and memory that a file takes are bound by its size.
func (r *reader) count(n int) int {
	r.take(4 * n)
	return n
}

func (r *reader) text(b []byte) string {
	r.take(len(b))
	return string(b)
}

func (r *reader) take(bytes int) {
	if r.left -= bytes; r.left < 0 {
		panic("the file is too small for its elements")
	}
}

// tables reads n tables or structures.
func tables[X, T any](r *reader, at func(x *X, i int) bool, n int, read func(x *X) T) (list []T) {
	for i := range r.count(n) {
		var x X
		at(&x, i)
		list = append(list, read(&x))
	}
	return list
}

// readNumbers reads n 32-bit integers.
func readNumbers[T ~int | ~int32](r *reader, at func(int) int32, n int) (list []T) {
	for i := range r.count(n) {
		list = append(list, T(at(i)))
	}
	return list
}

func (r *reader) launch(x *planfile.Launch) (cudadrv.LaunchBlock, keptText) {
	size := func(s *planfile.Size) [3]uint32 { return [3]uint32{s.X(), s.Y(), s.Z()} }
	l := cudadrv.LaunchBlock{Function: cudadrv.Function{Name: r.text(x.Name())}, Grid: size(x.Grid(nil)), Block: size(x.Block(nil)), Cluster: size(x.Cluster(nil)),
		Shared: x.Shared(), Cooperative: x.Cooperative(), Early: x.Early(), Arguments: x.ArgumentsBytes()}
	l.Patches = tables(r, x.Patches, x.PatchesLength(), func(p *planfile.Patch) cudadrv.Patch {
		return cudadrv.Patch{Offset: int(p.Offset()), Size: int(p.Size()), Value: cudadrv.ValueKind(min(p.Value(), 255)), Index: int(p.Index()), Add: p.Add()}
	})
	return l, keptText{[sha256.Size]byte(x.TextBytes()), int(x.Registers())}
}

func (r *reader) words(x *planfile.Program) hostProgram {
	var d scalar.ProgramData
	symbols := tables(r, x.Symbols, x.SymbolsLength(), func(s *planfile.Symbol) symbolSource {
		d.Symbols = append(d.Symbols, scalar.ProgramSymbol{Type: dtype.Type(s.Declared()), Facts: scalar.Facts{Lo: s.Lo(), Hi: s.Hi(), Divisor: s.Divisor()}})
		return symbolSource{int(s.Input()), dtype.Type(s.Given()), number(s.Value(nil))}
	})
	d.Code = tables(r, x.Code, x.CodeLength(), func(c *planfile.Instruction) scalar.Instruction {
		return scalar.Instruction{Op: scalar.Op(c.Op()), From: dtype.Type(c.Source()), Value: number(c.Value(nil)),
			Operands: readNumbers[int32](r, c.Operands, c.OperandsLength())}
	})
	d.Results = readNumbers[int32](r, x.Results, x.ResultsLength())
	words := readNumbers[int](r, x.Words, x.WordsLength())
	program, err := scalar.NewProgram(d)
	if err == nil && len(words) != len(d.Results) {
		err = fmt.Errorf("%d results for %d words", len(d.Results), len(words))
	}
	if err != nil {
		panic(err)
	}
	return newHostProgram(words, program, symbols)
}

func number(n *planfile.Number) scalar.Value {
	return scalar.Value{Type: dtype.Type(n.Dtype()), I: n.I(), Re: n.Re(), Im: n.Im()}
}

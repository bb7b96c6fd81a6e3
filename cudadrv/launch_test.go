package cudadrv_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
)

func block() *cudadrv.LaunchBlock {
	return &cudadrv.LaunchBlock{
		Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1},
		Arguments: bytes.Repeat([]byte{0xAA}, 48),
		Patches: []cudadrv.Patch{{0, 8, cudadrv.InputPointer, 1, 0}, {8, 8, cudadrv.OutputPointer, 0, 0}, {16, 8, cudadrv.WorkspacePointer, 0, 0x1FE},
			{24, 8, cudadrv.RandomSeed, 0, 0}, {32, 1, cudadrv.ScalarWord, 0, 0}, {36, 4, cudadrv.ScalarWord, 1, 0}, {40, 8, cudadrv.RandomOffset, 0, 8}},
	}
}

func TestFill(t *testing.T) {
	l := block()
	require.NoError(t, l.Check())
	into := make([]byte, 48)
	v := cudadrv.CallValues{Inputs: []uintptr{1, 0x1122334455667788}, Outputs: []uintptr{2}, Workspaces: []uintptr{3}, Seed: 4, Offset: 5,
		Scalars: []uint64{0x1122, 0x1122334455667788}}
	require.NoError(t, l.Fill(into, v))
	require.Equal(t, []byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
		0x22, 0xAA, 0xAA, 0xAA, 0x88, 0x77, 0x66, 0x55, 13, 0, 0, 0, 0, 0, 0, 0}, into)
	require.Equal(t, bytes.Repeat([]byte{0xAA}, 48), l.Arguments, "the block does not change")

	v.Inputs = v.Inputs[:1]
	require.ErrorContains(t, l.Fill(into, v), "wants input 1, and the call brings 1")
	require.ErrorContains(t, l.Fill(into[1:], v), "47 bytes for parameters of 48")
}

// TestFillHalves: the lower half of a seed is written over what one patch has made of
// both, as nothing is carried from it.
func TestFillHalves(t *testing.T) {
	l := block()
	l.Arguments, l.Patches = make([]byte, 16), []cudadrv.Patch{{0, 8, cudadrv.RandomSeed, 0, 0},
		{8, 8, cudadrv.RandomSeed, 0, 5 << 32}, {8, 4, cudadrv.RandomSeed, 0, 7}}
	require.NoError(t, l.Check())
	into := make([]byte, 16)
	require.NoError(t, l.Fill(into, cudadrv.CallValues{Seed: 0xFFFFFFFE_FFFFFFFD}))
	require.Equal(t, []byte{0xFD, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0xFF, 0xFF, 4, 0, 0, 0, 3, 0, 0, 0}, into)
	for name, patch := range map[string]cudadrv.Patch{
		"upper half":    {12, 4, cudadrv.RandomSeed, 0, 7},
		"another value": {8, 4, cudadrv.ScalarWord, 0, 0},
		"all of it":     {8, 8, cudadrv.RandomSeed, 0, 7},
		"twice":         {8, 4, cudadrv.RandomSeed, 0, 7},
		"an address":    {8, 4, cudadrv.InputPointer, 0, 7},
	} {
		broken := *l
		broken.Patches = append([]cudadrv.Patch(nil), l.Patches...)
		if name == "twice" {
			broken.Patches = append(broken.Patches, patch)
		} else {
			broken.Patches[2] = patch
		}
		require.Error(t, broken.Check(), name)
	}
}

func TestCheck(t *testing.T) {
	for name, broken := range map[string]func(l *cudadrv.LaunchBlock){
		"outside":    func(l *cudadrv.LaunchBlock) { l.Arguments = l.Arguments[:47] },
		"misaligned": func(l *cudadrv.LaunchBlock) { l.Patches[6].Offset = 44 },
		"order":      func(l *cudadrv.LaunchBlock) { l.Patches[1].Offset = 0 },
		"negative":   func(l *cudadrv.LaunchBlock) { l.Patches[0].Offset = -8 },
		"kind":       func(l *cudadrv.LaunchBlock) { l.Patches[0].Value = 6 },
		"narrow":     func(l *cudadrv.LaunchBlock) { l.Patches[0].Size = 4 },
		"bytes":      func(l *cudadrv.LaunchBlock) { l.Patches[4].Size = 3 },
		"overlap":    func(l *cudadrv.LaunchBlock) { l.Patches[5].Size = 8 },
		"added":      func(l *cudadrv.LaunchBlock) { l.Patches[4].Add = 1 },
		"half":       func(l *cudadrv.LaunchBlock) { l.Patches[3].Size = 4 },
		"index":      func(l *cudadrv.LaunchBlock) { l.Patches[0].Index = -1 },
		"size":       func(l *cudadrv.LaunchBlock) { l.Arguments = make([]byte, cudadrv.MaxArguments+1) },
		"grid":       func(l *cudadrv.LaunchBlock) { l.Grid[1] = 0 },
		"block":      func(l *cudadrv.LaunchBlock) { l.Block[2] = 0 },
	} {
		l := block()
		broken(l)
		require.Error(t, l.Check(), name)
	}
}

func TestFlags(t *testing.T) {
	require.Equal(t, "sm_80", cudadrv.Arch(8, 0))
	require.Equal(t, "sm_90a", cudadrv.Arch(9, 0))
	require.Equal(t, "sm_120a", cudadrv.Arch(12, 0))
	require.Equal(t, []string{"--gpu-architecture=sm_90a", "--std=c++17", "--device-as-default-execution-space", "--fmad=false",
		"--ptxas-options=-v", "--generate-line-info", "--maxrregcount=64"},
		cudadrv.CompileOptions{Arch: "sm_90a", DisableFMA: true, LineInfo: true, MaxRegisters: 64}.Flags())
}

func TestErrors(t *testing.T) {
	require.EqualError(t, &cudadrv.Unavailable{Library: "libx", Install: "install x", Tried: []cudadrv.Attempt{{"/a", "no such file"}, {"libx.so", "not there"}}},
		"libx was not found; install x. Tried:\n  /a: no such file\n  libx.so: not there")
	e := &cudadrv.CompileError{Source: "kernel", Flags: []string{"-a", "-b"}, Log: "line 1: error\n"}
	require.EqualError(t, e, "a generated kernel does not compile with -a -b:\nline 1: error")
	require.Equal(t, "// -a -b\nkernel", e.Reproducer())
	require.EqualError(t, &cudadrv.CallError{Call: "cuInit", Code: 100, Name: "CUDA_ERROR_NO_DEVICE", Text: "no device"}, "cuInit: CUDA_ERROR_NO_DEVICE (100): no device")
}

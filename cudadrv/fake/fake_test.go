package fake

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
)

func TestDriver(t *testing.T) {
	d := &Driver{Present: []cudadrv.Properties{H100}}
	n, err := d.Devices()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	p, err := d.Properties(0)
	require.NoError(t, err)
	c, err := d.Compile("kernel k", cudadrv.CompileOptions{Arch: p.Arch()})
	require.NoError(t, err)
	f, err := d.Load(0, c.Cubin, "k", cudadrv.LoadOptions{DynamicShared: 100 << 10})
	require.NoError(t, err)
	l := &cudadrv.LaunchBlock{Function: f, Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{128, 1, 1}, Shared: 100 << 10,
		Arguments: make([]byte, 16), Patches: []cudadrv.Patch{{Offset: 8, Size: 8}}}
	require.NoError(t, d.Launch(l, cudadrv.CallValues{Inputs: []uintptr{7}}, 3))
	require.Len(t, d.Compiles(), 1)
	require.Equal(t, []Load{{0, []byte("kernel k"), "k", cudadrv.LoadOptions{DynamicShared: 100 << 10}}}, d.Loads())
	require.Equal(t, []Launch{{*l, []byte{0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}, 3}}, d.Launches())
}

func TestRefuses(t *testing.T) {
	d := &Driver{Present: []cudadrv.Properties{H100}}
	_, err := d.Properties(1)
	require.ErrorContains(t, err, "INVALID_DEVICE")
	_, err = d.Load(0, []byte("a"), "k", cudadrv.LoadOptions{})
	require.ErrorContains(t, err, "NOT_FOUND")
	_, err = d.Load(0, []byte("k"), "k", cudadrv.LoadOptions{DynamicShared: 1 << 20})
	require.ErrorContains(t, err, "INVALID_VALUE")
	f, err := d.Load(0, []byte("k"), "k", cudadrv.LoadOptions{})
	require.NoError(t, err)
	for name, broken := range map[string]func(l *cudadrv.LaunchBlock){
		"shared":   func(l *cudadrv.LaunchBlock) { l.Shared = 48<<10 + 1 },
		"threads":  func(l *cudadrv.LaunchBlock) { l.Block[1] = 33 },
		"grid":     func(l *cudadrv.LaunchBlock) { l.Grid[1] = 1 << 16 },
		"function": func(l *cudadrv.LaunchBlock) { l.Function.Handle = 2 },
		"pointer":  func(l *cudadrv.LaunchBlock) { l.Arguments, l.Patches = make([]byte, 8), []cudadrv.Patch{{Size: 8}} },
		"empty":    func(l *cudadrv.LaunchBlock) { l.Grid[0] = 0 },
	} {
		l := &cudadrv.LaunchBlock{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}}
		require.NoError(t, d.Launch(l, cudadrv.CallValues{}, 0))
		broken(l)
		require.Error(t, d.Launch(l, cudadrv.CallValues{}, 0), name)
	}
	sixteen := cudadrv.LargeCluster{Blocks: 16, Threads: 32}
	for _, room := range []int{0, 8} {
		d.Clusters = func(c cudadrv.LargeCluster) int { require.Equal(t, sixteen, c); return room }
		f, err = d.Load(0, []byte("k"), "k", cudadrv.LoadOptions{Cluster: sixteen})
		require.NoError(t, err)
		require.Equal(t, room, f.Clusters)
		l := &cudadrv.LaunchBlock{Function: f, Grid: [3]uint32{16, 1, 1}, Block: [3]uint32{32, 1, 1}, Cluster: [3]uint32{16, 1, 1}}
		require.Equal(t, room > 0, d.Launch(l, cudadrv.CallValues{}, 0) == nil)
		l.Block[0] = 64
		require.Error(t, d.Launch(l, cudadrv.CallValues{}, 0), "it was not asked about")
	}
	d.Fail = func(call string) error { return errors.New(call) }
	_, err = d.Load(0, []byte("k"), "k", cudadrv.LoadOptions{})
	require.EqualError(t, err, "Load")
}

func TestBench(t *testing.T) {
	d := &Driver{Present: []cudadrv.Properties{H100}}
	b, err := d.Bench(0, 0)
	require.NoError(t, err)
	x, err := b.Memory(1000)
	require.NoError(t, err)
	y, err := b.Memory(10)
	require.NoError(t, err)
	require.Equal(t, x+1024, y)
	require.True(t, OfBench(y))
	require.NoError(t, b.Copy(x, 7, 8))
	require.Error(t, b.Copy(7, x, 8))
	work := []cudadrv.Work{{Zero: x, Bytes: 4}}
	us, err := b.Time(3, nil, work)
	require.NoError(t, err)
	require.Equal(t, []float64{10, 10, 10}, us)
	_, err = b.Time(1, []cudadrv.Work{{Zero: 7, Bytes: 4}}, nil)
	require.Error(t, err, "of somebody else")
	require.Equal(t, []Timing{{3, nil, work}}, d.Timings())
	require.Equal(t, []Copy{{x, 7, 8}}, d.Copies())
	require.NoError(t, b.Close())
	now, most := d.Held()
	require.Zero(t, now)
	require.EqualValues(t, 1010, most)
	_, err = d.Bench(1, 0)
	require.Error(t, err)
}

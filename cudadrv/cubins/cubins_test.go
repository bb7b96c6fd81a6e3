package cubins

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"nvfuser_go/cudadrv"
	"nvfuser_go/cudadrv/fake"
)

// A fixture is a store in a folder of the test, with what it warned of.
type fixture struct {
	t        *testing.T
	folder   string
	warnings []string
	below    *fake.Driver
}

func newFixture(t *testing.T) *fixture {
	return &fixture{t: t, folder: filepath.Join(t.TempDir(), "a", "b"), below: &fake.Driver{}}
}

// driver returns one with a store of its own, as a new process has.
func (f *fixture) driver(limit int64) *Driver {
	return NewDriver(f.below, NewStore(f.folder, limit, func(text string) { f.warnings = append(f.warnings, text) }), "program", 2)
}

// compile compiles a text in a new process, which counts its entries before it ends,
// and tells whether it was compiled.
func (f *fixture) compile(source string) bool {
	f.t.Helper()
	before := len(f.below.Compiles())
	d := f.driver(1 << 20)
	c, err := d.Compile(source, options)
	d.store.eviction.Wait()
	require.NoError(f.t, err)
	require.Equal(f.t, source, string(c.Cubin))
	return len(f.below.Compiles()) > before
}

// file is the one entry of the folder.
func (f *fixture) file() string {
	f.t.Helper()
	found, err := filepath.Glob(filepath.Join(f.folder, "*"))
	require.NoError(f.t, err)
	require.Len(f.t, found, 1)
	return found[0]
}

// testKey is that of the code of a text.
func testKey(text, compiler string) key {
	return codeKey(sha256.Sum256([]byte(text)), options, compiler)
}

var options = cudadrv.CompileOptions{Arch: "sm_90a"}

func TestKeeps(t *testing.T) {
	f := newFixture(t)
	require.True(t, f.compile("a"))
	require.False(t, f.compile("a"))
	require.True(t, f.compile("b"))
	for _, o := range []cudadrv.CompileOptions{{Arch: "sm_80"}, {Arch: "sm_90a", DisableFMA: true}, {Arch: "sm_90a", LineInfo: true}, {Arch: "sm_90a", MaxRegisters: 8}} {
		n := len(f.below.Compiles())
		_, err := f.driver(1<<20).Compile("a", o)
		require.NoError(t, err)
		require.Len(t, f.below.Compiles(), n+1, "%v", o)
	}
	info, err := os.Stat(f.folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	u := NewStore(f.folder, 1, nil).Usage()
	require.Equal(t, 6, u.Kernels)
	require.Zero(t, u.Plans)
	require.Greater(t, u.Bytes, int64(6*64))
	require.Empty(t, f.warnings)
}

// another is a driver that turns out to have another compiler than it seemed when
// it compiles for the first time.
type another struct {
	fake.Driver
	compiled bool
}

func (d *another) CompilerID() (string, error) {
	if d.compiled {
		return "that", nil
	}
	return "this", nil
}

func (d *another) Compile(source string, o cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	d.compiled = true
	return d.Driver.Compile(source, o)
}

// TestKeyOfCompiler keeps nothing under the name of a compiler that did not make it.
func TestKeyOfCompiler(t *testing.T) {
	require.NotEqual(t, testKey("a", "this"), testKey("a", "that"))
	below, store := &another{}, NewStore(filepath.Join(t.TempDir(), "a"), 1<<20, nil)
	d := NewDriver(below, store, "program", 1)
	for i, compiles := range []int{1, 2, 2} {
		_, err := d.Compile("a", options)
		require.NoError(t, err)
		require.Len(t, below.Compiles(), compiles, "call %d", i)
	}
	_, ok := store.get(testKey("a", "this"))
	require.False(t, ok)
	_, ok = store.get(testKey("a", "that"))
	require.True(t, ok)
}

func TestLogIsKept(t *testing.T) {
	s := NewStore(t.TempDir(), 1<<20, nil)
	require.NoError(t, os.Chmod(s.Folder(), 0o700))
	k := testKey("a", "fake")
	for _, c := range []cudadrv.Compiled{{Cubin: []byte{1, 2}, Log: "log"}, {Cubin: []byte{}, Log: ""}} {
		s.put(k, encodeCode(c))
		b, ok := s.get(k)
		require.True(t, ok)
		got, ok := decodeCode(b)
		require.True(t, ok)
		require.Equal(t, c, got)
	}
}

// TestDamaged shows entries that are made again, with one warning.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(path string, b []byte) error{
		"empty":     func(path string, b []byte) error { return os.WriteFile(path, nil, 0o600) },
		"truncated": func(path string, b []byte) error { return os.WriteFile(path, b[:len(b)-1], 0o600) },
		"longer":    func(path string, b []byte) error { return os.WriteFile(path, append(b, 0), 0o600) },
		"huge":      func(path string, b []byte) error { return os.Truncate(path, 1<<40) },
		"flipped":   func(path string, b []byte) error { b[len(b)-40] ^= 1; return os.WriteFile(path, b, 0o600) },
		"foreign": func(path string, b []byte) error {
			return os.WriteFile(path, encode(testKey("b", "fake"), encodeCode(cudadrv.Compiled{Cubin: []byte("b")})), 0o600)
		},
		"writable": func(path string, b []byte) error { return os.Chmod(path, 0o606) },
		"link": func(path string, b []byte) error {
			return errors.Join(os.Rename(path, filepath.Dir(path)+".moved"), os.Symlink(filepath.Dir(path)+".moved", path))
		},
		"pipe":   func(path string, b []byte) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
		"folder": func(path string, b []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			require.True(t, f.compile("a"))
			b, err := os.ReadFile(f.file())
			require.NoError(t, err)
			require.NoError(t, damage(f.file(), b))
			require.True(t, f.compile("a"), "it is not believed")
			require.Len(t, f.warnings, 1)
			require.Contains(t, f.warnings[0], f.file())
			require.False(t, f.compile("a"), "it is as new")
			require.Len(t, f.warnings, 1)
		})
	}
}

func TestAnyByte(t *testing.T) {
	k := testKey("a", "fake")
	b := encode(k, encodeCode(cudadrv.Compiled{Cubin: []byte("code"), Log: "log"}))
	_, err := decode(k, b)
	require.NoError(t, err)
	for i := range b {
		for _, damaged := range [][]byte{b[:i], append(bytes.Clone(b[:i]), append([]byte{b[i] ^ 1}, b[i+1:]...)...)} {
			_, err := decode(k, damaged)
			require.Error(t, err, "%d", i)
		}
	}
}

func TestOtherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	f := newFixture(t)
	require.True(t, f.compile("a"))
	require.NoError(t, os.Chown(f.file(), 12345, -1))
	require.True(t, f.compile("a"))
	require.Contains(t, f.warnings[0], "belongs to another user")
	require.False(t, f.compile("a"))
	require.NoError(t, os.Chown(f.folder, 12345, -1))
	require.True(t, f.compile("a"))
	require.True(t, f.compile("a"))
	require.Len(t, f.warnings, 3, "once in each of the processes")
}

// TestNoFolder shows folders that cannot be used: nothing is kept, with one
// warning for each process.
func TestNoFolder(t *testing.T) {
	for name, damage := range map[string]func(folder string) error{
		"file":     func(folder string) error { return os.WriteFile(folder, nil, 0o600) },
		"writable": func(folder string) error { return errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o720)) },
		"missing":  func(folder string) error { return os.Symlink("/no/such/folder", folder) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			require.NoError(t, os.MkdirAll(filepath.Dir(f.folder), 0o700))
			require.NoError(t, damage(f.folder))
			d := f.driver(1 << 20)
			for range 3 {
				_, err := d.Compile("a", options)
				require.NoError(t, err)
			}
			require.Len(t, f.below.Compiles(), 3)
			require.Len(t, f.warnings, 1)
			require.Contains(t, f.warnings[0], f.folder)
		})
	}
}

// TestCannotWrite stands for full and read-only folders: here it is gone.
func TestCannotWrite(t *testing.T) {
	f := newFixture(t)
	d := f.driver(1 << 20)
	_, err := d.Compile("a", options)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(f.folder))
	for range 3 {
		_, err = d.Compile("a", options)
		require.NoError(t, err)
	}
	require.Len(t, f.warnings, 1)
	require.Contains(t, f.warnings[0], "are not kept in "+f.folder)
	require.NoError(t, os.MkdirAll(f.folder, 0o700))
	require.True(t, f.compile("a"), "another process makes it again")
	_, err = d.Compile("b", options)
	require.NoError(t, err)
	f.file() // this one gave up
	require.False(t, f.compile("a"))
}

// TestLimitOfFiles: nothing is written where that would send SIGXFSZ.
func TestLimitOfFiles(t *testing.T) {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = 1 << 18 // the test program writes smaller files
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)) })
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Stop(caught) })
	f := newFixture(t)
	text := strings.Repeat("a", 1<<18)
	require.True(t, f.compile(text))
	require.True(t, f.compile(text), "it is not kept")
	require.Len(t, f.warnings, 2, "of two processes")
	require.Contains(t, f.warnings[0], "file too large")
	require.Empty(t, caught)
	left, err := os.ReadDir(f.folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNilStore(t *testing.T) {
	d := NewDriver(&fake.Driver{}, nil, "program", 1)
	c, err := d.Compile("a", options)
	require.NoError(t, err)
	require.Equal(t, "a", string(c.Cubin))
}

func TestEviction(t *testing.T) {
	f := newFixture(t)
	text := func(i int) string { return strings.Repeat(fmt.Sprint(i), 1000) }
	d := f.driver(10_000)
	hour := time.Now().Add(-10 * time.Hour)
	for i := range 8 {
		_, err := d.Compile(text(i), options)
		require.NoError(t, err)
		d.store.eviction.Wait()
		path := filepath.Join(f.folder, testKey(text(i), "fake").file())
		require.NoError(t, os.Chtimes(path, hour, hour.Add(time.Duration(i)*time.Minute)))
	}
	require.False(t, f.compile(text(0)), "which makes it the one used last")
	abandoned, current := filepath.Join(f.folder, "tmp-1"), filepath.Join(f.folder, "tmp-2")
	require.NoError(t, os.WriteFile(abandoned, nil, 0o600))
	require.NoError(t, os.Chtimes(abandoned, hour, hour))
	require.NoError(t, os.WriteFile(current, nil, 0o600))
	for i := range 2 {
		_, err := d.Compile(text(8+i), options)
		require.NoError(t, err)
		d.store.eviction.Wait()
	}
	u := NewStore(f.folder, 1, nil).Usage()
	require.LessOrEqual(t, u.Bytes, int64(7_500))
	require.Equal(t, 6, u.Kernels)
	require.NoFileExists(t, abandoned)
	require.FileExists(t, current)
	require.False(t, f.compile(text(0)))
	require.False(t, f.compile(text(9)))
	require.True(t, f.compile(text(1)), "the oldest went first")
	_, err := f.driver(50).Compile("large", options) // larger than all may be
	require.NoError(t, err)
	require.True(t, f.compile("large"))
	require.Empty(t, f.warnings)
}

// slow is a driver whose compilations take a while, and counts them.
type slow struct {
	fake.Driver
	now, most, all atomic.Int32
}

func (s *slow) Compile(source string, o cudadrv.CompileOptions) (cudadrv.Compiled, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for {
		if m := s.most.Load(); n <= m || s.most.CompareAndSwap(m, n) {
			break
		}
	}
	s.all.Add(1)
	time.Sleep(20 * time.Millisecond)
	if source == "bad" {
		return cudadrv.Compiled{}, &cudadrv.CompileError{Source: source}
	}
	return cudadrv.Compiled{Cubin: []byte(source)}, nil
}

func TestOneCompileForAKey(t *testing.T) {
	below := &slow{}
	d := NewDriver(below, nil, "program", 2)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			c, err := d.Compile(fmt.Sprint(i%4), options)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i%4), string(c.Cubin))
		})
	}
	all.Wait()
	require.LessOrEqual(t, below.most.Load(), int32(2))
	require.Less(t, below.all.Load(), int32(40))
}

func TestErrorsAreNotKept(t *testing.T) {
	below := &slow{}
	d := NewDriver(below, NewStore(filepath.Join(t.TempDir(), "a"), 1000, nil), "program", 1)
	for range 2 {
		_, err := d.Compile("bad", options)
		var e *cudadrv.CompileError
		require.ErrorAs(t, err, &e)
	}
	require.Equal(t, int32(2), below.all.Load())
}

// TestTwoProcesses has several processes compile the same texts into one folder
// that is too small for them.
func TestTwoProcesses(t *testing.T) {
	const variable = "CUBINS_FOLDER"
	if folder := os.Getenv(variable); folder != "" {
		store := NewStore(folder, 20_000, func(text string) { t.Error(text) })
		d := NewDriver(&fake.Driver{}, store, "program", 2)
		for i := range 300 {
			source := strings.Repeat(fmt.Sprint(i%30), 500)
			c, err := d.Compile(source, options)
			require.NoError(t, err)
			require.Equal(t, source, string(c.Cubin))
			store.eviction.Wait()
		}
		return
	}
	folder := filepath.Join(t.TempDir(), "a")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			c := exec.Command(os.Args[0], "-test.run", "^TestTwoProcesses$")
			c.Env = append(os.Environ(), variable+"="+folder)
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
	all.Wait()
	require.LessOrEqual(t, NewStore(folder, 1, nil).Usage().Bytes, int64(60_000)) // each counts what it writes itself
}

// TestPlans keeps plans beside machine code: by the description, the build of the
// program and the compiler.
func TestPlans(t *testing.T) {
	f := newFixture(t)
	d := f.driver(1 << 20)
	_, ok := d.Kept("of")
	require.False(t, ok)
	d.Keep("of", []byte("what"))
	d.Keep("of", []byte("what else"))
	d.Keep("nothing", nil)
	for of, want := range map[string]string{"of": "what else", "nothing": ""} {
		what, ok := f.driver(1 << 20).Kept(of)
		require.True(t, ok)
		require.Equal(t, want, string(what))
	}
	require.Equal(t, 2, NewStore(f.folder, 1, nil).Usage().Plans)
	store := NewStore(f.folder, 1<<20, nil)
	another := NewDriver(f.below, store, "another", 1)
	_, ok = another.Kept("of")
	require.False(t, ok)
	_, ok = NewDriver(&otherCompiler{}, store, "program", 1).Kept("of")
	require.False(t, ok)
	nameless := NewDriver(f.below, store, "", 1)
	nameless.Keep("of", []byte("x"))
	_, ok = nameless.Kept("of")
	require.False(t, ok)
	require.Equal(t, 2, NewStore(f.folder, 1, nil).Usage().Plans)
	_, ok = NewDriver(f.below, nil, "program", 1).Kept("of")
	require.False(t, ok)
}

type otherCompiler struct{ fake.Driver }

func (*otherCompiler) CompilerID() (string, error) { return "other", nil }

// TestKeptCode finds by its sum what was compiled, and compiles nothing.
func TestKeptCode(t *testing.T) {
	f := newFixture(t)
	sum := sha256.Sum256([]byte("a"))
	_, ok := f.driver(1<<20).KeptCode(sum, options)
	require.False(t, ok)
	require.True(t, f.compile("a"))
	c, ok := f.driver(1<<20).KeptCode(sum, options)
	require.True(t, ok)
	require.Equal(t, "a", string(c.Cubin))
	_, ok = f.driver(1<<20).KeptCode(sum, cudadrv.CompileOptions{Arch: "sm_80"})
	require.False(t, ok)
	require.Len(t, f.below.Compiles(), 1)
}

// TestMostEntries has more small entries than a folder may have.
func TestMostEntries(t *testing.T) {
	f := newFixture(t)
	store := NewStore(f.folder, 1<<20, nil)
	store.most = 20
	d := NewDriver(f.below, store, "program", 1)
	for i := range 100 {
		d.Keep(fmt.Sprint(i), []byte("x"))
		store.eviction.Wait()
		require.LessOrEqual(t, store.Usage().Plans, 20)
	}
	require.GreaterOrEqual(t, store.Usage().Plans, 15)
	_, ok := d.Kept("99")
	require.True(t, ok)
}

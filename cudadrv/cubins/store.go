package cubins

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Store is a folder of entries. A nil one is empty and stays so.
type Store struct {
	folder string
	limit  int64 // in bytes
	most   int   // entries
	warn   func(string)

	opening sync.Once
	usable  bool

	mu       sync.Mutex
	warned   bool
	readOnly bool  // a file could not be written: no more are
	size     int64 // of all entries when they were last counted and since; -1: not counted
	count    int   // of them
	evicting bool
	eviction sync.WaitGroup // at most one
}

// maxEntries keeps a folder from being slow to list.
const maxEntries = 1 << 15

// Folder returns the folder that the user names, or ours among the user's caches, as variables of
// the environment have it; "" if they do not say.
func Folder(variable func(name string) string) string {
	folder := variable("NVFUSER_GO_CACHE_DIR")
	if folder == "" {
		caches := variable("XDG_CACHE_HOME")
		if !filepath.IsAbs(caches) { // as its specification says
			home := variable("HOME")
			if home == "" {
				return ""
			}
			caches = filepath.Join(home, ".cache")
		}
		folder = filepath.Join(caches, "nvfuser_go")
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	return absolute
}

// NewStore returns the store in a folder, which is made when it is first used,
// with entries of at most limit bytes together. warn is called with a sentence at
// the first problem, and not again.
func NewStore(folder string, limit int64, warn func(string)) *Store {
	return &Store{folder: folder, limit: limit, most: maxEntries, warn: warn, size: -1}
}

// Folder returns where the entries are.
func (s *Store) Folder() string { return s.folder }

// Usage is what a store holds.
type Usage struct {
	Kernels, Plans int
	Bytes          int64
}

// Usage counts the entries. It makes nothing.
func (s *Store) Usage() (u Usage) {
	for _, f := range s.entries(time.Time{}) {
		if strings.HasSuffix(f.path, string(plan)) {
			u.Plans++
		} else {
			u.Kernels++
		}
		u.Bytes += f.size
	}
	return u
}

func (s *Store) problem(format string, args ...any) {
	s.mu.Lock()
	again := s.warned
	s.warned = true
	s.mu.Unlock()
	if !again && s.warn != nil {
		s.warn(fmt.Sprintf(format, args...))
	}
}

// open makes the folder and reports whether it can be trusted.
func (s *Store) open() bool {
	if s == nil {
		return false
	}
	s.opening.Do(func() {
		err := os.MkdirAll(s.folder, 0o700)
		if err == nil {
			var info fs.FileInfo
			if info, err = os.Stat(s.folder); err == nil {
				err = ours(info)
			}
		}
		if err != nil {
			s.problem("compiled kernels are not kept in %s: %v", s.folder, reason(err))
			return
		}
		s.usable = true
	})
	return s.usable
}

// ours returns why a file or folder may hold what somebody else wrote.
func ours(info fs.FileInfo) error {
	status, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(status.Uid) != os.Geteuid():
		return errors.New("it belongs to another user")
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to it (mode %#o)", info.Mode().Perm())
	}
	return nil
}

// reason returns an error without the path, which the sentence around it has.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// touchAge is how old the time of an entry must be for a use to renew it.
const touchAge = time.Hour

// get returns the body of an entry. One that cannot be believed is as if it were
// not there, and is removed.
func (s *Store) get(k key) ([]byte, bool) {
	if !s.open() {
		return nil, false
	}
	path := filepath.Join(s.folder, k.file())
	body, used, err := read(k, path, s.limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		s.problem("%s, which was kept, is not used and made again: %v", path, reason(err))
		os.Remove(path)
		return nil, false
	}
	if now := time.Now(); now.Sub(used) > touchAge {
		_ = os.Chtimes(path, now, now) // only the order of eviction
	}
	return body, true
}

// read reads an entry of at most limit bytes: a file that was damaged may be of any
// size, and memory for one that is too large ends the process.
func read(k key, path string, limit int64) (body []byte, modified time.Time, err error) {
	// Neither a link nor a pipe is followed or waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, modified, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, modified, err
	}
	if !info.Mode().IsRegular() {
		return nil, modified, errors.New("it is no file")
	}
	if err := ours(info); err != nil {
		return nil, modified, err
	}
	if info.Size() > limit {
		return nil, modified, fmt.Errorf("it has %d bytes, and all entries together may have %d", info.Size(), limit)
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, modified, err
	}
	body, err = decode(k, b)
	return body, info.ModTime(), err
}

// put keeps an entry, if that is possible.
func (s *Store) put(k key, body []byte) {
	if !s.open() {
		return
	}
	s.mu.Lock()
	readOnly := s.readOnly
	s.mu.Unlock()
	b := encode(k, body)
	if readOnly || int64(len(b)) > s.limit {
		return
	}
	if err := replace(s.folder, k.file(), b); err != nil {
		s.mu.Lock()
		s.readOnly = true
		s.mu.Unlock()
		s.problem("compiled kernels are not kept in %s: %v", s.folder, reason(err))
		return
	}
	s.added(int64(len(b)))
}

// temporary is how the names of files begin that are being written.
const temporary = "tmp-"

// replace writes a file in one step, as others see it.
func replace(folder, name string, b []byte) error {
	// A write beyond the limit of a file ends a process that does not ignore SIGXFSZ.
	var most syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &most); err == nil && uint64(len(b)) > most.Cur {
		return syscall.EFBIG
	}
	f, err := os.CreateTemp(folder, temporary) // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// added counts an entry, and has others removed if there are too many now. Nobody
// waits for that: a folder with as many entries as there may be takes a fifth of a
// second to list.
func (s *Store) added(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isCounted := s.size >= 0
	if isCounted {
		s.size, s.count = s.size+size, s.count+1
	}
	if s.evicting || isCounted && s.size <= s.limit && s.count <= s.most {
		return
	}
	s.evicting = true
	s.eviction.Go(func() {
		size, count := s.evict()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.size, s.count, s.evicting = size, count, false
	})
}

// evict counts the entries, and if there are too many removes those that were not
// used for longest. It returns what is left. Other processes may do the same at once.
func (s *Store) evict() (size int64, count int) {
	files := s.entries(time.Now().Add(-time.Hour))
	slices.SortFunc(files, func(a, b entryFile) int {
		return cmp.Or(a.modified.Compare(b.modified), strings.Compare(a.path, b.path))
	})
	for _, f := range files {
		size += f.size
	}
	if count = len(files); size <= s.limit && count <= s.most {
		return size, count
	}
	const keep = 0.75 // so that it is not done for each entry
	for _, f := range files {
		if float64(size) <= keep*float64(s.limit) && float64(count) <= keep*float64(s.most) {
			break
		}
		if os.Remove(f.path) == nil {
			size, count = size-f.size, count-1
		}
	}
	return size, count
}

type entryFile struct {
	path     string
	size     int64
	modified time.Time
}

// entries lists the entries. Temporary files from before a time are what is left
// of processes that were killed, and are removed.
func (s *Store) entries(abandoned time.Time) []entryFile {
	if s == nil {
		return nil
	}
	all, _ := os.ReadDir(s.folder)
	var files []entryFile
	for _, e := range all {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		path := filepath.Join(s.folder, e.Name())
		switch {
		case slices.Contains([]string{string(machineCode), string(plan)}, filepath.Ext(e.Name())):
			files = append(files, entryFile{path, info.Size(), info.ModTime()})
		case strings.HasPrefix(e.Name(), temporary) && info.ModTime().Before(abandoned):
			os.Remove(path)
		}
	}
	return files
}

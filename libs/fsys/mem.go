package fsys

import (
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"time"
)

// Op is a kind of access, for Mem.Fail.
type Op string

// The kinds.
const (
	OpOpen    Op = "open"
	OpCreate  Op = "create"
	OpRead    Op = "read"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpRename  Op = "rename"
	OpRemove  Op = "remove"
	OpList    Op = "list"
	OpSyncDir Op = "sync directory"
)

// Mem is a file system in memory that can be full, fail, rot and crash.
type Mem struct {
	mu    sync.Mutex
	files map[string]*memData
	disk  map[string]*memData // the names that survive a crash
	dirs  map[string]bool
	clock int64 // ticks with every change, so that times of change differ
	limit int64 // bytes; 0 = unlimited
	fail  func(Op, string) error
}

// memData is a file's content; durable is what survives a crash.
type memData struct {
	bytes, durable []byte
	modified       int64
}

// NewMem makes an empty file system.
func NewMem() *Mem {
	return &Mem{files: map[string]*memData{}, disk: map[string]*memData{}, dirs: map[string]bool{}}
}

// Fail makes every access ask f first and fail with its error. nil = no failures.
func (m *Mem) Fail(f func(op Op, name string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// Limit makes the disk full at n bytes: a write beyond stores what fits and fails with ErrNoSpace. 0 = unlimited.
func (m *Mem) Limit(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = n
}

// Crash takes back whatever was not synced: names to what SyncDir last saw, content to what Sync last saw.
func (m *Mem) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files = maps.Clone(m.disk)
	for _, d := range m.files {
		d.bytes = slices.Clone(d.durable)
	}
}

// Corrupt changes one bit of a file. It reports whether there is such a byte.
func (m *Mem) Corrupt(name string, at int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.files[path.Clean(name)]
	if d == nil || at >= int64(len(d.bytes)) {
		return false
	}
	d.bytes = slices.Clone(d.bytes)
	d.bytes[at] ^= 1
	return true
}

// Truncate cuts a file. It reports whether it was at least that long.
func (m *Mem) Truncate(name string, size int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.files[path.Clean(name)]
	if d == nil || size > int64(len(d.bytes)) {
		return false
	}
	d.bytes = slices.Clone(d.bytes[:size])
	return true
}

func (m *Mem) ask(op Op, name string) error {
	if m.fail != nil {
		if err := m.fail(op, name); err != nil {
			return &fs.PathError{Op: string(op), Path: name, Err: err}
		}
	}
	return nil
}

// lookup answers a file after asking whether the access fails.
func (m *Mem) lookup(op Op, name string) (*memData, error) {
	if err := m.ask(op, name); err != nil {
		return nil, err
	}
	d := m.files[path.Clean(name)]
	if d == nil {
		return nil, &fs.PathError{Op: string(op), Path: name, Err: fs.ErrNotExist}
	}
	return d, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.lookup(OpOpen, name)
	if err != nil {
		return nil, err
	}
	return &memFile{m: m, name: name, d: d}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ask(OpCreate, name); err != nil {
		return nil, err
	}
	if !m.dirs[path.Dir(path.Clean(name))] {
		return nil, &fs.PathError{Op: string(OpCreate), Path: name, Err: fs.ErrNotExist}
	}
	d := &memData{}
	m.touch(d)
	m.files[path.Clean(name)] = d
	return &memFile{m: m, name: name, d: d, writable: true}, nil
}

func (m *Mem) touch(d *memData) {
	m.clock++
	d.modified = m.clock
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, err := m.lookup(OpRename, oldName)
	if err != nil {
		return err
	}
	delete(m.files, path.Clean(oldName))
	m.files[path.Clean(newName)] = d
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.lookup(OpRemove, name); err != nil {
		return err
	}
	delete(m.files, path.Clean(name))
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ask(OpList, dir); err != nil {
		return nil, err
	}
	if !m.dirs[path.Clean(dir)] {
		return nil, &fs.PathError{Op: string(OpList), Path: dir, Err: fs.ErrNotExist}
	}
	var out []Info
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if d := m.files[name]; path.Dir(name) == path.Clean(dir) {
			out = append(out, Info{path.Base(name), int64(len(d.bytes)), time.Unix(d.modified, 0)})
		}
	}
	return out, nil
}

// Contents answers what the files of a directory hold, by path. Errors: as List.
func (m *Mem) Contents(dir string) (map[string][]byte, error) {
	infos, err := m.List(dir)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]byte{}
	for _, i := range infos {
		name := path.Join(dir, i.Name)
		if d, ok := m.files[name]; ok { // it is not removed meanwhile
			out[name] = slices.Clone(d.bytes)
		}
	}
	return out, nil
}

// MakeDir implements FS. Directories survive a crash at once.
func (m *Mem) MakeDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir = path.Clean(dir); !m.dirs[dir]; dir = path.Dir(dir) {
		m.dirs[dir] = true
	}
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ask(OpSyncDir, dir); err != nil {
		return err
	}
	in := func(name string, _ *memData) bool { return path.Dir(name) == path.Clean(dir) }
	maps.DeleteFunc(m.disk, in)
	for name, d := range m.files {
		if in(name, d) {
			m.disk[name] = d
		}
	}
	return nil
}

type memFile struct {
	m        *Mem
	name     string
	d        *memData
	writable bool
	closed   bool
}

func (f *memFile) check(op Op) error {
	if f.closed {
		return &fs.PathError{Op: string(op), Path: f.name, Err: fs.ErrClosed}
	}
	return f.m.ask(op, f.name)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check(OpRead); err != nil {
		return 0, err
	}
	if off >= int64(len(f.d.bytes)) {
		return 0, io.EOF
	}
	n := copy(p, f.d.bytes[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check(OpWrite); err != nil {
		return 0, err
	}
	if !f.writable {
		return 0, &fs.PathError{Op: string(OpWrite), Path: f.name, Err: fs.ErrPermission}
	}
	n := len(p)
	if f.m.limit > 0 {
		n = min(n, int(max(0, f.m.limit-f.m.used())))
	}
	f.d.bytes = append(f.d.bytes[:len(f.d.bytes):len(f.d.bytes)], p[:n]...)
	f.m.touch(f.d)
	if n < len(p) {
		return n, &fs.PathError{Op: string(OpWrite), Path: f.name, Err: ErrNoSpace}
	}
	return n, nil
}

func (m *Mem) used() int64 {
	total := int64(0)
	for _, d := range m.files {
		total += int64(len(d.bytes))
	}
	return total
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check(OpSync); err != nil {
		return err
	}
	f.d.durable = slices.Clone(f.d.bytes)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return 0, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrClosed}
	}
	return int64(len(f.d.bytes)), nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.closed = true
	return nil
}

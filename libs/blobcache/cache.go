// Package blobcache keeps immutable blobs on the local disk up to a number of bytes, the least recently used ones
// go first. It is a hint: a miss, a damaged file or a full disk costs time and never a wrong byte. Every file
// carries a checksum that is verified whenever the file is opened; nothing is fsynced, because a file that a crash
// tore is found out by it.
package blobcache

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
)

// Config bounds a cache.
type Config struct {
	// Dir is made if it is not there. It belongs to one Cache at a time.
	Dir string
	// MaxBytes is how much the files may take. 0 keeps nothing.
	MaxBytes int64
	// OpenFiles is how many unused files stay open, verified, for the next reader.
	OpenFiles int
}

// Default is 10 GiB and 64 open files in no directory yet.
func Default() Config { return Config{MaxBytes: 10 << 30, OpenFiles: 64} }

// Stats is what a cache holds.
type Stats struct {
	Blobs int
	Bytes int64 // of the files, those being written included
	Open  int   // open files
}

// Cache is a set of blobs. Safe for concurrent use.
type Cache struct {
	fs  fsys.FS
	cfg Config

	mu      sync.Mutex
	entries map[string]*entry // by file name
	lru     *list.List        // of *entry, the most recently used first
	bytes   int64
	idle    *list.List // of *entry that are open and unused, the most recently used first
	open    int
	writing map[string]bool
}

// entry is one file. Its fields belong to Cache.mu, but what openMu says.
type entry struct {
	name string
	size int64
	at   *list.Element // in lru
	idle *list.Element // in idle, if it is there
	refs int           // blobs handed out
	gone bool          // removed from the cache; the last reader closes the file

	openMu sync.Mutex // held while the file is opened and verified
	file   fsys.File  // nil = not open; set under openMu and mu both
	head   header
	meta   []byte
}

const (
	blobSuffix = ".blob"
	tmpSuffix  = ".tmp"
)

// Open takes over a directory: what is there is kept as far as it fits, what a crash left half-written is removed.
func Open(files fsys.FS, cfg Config) (*Cache, error) {
	c := &Cache{
		fs: files, cfg: cfg, entries: map[string]*entry{}, lru: list.New(), idle: list.New(), writing: map[string]bool{},
	}
	if err := files.MakeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("make cache directory: %w", err)
	}
	infos, err := files.List(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list cache directory: %w", err)
	}
	slices.SortStableFunc(infos, func(a, b fsys.Info) int { return a.Modified.Compare(b.Modified) })
	for _, i := range infos {
		switch {
		case strings.HasSuffix(i.Name, blobSuffix):
			c.insert(&entry{name: i.Name, size: i.Size})
		case strings.HasSuffix(i.Name, tmpSuffix):
			if err := c.remove(i.Name); err != nil {
				return nil, err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.makeRoom(0) {
		return nil, fmt.Errorf("cache of %d bytes cannot be cut to %d: %w", c.bytes, cfg.MaxBytes, fault.ErrUnavailable)
	}
	return c, nil
}

// Clear removes the blobs in a directory, and what a crash left half-written, and answers how many bytes they took. A
// Cache over it at that time misses them, and goes on.
func Clear(files fsys.FS, dir string) (freed int64, err error) {
	infos, err := files.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list cache directory: %w", err)
	}
	for _, i := range infos {
		if !strings.HasSuffix(i.Name, blobSuffix) && !strings.HasSuffix(i.Name, tmpSuffix) {
			continue
		}
		if err := files.Remove(dir + "/" + i.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, fmt.Errorf("remove cached blob: %w", err)
		}
		freed += i.Size
	}
	return freed, nil
}

// Stats answers what the cache holds now.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Blobs: len(c.entries), Bytes: c.bytes, Open: c.open}
}

// fileName is what a key's file is called.
func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16]) + blobSuffix
}

func (c *Cache) insert(e *entry) {
	e.at = c.lru.PushFront(e)
	c.entries[e.name] = e
	c.bytes += e.size
}

// Blob is one cached blob. It is pinned until Close, which is called exactly once.
type Blob struct {
	c *Cache
	e *entry
}

// Get answers the blob of a key. fault.ErrNotFound: it is not there. fault.ErrCorrupt: it did not verify; it has
// been removed. Every other error is the disk's.
func (c *Cache) Get(key string) (*Blob, error) {
	c.mu.Lock()
	e := c.entries[fileName(key)]
	if e == nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("cached blob: %w", fault.ErrNotFound)
	}
	c.lru.MoveToFront(e.at)
	c.pin(e)
	c.mu.Unlock()
	if err := c.openEntry(e, key); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		err = errors.Join(err, c.drop(e))
		c.unpin(e)
		return nil, err
	}
	return &Blob{c, e}, nil
}

// openEntry opens and verifies a pinned entry's file, unless it is open.
func (c *Cache) openEntry(e *entry, key string) error {
	e.openMu.Lock()
	defer e.openMu.Unlock()
	if e.file == nil {
		f, err := c.fs.Open(c.cfg.Dir + "/" + e.name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cached blob is gone: %w", fault.ErrNotFound)
		}
		if err != nil {
			return fmt.Errorf("open cached blob: %w", err)
		}
		head, meta, err := verify(f, key)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		c.mu.Lock()
		e.file, e.head, e.meta = f, head, meta
		c.open++
		c.mu.Unlock()
	}
	return nil
}

// Meta is what was stored beside the body. It must not be changed.
func (b *Blob) Meta() []byte { return b.e.meta }

// Size is the length of the body, bytes.
func (b *Blob) Size() int64 { return b.e.head.bodyLen }

// ReadAt reads the body. Safe for concurrent use.
func (b *Blob) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read cached blob at %d: %w", off, fault.ErrInvalid)
	}
	want := p[:min(int64(len(p)), max(0, b.Size()-off))]
	n, err := b.e.file.ReadAt(want, b.e.head.bodyStart()+off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Close unpins the blob.
func (b *Blob) Close() {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.c.unpin(b.e)
}

// Put stores a blob. A key that is stored already is left as it is: a key has one content. When it returns an
// error nothing was stored and the caller goes on with what it has: fsys.ErrNoSpace when the disk is full, which also
// costs the cache its oldest blobs; fault.ErrUnavailable when the blob is larger than the cache or everything in it
// is pinned.
func (c *Cache) Put(key string, meta, body []byte) error {
	head := newHeader(key, meta, body)
	name := fileName(key)
	if stored, err := c.reserve(name, head.fileLen()); stored || err != nil {
		return err
	}
	err := fsys.WriteFile(c.fs, c.cfg.Dir, name, false, func(w io.Writer) error { return head.write(w, key, meta, body) })
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.writing, name)
	c.bytes -= head.fileLen()
	if err != nil {
		if errors.Is(err, fsys.ErrNoSpace) {
			c.yield()
		}
		return fmt.Errorf("store cached blob: %w", err)
	}
	c.insert(&entry{name: name, size: head.fileLen()})
	return nil
}

// yield gives back up to a quarter of what the files take: others write to a full disk too, and what they write
// cannot be made again. Called with mu held.
func (c *Cache) yield() {
	left := c.bytes / 4
	for at := c.lru.Back(); at != nil; {
		e, _ := at.Value.(*entry)
		at = at.Prev()
		if e.refs > 0 {
			continue
		}
		if left -= e.size; left < 0 || c.drop(e) != nil {
			return
		}
	}
}

// reserve makes room for a file and counts it. stored: it is there or being written by somebody else.
func (c *Cache) reserve(name string, size int64) (stored bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[name] != nil || c.writing[name] {
		return true, nil
	}
	if size > c.cfg.MaxBytes || !c.makeRoom(size) {
		return false, fmt.Errorf("no room for %d bytes in a cache of %d: %w", size, c.cfg.MaxBytes, fault.ErrUnavailable)
	}
	c.writing[name] = true
	c.bytes += size
	return false, nil
}

// makeRoom evicts unpinned entries until size more bytes fit. Called with mu held.
func (c *Cache) makeRoom(size int64) bool {
	for at := c.lru.Back(); at != nil && c.bytes+size > c.cfg.MaxBytes; {
		e, _ := at.Value.(*entry)
		at = at.Prev()
		if e.refs == 0 {
			// A file that cannot be removed still takes its place on the disk; it is found again at the next start.
			if c.drop(e) != nil {
				return false
			}
		}
	}
	return c.bytes+size <= c.cfg.MaxBytes
}

// drop takes an entry out and removes its file. Called with mu held.
func (c *Cache) drop(e *entry) error {
	if e.gone {
		return nil
	}
	e.gone = true
	delete(c.entries, e.name)
	c.lru.Remove(e.at)
	c.bytes -= e.size
	if e.refs == 0 {
		c.closeFile(e)
	}
	return c.remove(e.name)
}

func (c *Cache) remove(name string) error {
	if err := c.fs.Remove(c.cfg.Dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove cached blob: %w", err)
	}
	return nil
}

func (c *Cache) pin(e *entry) {
	e.refs++
	if e.idle != nil {
		c.idle.Remove(e.idle)
		e.idle = nil
	}
}

func (c *Cache) unpin(e *entry) {
	e.refs--
	if e.refs > 0 || e.file == nil {
		return
	}
	if e.gone {
		c.closeFile(e)
		return
	}
	e.idle = c.idle.PushFront(e)
	for c.idle.Len() > c.cfg.OpenFiles {
		last, _ := c.idle.Back().Value.(*entry)
		c.closeFile(last)
	}
}

// closeFile closes an unused entry's file. Its close can lose nothing: it was only read.
func (c *Cache) closeFile(e *entry) {
	if e.idle != nil {
		c.idle.Remove(e.idle)
		e.idle = nil
	}
	if e.file != nil {
		_ = e.file.Close()
		e.file, e.meta = nil, nil
		c.open--
	}
}

package icebergscan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/frazil-io/frazil/libs/fault"
)

// Opener opens an object of a table by its full location. It is called from several goroutines.
type Opener interface {
	// Open answers a stream that the caller closes. Errors: fault.ErrNotFound for what is not there.
	Open(ctx context.Context, location string) (io.ReadCloser, error)
}

// File is an open object, read at offsets.
type File interface {
	io.ReaderAt
	io.Closer
	// Size in bytes, as the store has it.
	Size() (int64, error)
}

// Scan reads the manifests of one snapshot, as often as wanted. It holds the manifest list and nothing else. Not for
// concurrent use.
type Scan struct {
	Table    *Table
	Snapshot *Snapshot

	opener    Opener
	manifests []Manifest
	bytes     atomic.Int64
	entries   int64
}

// Read-ahead of manifests: how many are fetched at once, and up to which length. Longer ones are read as a stream.
const (
	readAhead    = 8
	readAheadMax = 8 << 20 // bytes
)

// Open reads the manifest list of a snapshot; nil stands for a table without snapshots, which has no files.
func Open(ctx context.Context, opener Opener, t *Table, s *Snapshot) (*Scan, error) {
	scan := &Scan{Table: t, Snapshot: s, opener: opener}
	if s == nil {
		return scan, nil
	}
	if s.ManifestList == "" {
		return nil, fmt.Errorf("snapshot %d lists its manifests in the metadata, as the first writers of version 1 did: %w", s.ID, fault.ErrUnsupported)
	}
	r, err := opener.Open(ctx, s.ManifestList)
	if err != nil {
		return nil, fmt.Errorf("open manifest list %s: %w", s.ManifestList, err)
	}
	counted := &counting{r, &scan.bytes}
	scan.manifests, err = ReadManifestList(counted)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.ManifestList, err)
	}
	return scan, nil
}

// Manifests answers the lines of the manifest list in their order. The caller does not change them.
func (s *Scan) Manifests() []Manifest { return s.manifests }

// Bytes answers how many bytes of manifest lists and manifests were fetched so far.
func (s *Scan) Bytes() int64 { return s.bytes.Load() }

// EntriesRead answers how many entries were yielded so far, repeated passes counted.
func (s *Scan) EntriesRead() int64 { return s.entries }

// Entries streams the live entries of one content, manifest by manifest in the order of the list, fetching a few
// manifests ahead. An entry is lent until the next. An error is yielded once, with a nil entry, and ends the stream.
func (s *Scan) Entries(ctx context.Context, content ManifestContent, want Want) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var todo []*Manifest
		for i := range s.manifests {
			if m := &s.manifests[i]; m.Content == content && m.Live() {
				todo = append(todo, m)
			}
		}
		ahead := newFetcher(ctx, s, todo)
		defer ahead.stop()
		defer cancel()
		for range todo {
			m, r, err := ahead.next()
			if err != nil {
				yield(nil, fmt.Errorf("open manifest %s: %w", m.Path, err))
				return
			}
			more := s.drain(m, r, want, yield)
			if err := r.Close(); err != nil && more {
				yield(nil, fmt.Errorf("close manifest %s: %w", m.Path, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// drain yields the entries of one manifest; false if the consumer has had enough or an error was yielded.
func (s *Scan) drain(m *Manifest, r io.Reader, want Want, yield func(*Entry, error) bool) bool {
	for e, err := range Entries(r, m, want) {
		if err != nil {
			yield(nil, err)
			return false
		}
		s.entries++
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

// fetcher opens manifests ahead of their use, in order.
type fetcher struct {
	ctx     context.Context //nolint:containedctx // lives as long as one iteration
	scan    *Scan
	todo    []*Manifest
	started int
	waiting []chan fetched
}

type fetched struct {
	m   *Manifest
	r   io.ReadCloser
	err error
}

func newFetcher(ctx context.Context, s *Scan, todo []*Manifest) *fetcher {
	f := &fetcher{ctx: ctx, scan: s, todo: todo}
	for range readAhead {
		f.start()
	}
	return f
}

func (f *fetcher) start() {
	if f.started == len(f.todo) {
		return
	}
	m := f.todo[f.started]
	f.started++
	done := make(chan fetched, 1)
	f.waiting = append(f.waiting, done)
	go func() {
		r, err := f.scan.fetch(f.ctx, m)
		done <- fetched{m, r, err}
	}()
}

// next answers the next manifest in order; the caller closes it.
func (f *fetcher) next() (*Manifest, io.ReadCloser, error) {
	got := <-f.waiting[0]
	f.waiting = f.waiting[1:]
	f.start()
	return got.m, got.r, got.err
}

// stop waits for what was begun and closes it. The context has ended by then.
func (f *fetcher) stop() {
	for _, w := range f.waiting {
		if got := <-w; got.err == nil {
			got.r.Close() //nolint:errcheck // nothing of it was used
		}
	}
}

func (s *Scan) fetch(ctx context.Context, m *Manifest) (io.ReadCloser, error) {
	raw, err := s.opener.Open(ctx, m.Path)
	if err != nil {
		return nil, err
	}
	r := &counting{raw, &s.bytes}
	if m.Length > readAheadMax {
		return r, nil
	}
	// The stated length only says whether to read ahead; what follows beyond the buffer is still read.
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(r, readAheadMax)); err != nil {
		return nil, errors.Join(fmt.Errorf("read: %w", err), raw.Close())
	}
	return &bufferedReader{io.MultiReader(&buf, r), raw}, nil
}

type bufferedReader struct {
	io.Reader
	io.Closer
}

// counting counts what is read.
type counting struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

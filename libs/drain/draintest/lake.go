// Package draintest makes Iceberg tables with equality deletes for tests: data files in Parquet and Avro, metadata by
// apache/iceberg-go, an oracle that reads what rows are visible, and random histories. It shares no code with what it
// tests but the reading of table metadata for commits.
package draintest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/fault"
)

// Lake is an object store in memory. Safe for concurrent use.
type Lake struct {
	mu      sync.Mutex
	objects map[string][]byte
	read    map[string]int64 // bytes by location
	// Wrote, if not nil, is told of every object that is written, before it is.
	Wrote func(location string) error
}

// NewLake makes an empty one.
func NewLake() *Lake { return &Lake{objects: map[string][]byte{}, read: map[string]int64{}} }

// Put makes an object.
func (l *Lake) Put(location string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[location] = body
}

// Get answers an object; nil if there is none.
func (l *Lake) Get(location string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[location]
}

// Objects answers a copy of the map of all objects.
func (l *Lake) Objects() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.objects)
}

// Read answers how many bytes of each object were read through File since the last call.
func (l *Lake) Read() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.read
	l.read = map[string]int64{}
	return out
}

// Open implements icebergscan.Opener.
func (l *Lake) Open(_ context.Context, location string) (io.ReadCloser, error) {
	b := l.Get(location)
	if b == nil {
		return nil, fmt.Errorf("object %s: %w", location, fault.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// File implements drain.Store.
func (l *Lake) File(_ context.Context, location string) (drain.File, error) {
	b := l.Get(location)
	if b == nil {
		return nil, fmt.Errorf("object %s: %w", location, fault.ErrNotFound)
	}
	return &file{bytes.NewReader(b), l, location}, nil
}

type file struct {
	in       *bytes.Reader
	lake     *Lake
	location string
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.in.ReadAt(p, off)
	f.lake.mu.Lock()
	defer f.lake.mu.Unlock()
	f.lake.read[f.location] += int64(n)
	return n, err
}

func (f *file) Close() error         { return nil }
func (f *file) Size() (int64, error) { return f.in.Size(), nil }

// Write implements icebergcommit.Store.
func (l *Lake) Write(_ context.Context, location string, body []byte) error {
	if l.Wrote != nil {
		if err := l.Wrote(location); err != nil {
			return err
		}
	}
	l.Put(location, bytes.Clone(body))
	return nil
}

// Remove implements drain.Store.
func (l *Lake) Remove(_ context.Context, location string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.objects, location)
	return nil
}

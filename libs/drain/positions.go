package drain

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// positions keeps the rows found of each data file, beyond a limit in files of a scratch directory. What is there of a
// data file is complete only if it is marked resolved. Safe for concurrent use.
type positions struct {
	mu      sync.Mutex
	limit   int64
	parent  string
	dir     string // made when it is needed
	held    map[string]*roaring.Bitmap
	bytes   int64             // of held, about
	spilled map[string]string // data file -> scratch file
	counts  map[string]int64
	done    map[string]int64 // data file -> its sequence number when it was resolved
	n       int
}

func newPositions(limit int64, parent string) *positions {
	p := &positions{limit: limit, parent: parent}
	p.clear()
	return p
}

func (p *positions) clear() {
	p.held, p.spilled, p.counts, p.done = map[string]*roaring.Bitmap{}, map[string]string{}, map[string]int64{}, map[string]int64{}
	p.bytes = 0
}

// resolved reports whether all positions of a data file are here.
func (p *positions) resolved(path string, seq int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.done[path]
	return ok && at == seq
}

func (p *positions) resolve(path string, seq int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[path] = seq
}

// count answers how many positions there are of a data file.
func (p *positions) count(path string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[path]
}

// add takes positions of a data file over from the caller.
func (p *positions) add(path string, set *roaring.Bitmap) error {
	if set.IsEmpty() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.held[path]; before != nil {
		p.bytes -= int64(before.GetSizeInBytes())
		set.Or(before)
	}
	if file := p.spilled[path]; file != "" {
		before, err := load(file)
		if err != nil {
			return err
		}
		set.Or(before)
	}
	p.held[path] = set
	p.counts[path] = int64(set.GetCardinality())
	p.bytes += int64(set.GetSizeInBytes())
	if p.bytes > p.limit {
		return p.spill()
	}
	return nil
}

// spill writes everything held to scratch files.
func (p *positions) spill() error {
	if p.dir == "" {
		dir, err := os.MkdirTemp(p.parent, "frazil-drain-")
		if err != nil {
			return fmt.Errorf("make scratch directory: %w", err)
		}
		p.dir = dir
	}
	for path, set := range p.held {
		file := p.spilled[path]
		if file == "" {
			p.n++
			file = filepath.Join(p.dir, strconv.Itoa(p.n))
		}
		set.RunOptimize()
		body, err := set.ToBytes()
		if err != nil {
			return fmt.Errorf("encode positions: %w", err)
		}
		if err := os.WriteFile(file, body, 0o600); err != nil {
			return fmt.Errorf("write scratch file: %w", err)
		}
		p.spilled[path] = file
	}
	clear(p.held)
	p.bytes = 0
	return nil
}

func load(file string) (*roaring.Bitmap, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read scratch file: %w", err)
	}
	set := roaring.New()
	if err := set.UnmarshalBinary(body); err != nil {
		return nil, fmt.Errorf("decode scratch file: %w", err)
	}
	return set, nil
}

// get answers a copy of the positions of a data file; empty if there are none.
func (p *positions) get(path string) (*roaring.Bitmap, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if set := p.held[path]; set != nil {
		return set.Clone(), nil
	}
	if file := p.spilled[path]; file != "" {
		return load(file)
	}
	return roaring.New(), nil
}

// forget drops everything.
func (p *positions) forget() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, file := range p.spilled {
		errs = append(errs, os.Remove(file))
	}
	p.clear()
	return errors.Join(errs...)
}

// close removes the scratch directory.
func (p *positions) close() error {
	if p.dir == "" {
		return nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("remove scratch directory: %w", err)
	}
	return nil
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/lru"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/shared"
	"github.com/frazil-io/frazil/libs/virtualfile"
	"github.com/frazil-io/frazil/services/materializer/internal/build"
)

const (
	// firstPiece and nextPiece are the lengths of the pieces that a range is sent in, bytes: the first bytes soon,
	// the rest in few messages.
	firstPiece = 256 << 10
	nextPiece  = 1 << 20
	// readyGroups is how many row groups of a range are there before its first byte is sent. Files have about
	// eight; only a range over more can break off on the way.
	readyGroups = 32
	// What is kept in memory of files that were asked for.
	keptTails  = 256
	keptFiles  = 4096
	keptTables = 256
)

// Description is what dedup says of a data file.
type Description struct {
	Spec   build.Spec
	Groups []Recorded // by ascending offset, those without rows left out
}

// Describer asks for a description. Errors: fault.ErrNotFound (the name was never issued), fault.ErrRetired,
// fault.ErrUnavailable.
type Describer interface {
	Describe(ctx context.Context, objectKey string) (Description, error)
}

// Sender takes the pieces of a range, in order.
type Sender interface {
	// Send takes n bytes that fill reads into the memory it is given.
	Send(n int, fill func([]byte) error) error
}

// Limits bound a Files.
type Limits struct {
	// Hold is how long a request waits for an object that is still being made.
	Hold time.Duration
	// Describing bounds the questions to dedup that are under way, and those who wait for their answers.
	Describing shared.Limits
}

// Files serves data files. Safe for concurrent use.
type Files struct {
	blocks    *Blocks
	describer Describer
	limits    Limits
	files     *lru.Cache[string, *file]
	tails     *lru.Cache[string, []byte]
	tables    *lru.Cache[string, *build.Table] // shared by the files of a table
	asked     *shared.Group[string, *file]
}

// file is a data file that was described: immutable.
type file struct {
	key    string
	table  *build.Table
	layout *virtualfile.File
	groups []*wanted
}

// NewFiles serves from blocks what describer knows.
func NewFiles(blocks *Blocks, describer Describer, limits Limits) *Files {
	return &Files{
		blocks: blocks, describer: describer, limits: limits,
		files: lru.New[string, *file](keptFiles), tails: lru.New[string, []byte](keptTails), tables: lru.New[string, *build.Table](keptTables),
		asked: shared.New[string, *file](limits.Describing),
	}
}

// Close ends all questions and waits for them.
func (f *Files) Close() { f.asked.Close() }

// Waiting is how many requests wait now for what is recorded of a file.
func (f *Files) Waiting() int64 { return int64(f.asked.Waiting()) }

// Read sends bytes [off, off+n) of a data file. Nothing is sent before its row groups are there.
//
// Errors: fault.ErrNotFound, fault.ErrRetired (the path is not or no longer served), fault.ErrInvalid (the range does
// not lie in the file), fault.ErrUnavailable (still being made: the work goes on), fault.ErrCorrupt (the log no
// longer gives the recorded bytes), and the sender's.
func (f *Files) Read(ctx context.Context, objectKey string, off, n int64, to Sender) error {
	file, err := f.file(ctx, objectKey)
	if err != nil {
		return err
	}
	if from, clipped := file.layout.Clip(off, n); n < 0 || from != off || clipped != n {
		return fmt.Errorf("bytes [%d,+%d) of a file of %d: %w", off, n, file.layout.Size(), fault.ErrInvalid)
	}
	src := &source{f: f, ctx: ctx, file: file, held: map[int]*Block{}}
	defer src.close()
	if err := f.prepare(ctx, src, off, n); err != nil {
		return err
	}
	r := virtualfile.NewReader(file.layout, src)
	piece := int64(firstPiece)
	for end := off + n; off < end; piece = nextPiece {
		m := min(piece, end-off)
		err := to.Send(int(m), func(p []byte) error {
			_, err := r.ReadAt(p, off)
			return err
		})
		if err != nil {
			return err
		}
		off += m
		src.release(off)
	}
	return nil
}

// prepare waits for what the range needs, no longer than Hold.
func (f *Files) prepare(ctx context.Context, src *source, off, n int64) error {
	first, last, tail := src.file.layout.Touched(off, n)
	last = min(last, first+readyGroups)
	making := fmt.Errorf("data file is still being made: %w", fault.ErrUnavailable)
	held, cancel := context.WithTimeoutCause(ctx, f.limits.Hold, making)
	defer cancel()
	err := f.await(held, src, first, last, tail)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(held), making) {
		return making
	}
	return err
}

// await starts whatever is missing and then waits for one after the other, so that builds run side by side.
func (f *Files) await(ctx context.Context, src *source, first, last int, tail bool) error {
	for _, w := range src.file.groups[first:last] {
		f.blocks.Start(ctx, w)
	}
	if tail {
		if err := f.awaitTail(ctx, src); err != nil {
			return err
		}
	}
	for i := first; i < last; i++ {
		if err := src.acquire(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// awaitTail makes the tail, which takes the metadata of every row group.
func (f *Files) awaitTail(ctx context.Context, src *source) error {
	if t, ok := f.tails.Get(src.file.key); ok {
		src.tail = t
		return nil
	}
	for _, w := range src.file.groups {
		if _, ok := f.blocks.metas.Get(w.key); !ok {
			f.blocks.Start(ctx, w)
		}
	}
	var placed []parquetio.Placed
	for i, w := range src.file.groups {
		m, err := f.blocks.Meta(ctx, w)
		if err != nil {
			return err
		}
		placed = append(placed, parquetio.Placed{Meta: m, Offset: src.file.layout.Start(i)})
	}
	t, err := src.file.table.Encoder.Tail(placed, src.file.layout.Size())
	if err != nil {
		return fmt.Errorf("assemble footer: %w", err)
	}
	f.tails.Add(src.file.key, t, 1)
	src.tail = t
	return nil
}

// source has the parts of one request.
type source struct {
	f    *Files
	ctx  context.Context //nolint:containedctx // lives as long as the request
	file *file
	held map[int]*Block
	tail []byte
}

// Pages implements virtualfile.Source. A row group beyond the prepared ones is waited for here.
func (s *source) Pages(i int) (io.ReaderAt, error) {
	if err := s.acquire(s.ctx, i); err != nil {
		return nil, err
	}
	return s.held[i], nil
}

// Tail implements virtualfile.Source.
func (s *source) Tail() ([]byte, error) {
	if s.tail == nil {
		if err := s.f.awaitTail(s.ctx, s); err != nil {
			return nil, err
		}
	}
	return s.tail, nil
}

func (s *source) acquire(ctx context.Context, i int) error {
	if s.held[i] != nil {
		return nil
	}
	b, err := s.f.blocks.Get(ctx, s.file.groups[i])
	if err != nil {
		return err
	}
	s.held[i] = b
	return nil
}

// release gives back the row groups that end at or below off.
func (s *source) release(off int64) {
	for i, b := range s.held {
		if s.file.layout.Start(i+1) <= off {
			b.Close()
			delete(s.held, i)
		}
	}
}

func (s *source) close() {
	for _, b := range s.held {
		b.Close()
	}
	clear(s.held)
}

// file answers a described file. An answer is kept: what a name says never changes.
func (f *Files) file(ctx context.Context, objectKey string) (*file, error) {
	obj, err := objectname.Parse(objectKey)
	if err != nil {
		return nil, err
	}
	name, ok := obj.(objectname.DataFile)
	if !ok {
		return nil, fmt.Errorf("not a data file: %w", fault.ErrNotFound)
	}
	if file, ok := f.files.Get(objectKey); ok {
		return file, nil
	}
	return f.asked.Do(ctx, objectKey, func(ctx context.Context) (*file, error) {
		d, err := f.describer.Describe(ctx, objectKey)
		if err != nil {
			return nil, fmt.Errorf("describe data file: %w", err)
		}
		table, err := f.table(d.Spec)
		if err != nil {
			return nil, err
		}
		file, err := newFile(objectKey, name, table, d.Groups)
		if err != nil {
			return nil, err
		}
		f.files.Add(objectKey, file, 1)
		return file, nil
	})
}

// table compiles a spec, once for all files of the same state epoch, columns and encoding.
func (f *Files) table(spec build.Spec) (*build.Table, error) {
	t, err := build.Compile(spec)
	if err != nil {
		return nil, err
	}
	key := t.Epoch + "/" + t.View + "/" + t.FileSchema + "/" + t.EncodingID
	if known, ok := f.tables.Get(key); ok && known.Topic.ID == spec.Topic.ID && known.HashKey == spec.HashKey {
		return known, nil
	}
	f.tables.Add(key, t, 1)
	return t, nil
}

// newFile checks that a description is about the name, and lays the file out.
func newFile(key string, name objectname.DataFile, table *build.Table, groups []Recorded) (*file, error) {
	if table.EncodingID != name.Encoding {
		return nil, fmt.Errorf("data file is of another version's encoding: %w", fault.ErrRetired)
	}
	if table.Epoch != name.Table.Epoch || table.View != name.View || table.FileSchema != name.FileSchema {
		return nil, fmt.Errorf("what was recorded is not about this data file: %w", fault.ErrCorrupt)
	}
	out := &file{key: key, table: table} // without row groups: a file that was named before its events were read
	var sizes []virtualfile.RowGroup
	at := name.Range.Start
	for _, g := range groups {
		if g.Range.Start < at || g.Range.Empty() || g.Range.End > name.Range.End || g.Rows <= 0 {
			return nil, fmt.Errorf("recorded row group %s does not belong into data file %s: %w", g.Range, name.Range, fault.ErrCorrupt)
		}
		at = g.Range.End
		out.groups = append(out.groups, &wanted{table, name.Partition, g, keyOf(table, name.Partition, g.Range, g.CRC)})
		sizes = append(sizes, virtualfile.RowGroup{SizeBytes: g.SizeBytes, TailBytes: g.TailBytes})
	}
	var err error
	if out.layout, err = virtualfile.New(name.Size, table.Encoder.FileBase(), sizes); err != nil {
		return nil, err
	}
	return out, nil
}

// Package render answers what a name in the bucket stands for: the row groups of a data file, and the bytes of a
// delete file, composed from the chain. What cannot be composed exactly is an error.
package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/lru"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/posdelete"
	"github.com/frazil-io/frazil/libs/puffin"
	"github.com/frazil-io/frazil/libs/shared"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/publish"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Renderer renders. Safe for concurrent use.
type Renderer struct {
	store  *state.Store
	bucket string
	// positions are composed delete sets by object key. A key's content never changes.
	positions *lru.Cache[string, *roaring.Bitmap]
	composing *shared.Group[string, *roaring.Bitmap]
}

// New makes a renderer that keeps composed delete sets of about cacheBytes and composes at most parallel at once.
// Its owner calls Close.
func New(store *state.Store, bucket string, cacheBytes int64, parallel int) *Renderer {
	return &Renderer{
		store: store, bucket: bucket, positions: lru.New[string, *roaring.Bitmap](cacheBytes),
		composing: shared.New[string, *roaring.Bitmap](shared.Limits{Running: parallel}),
	}
}

// CacheBytes is about what composed delete sets take in memory now.
func (r *Renderer) CacheBytes() int64 { _, n := r.positions.Size(); return n }

// Close ends what is being composed.
func (r *Renderer) Close() { r.composing.Close() }

// Object is the bytes of a delete file.
type Object interface {
	// Size is the length in bytes.
	Size() int64
	// WriteRange writes bytes [off, off+n) to w.
	WriteRange(w io.Writer, off, n int64) error
}

// Issued checks that a data file was issued by the record's table. fault.ErrNotFound: it never was.
func Issued(rec *state.Record, d objectname.DataFile) error {
	if d.Table.Name != rec.Table || d.View != objectname.Current || !d.Verify(rec.CheckKey) || int32(d.Partition) >= rec.Partitions {
		return fmt.Errorf("data file: %w: not a name that is issued here", fault.ErrNotFound)
	}
	return nil
}

// IsRoom reports whether a data file was named before all its events were read.
func IsRoom(d objectname.DataFile) bool { return d.Edition == publish.RoomEdition }

// RoomDeletesSize is the size of the delete file of a room: it leaves room for every offset.
func (r *Renderer) RoomDeletesSize(d objectname.DataFile) (int64, error) {
	return posdelete.Length(d.Range.Len(), len(r.path(d)))
}

// path is how delete files name their data file.
func (r *Renderer) path(d objectname.DataFile) string { return "s3://" + r.bucket + "/" + d.Key() }

// DataFile answers the recorded row groups, with rows, of an issued data file, and its schema id. fault.ErrRetired:
// they are not held any more, or Kafka has lost rows of the file.
func (r *Renderer) DataFile(ctx context.Context, rec *state.Record, d objectname.DataFile) ([]*typesv1.RowGroup, int32, error) {
	v, c, err := r.locate(ctx, rec, d)
	if err != nil {
		return nil, 0, err
	}
	sameEdition := c.Edition == d.Edition || IsRoom(d) && c.Edition == publish.RoomEdition+1
	if c.Encoding != d.Encoding || c.FileSchema != d.FileSchema || !sameEdition || rec.BlockLog2 != d.BlockLog2 {
		return nil, 0, fmt.Errorf("data file %s: it is encoded otherwise now: %w", d.Range, fault.ErrRetired)
	}
	if c.Known.End == d.Range.End {
		groups, err := r.recorded(ctx, rec, v, c, c.RowGroups, d)
		if !errors.Is(err, fault.ErrRetired) {
			return groups, c.SchemaID, err
		}
	}
	// A file of an older snapshot: its chunk was still open, or began lower.
	blobs, err := r.store.RowGroupBlobs(ctx, v.Log, d.Range.End)
	if err != nil {
		return nil, 0, err
	}
	for _, blob := range blobs {
		groups, err := r.recorded(ctx, rec, v, c, blob, d)
		if !errors.Is(err, fault.ErrRetired) {
			return groups, c.SchemaID, err
		}
	}
	return nil, 0, fmt.Errorf("data file %s: its row groups are not held: no kept snapshot has it: %w", d.Range, fault.ErrRetired)
}

// recorded answers the row groups of a file from one blob. fault.ErrRetired: it does not have them.
func (r *Renderer) recorded(
	ctx context.Context, rec *state.Record, v *state.View, c *state.Chunk, blob string, d objectname.DataFile,
) ([]*typesv1.RowGroup, error) {
	groups, err := publish.Recorded(ctx, r.store, v.Log, blob, d.Range, rec.BlockLog2)
	if err != nil {
		return nil, err
	}
	// The size of a room says nothing: its range may have been recorded for another encoder, too.
	if slices.ContainsFunc(groups, func(g *typesv1.RowGroup) bool {
		return g.GetEncodingId() != d.Encoding || g.GetFileSchema() != d.FileSchema
	}) {
		return nil, fmt.Errorf("data file %s: what was recorded is encoded otherwise: %w", d.Range, fault.ErrRetired)
	}
	// What a room does not need is a hole in the file.
	if size := scan.FileSize(c.BaseBytes, groups); size > d.Size || size < d.Size && !IsRoom(d) {
		return nil, fmt.Errorf("data file %s of %d bytes, it has %d now: %w", d.Range, d.Size, size, fault.ErrRetired)
	}
	return groups, nil
}

// locate answers the log and the chunk of a data file.
func (r *Renderer) locate(ctx context.Context, rec *state.Record, d objectname.DataFile) (*state.View, *state.Chunk, error) {
	v, err := r.store.View(ctx, state.Log{Epoch: rec.Epoch, Partition: d.Partition})
	if err != nil {
		return nil, nil, err
	}
	if d.Range.Start < v.Head.LogStart {
		return nil, nil, fmt.Errorf("data file %s of partition %d: Kafka has removed everything below offset %d: %w",
			d.Range, d.Partition, v.Head.LogStart, fault.ErrRetired)
	}
	c, err := r.store.Chunk(ctx, v, int64(d.Range.Start)>>rec.ChunkLog2)
	if err != nil {
		return nil, nil, err
	}
	if c == nil || d.Range.Start < c.Known.Start || d.Range.End > c.Known.End {
		return nil, nil, fmt.Errorf("data file %s of partition %d: %w: nothing like it is published", d.Range, d.Partition, fault.ErrNotFound)
	}
	return v, c, nil
}

// Deletes answers the delete file of an issued name; of a room, when the walk has passed it. Errors: fault.ErrNotFound
// for one that was never issued;
// fault.ErrRetired; fault.ErrCorrupt when what it says and what was promised differ.
func (r *Renderer) Deletes(ctx context.Context, rec *state.Record, d objectname.Deletes) (Object, error) {
	v, c, err := r.locate(ctx, rec, d.Data)
	if err != nil {
		return nil, err
	}
	if IsRoom(d.Data) && d.Dialect != objectname.V2 {
		return nil, fmt.Errorf("delete file of %s: %w: only v2 has delete files of what nobody has read", d.Data.Range, fault.ErrNotFound)
	}
	if d.E > v.Head.End {
		return nil, fmt.Errorf("delete file of %s at %d: %w: only %d offsets are scanned", d.Data.Range, d.E, fault.ErrNotFound, v.Head.End)
	}
	key := d.Key()
	positions, ok := r.positions.Get(key)
	if !ok {
		// Readers ask for a file in several ranges at once: it is composed for all of them.
		positions, err = r.composing.Do(ctx, key, func(ctx context.Context) (*roaring.Bitmap, error) {
			p, err := r.compose(ctx, v, c, d)
			if err == nil {
				r.positions.Add(key, p, int64(p.GetSizeInBytes())+256)
			}
			return p, err
		})
		if err != nil {
			return nil, err
		}
	}
	path := r.path(d.Data)
	if IsRoom(d.Data) {
		size, err := r.RoomDeletesSize(d.Data)
		if err != nil {
			return nil, err
		}
		return posdelete.Padded(path, positions, size)
	}
	if d.Dialect == objectname.V3 {
		return vector(path, positions)
	}
	return positionDeletes(path, positions)
}

// compose answers the deleted positions of a file at E.
func (r *Renderer) compose(ctx context.Context, v *state.View, c *state.Chunk, d objectname.Deletes) (*roaring.Bitmap, error) {
	chain, err := r.store.Chain(ctx, v, c, state.CurrentView)
	if err != nil {
		return nil, err
	}
	positions, err := chain.Positions(d.Data.Range, d.E)
	if err != nil {
		return nil, fmt.Errorf("compose the delete file of %s at %d: %w", d.Data.Range, d.E, err)
	}
	if positions.IsEmpty() && !IsRoom(d.Data) {
		return nil, fmt.Errorf("delete file of %s at %d: %w: it has no position", d.Data.Range, d.E, fault.ErrNotFound)
	}
	if rows := chain.Layout.Rows(d.Data.Range); !positions.IsEmpty() && int64(positions.Maximum()) >= rows {
		return nil, fmt.Errorf("delete file of %s: position %d of %d rows: %w", d.Data.Range, positions.Maximum(), rows, fault.ErrCorrupt)
	}
	// What the manifests say was counted as the marks were published. Composed, it must come to the same.
	if d.Data.Range == c.Known {
		if t, ok := c.Ledgers[state.CurrentView].At(d.E); ok && t.Marks != int64(positions.GetCardinality()) {
			return nil, fmt.Errorf("delete file of %s at %d has %d positions, %d were counted: %w",
				d.Data.Range, d.E, positions.GetCardinality(), t.Marks, fault.ErrCorrupt)
		}
	}
	return positions, nil
}

// vector renders a deletion vector. Its length must be what follows from the counters.
func vector(path string, positions *roaring.Bitmap) (Object, error) {
	f, err := puffin.New(path, positions)
	if err != nil {
		return nil, err
	}
	shape, err := puffin.Length(marks.Cardinalities(positions), len(path))
	if err != nil {
		return nil, err
	}
	if shape != f.Shape() {
		return nil, fmt.Errorf("deletion vector of %d bytes, %d were promised: %w", f.Size(), shape.FileSize, fault.ErrCorrupt)
	}
	return f, nil
}

func positionDeletes(path string, positions *roaring.Bitmap) (Object, error) {
	f, err := posdelete.New(path, positions)
	if err != nil {
		return nil, err
	}
	want, err := posdelete.Length(int64(positions.GetCardinality()), len(path))
	if err != nil {
		return nil, err
	}
	if want != f.Size() {
		return nil, fmt.Errorf("position delete file of %d bytes, %d were promised: %w", f.Size(), want, fault.ErrCorrupt)
	}
	return f, nil
}

package publish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/schema"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// renderer makes the manifest groups of one snapshot.
type renderer struct {
	store    *state.Store
	rec      *state.Record
	perGroup int64           // chunks per manifest group
	id       int64           // of the snapshot
	kinds    map[int32]kinds // by schema id
	// earlier are the manifest groups of prev.
	earlier map[groupKey]*state.ManifestGroup
	rooms   *Rooms // nil: every event was read
}

// shown is the file of a chunk in a cut.
type shown struct {
	rng kafkapos.Range
	// chunk is what is published of the chunk; nil, with room: nothing.
	chunk *state.Chunk
	room  bool
}

// groupKey says which chunks a manifest group is of.
type groupKey struct {
	partition kafkapos.Partition
	open      bool
	number    int64
}

func keyOf(g *state.ManifestGroup) groupKey { return groupKey{g.Partition, g.Open, g.Number} }

func newRenderer(store *state.Store, rec *state.Record, perGroup, id int64, prev *state.Snapshot) *renderer {
	r := &renderer{store: store, rec: rec, perGroup: perGroup, id: id, kinds: map[int32]kinds{}, earlier: map[groupKey]*state.ManifestGroup{}}
	if prev != nil {
		for i := range prev.Groups {
			r.earlier[keyOf(&prev.Groups[i])] = &prev.Groups[i]
		}
	}
	return r
}

// groups answers the manifest groups of one partition. Groups that show what they showed before keep their name.
func (r *renderer) groups(ctx context.Context, v *state.View) ([]state.ManifestGroup, error) {
	cut := kafkapos.Range{Start: v.Head.Start, End: v.Head.End}
	closed, open, err := r.split(ctx, v, cut)
	if err != nil {
		return nil, err
	}
	var out []state.ManifestGroup
	for len(closed) > 0 {
		groupOf := func(f shown) int64 { return int64(f.rng.Start) >> r.rec.ChunkLog2 / r.perGroup }
		number := groupOf(closed[0])
		n := slices.IndexFunc(closed, func(f shown) bool { return groupOf(f) != number })
		if n < 0 {
			n = len(closed)
		}
		g, err := r.group(ctx, v, state.ManifestGroup{Partition: v.Log.Partition, Number: number}, closed[:n])
		if err != nil {
			return nil, err
		}
		out = append(out, g)
		closed = closed[n:]
	}
	if open != nil {
		g, err := r.group(ctx, v, state.ManifestGroup{Partition: v.Log.Partition, Open: true}, []shown{*open})
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// split answers the files that the cut shows, ascending: of the closed chunks, and of the one that it ends in.
func (r *renderer) split(ctx context.Context, v *state.View, cut kafkapos.Range) (closed []shown, open *shown, err error) {
	for chunk := range layout.Chunks(cut, r.rec.ChunkLog2) {
		c, err := r.store.Chunk(ctx, v, int64(chunk.Start)>>r.rec.ChunkLog2)
		if err != nil {
			return nil, nil, err
		}
		f := shown{rng: chunk.Intersect(cut), chunk: c}
		if f.room, err = r.isRoom(ctx, v, f); err != nil {
			return nil, nil, err
		}
		if !f.room && (c == nil || c.Known.Start > f.rng.Start || c.Known.End != f.rng.End) {
			return nil, nil, fmt.Errorf("chunk %s is published otherwise than its cut shows it: %w", f.rng, fault.ErrCorrupt)
		}
		if chunk.End <= cut.End {
			closed = append(closed, f)
		} else {
			open = &f
		}
	}
	return closed, open, nil
}

// group renders one manifest group, unless it is made from what the one before was made from.
func (r *renderer) group(ctx context.Context, v *state.View, g state.ManifestGroup, files []shown) (state.ManifestGroup, error) {
	g.Inputs = r.inputs(files, v.Head.End)
	before := r.earlier[keyOf(&g)]
	if before != nil && before.Inputs == g.Inputs {
		return *before, nil
	}
	old := &dedupv1.GetManifestGroupResponse{}
	if before != nil && before.Name != "" {
		var err error
		if old, err = r.store.ManifestGroup(ctx, r.rec.Epoch, before.Name); err != nil {
			return g, fmt.Errorf("read manifest group %s: %w", before.Name, lost(err))
		}
	}
	listed := make(map[string]*dedupv1.ManifestEntry, len(old.GetEntries()))
	for _, e := range old.GetEntries() {
		listed[e.GetDataKey()] = e
	}
	resp := &dedupv1.GetManifestGroupResponse{}
	for _, f := range files {
		e, err := r.entry(ctx, v, f, listed)
		if err != nil {
			return g, err
		}
		if e != nil {
			resp.Entries = append(resp.Entries, e)
		}
	}
	count(&g, resp.GetEntries())
	if len(resp.GetEntries()) == 0 {
		return g, nil // no name: there is nothing to list
	}
	raw, err := state.MarshalEntries(resp)
	if err != nil {
		return g, err
	}
	if before != nil {
		was, err := state.MarshalEntries(old)
		if err != nil {
			return g, err
		}
		if bytes.Equal(raw, was) {
			g.Name, g.AddedSnapshotID = before.Name, before.AddedSnapshotID
			return g, nil
		}
	}
	g.AddedSnapshotID = r.id
	g.Name, err = r.put(ctx, raw)
	return g, err
}

// put stores the entries of a manifest group and answers its name.
func (r *renderer) put(ctx context.Context, raw []byte) (name string, err error) {
	name = state.GroupName(r.rec.Version, raw)
	return name, r.store.PutBlob(ctx, state.GroupBlob(r.rec.Epoch, name), state.ManifestGroupBytes(r.rec.Version, raw))
}

// inputs is a hash of everything that the entries of a group are made from.
func (r *renderer) inputs(files []shown, cutEnd kafkapos.Offset) (sum [16]byte) {
	h := sha256.New()
	var b []byte
	for _, f := range files {
		b = binary.AppendVarint(b[:0], int64(f.rng.Start))
		if f.room {
			h.Write(r.rooms.inputs(b, f.rng, cutEnd))
			continue
		}
		// What a chunk's marks come to is counted: where they lie, folded or not, changes no entry.
		counted := *f.chunk
		counted.Segments, counted.Groups = nil, nil
		h.Write(counted.AppendTo(b))
	}
	copy(sum[:], h.Sum(nil))
	return sum
}

func count(g *state.ManifestGroup, entries []*dedupv1.ManifestEntry) {
	for _, e := range entries {
		g.DataFiles++
		g.Rows += e.GetRows()
		if d := e.GetDeletes(); d != nil {
			g.Rooms = g.Rooms || d.GetRoomPositions() > 0
			g.DeleteFiles++
			g.DeletedRows += d.GetCardinality()
		}
	}
}

// entry answers the entry of a chunk; nil when no row of it is live. listed are the entries of the group before, by
// data key.
func (r *renderer) entry(
	ctx context.Context, v *state.View, f shown, listed map[string]*dedupv1.ManifestEntry,
) (*dedupv1.ManifestEntry, error) {
	if f.room {
		return r.room(v, f.rng, listed), nil
	}
	c, rng := f.chunk, f.rng
	rows, tally, err := r.counts(ctx, v, c, rng)
	if err != nil || rows == tally.Marks {
		return nil, err
	}
	if tally.Marks > rows {
		return nil, fmt.Errorf("chunk %s has %d marks on %d rows: %w", rng, tally.Marks, rows, fault.ErrCorrupt)
	}
	var groups []*typesv1.RowGroup
	size := c.FileBytes
	if rng != c.Known || !c.Complete {
		if groups, err = Recorded(ctx, r.store, v.Log, c.RowGroups, rng, r.rec.BlockLog2); err != nil {
			return nil, err
		}
		size = scan.FileSize(c.BaseBytes, groups)
	}
	key := objectname.DataFile{
		Table: objectname.Table{Name: r.rec.Table, Epoch: r.rec.Epoch}, View: objectname.Current, Partition: v.Log.Partition,
		Range: rng, Edition: c.Edition, BlockLog2: r.rec.BlockLog2, FileSchema: c.FileSchema, Encoding: c.Encoding, Size: size,
	}.Signed(r.rec.CheckKey).Key()
	e := &dedupv1.ManifestEntry{
		Partition: int32(v.Log.Partition), Start: int64(rng.Start), End: int64(rng.End), DataKey: key, Rows: rows,
		FileSizeBytes: size, AddedSnapshotId: r.id,
	}
	old := listed[key]
	if old != nil {
		e.AddedSnapshotId, e.SplitOffsets, e.Columns = old.GetAddedSnapshotId(), old.GetSplitOffsets(), old.GetColumns()
	} else if err := r.describe(ctx, v, c, rng, groups, e); err != nil {
		return nil, err
	}
	if tally.Marks == 0 {
		return e, nil
	}
	e.Deletes = &dedupv1.DeleteEntry{
		E: int64(tally.E()), Cardinality: tally.Marks, ContainerCardinalities: tally.Containers, AddedSnapshotId: r.id,
	}
	if was := old.GetDeletes(); was != nil && was.GetE() == e.GetDeletes().GetE() && was.GetCardinality() == tally.Marks {
		e.Deletes.AddedSnapshotId = was.GetAddedSnapshotId()
	}
	return e, nil
}

// counts answers the rows of a chunk's file and the marks on them. Only a chunk that the start has cut is composed.
func (r *renderer) counts(ctx context.Context, v *state.View, c *state.Chunk, rng kafkapos.Range) (int64, marks.Tally, error) {
	if rng == c.Known {
		if t, ok := c.Ledgers[state.CurrentView].At(v.Head.End); ok {
			return c.Rows, t, nil
		}
	}
	chain, err := r.store.Chain(ctx, v, c, state.CurrentView)
	if err != nil {
		return 0, marks.Tally{}, err
	}
	t, err := chain.Tally(rng, v.Head.End)
	return chain.Layout.Rows(rng), t, err
}

// describe fills in what follows from the row groups of a file that was not listed before.
func (r *renderer) describe(
	ctx context.Context, v *state.View, c *state.Chunk, rng kafkapos.Range, groups []*typesv1.RowGroup, e *dedupv1.ManifestEntry,
) error {
	if groups == nil {
		var err error
		if groups, err = Recorded(ctx, r.store, v.Log, c.RowGroups, rng, r.rec.BlockLog2); err != nil {
			return err
		}
	}
	at, rows := int64(firstRowGroup), int64(0)
	for _, g := range groups {
		e.SplitOffsets = append(e.SplitOffsets, at)
		at += g.GetSizeBytes()
		rows += g.GetRows()
	}
	if rows != e.GetRows() {
		return fmt.Errorf("row groups of %s hold %d rows, the layout %d: %w", rng, rows, e.GetRows(), fault.ErrCorrupt)
	}
	k, err := r.kindsOf(c.SchemaID)
	if err != nil {
		return err
	}
	e.Columns = mergeBounds(k, groups)
	return nil
}

// firstRowGroup is where a Parquet file's first row group begins: after the magic.
const firstRowGroup = 4

func (r *renderer) kindsOf(id int32) (kinds, error) {
	if k, ok := r.kinds[id]; ok {
		return k, nil
	}
	if int(id) >= len(r.rec.Schemas) {
		return nil, fmt.Errorf("schema %d of %d: %w", id, len(r.rec.Schemas), fault.ErrCorrupt)
	}
	s, err := schema.ParseJSON(r.rec.Schemas[id])
	if err != nil {
		return nil, fmt.Errorf("parse schema %d: %w", id, err)
	}
	r.kinds[id] = kindsOf(s)
	return r.kinds[id], nil
}

// Recorded answers the recorded row groups, with rows, of the file over rng. fault.ErrRetired: not all of them
// are recorded in the blob.
func Recorded(
	ctx context.Context, store *state.Store, log state.Log, blob string, rng kafkapos.Range, blockLog2 int,
) ([]*typesv1.RowGroup, error) {
	have, err := store.RowGroups(ctx, log, blob)
	if err != nil {
		return nil, err
	}
	var out []*typesv1.RowGroup
	for _, want := range layout.RowGroups(rng, blockLog2) {
		i := slices.IndexFunc(have, func(g *typesv1.RowGroup) bool { return scan.RangeOf(g) == want })
		if i < 0 {
			return nil, fmt.Errorf("row group %s of the file over %s is not recorded: %w", want, rng, fault.ErrRetired)
		}
		if have[i].GetRows() > 0 {
			out = append(out, have[i])
		}
	}
	return out, nil
}

// lost makes of a thing that the current snapshot names and the store lacks what it is.
func lost(err error) error {
	if errors.Is(err, fault.ErrNotFound) {
		return fmt.Errorf("the snapshot names what the store lacks: %w", state.ErrLost)
	}
	return err
}

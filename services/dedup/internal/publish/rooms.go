package publish

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/schema"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// RoomEdition is the edition in the name of a data file that was named before all its events were read. Its size is
// a room; its rows are what turns out. Editions of files that were read count from 1.
const RoomEdition = 0

// Rooms says how data files are named of which not every event was read. Immutable.
type Rooms struct {
	// Bytes is the size that such a file declares.
	Bytes int64
	// Encoding and FileSchema are those of the present materializers and the newest schema.
	Encoding, FileSchema string
	// Times, by partition and ascending, bound the timestamps of what nobody has read. It may be short.
	Times [][]TimeMark
}

// TimeMark: every event below Offset is older than Millis, Unix milliseconds.
type TimeMark struct {
	Millis int64
	Offset kafkapos.Offset
}

// inputs appends everything that the entry of a room over rng is made from. What is known of its timestamps is not
// among it: an entry keeps the bounds with which it was listed first.
func (r *Rooms) inputs(b []byte, rng kafkapos.Range, cutEnd kafkapos.Offset) []byte {
	b = append(b, "room"...)
	for _, v := range []int64{int64(rng.End), int64(cutEnd), r.Bytes} {
		b = binary.AppendVarint(b, v)
	}
	return append(b, r.Encoding+"/"+r.FileSchema...)
}

// isRoom reports whether a file is shown as a room: not all of its events, or not all of its row groups, are known.
func (r *renderer) isRoom(ctx context.Context, v *state.View, f shown) (bool, error) {
	switch {
	case r.rooms == nil:
		return false, nil
	case f.chunk == nil || f.chunk.Known.Start > f.rng.Start || f.chunk.Known.End != f.rng.End:
		return v.Head.Frontier > f.rng.Start, nil
	case f.chunk.Known == f.rng:
		return !f.chunk.Complete, nil
	}
	_, err := Recorded(ctx, r.store, v.Log, f.chunk.RowGroups, f.rng, r.rec.BlockLog2)
	if errors.Is(err, fault.ErrRetired) {
		return true, nil
	}
	return false, err
}

// room is the entry of a file that is shown as a room. Its delete set is that of the cut's end: it holds whatever the
// walk will find.
func (r *renderer) room(v *state.View, rng kafkapos.Range, listed map[string]*dedupv1.ManifestEntry) *dedupv1.ManifestEntry {
	key := objectname.DataFile{
		Table: objectname.Table{Name: r.rec.Table, Epoch: r.rec.Epoch}, View: objectname.Current, Partition: v.Log.Partition,
		Range: rng, Edition: RoomEdition, BlockLog2: r.rec.BlockLog2, FileSchema: r.rooms.FileSchema, Encoding: r.rooms.Encoding,
		Size: r.rooms.Bytes,
	}.Signed(r.rec.CheckKey).Key()
	e := &dedupv1.ManifestEntry{
		Partition: int32(v.Log.Partition), Start: int64(rng.Start), End: int64(rng.End), DataKey: key, Rows: rng.Len(),
		FileSizeBytes: r.rooms.Bytes, SplitOffsets: []int64{firstRowGroup}, AddedSnapshotId: r.id,
		Deletes: &dedupv1.DeleteEntry{E: int64(v.Head.End), Cardinality: 1, RoomPositions: rng.Len(), AddedSnapshotId: r.id},
	}
	old := listed[key]
	if old == nil {
		e.Columns = r.rooms.bounds(v.Log.Partition, rng)
		return e
	}
	e.AddedSnapshotId, e.Columns = old.GetAddedSnapshotId(), old.GetColumns()
	if was := old.GetDeletes(); was.GetE() == e.GetDeletes().GetE() {
		e.Deletes.AddedSnapshotId = was.GetAddedSnapshotId()
	}
	return e
}

// bounds is what is known of the columns of a file that nobody has read.
func (r *Rooms) bounds(p kafkapos.Partition, rng kafkapos.Range) []*typesv1.ColumnBounds {
	partition := binary.LittleEndian.AppendUint32(nil, uint32(p))
	out := []*typesv1.ColumnBounds{
		{FieldId: schema.PartitionFieldID, Lower: partition, Upper: partition},
		{FieldId: schema.OffsetFieldID, Lower: long(int64(rng.Start)), Upper: long(int64(rng.End - 1))},
	}
	timestamp := &typesv1.ColumnBounds{FieldId: schema.TimestampFieldID}
	if newest, ok := r.newest(p, rng.End); ok {
		timestamp.Upper = long(newest)
	}
	out = append(out, timestamp)
	for _, c := range out {
		c.ValueCount = rng.Len()
	}
	return out
}

// newest answers the highest timestamp, microseconds, that an event below end can have.
func (r *Rooms) newest(p kafkapos.Partition, end kafkapos.Offset) (micros int64, ok bool) {
	if int(p) >= len(r.Times) {
		return 0, false
	}
	times := r.Times[p]
	i := slices.IndexFunc(times, func(m TimeMark) bool { return m.Offset >= end })
	if i < 0 {
		return 0, false
	}
	return (times[i].Millis - 1) * 1000, true // Kafka counts milliseconds
}

func long(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/iceberg"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/posdelete"
	"github.com/frazil-io/frazil/libs/puffin"
)

// rowIDShift: the row id of an offset is partition << 44 | offset.
const rowIDShift = 44

// maxPartitionProperties is up to how many partitions metadata spells out per-partition offsets.
const maxPartitionProperties = 64

// staleness says that a table's last snapshot is behind its topic.
type staleness struct {
	since  time.Time // zero = it is not
	reason string
	// walked is how far a lazy table was read, as properties; nil = there is nothing to say.
	walked map[string]string
}

// metadata renders the metadata JSON of the state. What is rendered with the zero staleness and all snapshots is
// the object that the metadata location names; everything else only travels inline.
func (s subject) metadata(stale staleness, refsOnly bool) ([]byte, error) {
	state := s.state
	if snap := currentSnapshot(state); snap != nil && !s.shows(snap) {
		return nil, s.refused()
	}
	listed := s.listed(refsOnly)
	m := iceberg.Metadata{
		FormatVersion: s.formatVersion(), UUID: s.uuid().String(), Location: s.location(),
		LastUpdatedMs: state.GetUpdatedMillis(), Schemas: state.GetSchemasJson(), CurrentSchemaID: state.GetCurrentSchemaId(),
		Properties: s.properties(stale), Tags: map[string]int64{}, NextRowID: int64(state.GetPartitions()) << rowIDShift,
	}
	for i, snap := range listed {
		m.Snapshots = append(m.Snapshots, s.snapshot(snap, i == len(listed)-1))
	}
	for tag, id := range state.GetTags() {
		// A tag whose snapshot has expired is no ref any more.
		if slices.ContainsFunc(listed, func(x *dedupv1.Snapshot) bool { return x.GetId() == id }) {
			m.Tags[tag] = id
		}
	}
	data, err := iceberg.RenderMetadata(m)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", s.state.GetTable(), err)
	}
	return data, nil
}

// listed answers the snapshots that metadata names, oldest first: the newest ones, the tagged ones, the current.
func (s subject) listed(refsOnly bool) []*dedupv1.Snapshot {
	all := s.state.GetSnapshots()
	newest := s.cfg.ListedSnapshots
	if refsOnly {
		newest = 1
	}
	tagged := map[int64]bool{}
	for _, id := range s.state.GetTags() {
		tagged[id] = true
	}
	var out []*dedupv1.Snapshot
	for i, snap := range all {
		if (i >= len(all)-newest || tagged[snap.GetId()]) && s.shows(snap) {
			out = append(out, snap)
		}
	}
	return out
}

func (s subject) properties(stale staleness) map[string]string {
	p := map[string]string{
		"frazil.topic":       s.state.GetTopic().GetTopic(),
		"frazil.state-epoch": s.table.Epoch,
		"frazil.plan":        s.state.GetPlan(),
	}
	maps.Copy(p, stale.walked)
	if !stale.since.IsZero() {
		p["frazil.stale-since"] = stale.since.UTC().Format("2006-01-02T15:04:05.000Z07:00")
		p["frazil.stale-reason"] = stale.reason
	}
	if snap := currentSnapshot(s.state); snap != nil && len(snap.GetCut()) <= maxPartitionProperties {
		for _, c := range snap.GetCut() {
			p["frazil.start."+strconv.Itoa(int(c.GetPartition()))] = strconv.FormatInt(c.GetStart(), 10)
		}
	}
	return p
}

func (s subject) snapshot(snap *dedupv1.Snapshot, current bool) iceberg.Snapshot {
	out := iceberg.Snapshot{
		ID: snap.GetId(), ParentID: snap.GetParentId(), TimestampMs: snap.GetTimestampMillis(), SchemaID: snap.GetSchemaId(),
		ManifestList: s.uri(s.object(s.listFile(snap)).Key()), Totals: totals(snap.GetGroups()),
	}
	if current && len(snap.GetCut()) <= maxPartitionProperties {
		out.Extra = make(map[string]string, len(snap.GetCut()))
		for _, c := range snap.GetCut() {
			out.Extra["frazil.end."+strconv.Itoa(int(c.GetPartition()))] = strconv.FormatInt(c.GetEnd(), 10)
		}
	}
	return out
}

func totals(groups []*dedupv1.GroupRef) (t iceberg.Totals) {
	for _, g := range groups {
		t.DataFiles += g.GetDataFiles()
		t.Rows += g.GetRows()
		t.DeleteFiles += g.GetDeleteFiles()
		t.DeletedRows += g.GetDeletedRows()
	}
	return t
}

func currentSnapshot(state *dedupv1.TableState) *dedupv1.Snapshot {
	if n := len(state.GetSnapshots()); n > 0 {
		return state.GetSnapshots()[n-1]
	}
	return nil
}

// renderedGroup is the two manifests of a group. Without delete files there is no delete manifest.
type renderedGroup struct {
	data, deletes         []byte
	dataLine, deletesLine iceberg.ManifestFile
}

// lines are the group's lines of a manifest list: the manifests without their bytes.
type groupLines struct {
	data, deletes iceberg.ManifestFile
}

func (s subject) group(id manifestID, entries []*dedupv1.ManifestEntry) (*renderedGroup, error) {
	if id.schemaID < 0 || int(id.schemaID) >= len(s.state.GetSchemasJson()) {
		return nil, fmt.Errorf("manifest group %s: schema %d: %w", id.group, id.schemaID, fault.ErrNotFound)
	}
	base := iceberg.Manifest{
		FormatVersion: s.formatVersion(), SnapshotID: id.snapshotID,
		SchemaID: id.schemaID, SchemaJSON: s.state.GetSchemasJson()[id.schemaID],
	}
	data, deletes := base, base
	data.Content, deletes.Content = iceberg.Data, iceberg.PositionDeletes
	for _, e := range entries {
		if err := s.addEntry(e, &data, &deletes); err != nil {
			return nil, fmt.Errorf("manifest group %s: %w", id.group, err)
		}
	}
	var out renderedGroup
	var err error
	if len(data.Entries) > 0 {
		if out.data, out.dataLine, err = iceberg.RenderManifest(data); err != nil {
			return nil, fmt.Errorf("manifest group %s: %w", id.group, err)
		}
		out.dataLine.Path = s.uri(s.object(id.file(iceberg.Data)).Key())
	}
	if len(deletes.Entries) > 0 {
		if out.deletes, out.deletesLine, err = iceberg.RenderManifest(deletes); err != nil {
			return nil, fmt.Errorf("manifest group %s: %w", id.group, err)
		}
		out.deletesLine.Path = s.uri(s.object(id.file(iceberg.PositionDeletes)).Key())
	}
	return &out, nil
}

// addEntry turns what dedup keeps of a data file into what the two manifests say about it.
func (s subject) addEntry(e *dedupv1.ManifestEntry, data, deletes *iceberg.Manifest) error {
	object, err := objectname.Parse(e.GetDataKey())
	file, isData := object.(objectname.DataFile)
	if err != nil || !isData || file.Table != s.table || file.View != objectname.Current ||
		file.Partition != kafkapos.Partition(e.GetPartition()) || file.Size != e.GetFileSizeBytes() ||
		file.Range != (kafkapos.Range{Start: kafkapos.Offset(e.GetStart()), End: kafkapos.Offset(e.GetEnd())}) {
		return fmt.Errorf("entry of partition %d [%d,%d) does not fit its name: %w", e.GetPartition(), e.GetStart(), e.GetEnd(), fault.ErrCorrupt)
	}
	if e.GetRows() > file.Range.Len() || e.GetEnd() > 1<<rowIDShift {
		return fmt.Errorf("entry of partition %d %v with %d rows: %w", e.GetPartition(), file.Range, e.GetRows(), fault.ErrCorrupt)
	}
	path := s.uri(e.GetDataKey())
	data.Entries = append(data.Entries, iceberg.Entry{SnapshotID: e.GetAddedSnapshotId(), File: iceberg.File{
		Path: path, Format: iceberg.Parquet, Rows: e.GetRows(), Size: e.GetFileSizeBytes(),
		SplitOffsets: e.GetSplitOffsets(), Columns: columns(e),
		FirstRowID: int64(e.GetPartition())<<rowIDShift | e.GetStart(),
	}})
	d := e.GetDeletes()
	if d == nil {
		return nil
	}
	f := iceberg.File{
		Path: s.uri(objectname.Deletes{Data: file, Dialect: s.dialect, E: kafkapos.Offset(d.GetE())}.Key()),
		Rows: d.GetCardinality(), ReferencedDataFile: path,
	}
	if err := s.sizeDeletes(&f, d, e.GetRows()); err != nil {
		return fmt.Errorf("deletes of partition %d %v: %w", e.GetPartition(), file.Range, err)
	}
	deletes.Entries = append(deletes.Entries, iceberg.Entry{SnapshotID: d.GetAddedSnapshotId(), File: f})
	return nil
}

// sizeDeletes states the length of a delete file that nobody has composed yet: it follows from the counts.
func (s subject) sizeDeletes(f *iceberg.File, d *dedupv1.DeleteEntry, rows int64) (err error) {
	if room := d.GetRoomPositions(); room > 0 {
		if s.dialect == objectname.V3 || d.GetCardinality() < 1 || room > rows {
			return fmt.Errorf("%w: %d positions in a room of %d", fault.ErrCorrupt, d.GetCardinality(), room)
		}
		f.Format = iceberg.Parquet
		if f.Size, err = posdelete.Length(room, len(f.ReferencedDataFile)); err != nil {
			return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
		}
		return nil
	}
	shape, err := puffin.Length(d.GetContainerCardinalities(), len(f.ReferencedDataFile))
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	if shape.Cardinality != d.GetCardinality() || d.GetCardinality() > rows {
		return fmt.Errorf("%w: %d positions, %d by container, of %d rows", fault.ErrCorrupt, d.GetCardinality(), shape.Cardinality, rows)
	}
	if s.dialect == objectname.V3 {
		f.Format, f.Size = iceberg.Puffin, shape.FileSize
		f.ContentOffset, f.ContentSize = shape.BlobOffset, shape.BlobSize
		return nil
	}
	f.Format = iceberg.Parquet
	f.Size, err = posdelete.Length(d.GetCardinality(), len(f.ReferencedDataFile))
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	return nil
}

func columns(e *dedupv1.ManifestEntry) []iceberg.Column {
	out := make([]iceberg.Column, 0, len(e.GetColumns()))
	for _, c := range e.GetColumns() {
		out = append(out, iceberg.Column{
			FieldID: c.GetFieldId(), Lower: c.Lower, Upper: c.Upper, Values: c.GetValueCount(), Nulls: c.GetNullCount(),
		})
	}
	return out
}

// list renders the manifest list of a snapshot, whose groups' lines are given in order. It refuses totals that
// differ from what metadata says about the snapshot: some engines answer count(*) from one, some from the other.
func (s subject) list(snap *dedupv1.Snapshot, groups []groupLines) ([]byte, error) {
	var data, deletes []iceberg.ManifestFile
	var sum iceberg.Totals
	for _, g := range groups {
		if g.data.Path != "" {
			data = append(data, g.data)
			sum.DataFiles += g.data.AddedFiles + g.data.ExistingFiles
			sum.Rows += g.data.AddedRows + g.data.ExistingRows
		}
		if g.deletes.Path != "" {
			deletes = append(deletes, g.deletes)
			sum.DeleteFiles += g.deletes.AddedFiles + g.deletes.ExistingFiles
			sum.DeletedRows += g.deletes.AddedRows + g.deletes.ExistingRows
		}
	}
	if want := totals(snap.GetGroups()); sum != want {
		return nil, fmt.Errorf("manifest list of snapshot %d: groups hold %+v, the snapshot says %+v: %w", snap.GetId(), sum, want, fault.ErrCorrupt)
	}
	return iceberg.RenderManifestList(iceberg.ManifestList{
		FormatVersion: s.formatVersion(), SnapshotID: snap.GetId(), ParentID: snap.GetParentId(), Manifests: slices.Concat(data, deletes),
	})
}

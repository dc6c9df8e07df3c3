package iceberg

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/frazil-io/frazil/libs/fault"
)

// MainBranch is the name of the ref that every table with a snapshot has.
const MainBranch = "main"

// Totals are the honest counts of a snapshot's summary.
type Totals struct {
	DataFiles, Rows          int64
	DeleteFiles, DeletedRows int64
}

// Snapshot is one listed snapshot.
type Snapshot struct {
	ID int64
	// ParentID is the snapshot before; 0 = none.
	ParentID    int64
	TimestampMs int64 // Unix milliseconds
	SchemaID    int32
	// ManifestList is the full location of the manifest list.
	ManifestList string
	Totals       Totals
	// Extra is added to the summary.
	Extra map[string]string
}

// Metadata is one version of a table.
type Metadata struct {
	FormatVersion int
	UUID          string
	Location      string
	LastUpdatedMs int64 // Unix milliseconds
	// Schemas are Iceberg schema JSON; the index is the schema id.
	Schemas         [][]byte
	CurrentSchemaID int32
	Properties      map[string]string
	// Snapshots by ascending time; the last one is current. None = an empty table.
	Snapshots []Snapshot
	Tags      map[string]int64
	// NextRowID is above every row id of the table; format version 3 only.
	NextRowID int64
}

type metadataJSON struct {
	FormatVersion      int                `json:"format-version"`
	TableUUID          string             `json:"table-uuid"`
	Location           string             `json:"location"`
	LastSequenceNumber int64              `json:"last-sequence-number"`
	LastUpdatedMs      int64              `json:"last-updated-ms"`
	LastColumnID       int32              `json:"last-column-id"`
	CurrentSchemaID    int32              `json:"current-schema-id"`
	Schemas            []json.RawMessage  `json:"schemas"`
	DefaultSpecID      int                `json:"default-spec-id"`
	PartitionSpecs     []specJSON         `json:"partition-specs"`
	LastPartitionID    int                `json:"last-partition-id"`
	DefaultSortOrderID int                `json:"default-sort-order-id"`
	SortOrders         []sortOrderJSON    `json:"sort-orders"`
	NextRowID          *int64             `json:"next-row-id,omitempty"`
	Properties         map[string]string  `json:"properties"`
	CurrentSnapshotID  *int64             `json:"current-snapshot-id,omitempty"`
	Refs               map[string]refJSON `json:"refs"`
	Snapshots          []snapshotJSON     `json:"snapshots"`
	SnapshotLog        []logJSON          `json:"snapshot-log"`
	MetadataLog        []struct{}         `json:"metadata-log"`
}

type specJSON struct {
	SpecID int        `json:"spec-id"`
	Fields []struct{} `json:"fields"`
}

type sortOrderJSON struct {
	OrderID int        `json:"order-id"`
	Fields  []struct{} `json:"fields"`
}

type refJSON struct {
	SnapshotID int64  `json:"snapshot-id"`
	Type       string `json:"type"`
}

// snapshotJSON leaves out what is absent: Java's parser fails at a null parent.
type snapshotJSON struct {
	SequenceNumber int64             `json:"sequence-number"`
	SnapshotID     int64             `json:"snapshot-id"`
	ParentID       int64             `json:"parent-snapshot-id,omitempty"`
	TimestampMs    int64             `json:"timestamp-ms"`
	Summary        map[string]string `json:"summary"`
	ManifestList   string            `json:"manifest-list"`
	SchemaID       int32             `json:"schema-id"`
	FirstRowID     *int64            `json:"first-row-id,omitempty"`
	AddedRows      *int64            `json:"added-rows,omitempty"`
}

type logJSON struct {
	TimestampMs int64 `json:"timestamp-ms"`
	SnapshotID  int64 `json:"snapshot-id"`
}

// RenderMetadata makes table metadata JSON. Errors: fault.ErrCorrupt for metadata that contradicts itself.
func RenderMetadata(m Metadata) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("render metadata: %w", err)
	}
	schemas, lastColumn, err := m.schemas()
	if err != nil {
		return nil, fmt.Errorf("render metadata: %w", err)
	}
	out := metadataJSON{
		FormatVersion: m.FormatVersion, TableUUID: m.UUID, Location: m.Location,
		LastSequenceNumber: sequenceNumber, LastUpdatedMs: m.LastUpdatedMs, LastColumnID: lastColumn,
		CurrentSchemaID: m.CurrentSchemaID, Schemas: schemas,
		DefaultSpecID: specID, PartitionSpecs: []specJSON{{specID, []struct{}{}}}, LastPartitionID: lastPartitionID,
		DefaultSortOrderID: sortOrderID, SortOrders: []sortOrderJSON{{sortOrderID, []struct{}{}}},
		Properties: m.Properties, Refs: map[string]refJSON{},
		Snapshots: make([]snapshotJSON, 0, len(m.Snapshots)), SnapshotLog: make([]logJSON, 0, len(m.Snapshots)),
		MetadataLog: []struct{}{},
	}
	if out.Properties == nil {
		out.Properties = map[string]string{}
	}
	if m.FormatVersion >= V3 {
		out.NextRowID = &m.NextRowID
	}
	logged := int64(0)
	for i := range m.Snapshots {
		s := &m.Snapshots[i]
		out.Snapshots = append(out.Snapshots, m.snapshot(s))
		// The log must ascend, and last-updated-ms may not lie before it (both checked by Java): a clock that
		// was set back does not show in them.
		out.LastUpdatedMs = max(out.LastUpdatedMs, s.TimestampMs)
		logged = max(logged, s.TimestampMs)
		out.SnapshotLog = append(out.SnapshotLog, logJSON{logged, s.ID})
	}
	for name, id := range m.Tags {
		out.Refs[name] = refJSON{id, "tag"}
	}
	if n := len(m.Snapshots); n > 0 {
		current := m.Snapshots[n-1].ID
		out.CurrentSnapshotID = &current
		out.Refs[MainBranch] = refJSON{current, "branch"}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("render metadata: %w", err)
	}
	return data, nil
}

func (m *Metadata) snapshot(s *Snapshot) snapshotJSON {
	// No added-* and no changed-* counts: they would have to be right, nobody needs them, and the totals are.
	summary := map[string]string{
		// An append would let incremental readers skip the deletes.
		"operation":              "overwrite",
		"total-data-files":       strconv.FormatInt(s.Totals.DataFiles, 10),
		"total-delete-files":     strconv.FormatInt(s.Totals.DeleteFiles, 10),
		"total-records":          strconv.FormatInt(s.Totals.Rows, 10),
		"total-position-deletes": strconv.FormatInt(s.Totals.DeletedRows, 10),
		// Doris answers count(*) from the totals only if this one is there.
		"total-equality-deletes": "0",
	}
	maps.Copy(summary, s.Extra)
	out := snapshotJSON{
		SequenceNumber: sequenceNumber, SnapshotID: s.ID, ParentID: s.ParentID, TimestampMs: s.TimestampMs,
		Summary: summary, ManifestList: s.ManifestList, SchemaID: s.SchemaID,
	}
	if m.FormatVersion >= V3 {
		// Row ids are assigned by partition and offset, so every snapshot may use all of them: added-rows is
		// the spec's upper bound, not a count of rows.
		first, added := int64(0), m.NextRowID
		out.FirstRowID, out.AddedRows = &first, &added
	}
	return out
}

func (m *Metadata) check() error {
	if err := checkFormat(m.FormatVersion); err != nil {
		return err
	}
	if m.CurrentSchemaID < 0 || int(m.CurrentSchemaID) >= len(m.Schemas) {
		return fmt.Errorf("%w: current schema %d of %d", fault.ErrCorrupt, m.CurrentSchemaID, len(m.Schemas))
	}
	ids := map[int64]bool{}
	for i := range m.Snapshots {
		s := &m.Snapshots[i]
		if s.ID <= 0 || ids[s.ID] {
			return fmt.Errorf("%w: snapshot id %d is not positive or not unique", fault.ErrCorrupt, s.ID)
		}
		ids[s.ID] = true
		if s.SchemaID < 0 || int(s.SchemaID) >= len(m.Schemas) {
			return fmt.Errorf("%w: snapshot %d has unknown schema %d", fault.ErrCorrupt, s.ID, s.SchemaID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Tags)) {
		if name == MainBranch || !ids[m.Tags[name]] {
			return fmt.Errorf("%w: tag %q names no listed snapshot or is the main branch", fault.ErrCorrupt, name)
		}
	}
	return nil
}

// schemas checks that each schema knows its own id, and finds the highest field id ever used.
func (m *Metadata) schemas() ([]json.RawMessage, int32, error) {
	var highest int32
	out := make([]json.RawMessage, len(m.Schemas))
	for i, raw := range m.Schemas {
		var s struct {
			SchemaID *int32 `json:"schema-id"`
			Fields   any    `json:"fields"`
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&s); err != nil {
			return nil, 0, fmt.Errorf("%w: schema %d: %w", fault.ErrCorrupt, i, err)
		}
		if s.SchemaID == nil || int(*s.SchemaID) != i {
			return nil, 0, fmt.Errorf("%w: schema %d does not state its id", fault.ErrCorrupt, i)
		}
		highest = max(highest, highestID(s.Fields))
		out[i] = raw
	}
	return out, highest, nil
}

// highestID finds the highest field id in a decoded schema: fields, list elements, map keys and values.
func highestID(v any) int32 {
	var highest int32
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			highest = max(highest, highestID(e))
		}
	case map[string]any:
		for key, e := range v {
			n, ok := e.(json.Number)
			if !ok {
				highest = max(highest, highestID(e))
				continue
			}
			switch key {
			case "id", "element-id", "key-id", "value-id":
				if id, err := strconv.ParseInt(n.String(), 10, 32); err == nil {
					highest = max(highest, int32(id))
				}
			}
		}
	}
	return highest
}

package icebergscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// Table is what the metadata of a table says, as far as the tools need it. Read-only after ParseTable.
type Table struct {
	FormatVersion      int
	UUID               string
	Location           string
	LastSequenceNumber int64
	LastUpdatedMs      int64 // Unix milliseconds
	NextRowID          int64 // format version 3
	CurrentSchemaID    int32
	Properties         map[string]string
	// Snapshots as listed.
	Snapshots []Snapshot
	Refs      map[string]Ref

	specs   map[int32]*Spec
	fields  map[int32]Field
	widened map[int32]bool
	current map[int32]bool // ids of the current schema
}

// Field is a column, at any depth.
type Field struct {
	ID   int32
	Name string // dotted path
	// Type is the name of a primitive type, as decimal(9,2), or struct, list, map.
	Type     string
	Required bool
	// InitialDefault is the value of rows in files that do not have the column, in JSON single-value serialisation;
	// nil = null (Iceberg spec, "Default values").
	InitialDefault json.RawMessage
	// Path are the ids from the top-level column down to the field itself.
	Path []int32
}

// Primitive reports whether the field holds a value and no other fields.
func (f Field) Primitive() bool { return f.Type != "struct" && f.Type != "list" && f.Type != "map" }

// Spec is a partition spec.
type Spec struct {
	ID     int32
	Fields []SpecField // in the order of the spec
	byID   []SpecField
}

// SpecField is one field of a partition tuple.
type SpecField struct {
	// SourceID is the column; of a transform with several, the first.
	SourceID  int32
	FieldID   int32
	Name      string
	Transform string
}

// Unpartitioned reports whether equality deletes of the spec are global: no fields, or only dropped ones
// (PartitionSpec.isUnpartitioned of Iceberg Java; Iceberg spec, "Scan Planning").
func (s *Spec) Unpartitioned() bool {
	return !slices.ContainsFunc(s.Fields, func(f SpecField) bool { return f.Transform != "void" })
}

// ByID answers the fields in ascending order of their ids, the order of Entry.Partition.
func (s *Spec) ByID() []SpecField { return s.byID }

// Snapshot is one version of the table.
type Snapshot struct {
	ID             int64
	ParentID       int64 // 0 = none
	SequenceNumber int64
	TimestampMs    int64 // Unix milliseconds
	ManifestList   string
	SchemaID       int32
	// Summary with "operation".
	Summary map[string]string
}

// Operation is what made the snapshot: append, replace, overwrite or delete; "" if it is not said.
func (s *Snapshot) Operation() string { return s.Summary["operation"] }

// Ref is a branch or a tag.
type Ref struct {
	SnapshotID int64
	Type       string // branch or tag
}

// MainBranch is the branch of readers that name none.
const MainBranch = "main"

// Spec answers the partition spec of an id. Errors: fault.ErrCorrupt if the metadata has none.
func (t *Table) Spec(id int32) (*Spec, error) {
	s, ok := t.specs[id]
	if !ok {
		return nil, fmt.Errorf("partition spec %d is not in the metadata: %w", id, fault.ErrCorrupt)
	}
	return s, nil
}

// Specs answers the specs in ascending order of their ids.
func (t *Table) Specs() []*Spec {
	out := make([]*Spec, 0, len(t.specs))
	for _, s := range t.specs {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Spec) int { return int(a.ID) - int(b.ID) })
	return out
}

// Field answers the column of an id as the current schema has it, or else the newest schema that had it.
func (t *Table) Field(id int32) (Field, bool) {
	f, ok := t.fields[id]
	return f, ok
}

// Widened reports whether the column has had another type: data files of before hold it.
func (t *Table) Widened(id int32) bool { return t.widened[id] }

// Current reports whether the column is in the current schema.
func (t *Table) Current(id int32) bool { return t.current[id] }

// Snapshot answers a listed snapshot. Errors: fault.ErrNotFound.
func (t *Table) Snapshot(id int64) (*Snapshot, error) {
	for i := range t.Snapshots {
		if t.Snapshots[i].ID == id {
			return &t.Snapshots[i], nil
		}
	}
	return nil, fmt.Errorf("snapshot %d is not in the metadata: %w", id, fault.ErrNotFound)
}

// Head answers the snapshot that a branch or tag names; nil for the main branch of a table without snapshots.
// Errors: fault.ErrNotFound, naming the refs that exist.
func (t *Table) Head(ref string) (*Snapshot, error) {
	r, ok := t.Refs[ref]
	if ok {
		return t.Snapshot(r.SnapshotID)
	}
	if ref == MainBranch {
		return nil, nil
	}
	known := make([]string, 0, len(t.Refs))
	for name := range t.Refs {
		known = append(known, name)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("the table has no branch or tag %q (it has: %s): %w", ref, strings.Join(known, ", "), fault.ErrNotFound)
}

// wire forms of the metadata (Iceberg spec, Appendix C)
type tableJSON struct {
	FormatVersion      int               `json:"format-version"`
	UUID               string            `json:"table-uuid"`
	Location           string            `json:"location"`
	LastSequenceNumber int64             `json:"last-sequence-number"`
	LastUpdatedMs      int64             `json:"last-updated-ms"`
	NextRowID          int64             `json:"next-row-id"`
	CurrentSchemaID    int32             `json:"current-schema-id"`
	Schemas            []json.RawMessage `json:"schemas"`
	Schema             json.RawMessage   `json:"schema"` // version 1
	Specs              []specJSON        `json:"partition-specs"`
	Spec               []specFieldJSON   `json:"partition-spec"` // version 1
	Properties         map[string]string `json:"properties"`
	CurrentSnapshotID  *int64            `json:"current-snapshot-id"`
	Snapshots          []snapshotJSON    `json:"snapshots"`
	Refs               map[string]struct {
		SnapshotID int64  `json:"snapshot-id"`
		Type       string `json:"type"`
	} `json:"refs"`
}

type specJSON struct {
	ID     int32           `json:"spec-id"`
	Fields []specFieldJSON `json:"fields"`
}

type specFieldJSON struct {
	SourceID  int32   `json:"source-id"`
	SourceIDs []int32 `json:"source-ids"` // version 3, several columns
	FieldID   int32   `json:"field-id"`
	Name      string  `json:"name"`
	Transform string  `json:"transform"`
}

type snapshotJSON struct {
	ID             int64             `json:"snapshot-id"`
	ParentID       int64             `json:"parent-snapshot-id"`
	SequenceNumber int64             `json:"sequence-number"`
	TimestampMs    int64             `json:"timestamp-ms"`
	ManifestList   string            `json:"manifest-list"`
	SchemaID       int32             `json:"schema-id"`
	Summary        map[string]string `json:"summary"`
}

// ParseTable reads table metadata JSON of format versions 1 to 3. Errors: fault.ErrCorrupt, fault.ErrUnsupported
// for a newer version.
func ParseTable(text []byte) (*Table, error) {
	var w tableJSON
	if err := json.Unmarshal(bytes.TrimSpace(text), &w); err != nil {
		return nil, fmt.Errorf("table metadata: %w: %w", fault.ErrCorrupt, err)
	}
	switch {
	case w.FormatVersion < 1:
		return nil, fmt.Errorf("table metadata without a format version: %w", fault.ErrCorrupt)
	case w.FormatVersion > 3:
		return nil, fmt.Errorf("table of format version %d: %w", w.FormatVersion, fault.ErrUnsupported)
	}
	t := &Table{
		FormatVersion: w.FormatVersion, UUID: w.UUID, Location: w.Location,
		LastSequenceNumber: w.LastSequenceNumber, LastUpdatedMs: w.LastUpdatedMs, NextRowID: w.NextRowID, CurrentSchemaID: w.CurrentSchemaID,
		Properties: w.Properties,
		Refs:       map[string]Ref{},
	}
	if err := t.takeSchemas(&w); err != nil {
		return nil, fmt.Errorf("table metadata: %w", err)
	}
	t.takeSpecs(&w)
	for _, s := range w.Snapshots {
		t.Snapshots = append(t.Snapshots, Snapshot(s))
	}
	for name, r := range w.Refs {
		t.Refs[name] = Ref{SnapshotID: r.SnapshotID, Type: r.Type}
	}
	// -1 and null both mean none, and refs may be absent in old metadata.
	if id := w.CurrentSnapshotID; id != nil && *id != -1 {
		if _, ok := t.Refs[MainBranch]; !ok {
			t.Refs[MainBranch] = Ref{SnapshotID: *id, Type: "branch"}
		}
	}
	return t, nil
}

func (t *Table) takeSpecs(w *tableJSON) {
	t.specs = map[int32]*Spec{}
	if len(w.Specs) == 0 {
		w.Specs = []specJSON{{Fields: w.Spec}}
	}
	for _, s := range w.Specs {
		spec := &Spec{ID: s.ID}
		for i, f := range s.Fields {
			if len(f.SourceIDs) > 0 {
				f.SourceID = f.SourceIDs[0]
			}
			if f.FieldID == 0 {
				f.FieldID = int32(1000 + i) // version 1 numbers them by place (Iceberg spec, "Partition Evolution")
			}
			spec.Fields = append(spec.Fields, SpecField{SourceID: f.SourceID, FieldID: f.FieldID, Name: f.Name, Transform: f.Transform})
		}
		spec.byID = slices.Clone(spec.Fields)
		slices.SortFunc(spec.byID, func(a, b SpecField) int { return int(a.FieldID) - int(b.FieldID) })
		t.specs[s.ID] = spec
	}
}

type fieldJSON struct {
	ID       int32           `json:"id"`
	Name     string          `json:"name"`
	Required bool            `json:"required"`
	Type     json.RawMessage `json:"type"`
	Default  json.RawMessage `json:"initial-default"`
}

type typeJSON struct {
	Type            string          `json:"type"`
	SchemaID        int32           `json:"schema-id"`
	Fields          []fieldJSON     `json:"fields"`
	ElementID       int32           `json:"element-id"`
	Element         json.RawMessage `json:"element"`
	ElementRequired bool            `json:"element-required"`
	KeyID           int32           `json:"key-id"`
	Key             json.RawMessage `json:"key"`
	ValueID         int32           `json:"value-id"`
	Value           json.RawMessage `json:"value"`
	ValueRequired   bool            `json:"value-required"`
}

func (t *Table) takeSchemas(w *tableJSON) error {
	t.fields, t.current, t.widened = map[int32]Field{}, map[int32]bool{}, map[int32]bool{}
	if len(w.Schemas) == 0 && len(w.Schema) > 0 {
		w.Schemas = []json.RawMessage{w.Schema}
	}
	if len(w.Schemas) == 0 {
		return fmt.Errorf("no schema: %w", fault.ErrCorrupt)
	}
	var all []typeJSON
	for _, text := range w.Schemas {
		var s typeJSON
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("schema: %w: %w", fault.ErrCorrupt, err)
		}
		all = append(all, s)
	}
	// Later ones overwrite: ascending ids, the current schema last.
	isCurrent := func(s typeJSON) bool { return s.SchemaID == w.CurrentSchemaID || len(all) == 1 }
	slices.SortStableFunc(all, func(a, b typeJSON) int {
		if isCurrent(a) != isCurrent(b) {
			if isCurrent(a) {
				return 1
			}
			return -1
		}
		return int(a.SchemaID) - int(b.SchemaID)
	})
	for _, s := range all {
		if err := t.takeFields("", nil, s.Fields, isCurrent(s)); err != nil {
			return fmt.Errorf("schema %d: %w", s.SchemaID, err)
		}
	}
	return nil
}

func (t *Table) takeFields(prefix string, above []int32, fields []fieldJSON, current bool) error {
	for _, f := range fields {
		if err := t.takeField(prefix+f.Name, above, f, current); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) takeField(name string, above []int32, f fieldJSON, current bool) error {
	path := append(slices.Clone(above), f.ID)
	if len(path) > maxDepth {
		return fmt.Errorf("nested deeper than %d: %w", maxDepth, fault.ErrCorrupt)
	}
	put := func(typ string) {
		if was, ok := t.fields[f.ID]; ok && was.Type != typ {
			t.widened[f.ID] = true
		}
		t.fields[f.ID] = Field{ID: f.ID, Name: name, Type: typ, Required: f.Required, InitialDefault: f.Default, Path: path}
		if current {
			t.current[f.ID] = true
		}
	}
	if first(f.Type) == '"' {
		var typ string
		if err := json.Unmarshal(f.Type, &typ); err != nil {
			return fmt.Errorf("field %d: %w: %w", f.ID, fault.ErrCorrupt, err)
		}
		put(strings.ReplaceAll(typ, " ", ""))
		return nil
	}
	var n typeJSON
	if err := json.Unmarshal(f.Type, &n); err != nil {
		return fmt.Errorf("field %d: %w: %w", f.ID, fault.ErrCorrupt, err)
	}
	put(n.Type)
	switch n.Type {
	case "struct":
		return t.takeFields(name+".", path, n.Fields, current)
	case "list":
		return t.takeField(name+".element", path, fieldJSON{ID: n.ElementID, Type: n.Element, Required: n.ElementRequired}, current)
	case "map":
		if err := t.takeField(name+".key", path, fieldJSON{ID: n.KeyID, Type: n.Key, Required: true}, current); err != nil {
			return err
		}
		return t.takeField(name+".value", path, fieldJSON{ID: n.ValueID, Type: n.Value, Required: n.ValueRequired}, current)
	}
	return nil
}

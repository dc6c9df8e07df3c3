package icebergcommit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Store opens and writes objects of a table by their full location.
type Store interface {
	icebergscan.Opener
	// Write makes an object of the body, whole or not at all as far as readers can tell.
	Write(ctx context.Context, location string, body []byte) error
}

// Base is the table that a change is made from.
type Base struct {
	// Raw is the metadata JSON and Meta what the scanning library takes of it.
	Raw  []byte
	Meta *icebergscan.Table
}

// Removal names a live delete file of the branch's head. Offset tells vectors of one Puffin file apart;
// icebergscan.Absent for other files.
type Removal struct {
	Manifest string // location of the manifest that has the entry
	Path     string
	Offset   int64
}

// DeleteFile is a position delete file or a deletion vector to add. Its data sequence number is that of the new
// snapshot, by inheritance.
type DeleteFile struct {
	SpecID int32
	// Partition is the encoded tuple and PartitionSchema its Avro schema, both as the data file's manifest has them;
	// Values is the same tuple decoded.
	Partition       []byte
	PartitionSchema json.RawMessage
	Values          []icebergscan.Value

	Path, Format string
	// Records is the number of positions, Size the length of the object in bytes.
	Records, Size int64
	// Referenced is the path of the data file, exactly as its manifest entry has it.
	Referenced string
	// ContentOffset and ContentSize locate a deletion vector, bytes; 0 for position delete files.
	ContentOffset, ContentSize int64
}

// Change is what a commit does to the head of a branch.
type Change struct {
	Branch string
	// Parent is the head, and Manifests the lines of its manifest list.
	Parent    *icebergscan.Snapshot
	Manifests []icebergscan.Manifest
	Remove    []Removal
	Add       []DeleteFile
	// Operation is what the snapshot says of itself; "" = overwrite.
	Operation string
	// Summary is put over the counts that this package computes.
	Summary map[string]string
	// Now is the time of the snapshot.
	Now time.Time
}

// Commit is a change that is staged: its manifests are written, and a catalog can be told.
type Commit struct {
	Branch    string
	TableUUID string
	// ParentID is the head that the branch must have; 0 = the branch must not be there.
	ParentID   int64
	SnapshotID int64
	// Snapshot and Ref are the JSON forms of the new snapshot and of the branch that points to it. Snapshot is nil for a
	// branch that moves to a snapshot that is there.
	Snapshot, Ref json.RawMessage
	// Written are the locations of the objects that were made for it, to be removed if it is given up.
	Written []string

	sequence  int64
	timestamp int64 // Unix milliseconds
	nextRowID int64
}

// Stage writes manifests and manifest list. What was written is in Commit.Written also if an error is answered; the
// caller removes it then. Errors: fault.ErrUnsupported for tables that cannot be committed to, fault.ErrCorrupt, else
// what the store answers.
func Stage(ctx context.Context, store Store, base Base, c Change) (*Commit, error) {
	out := &Commit{Branch: c.Branch, TableUUID: base.Meta.UUID, ParentID: c.Parent.ID}
	s := &staging{store: store, base: base, change: &c, out: out, id: uuid.NewString()}
	if err := s.run(ctx); err != nil {
		return out, fmt.Errorf("stage commit: %w", err)
	}
	return out, nil
}

type staging struct {
	store  Store
	base   Base
	change *Change
	out    *Commit
	id     string // in the names of all objects
	n      int    // manifests written
	lines  []icebergscan.Manifest
	counts counts
	meta   rawTable
}

// rawTable is what is taken from the metadata as it lies there.
type rawTable struct {
	Schemas []json.RawMessage          `json:"schemas"`
	Specs   []json.RawMessage          `json:"partition-specs"`
	Refs    map[string]json.RawMessage `json:"refs"`
	Current int32                      `json:"current-schema-id"`
}

func (s *staging) run(ctx context.Context) error {
	t := s.base.Meta
	switch {
	case t.FormatVersion < 2:
		return fmt.Errorf("table of format version %d has no delete files: %w", t.FormatVersion, fault.ErrUnsupported)
	case t.Properties["encryption.key-id"] != "":
		return fmt.Errorf("encrypted table: %w", fault.ErrUnsupported)
	}
	if err := json.Unmarshal(s.base.Raw, &s.meta); err != nil {
		return fmt.Errorf("table metadata: %w: %w", fault.ErrCorrupt, err)
	}
	id, err := newSnapshotID(t)
	if err != nil {
		return err
	}
	s.out.SnapshotID, s.out.sequence = id, t.LastSequenceNumber+1
	s.out.timestamp = max(s.change.Now.UnixMilli(), t.LastUpdatedMs)
	if err := s.addDeletes(ctx); err != nil {
		return err
	}
	if err := s.rewrite(ctx); err != nil {
		return err
	}
	list := s.metadataLocation() + fmt.Sprintf("/snap-%d-1-%s.avro", id, s.id)
	if err := s.writeList(ctx, list); err != nil {
		return err
	}
	return s.snapshot(list)
}

// newSnapshotID answers a random positive number that no snapshot of the table has.
func newSnapshotID(t *icebergscan.Table) (int64, error) {
	for {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, fmt.Errorf("random number: %w", err)
		}
		id := int64(binary.BigEndian.Uint64(b[:]) >> 1)
		if id > 0 && !slices.ContainsFunc(t.Snapshots, func(s icebergscan.Snapshot) bool { return s.ID == id }) {
			return id, nil
		}
	}
}

func (s *staging) metadataLocation() string { return MetadataLocation(s.base.Meta) }

// MetadataLocation answers where a table keeps its metadata (property write.metadata.path), without a slash at its end.
func MetadataLocation(t *icebergscan.Table) string {
	if p := t.Properties["write.metadata.path"]; p != "" {
		return strings.TrimRight(p, "/")
	}
	return strings.TrimRight(t.Location, "/") + "/metadata"
}

// DataLocation answers where a table keeps its files (property write.data.path), without a slash at its end.
func DataLocation(t *icebergscan.Table) string {
	if p := t.Properties["write.data.path"]; p != "" {
		return strings.TrimRight(p, "/")
	}
	return strings.TrimRight(t.Location, "/") + "/data"
}

func (s *staging) write(ctx context.Context, location string, body []byte) error {
	s.out.Written = append(s.out.Written, location)
	if err := s.store.Write(ctx, location, body); err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return nil
}

// snapshot makes the JSON forms.
func (s *staging) snapshot(list string) error {
	t, p := s.base.Meta, s.change.Parent
	snap := map[string]any{
		"snapshot-id": s.out.SnapshotID, "parent-snapshot-id": p.ID, "sequence-number": s.out.sequence,
		"timestamp-ms": s.out.timestamp, "manifest-list": list, "schema-id": t.CurrentSchemaID,
		"summary": s.summary(),
	}
	if t.FormatVersion >= 3 {
		snap["first-row-id"], snap["added-rows"] = t.NextRowID, s.out.nextRowID-t.NextRowID
	}
	var err error
	if s.out.Snapshot, err = json.Marshal(snap); err != nil {
		return fmt.Errorf("encode snapshot: %w", err)
	}
	s.out.Ref, err = s.meta.ref(s.change.Branch, s.out.SnapshotID)
	return err
}

// ref answers the JSON of a branch that points to a snapshot. What it says about retention stays.
func (r *rawTable) ref(branch string, id int64) (json.RawMessage, error) {
	ref := map[string]json.RawMessage{}
	if text := r.Refs[branch]; text != nil {
		if err := json.Unmarshal(text, &ref); err != nil {
			return nil, fmt.Errorf("ref %s: %w: %w", branch, fault.ErrCorrupt, err)
		}
	}
	ref["snapshot-id"] = json.RawMessage(strconv.FormatInt(id, 10))
	ref["type"] = json.RawMessage(`"branch"`)
	out, err := json.Marshal(ref)
	if err != nil {
		return nil, fmt.Errorf("encode ref: %w", err)
	}
	return out, nil
}

// FastForward is the commit that moves a branch to a later snapshot of its own line. A main branch without snapshots
// begins there. Errors: fault.ErrConflict if the branch has snapshots that are not in the history of that one,
// fault.ErrNotFound for another branch that is not there, fault.ErrCorrupt.
func FastForward(base Base, branch string, to int64, now time.Time) (*Commit, error) {
	t := base.Meta
	head, err := t.Head(branch)
	if err != nil {
		return nil, err
	}
	from := int64(0)
	if head != nil {
		from = head.ID
		for id := to; id != from; {
			s, err := t.Snapshot(id)
			if err != nil {
				return nil, fmt.Errorf("branch %s has snapshot %d, which is not known to be in the history of %d: %w: %w", branch, from, to, fault.ErrConflict, err)
			}
			id = s.ParentID
		}
	}
	var meta rawTable
	if err := json.Unmarshal(base.Raw, &meta); err != nil {
		return nil, fmt.Errorf("table metadata: %w: %w", fault.ErrCorrupt, err)
	}
	out := &Commit{
		Branch: branch, TableUUID: t.UUID, ParentID: from, SnapshotID: to,
		sequence: t.LastSequenceNumber, timestamp: max(now.UnixMilli(), t.LastUpdatedMs), nextRowID: t.NextRowID,
	}
	out.Ref, err = meta.ref(branch, to)
	return out, err
}

// spec answers the JSON of a partition spec's fields.
func (s *staging) spec(id int32) (json.RawMessage, error) {
	for _, text := range s.meta.Specs {
		var one struct {
			ID     int32           `json:"spec-id"`
			Fields json.RawMessage `json:"fields"`
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("partition spec: %w: %w", fault.ErrCorrupt, err)
		}
		if one.ID == id {
			return one.Fields, nil
		}
	}
	return nil, fmt.Errorf("partition spec %d is not in the metadata: %w", id, fault.ErrCorrupt)
}

// schema answers the JSON of the current schema.
func (s *staging) schema() (json.RawMessage, error) {
	for _, text := range s.meta.Schemas {
		var one struct {
			ID int32 `json:"schema-id"`
		}
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("schema: %w: %w", fault.ErrCorrupt, err)
		}
		if one.ID == s.meta.Current {
			return text, nil
		}
	}
	return nil, fmt.Errorf("schema %d is not in the metadata: %w", s.meta.Current, fault.ErrCorrupt)
}

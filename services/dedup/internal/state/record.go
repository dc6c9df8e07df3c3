// Package state is the persistent form of everything that the dedup service keeps: records, heads, directories,
// snapshots, row groups and manifest groups, and the names under which the store has them. See docs/FORMAT.md,
// "Dedup state".
package state

import (
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/sealed"
)

const version = 1

// Topic names one incarnation of a topic.
type Topic struct {
	ClusterID string
	ID        kafkapos.TopicID
	Name      string
}

// Decoding says how the records of a topic are read. It is pinned when the state epoch is made.
type Decoding struct {
	KeyFormat, ValueFormat, Envelope string
	KeyFields                        []string
}

// Record is the one small value per topic id that every published cut goes through. Immutable by convention:
// a change makes a copy.
type Record struct {
	// Version grows with every change and never falls, also not when the state is made anew: it is in every
	// metadata location.
	Version uint64
	Epoch   string // state epoch, 16 base32 characters
	Topic   Topic
	Table   string // name in the catalog
	// CheckKey signs object names; HashKey turns canonical record keys into key hashes.
	CheckKey, HashKey [16]byte
	Decoding          Decoding
	// Schemas are Iceberg schema JSON; the index is the schema id. Only appended to.
	Schemas [][]byte
	// ChunkLog2 and BlockLog2 are 0 until the topic has its first record.
	ChunkLog2, BlockLog2 int
	Partitions           int32
	// Snapshots are the kept ones, oldest first; the last one is current.
	Snapshots []SnapshotRef
	Tags      []Tag // by name
	CreatedMs int64 // when the state epoch was made, Unix milliseconds
	UpdatedMs int64 // when this version was published
}

// SnapshotRef names a kept snapshot.
type SnapshotRef struct {
	ID     int64
	TimeMs int64
	Blob   string // suffix of its blob name, see SnapshotBlob
}

// Tag keeps a snapshot by name.
type Tag struct {
	Name string
	ID   int64
}

const recordMagic sealed.Magic = "FZRC"

// Bytes is the record's persistent form.
func (r *Record) Bytes() []byte {
	w := newWriter(recordMagic, 512+64*len(r.Snapshots))
	w.uint(r.Version)
	w.text(r.Epoch)
	w.text(r.Topic.ClusterID)
	w.fixed(r.Topic.ID[:])
	w.text(r.Topic.Name)
	w.text(r.Table)
	w.fixed(r.CheckKey[:])
	w.fixed(r.HashKey[:])
	w.text(r.Decoding.KeyFormat)
	w.text(r.Decoding.ValueFormat)
	w.text(r.Decoding.Envelope)
	w.texts(r.Decoding.KeyFields)
	w.uint(uint64(len(r.Schemas)))
	for _, s := range r.Schemas {
		w.bytes(s)
	}
	w.uint(uint64(r.ChunkLog2))
	w.uint(uint64(r.BlockLog2))
	w.uint(uint64(r.Partitions))
	w.uint(uint64(len(r.Snapshots)))
	for _, s := range r.Snapshots {
		w.uint(uint64(s.ID))
		w.uint(uint64(s.TimeMs))
		w.text(s.Blob)
	}
	w.uint(uint64(len(r.Tags)))
	for _, t := range r.Tags {
		w.text(t.Name)
		w.uint(uint64(t.ID))
	}
	w.uint(uint64(r.CreatedMs))
	w.uint(uint64(r.UpdatedMs))
	return w.seal()
}

// ParseRecord reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParseRecord(b []byte) (*Record, error) {
	r, err := openReader(recordMagic, b)
	if err != nil {
		return nil, fmt.Errorf("parse record: %w", err)
	}
	rec := &Record{Version: r.uint(), Epoch: r.text()}
	rec.Topic.ClusterID = r.text()
	copy(rec.Topic.ID[:], r.Bytes(len(rec.Topic.ID)))
	rec.Topic.Name = r.text()
	rec.Table = r.text()
	copy(rec.CheckKey[:], r.Bytes(len(rec.CheckKey)))
	copy(rec.HashKey[:], r.Bytes(len(rec.HashKey)))
	rec.Decoding = Decoding{KeyFormat: r.text(), ValueFormat: r.text(), Envelope: r.text(), KeyFields: r.texts()}
	for range r.items() {
		rec.Schemas = append(rec.Schemas, r.copied())
	}
	rec.ChunkLog2, rec.BlockLog2, rec.Partitions = r.int(), r.int(), int32(r.int())
	for range r.items() {
		rec.Snapshots = append(rec.Snapshots, SnapshotRef{ID: int64(r.uint()), TimeMs: int64(r.uint()), Blob: r.text()})
	}
	for range r.items() {
		rec.Tags = append(rec.Tags, Tag{Name: r.text(), ID: int64(r.uint())})
	}
	rec.CreatedMs, rec.UpdatedMs = int64(r.uint()), int64(r.uint())
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse record: %w", err)
	}
	return rec, nil
}

// Clone copies the record so far that its lists can be appended to and cut.
func (r *Record) Clone() *Record {
	out := *r
	out.Schemas = slices.Clone(r.Schemas)
	out.Snapshots = slices.Clone(r.Snapshots)
	out.Tags = slices.Clone(r.Tags)
	return &out
}

// Tagged reports whether a tag keeps the snapshot.
func (r *Record) Tagged(id int64) bool {
	return slices.ContainsFunc(r.Tags, func(t Tag) bool { return t.ID == id })
}

// EpochInfo is what a state epoch's own value says: where its record is, and whether it was given up.
type EpochInfo struct {
	Topic Topic
	Table string
	// Replaced is why the epoch is no longer served; empty while it is.
	Replaced string
}

const epochMagic sealed.Magic = "FZEP"

// Bytes is the persistent form.
func (e *EpochInfo) Bytes() []byte {
	w := newWriter(epochMagic, 128)
	w.text(e.Topic.ClusterID)
	w.fixed(e.Topic.ID[:])
	w.text(e.Topic.Name)
	w.text(e.Table)
	w.text(e.Replaced)
	return w.seal()
}

// ParseEpoch reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParseEpoch(b []byte) (*EpochInfo, error) {
	r, err := openReader(epochMagic, b)
	if err != nil {
		return nil, fmt.Errorf("parse state epoch: %w", err)
	}
	e := &EpochInfo{}
	e.Topic.ClusterID = r.text()
	copy(e.Topic.ID[:], r.Bytes(len(e.Topic.ID)))
	e.Topic.Name, e.Table, e.Replaced = r.text(), r.text(), r.text()
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse state epoch: %w", err)
	}
	return e, nil
}

// ErrLost: state that was published is not there any more, or is older than it was. It is of the kind fault.ErrCorrupt.
var ErrLost = fmt.Errorf("published state is lost: %w", fault.ErrCorrupt)

// corrupt is an error about something that the state says and that cannot be.
func corrupt(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, fault.ErrCorrupt)...)
}

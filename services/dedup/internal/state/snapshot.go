package state

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/sealed"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// Snapshot is a published cut and the manifest groups that show it. Immutable.
type Snapshot struct {
	ID, ParentID int64 // ParentID 0 = none
	TimeMs       int64
	SchemaID     int32
	Cut          []kafkapos.Range // by partition
	Groups       []ManifestGroup  // by (partition, closed before open, number)
}

// ManifestGroup names a list of entries.
type ManifestGroup struct {
	Partition kafkapos.Partition
	// Open: the group of the chunk that the cut ends in. Number is then 0; else it is that of the aligned range.
	Open bool
	// Rooms: some of its files are named without that all their events were read.
	Rooms  bool
	Number int64
	Name   string // 26 base32 characters
	// Inputs is a hash of everything that the entries were made from: equal inputs, equal entries.
	Inputs          [16]byte
	AddedSnapshotID int64
	DataFiles, Rows int64
	DeleteFiles     int64
	DeletedRows     int64
}

const snapshotMagic sealed.Magic = "FZSN"

// Flags of a manifest group.
const (
	openFlag = 1 << iota
	roomsFlag
)

// Bytes is the persistent form.
func (s *Snapshot) Bytes() []byte {
	w := newWriter(snapshotMagic, 64+16*len(s.Cut)+96*len(s.Groups))
	w.uint(uint64(s.ID))
	w.uint(uint64(s.ParentID))
	w.uint(uint64(s.TimeMs))
	w.uint(uint64(s.SchemaID))
	w.uint(uint64(len(s.Cut)))
	for _, r := range s.Cut {
		w.rng(r)
	}
	w.uint(uint64(len(s.Groups)))
	for i := range s.Groups {
		g := &s.Groups[i]
		flags := uint64(0)
		if g.Open {
			flags |= openFlag
		}
		if g.Rooms {
			flags |= roomsFlag
		}
		w.uint(uint64(g.Partition))
		w.uint(flags)
		w.uint(uint64(g.Number))
		w.text(g.Name)
		w.fixed(g.Inputs[:])
		for _, v := range []int64{g.AddedSnapshotID, g.DataFiles, g.Rows, g.DeleteFiles, g.DeletedRows} {
			w.uint(uint64(v))
		}
	}
	return w.seal()
}

// ParseSnapshot reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParseSnapshot(b []byte) (*Snapshot, error) {
	r, err := openReader(snapshotMagic, b)
	if err != nil {
		return nil, fmt.Errorf("parse snapshot: %w", err)
	}
	s := &Snapshot{ID: int64(r.uint()), ParentID: int64(r.uint()), TimeMs: int64(r.uint()), SchemaID: int32(r.int())}
	for range r.items() {
		s.Cut = append(s.Cut, r.rng())
	}
	for range r.items() {
		g := ManifestGroup{Partition: kafkapos.Partition(r.int())}
		flags := r.uint()
		g.Open, g.Rooms, g.Number, g.Name = flags&openFlag != 0, flags&roomsFlag != 0, int64(r.uint()), r.text()
		copy(g.Inputs[:], r.Bytes(len(g.Inputs)))
		for _, v := range []*int64{&g.AddedSnapshotID, &g.DataFiles, &g.Rows, &g.DeleteFiles, &g.DeletedRows} {
			*v = int64(r.uint())
		}
		s.Groups = append(s.Groups, g)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse snapshot: %w", err)
	}
	return s, nil
}

const rowGroupsMagic sealed.Magic = "FZRG"

// RowGroupsBytes is the persistent form of what was recorded of a chunk's row groups, by ascending offset.
func RowGroupsBytes(groups []*typesv1.RowGroup) ([]byte, error) {
	w := newWriter(rowGroupsMagic, 256*len(groups))
	w.uint(uint64(len(groups)))
	for _, g := range groups {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(g)
		if err != nil {
			return nil, fmt.Errorf("encode row group: %w", err)
		}
		w.bytes(raw)
	}
	return w.seal(), nil
}

// ParseRowGroups reads what RowGroupsBytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParseRowGroups(b []byte) ([]*typesv1.RowGroup, error) {
	r, err := openReader(rowGroupsMagic, b)
	if err != nil {
		return nil, fmt.Errorf("parse row groups: %w", err)
	}
	var out []*typesv1.RowGroup
	for range r.items() {
		g := &typesv1.RowGroup{}
		if err := proto.Unmarshal(r.copied(), g); err != nil {
			r.Fail("row group: %v", err)
		}
		if g.GetRange() == nil {
			r.Fail("row group without its range")
		}
		out = append(out, g)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse row groups: %w", err)
	}
	return out, nil
}

const manifestMagic sealed.Magic = "FZMG"

// ManifestGroupBytes is the persistent form of a manifest group that was planned on the given version of the
// record.
func ManifestGroupBytes(planned uint64, entries []byte) []byte {
	w := newWriter(manifestMagic, 16+len(entries))
	w.uint(planned)
	w.bytes(entries)
	return w.seal()
}

// MarshalEntries is the deterministic wire form of a group's entries.
func MarshalEntries(g *dedupv1.GetManifestGroupResponse) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("encode manifest group: %w", err)
	}
	return b, nil
}

// ParseManifestGroup reads what ManifestGroupBytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParseManifestGroup(b []byte) (planned uint64, g *dedupv1.GetManifestGroupResponse, err error) {
	r, err := openReader(manifestMagic, b)
	if err != nil {
		return 0, nil, fmt.Errorf("parse manifest group: %w", err)
	}
	planned = r.uint()
	g = &dedupv1.GetManifestGroupResponse{}
	if err := proto.Unmarshal(r.copied(), g); err != nil {
		r.Fail("entries: %v", err)
	}
	if err := r.Done(); err != nil {
		return 0, nil, fmt.Errorf("parse manifest group: %w", err)
	}
	return planned, g, nil
}

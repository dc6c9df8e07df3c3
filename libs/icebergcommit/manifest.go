package icebergcommit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/avrofile"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/iceberg"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// manifestBytes is how long a manifest becomes, about: Java's default of commit.manifest.target-size-bytes.
const manifestBytes = 8 << 20

// entryHead is the schema of a manifest entry before its data_file (Iceberg spec, "Manifest Entry Fields").
const entryHead = `{"type":"record","name":"manifest_entry","fields":[` +
	`{"name":"status","type":"int","field-id":0},` +
	`{"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1},` +
	`{"name":"sequence_number","type":["null","long"],"default":null,"field-id":3},` +
	`{"name":"file_sequence_number","type":["null","long"],"default":null,"field-id":4},` +
	`{"name":"data_file","type":`

const entryTail = `,"field-id":2}]}`

// open is a manifest that is being written, and its line.
type open struct {
	w    *avrofile.Writer
	line icebergscan.Manifest
	sums summaries
}

// newOpen begins a manifest of deletes.
func (s *staging) newOpen(w *avrofile.Writer, spec int32) (*open, error) {
	p, err := s.base.Meta.Spec(spec)
	if err != nil {
		return nil, err
	}
	return &open{
		w: w, sums: newSummaries(s.base.Meta, p),
		line: icebergscan.Manifest{
			SpecID: spec, Content: icebergscan.DeletesManifest, SequenceNumber: s.out.sequence, MinSequenceNumber: s.out.sequence,
			AddedSnapshotID: s.out.SnapshotID, FirstRowID: icebergscan.Absent,
		},
	}, nil
}

// count takes an entry into the line.
func (o *open) count(status icebergscan.Status, seq, records int64, tuple []icebergscan.Value) {
	switch status {
	case icebergscan.Added:
		o.line.AddedFiles++
		o.line.AddedRows += records
	case icebergscan.Existing:
		o.line.ExistingFiles++
		o.line.ExistingRows += records
	case icebergscan.Deleted:
		o.line.DeletedFiles++
		o.line.DeletedRows += records
	}
	if status != icebergscan.Deleted {
		o.line.MinSequenceNumber = min(o.line.MinSequenceNumber, seq)
	}
	o.sums.add(tuple)
}

func (s *staging) close(ctx context.Context, o *open) error {
	body, err := o.w.Bytes()
	if err != nil {
		return err
	}
	o.line.Path = s.metadataLocation() + fmt.Sprintf("/%s-m%d.avro", s.id, s.n)
	o.line.Length, o.line.Partitions = int64(len(body)), o.sums.done()
	s.n++
	if err := s.write(ctx, o.line.Path, body); err != nil {
		return err
	}
	s.lines = append(s.lines, o.line)
	return nil
}

// addDeletes writes the manifests of the new delete files: one for each partition spec and form of its tuples.
func (s *staging) addDeletes(ctx context.Context) error {
	byForm := map[string][]*DeleteFile{}
	var order []string
	for i := range s.change.Add {
		f := &s.change.Add[i]
		form := strconv.Itoa(int(f.SpecID)) + " " + string(f.PartitionSchema)
		if byForm[form] == nil {
			order = append(order, form)
		}
		byForm[form] = append(byForm[form], f)
	}
	for _, form := range order {
		var o *open
		for _, f := range byForm[form] {
			if o != nil && o.w.Packed() > manifestBytes {
				if err := s.close(ctx, o); err != nil {
					return err
				}
				o = nil
			}
			if o == nil {
				var err error
				if o, err = s.newDeletes(f); err != nil {
					return err
				}
			}
			if err := f.check(s.base.Meta.FormatVersion); err != nil {
				return err
			}
			o.w.Append(func(b []byte) []byte { return f.append(b, s.out.SnapshotID, s.base.Meta.FormatVersion) })
			o.count(icebergscan.Added, s.out.sequence, f.Records, f.Values)
			s.counts.add(f)
		}
		if err := s.close(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (s *staging) newDeletes(f *DeleteFile) (*open, error) {
	schema, err := s.schema()
	if err != nil {
		return nil, err
	}
	spec, err := s.spec(f.SpecID)
	if err != nil {
		return nil, err
	}
	v := s.base.Meta.FormatVersion
	return s.newOpen(avrofile.New(iceberg.ManifestSchema(v, string(f.PartitionSchema)),
		avrofile.Property{"schema", string(schema)},
		avrofile.Property{"schema-id", strconv.Itoa(int(s.meta.Current))},
		avrofile.Property{"partition-spec", string(spec)},
		avrofile.Property{"partition-spec-id", strconv.Itoa(int(f.SpecID))},
		avrofile.Property{"format-version", strconv.Itoa(v)},
		avrofile.Property{"content", "deletes"}), f.SpecID)
}

// check refuses what readers would misread.
func (f *DeleteFile) check(version int) error {
	vector := strings.EqualFold(f.Format, iceberg.Puffin)
	switch {
	case f.Records <= 0, f.Size <= 0, f.Path == "", f.Referenced == "":
		return fmt.Errorf("delete file %s of %d positions: %w", f.Path, f.Records, fault.ErrInvalid)
	case vector != (version >= 3), vector && (f.ContentOffset <= 0 || f.ContentSize <= 0):
		return fmt.Errorf("%s is no delete file of format version %d: %w", f.Path, version, fault.ErrInvalid)
	}
	return nil
}

// append encodes the entry, in the order of iceberg.ManifestSchema. The bounds of the path are there for readers that
// match by them and not by referenced_data_file (Polars, PyIceberg).
func (f *DeleteFile) append(b []byte, snapshot int64, version int) []byte {
	b = avrofile.AppendLong(b, int64(icebergscan.Added))
	b = avrofile.AppendLong(avrofile.AppendSome(b), snapshot)
	b = avrofile.AppendNull(avrofile.AppendNull(b)) // sequence numbers are inherited
	b = avrofile.AppendLong(b, int64(icebergscan.PositionDeletes))
	b = avrofile.AppendString(b, f.Path)
	b = avrofile.AppendString(b, f.Format)
	b = append(b, f.Partition...)
	b = avrofile.AppendLong(b, f.Records)
	b = avrofile.AppendLong(b, f.Size)
	for range 4 { // column_sizes to nan_value_counts
		b = avrofile.AppendNull(b)
	}
	for range 2 {
		b = avrofile.AppendLong(avrofile.AppendSome(b), 1)
		b = avrofile.AppendLong(b, int64(icebergscan.PathFieldID))
		b = avrofile.AppendString(b, f.Referenced)
		b = avrofile.AppendLong(b, 0)
	}
	for range 4 { // key_metadata to sort_order_id
		b = avrofile.AppendNull(b)
	}
	if version >= 3 {
		b = avrofile.AppendNull(b) // first_row_id
	}
	b = avrofile.AppendString(avrofile.AppendSome(b), f.Referenced)
	if version >= 3 {
		b = avrofile.AppendLong(avrofile.AppendSome(b), f.ContentOffset)
		b = avrofile.AppendLong(avrofile.AppendSome(b), f.ContentSize)
	}
	return b
}

// rewrite writes the manifests anew that lose entries, several into one where their entries have the same form, and
// takes the others over.
func (s *staging) rewrite(ctx context.Context) error {
	gone := map[string]map[Removal]bool{}
	for _, r := range s.change.Remove {
		if gone[r.Manifest] == nil {
			gone[r.Manifest] = map[Removal]bool{}
		}
		gone[r.Manifest][r] = true
	}
	opened := map[string]*open{}
	var kept []icebergscan.Manifest
	for i := range s.change.Manifests {
		m := &s.change.Manifests[i]
		if gone[m.Path] == nil {
			// As Java does: a manifest without live files says nothing to anyone any more.
			if m.Live() {
				kept = append(kept, *m)
			}
			continue
		}
		if err := s.rewriteOne(ctx, m, gone[m.Path], opened); err != nil {
			return err
		}
		for r := range gone[m.Path] {
			return fmt.Errorf("%s is not a live file of %s: %w", r.Path, m.Path, fault.ErrConflict)
		}
		delete(gone, m.Path)
	}
	for path := range gone {
		return fmt.Errorf("manifest %s is not of the snapshot: %w", path, fault.ErrConflict)
	}
	forms := make([]string, 0, len(opened))
	for form := range opened {
		forms = append(forms, form)
	}
	slices.Sort(forms)
	for _, form := range forms {
		if err := s.close(ctx, opened[form]); err != nil {
			return err
		}
	}
	s.lines = append(s.lines, kept...)
	return nil
}

// rewriteOne carries the live entries of a manifest over. What it finds it takes out of gone.
func (s *staging) rewriteOne(ctx context.Context, m *icebergscan.Manifest, gone map[Removal]bool, opened map[string]*open) (err error) {
	if m.KeyMetadata != nil {
		return fmt.Errorf("manifest %s is encrypted: %w", m.Path, fault.ErrUnsupported)
	}
	in, err := s.store.Open(ctx, m.Path)
	if err != nil {
		return fmt.Errorf("open manifest %s: %w", m.Path, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for e, err := range icebergscan.Entries(in, m, icebergscan.Want{}) {
		if err != nil {
			return err
		}
		file, _, how, err := e.Encoded()
		if err != nil {
			return err
		}
		status, snapshot := icebergscan.Existing, e.SnapshotID
		if r := (Removal{m.Path, string(e.Path), e.ContentOffset}); gone[r] {
			delete(gone, r)
			status, snapshot = icebergscan.Deleted, s.out.SnapshotID
			s.counts.remove(e)
		}
		o, err := s.openFor(ctx, m.SpecID, how, opened)
		if err != nil {
			return err
		}
		o.w.Append(func(b []byte) []byte {
			b = avrofile.AppendLong(b, int64(status))
			b = avrofile.AppendLong(avrofile.AppendSome(b), snapshot)
			b = avrofile.AppendLong(avrofile.AppendSome(b), e.SequenceNumber)
			b = avrofile.AppendLong(avrofile.AppendSome(b), e.FileSequenceNumber)
			return append(b, file...)
		})
		o.count(status, e.SequenceNumber, e.Records, e.Partition)
	}
	return nil
}

// openFor answers the manifest that takes entries of a form.
func (s *staging) openFor(ctx context.Context, spec int32, how *icebergscan.Encoding, opened map[string]*open) (*open, error) {
	form := strconv.Itoa(int(spec)) + " " + string(how.File)
	o := opened[form]
	if o != nil && o.w.Packed() > manifestBytes {
		if err := s.close(ctx, o); err != nil {
			return nil, err
		}
		o = nil
	}
	if o != nil {
		return o, nil
	}
	header := make([]avrofile.Property, 0, len(how.Header))
	for k, v := range how.Header {
		header = append(header, avrofile.Property{k, v})
	}
	slices.SortFunc(header, func(a, b avrofile.Property) int { return strings.Compare(a[0], b[0]) })
	if !json.Valid(how.File) {
		return nil, fmt.Errorf("avro schema of data_file: %w", fault.ErrCorrupt)
	}
	o, err := s.newOpen(avrofile.New(entryHead+string(how.File)+entryTail, header...), spec)
	if err != nil {
		return nil, err
	}
	opened[form] = o
	return o, nil
}

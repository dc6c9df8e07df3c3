package drain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/datafile"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/probe"
)

// head is a pinned snapshot of a branch.
type head struct {
	table    *Table
	snapshot *icebergscan.Snapshot
	scan     *icebergscan.Scan
}

// equality is a live equality delete.
type equality struct {
	manifest, path, format string
	size, records, seq     int64
	ids                    []int32 // ascending
	stats                  []icebergscan.ColumnStats
	// group is the key of its partition; "" = it is global.
	group string
}

// deletes answers the live equality deletes of sequence numbers up to upTo.
func (h *head) deletes(ctx context.Context, upTo int64) ([]*equality, error) {
	return h.deletesIf(ctx, func(e *icebergscan.Entry) bool { return e.SequenceNumber <= upTo })
}

func (h *head) deletesIf(ctx context.Context, want func(*icebergscan.Entry) bool) ([]*equality, error) {
	var out []*equality
	for e, err := range h.scan.Entries(ctx, icebergscan.DeletesManifest, icebergscan.Want{AllStats: true}) {
		if err != nil {
			return nil, err
		}
		if e.Content != icebergscan.EqualityDeletes || !want(e) {
			continue
		}
		one, err := h.equality(e)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (h *head) equality(e *icebergscan.Entry) (*equality, error) {
	spec, err := h.table.Meta.Spec(e.SpecID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	if len(e.EqualityIDs) == 0 {
		return nil, fmt.Errorf("%s: an equality delete without equality ids: %w", e.Path, fault.ErrCorrupt)
	}
	one := &equality{
		manifest: e.Manifest.Path, path: string(e.Path), format: string(e.Format),
		size: e.SizeBytes, records: e.Records, seq: e.SequenceNumber, ids: slices.Clone(e.EqualityIDs),
	}
	slices.Sort(one.ids)
	one.ids = slices.Compact(one.ids)
	for _, id := range one.ids {
		s := e.Stats(id)
		s.Lower, s.Upper = bytes.Clone(s.Lower), bytes.Clone(s.Upper)
		one.stats = append(one.stats, s)
	}
	if !spec.Unpartitioned() {
		one.group = string(e.PartitionKey())
	}
	return one, nil
}

// batchesOf divides deletes into runs of at most capacity keys, at least one delete each. Those of a partition stay
// together, so that a batch touches few data files.
func batchesOf(all []*equality, capacity int64) [][]*equality {
	slices.SortFunc(all, func(a, b *equality) int {
		return cmp.Or(strings.Compare(a.group, b.group), slices.Compare(a.ids, b.ids), cmp.Compare(a.seq, b.seq), strings.Compare(a.path, b.path))
	})
	var out [][]*equality
	n := int64(0)
	for _, e := range all {
		if len(out) == 0 || n+e.records > capacity {
			out, n = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], e)
		n += e.records
	}
	return out
}

// target is a data file that deletes of the batch may touch.
type target struct {
	path, format       string
	size, records, seq int64
	spec               int32
	group              string // the key of its partition
	partition          []byte
	partitionSchema    json.RawMessage
	values             []icebergscan.Value
	touch              probe.Touch
}

// plan is what one batch does to one head.
type plan struct {
	head    *head
	batch   []*equality
	keys    *keyColumns
	targets []*target
	// gain is what the batch costs readers of the head.
	gain probe.Touch
}

// readable reports whether files of a format are read.
func readable(format string) bool {
	f := strings.ToUpper(format)
	return f == "PARQUET" || f == "AVRO"
}

// plan finds the data files that the batch may touch. Errors: fault.ErrUnsupported for one of them, or for a delete file,
// that cannot be read.
func (h *head) plan(ctx context.Context, batch []*equality) (*plan, error) {
	p := &plan{head: h, batch: batch}
	for _, e := range batch {
		if !readable(e.format) {
			return nil, fmt.Errorf("%s is an equality delete file of format %s, which is not read (Parquet and Avro are): have an engine rewrite the data files that it applies to (Spark: rewrite_data_files with delete-file-threshold 1 and remove-dangling-deletes): %w", e.path, e.format, fault.ErrUnsupported)
		}
	}
	var err error
	if p.keys, err = newKeyColumns(h.table.Meta, batch); err != nil {
		return nil, err
	}
	m, err := h.matcher(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("read delete manifests: %w", err)
	}
	schemas := map[string]json.RawMessage{} // one copy of each
	for e, err := range h.scan.Entries(ctx, icebergscan.DataManifest, m.WantData()) {
		if err != nil {
			return nil, fmt.Errorf("read data manifests: %w", err)
		}
		touch, err := m.Match(e)
		if err != nil {
			return nil, err
		}
		p.gain.PlainKeys = addSaturating(p.gain.PlainKeys, touch.PlainKeys)
		if touch.Files == 0 {
			continue
		}
		p.gain.Keys = addSaturating(p.gain.Keys, touch.Keys)
		if !readable(string(e.Format)) {
			return nil, fmt.Errorf("equality deletes touch %s, a data file of format %s, which is not read (Parquet and Avro are): rewrite it with an engine first: %w", e.Path, e.Format, fault.ErrUnsupported)
		}
		t, err := newTarget(e, touch, schemas)
		if err != nil {
			return nil, err
		}
		p.targets = append(p.targets, t)
	}
	return p, nil
}

func (h *head) matcher(ctx context.Context, batch []*equality) (*probe.Matcher, error) {
	m := probe.NewMatcher(h.table.Meta)
	want := map[string]bool{}
	for _, e := range batch {
		want[e.path] = true
	}
	for e, err := range h.scan.Entries(ctx, icebergscan.DeletesManifest, m.Want()) {
		if err != nil {
			return nil, err
		}
		if e.Content == icebergscan.EqualityDeletes && want[string(e.Path)] {
			if err := m.Add(e); err != nil {
				return nil, err
			}
		}
	}
	m.Seal()
	return m, nil
}

func newTarget(e *icebergscan.Entry, touch probe.Touch, schemas map[string]json.RawMessage) (*target, error) {
	if e.Records >= 1<<32 {
		return nil, fmt.Errorf("%s has %d rows, more than 2^32: %w", e.Path, e.Records, fault.ErrUnsupported)
	}
	_, tuple, how, err := e.Encoded()
	if err != nil {
		return nil, err
	}
	schema, ok := schemas[string(how.Partition)]
	if !ok {
		schema = how.Partition
		schemas[string(schema)] = schema
	}
	return &target{
		path: string(e.Path), format: string(e.Format), size: e.SizeBytes, records: e.Records, seq: e.SequenceNumber,
		spec: e.SpecID, group: string(e.PartitionKey()), partition: bytes.Clone(tuple), partitionSchema: schema,
		values: icebergscan.CloneValues(e.Partition), touch: touch,
	}, nil
}

// keyColumns are the key columns of a batch: all of them, and of each set of equality ids which.
type keyColumns struct {
	table  *icebergscan.Table
	fields []icebergscan.Field
	sets   []keySet
	names  *datafile.NameMapping
}

type keySet struct {
	ids     []int32
	columns []int // in fields
}

func newKeyColumns(t *icebergscan.Table, batch []*equality) (*keyColumns, error) {
	k := &keyColumns{table: t}
	var err error
	if k.names, err = datafile.ParseNameMapping(t.Properties["schema.name-mapping.default"]); err != nil {
		return nil, err
	}
	for _, e := range batch {
		if k.set(e.ids) >= 0 {
			continue
		}
		s := keySet{ids: e.ids}
		for _, id := range e.ids {
			at := slices.IndexFunc(k.fields, func(f icebergscan.Field) bool { return f.ID == id })
			if at < 0 {
				f, ok := t.Field(id)
				if !ok {
					return nil, fmt.Errorf("%s compares column %d, which no schema has: %w", e.path, id, fault.ErrCorrupt)
				}
				at = len(k.fields)
				k.fields = append(k.fields, f)
			}
			s.columns = append(s.columns, at)
		}
		k.sets = append(k.sets, s)
	}
	return k, nil
}

// set answers the number of a set of ids; -1 if it is not known.
func (k *keyColumns) set(ids []int32) int {
	return slices.IndexFunc(k.sets, func(s keySet) bool { return slices.Equal(s.ids, ids) })
}

// ofFile answers the columns as they are read from a data file: identity partition columns come from the tuple, as in
// PartitionUtil.constantsMap of Iceberg Java.
func (k *keyColumns) ofFile(t *target) ([]datafile.Column, error) {
	spec, err := k.table.Spec(t.spec)
	if err != nil {
		return nil, err
	}
	out := make([]datafile.Column, len(k.fields))
	for i, f := range k.fields {
		out[i].Field = f
		for at, p := range spec.ByID() {
			if p.Transform != "identity" || p.SourceID != f.ID || at >= len(t.values) {
				continue
			}
			if out[i].Constant, err = datafile.Constant(f, t.values[at]); err != nil {
				return nil, fmt.Errorf("%s: partition value of %s: %w", t.path, f.Name, err)
			}
		}
	}
	return out, nil
}

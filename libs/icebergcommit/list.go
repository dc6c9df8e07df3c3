package icebergcommit

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/avrofile"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/iceberg"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// writeList writes the manifest list. In format version 3 data manifests without first_row_id get one, as after an
// upgrade from version 2 (Iceberg spec, "First Row ID Assignment").
func (s *staging) writeList(ctx context.Context, location string) error {
	t := s.base.Meta
	properties := []avrofile.Property{
		{"snapshot-id", strconv.FormatInt(s.out.SnapshotID, 10)},
		{"parent-snapshot-id", strconv.FormatInt(s.change.Parent.ID, 10)},
		{"sequence-number", strconv.FormatInt(s.out.sequence, 10)},
	}
	if t.FormatVersion >= 3 {
		properties = append(properties, avrofile.Property{"first-row-id", strconv.FormatInt(t.NextRowID, 10)})
	}
	properties = append(properties, avrofile.Property{"format-version", strconv.Itoa(t.FormatVersion)})
	w := avrofile.New(iceberg.ManifestListSchema(t.FormatVersion), properties...)
	s.out.nextRowID = t.NextRowID
	for i := range s.lines {
		m := &s.lines[i]
		if t.FormatVersion >= 3 && m.Content == icebergscan.DataManifest && m.FirstRowID == icebergscan.Absent {
			if m.AddedRows < 0 || m.ExistingRows < 0 {
				return fmt.Errorf("the manifest list does not say how many rows %s has: %w", m.Path, fault.ErrUnsupported)
			}
			m.FirstRowID = s.out.nextRowID
			s.out.nextRowID += m.AddedRows + m.ExistingRows
		}
		w.Append(func(b []byte) []byte { return appendLine(b, m, t.FormatVersion) })
	}
	body, err := w.Bytes()
	if err != nil {
		return err
	}
	return s.write(ctx, location, body)
}

// appendLine encodes a line in the order of iceberg.ManifestListSchema.
func appendLine(b []byte, m *icebergscan.Manifest, version int) []byte {
	b = avrofile.AppendString(b, m.Path)
	for _, v := range []int64{
		m.Length, int64(m.SpecID), int64(m.Content), m.SequenceNumber, m.MinSequenceNumber, m.AddedSnapshotID,
		max(m.AddedFiles, 0), max(m.ExistingFiles, 0), max(m.DeletedFiles, 0),
		max(m.AddedRows, 0), max(m.ExistingRows, 0), max(m.DeletedRows, 0),
	} {
		b = avrofile.AppendLong(b, v)
	}
	b = appendSummaries(b, m.Partitions)
	b = appendOptionalBytes(b, m.KeyMetadata)
	if version < 3 {
		return b
	}
	if m.FirstRowID == icebergscan.Absent {
		return avrofile.AppendNull(b)
	}
	return avrofile.AppendLong(avrofile.AppendSome(b), m.FirstRowID)
}

func appendSummaries(b []byte, of []icebergscan.FieldSummary) []byte {
	if of == nil {
		return avrofile.AppendNull(b)
	}
	b = avrofile.AppendSome(b)
	if len(of) > 0 {
		b = avrofile.AppendLong(b, int64(len(of)))
	}
	for _, s := range of {
		b = appendBool(b, s.ContainsNull)
		if s.ContainsNaN < 0 {
			b = avrofile.AppendNull(b)
		} else {
			b = appendBool(avrofile.AppendSome(b), s.ContainsNaN == 1)
		}
		b = appendOptionalBytes(b, s.Lower)
		b = appendOptionalBytes(b, s.Upper)
	}
	return avrofile.AppendLong(b, 0)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendOptionalBytes(b, v []byte) []byte {
	if v == nil {
		return avrofile.AppendNull(b)
	}
	return avrofile.AppendBytes(avrofile.AppendSome(b), v)
}

// summaries collects what the manifest list says of the partition fields of one manifest.
type summaries struct {
	types []string // of the tuple's fields
	// order maps the fields of the spec to the tuple, which is in ascending order of field ids.
	order  []int
	fields []fieldSums
}

type fieldSums struct {
	null, nan    bool
	lower, upper *icebergscan.Value
}

func newSummaries(t *icebergscan.Table, spec *icebergscan.Spec) summaries {
	s := summaries{fields: make([]fieldSums, len(spec.ByID()))}
	for _, f := range spec.ByID() {
		s.types = append(s.types, resultType(t, f))
	}
	for _, f := range spec.Fields {
		for i, g := range spec.ByID() {
			if g.FieldID == f.FieldID {
				s.order = append(s.order, i)
			}
		}
	}
	return s
}

// resultType answers the type of a partition field (Iceberg spec, "Partition Transforms").
func resultType(t *icebergscan.Table, f icebergscan.SpecField) string {
	transform, _, _ := strings.Cut(f.Transform, "[")
	switch transform {
	case "bucket", "year", "month", "hour":
		return "int"
	case "day":
		return "date"
	}
	source, _ := t.Field(f.SourceID)
	return source.Type
}

// add takes a tuple, lent.
func (s *summaries) add(tuple []icebergscan.Value) {
	for i := range s.fields {
		f := &s.fields[i]
		if i >= len(tuple) || tuple[i].Kind == icebergscan.Null {
			f.null = true
			continue
		}
		v := tuple[i]
		if v.Kind == icebergscan.Float && math.IsNaN(v.Num) {
			f.nan = true
			continue
		}
		if f.lower == nil || compare(v, *f.lower) < 0 {
			f.lower = &icebergscan.CloneValues([]icebergscan.Value{v})[0]
		}
		if f.upper == nil || compare(v, *f.upper) > 0 {
			f.upper = &icebergscan.CloneValues([]icebergscan.Value{v})[0]
		}
	}
}

// done answers the summaries in the order of the spec's fields; nil if there is a type whose limits have no form here,
// because a summary without limits makes readers leave the manifest out.
func (s *summaries) done() []icebergscan.FieldSummary {
	out := []icebergscan.FieldSummary{}
	for _, i := range s.order {
		f := &s.fields[i]
		one := icebergscan.FieldSummary{ContainsNull: f.null}
		if f.nan {
			one.ContainsNaN = 1
		}
		if f.lower != nil {
			one.Lower, one.Upper = single(s.types[i], *f.lower), single(s.types[i], *f.upper)
			if one.Lower == nil || one.Upper == nil {
				return nil
			}
		}
		out = append(out, one)
	}
	return out
}

// compare orders values of one kind.
func compare(a, b icebergscan.Value) int {
	switch a.Kind {
	case icebergscan.Float:
		switch {
		case a.Num < b.Num:
			return -1
		case a.Num > b.Num:
			return 1
		}
		return 0
	case icebergscan.String, icebergscan.Binary:
		return bytes.Compare(a.Bytes, b.Bytes)
	case icebergscan.Decimal:
		return bytes.Compare(wide(a.Bytes), wide(b.Bytes))
	case icebergscan.Null, icebergscan.Bool, icebergscan.Int:
	}
	switch {
	case a.Int < b.Int:
		return -1
	case a.Int > b.Int:
		return 1
	}
	return 0
}

// wide extends a big-endian two's complement to 17 bytes whose order is that of the numbers.
func wide(b []byte) []byte {
	out := make([]byte, 17)
	if len(b) > 0 && b[0] >= 0x80 {
		for i := range out {
			out[i] = 0xff
		}
	}
	copy(out[max(0, 17-len(b)):], b)
	out[0] ^= 0x80
	return out
}

// single writes a value in single-value serialisation (Iceberg spec, Appendix D); nil for a type without one here.
func single(typ string, v icebergscan.Value) []byte {
	base, _, _ := strings.Cut(typ, "(")
	base, _, _ = strings.Cut(base, "[")
	switch base {
	case "boolean":
		return []byte{byte(v.Int)}
	case "int", "date":
		return binary.LittleEndian.AppendUint32(nil, uint32(v.Int))
	case "long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns":
		return binary.LittleEndian.AppendUint64(nil, uint64(v.Int))
	case "float":
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v.Num)))
	case "double":
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v.Num))
	case "decimal":
		return shortest(v.Bytes)
	case "string", "binary", "fixed", "uuid":
		if v.Bytes == nil {
			return []byte{}
		}
		return v.Bytes
	}
	return nil
}

// shortest cuts a big-endian two's complement down to the bytes that it needs, at least one.
func shortest(b []byte) []byte {
	if len(b) == 0 {
		return []byte{0}
	}
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	return b
}

package icebergscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/frazil-io/frazil/libs/fault"
)

// ManifestContent says what the files of a manifest hold.
type ManifestContent int8

// The contents. The values are those of the spec.
const (
	DataManifest    ManifestContent = 0
	DeletesManifest ManifestContent = 1
)

// Manifest is a line of a manifest list.
type Manifest struct {
	Path              string
	Length            int64 // bytes
	SpecID            int32
	Content           ManifestContent
	SequenceNumber    int64
	MinSequenceNumber int64
	AddedSnapshotID   int64
	AddedFiles        int64 // -1 = not stated
	ExistingFiles     int64 // -1 = not stated
	DeletedFiles      int64 // -1 = not stated
	AddedRows         int64 // -1 = not stated
	ExistingRows      int64 // -1 = not stated
	DeletedRows       int64 // -1 = not stated
	FirstRowID        int64 // -1 = none
	// Partitions are the summaries of the spec's fields; nil = not stated.
	Partitions []FieldSummary
	// KeyMetadata is of an encrypted manifest; nil = none.
	KeyMetadata []byte
}

// FieldSummary is what a manifest list says of one partition field of a manifest.
type FieldSummary struct {
	ContainsNull bool
	ContainsNaN  int64 // 0 or 1; -1 = not stated
	// Lower and Upper in single-value serialisation; nil = none.
	Lower, Upper []byte
}

// Live reports whether the manifest can hold live entries.
func (m *Manifest) Live() bool { return m.AddedFiles != 0 || m.ExistingFiles != 0 }

// Field ids of manifest lists (Iceberg spec, "Manifest Lists").
const (
	listPath            = 500
	listLength          = 501
	listSpecID          = 502
	listAddedSnapshotID = 503
	listAddedFiles      = 504
	listPartitions      = 507
	listKeyMetadata     = 519
	listExistingFiles   = 505
	listDeletedFiles    = 506
	listAddedRows       = 512
	listExistingRows    = 513
	listDeletedRows     = 514
	listSequence        = 515
	listMinSequence     = 516
	listContent         = 517
	listFirstRowID      = 520
)

// names without ids: files written before ids were written.
func listFieldByName(name string) int32 {
	switch name {
	case "manifest_path":
		return listPath
	case "manifest_length":
		return listLength
	case "partition_spec_id":
		return listSpecID
	case "added_snapshot_id":
		return listAddedSnapshotID
	case "added_data_files_count", "added_files_count":
		return listAddedFiles
	case "existing_data_files_count", "existing_files_count":
		return listExistingFiles
	case "deleted_data_files_count", "deleted_files_count":
		return listDeletedFiles
	case "added_rows_count":
		return listAddedRows
	case "existing_rows_count":
		return listExistingRows
	case "deleted_rows_count":
		return listDeletedRows
	case "partitions":
		return listPartitions
	case "key_metadata":
		return listKeyMetadata
	case "sequence_number":
		return listSequence
	case "min_sequence_number":
		return listMinSequence
	case "content":
		return listContent
	case "first_row_id":
		return listFirstRowID
	}
	return -1
}

// ReadManifestList reads a manifest list of format versions 1 to 3, in its order. Errors: fault.ErrCorrupt,
// fault.ErrUnsupported for a codec, or what r answers.
func ReadManifestList(r io.Reader) ([]Manifest, error) {
	o, err := openOCF(r)
	if err != nil {
		return nil, fmt.Errorf("manifest list: %w", err)
	}
	defer o.close()
	if o.schema.kind != kindRecord {
		return nil, fmt.Errorf("manifest list of no records: %w", fault.ErrCorrupt)
	}
	var out []Manifest
	for {
		block, count, err := o.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest list: %w", err)
		}
		c := cursor{buf: block}
		for ; count > 0; count-- {
			m := readManifestLine(&c, o.schema)
			if c.err != nil {
				return nil, fmt.Errorf("manifest list: %w", c.err)
			}
			if m.Path == "" {
				return nil, fmt.Errorf("manifest list: a manifest without a path: %w", fault.ErrCorrupt)
			}
			out = append(out, m)
		}
	}
}

func readManifestLine(c *cursor, schema *node) Manifest {
	m := Manifest{AddedFiles: -1, ExistingFiles: -1, DeletedFiles: -1, AddedRows: -1, ExistingRows: -1, DeletedRows: -1, FirstRowID: -1}
	for i := range schema.fields {
		f := &schema.fields[i]
		id := f.id
		if id < 0 {
			id = listFieldByName(f.name)
		}
		switch id {
		case listPath:
			m.Path = string(c.blob(f.node))
			continue
		case listKeyMetadata:
			m.KeyMetadata = bytes.Clone(c.blob(f.node))
			continue
		case listPartitions:
			m.Partitions = readSummaries(c, f.node)
			continue
		}
		to := m.number(id)
		if to == nil {
			c.skip(f.node)
			continue
		}
		v, ok := c.long(f.node)
		if ok {
			to(v)
		}
	}
	return m
}

// number answers where a numeric field goes; nil for fields that are not read.
func (m *Manifest) number(id int32) func(int64) {
	set := func(to *int64) func(int64) { return func(v int64) { *to = v } }
	switch id {
	case listLength:
		return set(&m.Length)
	case listSpecID:
		return func(v int64) { m.SpecID = int32(v) }
	case listAddedSnapshotID:
		return set(&m.AddedSnapshotID)
	case listAddedFiles:
		return set(&m.AddedFiles)
	case listExistingFiles:
		return set(&m.ExistingFiles)
	case listDeletedFiles:
		return set(&m.DeletedFiles)
	case listAddedRows:
		return set(&m.AddedRows)
	case listExistingRows:
		return set(&m.ExistingRows)
	case listDeletedRows:
		return set(&m.DeletedRows)
	case listSequence:
		return set(&m.SequenceNumber)
	case listMinSequence:
		return set(&m.MinSequenceNumber)
	case listContent:
		return func(v int64) { m.Content = ManifestContent(v) }
	case listFirstRowID:
		return set(&m.FirstRowID)
	}
	return nil
}

// Field ids of partition summaries (Iceberg spec, "Manifest Lists").
const (
	summaryContainsNull = 509
	summaryLower        = 510
	summaryUpper        = 511
	summaryContainsNaN  = 518
)

func summaryFieldByName(name string) int32 {
	switch name {
	case "contains_null":
		return summaryContainsNull
	case "lower_bound":
		return summaryLower
	case "upper_bound":
		return summaryUpper
	case "contains_nan":
		return summaryContainsNaN
	}
	return -1
}

func readSummaries(c *cursor, n *node) []FieldSummary {
	n = c.branch(n)
	if n == nil || n.kind == kindNull {
		return nil
	}
	if n.kind != kindArray || n.item.kind != kindRecord {
		c.fail("partition summaries that are no list of records")
		return nil
	}
	out := []FieldSummary{}
	for {
		count := c.blockCount()
		if count == 0 {
			return out
		}
		for ; count > 0 && c.err == nil; count-- {
			out = append(out, readSummary(c, n.item))
		}
	}
}

func readSummary(c *cursor, n *node) FieldSummary {
	s := FieldSummary{ContainsNaN: -1}
	for i := range n.fields {
		f := &n.fields[i]
		id := f.id
		if id < 0 {
			id = summaryFieldByName(f.name)
		}
		switch id {
		case summaryContainsNull:
			s.ContainsNull = c.flag(f.node) == 1
		case summaryContainsNaN:
			s.ContainsNaN = c.flag(f.node)
		case summaryLower:
			s.Lower = bytes.Clone(c.blob(f.node))
		case summaryUpper:
			s.Upper = bytes.Clone(c.blob(f.node))
		default:
			c.skip(f.node)
		}
	}
	return s
}

package readback

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/avro/ocf"
)

// Row is a row by column name; an absent column is null.
type Row map[string]any

// DataFile is a live data file of a snapshot with what the metadata says of it.
type DataFile struct {
	Path       string
	Size       int64
	Rows       int64
	FirstRowID int64
	Deletes    *DeleteFile
	// Lower and Upper are the bounds by field id, in Iceberg's single-value serialisation.
	Lower, Upper map[int32][]byte
}

// Room reports whether the file was named before all its events were read: the edition in its name is 0.
func (f *DataFile) Room() bool { return strings.Contains(f.Path, "-v0-") }

// DeleteFile is the delete file of a data file.
type DeleteFile struct {
	Path          string
	Size          int64
	Rows          int64
	ContentOffset int64
	ContentSize   int64
	Format        string
}

// Snapshot answers the snapshot with that id; 0 = the current one.
func (t *Table) Snapshot(id int64) (Snapshot, error) {
	if id == 0 {
		id = t.Metadata.CurrentSnapshot
	}
	for _, s := range t.Metadata.Snapshots {
		if s.ID == id {
			return s, nil
		}
	}
	return Snapshot{}, fmt.Errorf("snapshot %d is not listed", id)
}

// Files plans a scan of a snapshot.
func (t *Table) Files(ctx context.Context, snapshot int64) ([]DataFile, error) {
	s, err := t.Snapshot(snapshot)
	if err != nil {
		return nil, err
	}
	list, err := t.records(ctx, s.ManifestList)
	if err != nil {
		return nil, err
	}
	var data []DataFile
	deletes := map[string]*DeleteFile{}
	for _, m := range list {
		entries, err := t.records(ctx, m["manifest_path"].(string))
		if err != nil {
			return nil, err
		}
		if err := t.checkLength(ctx, m); err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e["status"].(int32) == 2 {
				continue
			}
			f := e["data_file"].(map[string]any)
			if f["content"].(int32) == 0 {
				d := DataFile{Path: f["file_path"].(string), Size: f["file_size_in_bytes"].(int64), Rows: f["record_count"].(int64)}
				d.FirstRowID, _ = f["first_row_id"].(int64)
				d.Lower, d.Upper = bounds(f["lower_bounds"]), bounds(f["upper_bounds"])
				data = append(data, d)
				continue
			}
			d := &DeleteFile{Path: f["file_path"].(string), Size: f["file_size_in_bytes"].(int64), Rows: f["record_count"].(int64), Format: f["file_format"].(string)}
			d.ContentOffset, _ = f["content_offset"].(int64)
			d.ContentSize, _ = f["content_size_in_bytes"].(int64)
			ref := f["referenced_data_file"].(string)
			if deletes[ref] != nil {
				return nil, fmt.Errorf("two delete files for %s", ref)
			}
			deletes[ref] = d
		}
	}
	for i := range data {
		data[i].Deletes = deletes[data[i].Path]
		delete(deletes, data[i].Path)
	}
	if len(deletes) > 0 {
		return nil, fmt.Errorf("%d delete files refer to no data file", len(deletes))
	}
	return data, nil
}

func (t *Table) checkLength(ctx context.Context, m map[string]any) error {
	path := m["manifest_path"].(string)
	b, err := t.Object(ctx, path, "")
	if err != nil {
		return err
	}
	if want := m["manifest_length"].(int64); int64(len(b)) != want {
		return fmt.Errorf("manifest %s has %d bytes, the list says %d", path, len(b), want)
	}
	return nil
}

func (t *Table) records(ctx context.Context, uri string) (out []map[string]any, err error) {
	b, err := t.Object(ctx, uri, "")
	if err != nil {
		return nil, err
	}
	r, err := ocf.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("avro %s: %w", uri, err)
	}
	for {
		var v any
		if err := r.Decode(&v); err != nil {
			if errors.Is(err, io.EOF) {
				return out, nil
			}
			return nil, fmt.Errorf("avro %s: %w", uri, err)
		}
		out = append(out, v.(map[string]any))
	}
}

// Rows reads the live rows of a snapshot and checks, file by file, that sizes, counts and cardinalities are what
// the metadata says.
func (t *Table) Rows(ctx context.Context, snapshot int64) ([]Row, error) {
	files, err := t.Files(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	var out []Row
	for _, f := range files {
		rows, err := t.FileRows(ctx, f)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// FileRows reads the live rows of one file, with the same checks.
func (t *Table) FileRows(ctx context.Context, f DataFile) ([]Row, error) {
	rows, err := t.allRows(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if n := int64(len(rows)); n > f.Rows || n < f.Rows && !f.Room() {
		return nil, fmt.Errorf("%s has %d rows, the manifest says %d", f.Path, len(rows), f.Rows)
	}
	dead, err := t.positions(ctx, f)
	if err != nil {
		return nil, err
	}
	var live []Row
	for i, r := range rows {
		if !dead[int64(i)] {
			live = append(live, r)
		}
	}
	return live, nil
}

// allRows reads the rows of a file: whole, or where most of it is a hole, the ranges that hold something.
func (t *Table) allRows(ctx context.Context, f DataFile) ([]Row, error) {
	if f.Room() {
		return parquetRows(&ranges{ctx: ctx, table: t, path: f.Path}, f.Size)
	}
	b, err := t.Object(ctx, f.Path, "")
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != f.Size {
		return nil, fmt.Errorf("it has %d bytes, the manifest says %d", len(b), f.Size)
	}
	return parquetRows(bytes.NewReader(b), f.Size)
}

// ranges reads an object by ranges.
type ranges struct {
	ctx   context.Context
	table *Table
	path  string
}

// ReadAt implements io.ReaderAt within the object.
func (r *ranges) ReadAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := r.table.Object(r.ctx, r.path, fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
	if err != nil {
		return 0, err
	}
	if len(b) != len(p) {
		return copy(p, b), fmt.Errorf("%d bytes at %d, want %d: %w", len(b), off, len(p), io.ErrUnexpectedEOF)
	}
	return copy(p, b), nil
}

// bounds are the key-value pairs of an Avro map with integer keys.
func bounds(v any) map[int32][]byte {
	out := map[int32][]byte{}
	pairs, _ := v.([]any)
	for _, p := range pairs {
		pair, _ := p.(map[string]any)
		key, _ := pair["key"].(int32)
		out[key], _ = pair["value"].([]byte)
	}
	return out
}

// positions reads the deleted positions of a data file.
func (t *Table) positions(ctx context.Context, f DataFile) (map[int64]bool, error) {
	dead := map[int64]bool{}
	d := f.Deletes
	if d == nil {
		return dead, nil
	}
	b, err := t.Object(ctx, d.Path, "")
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != d.Size {
		return nil, fmt.Errorf("%s has %d bytes, the manifest says %d", d.Path, len(b), d.Size)
	}
	if d.Format == "PUFFIN" {
		err = vector(b[d.ContentOffset:d.ContentOffset+d.ContentSize], dead)
	} else {
		err = positionRows(b, f.Path, dead)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Path, err)
	}
	if int64(len(dead)) != d.Rows && !f.Room() {
		return nil, fmt.Errorf("%s deletes %d rows, the manifest says %d", d.Path, len(dead), d.Rows)
	}
	for p := range dead {
		if p < 0 || p >= f.Rows {
			return nil, fmt.Errorf("%s deletes position %d of a file of %d rows", d.Path, p, f.Rows)
		}
	}
	return dead, nil
}

func vector(blob []byte, dead map[int64]bool) error {
	if len(blob) < 12 || binary.BigEndian.Uint32(blob) != uint32(len(blob)-8) {
		return errors.New("deletion vector has a wrong length")
	}
	var bm roaring64.Bitmap
	if err := bm.UnmarshalBinary(blob[8 : len(blob)-4]); err != nil {
		return err
	}
	for it := bm.Iterator(); it.HasNext(); {
		dead[int64(it.Next())] = true
	}
	return nil
}

func positionRows(b []byte, path string, dead map[int64]bool) error {
	rows, err := parquetRows(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	last := int64(-1)
	for _, r := range rows {
		pos := r["pos"].(int64)
		if r["file_path"].(string) != path {
			return fmt.Errorf("a position of another file: %v", r["file_path"])
		}
		if pos <= last {
			return fmt.Errorf("position %d after %d", pos, last)
		}
		last = pos
		dead[pos] = true
	}
	return nil
}

func parquetRows(r io.ReaderAt, size int64) ([]Row, error) {
	f, err := parquet.OpenFile(r, size)
	if err != nil {
		return nil, err
	}
	var out []Row
	cols := f.Schema().Columns()
	for _, rg := range f.RowGroups() {
		rows := rg.Rows()
		buf := make([]parquet.Row, 256)
		for {
			n, err := rows.ReadRows(buf)
			for _, r := range buf[:n] {
				row := Row{}
				for _, v := range r {
					if !v.IsNull() {
						row[cols[v.Column()][0]] = value(v)
					}
				}
				out = append(out, row)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, errors.Join(err, rows.Close())
			}
		}
		if err := rows.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func value(v parquet.Value) any {
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean()
	case parquet.Int32:
		return int64(v.Int32())
	case parquet.Int64:
		return v.Int64()
	case parquet.Float:
		return float64(v.Float())
	case parquet.Double:
		return v.Double()
	default:
		return string(v.ByteArray())
	}
}

package lint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/libs/lint"
	"github.com/frazil-io/frazil/libs/posdelete"
	"github.com/frazil-io/frazil/libs/puffin"
)

// shelf is a store in memory.
type shelf map[string][]byte

type object struct{ *bytes.Reader }

func (o object) Size() (int64, error) { return o.Reader.Size(), nil }
func (o object) Close() error         { return nil }

func (s shelf) File(_ context.Context, location string) (lint.File, error) {
	b, ok := s[location]
	if !ok {
		return nil, fmt.Errorf("object %s: %w", location, fault.ErrNotFound)
	}
	return object{bytes.NewReader(b)}, nil
}

type row struct {
	Path string `parquet:"file_path"`
	Pos  int64  `parquet:"pos"`
}

func parquetOf(t *testing.T, rows ...row) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// add commits a position delete file of the rows, over one data file if they name only one.
func (s shelf) add(t *testing.T, tb *scantest.Table, path string, rows ...row) {
	t.Helper()
	s[path] = parquetOf(t, rows...)
	f := scantest.File{Path: path, Content: iceberg.EntryContentPosDeletes, Records: int64(len(rows)), Size: int64(len(s[path]))}
	lo, hi := rows[0].Path, rows[0].Path
	for _, r := range rows {
		lo, hi = min(lo, r.Path), max(hi, r.Path)
	}
	f.Lower, f.Upper = bound(lo), bound(hi)
	commit(tb, f)
}

func openAll(t *testing.T, s shelf, d *lint.Deletes, cfg lint.Config) []lint.Finding {
	t.Helper()
	found, err := lint.OpenDeletes(t.Context(), s, d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOrderInsidePositionDeletes(t *testing.T) {
	tb, s := table(t, 2), shelf{}
	commit(tb, data("a"), data("b"))
	s.add(t, tb, "sorted", row{"a", 1}, row{"a", 1}, row{"a", 7}, row{"b", 0})
	s.add(t, tb, "positions", row{"a", 7}, row{"a", 1})
	s.add(t, tb, "paths", row{"b", 1}, row{"a", 2})
	cfg := config(t, "clickhouse")
	_, kept := run(t, tb, cfg)
	if kept.Count() != 3 {
		t.Fatalf("%d files", kept.Count())
	}
	expect(t, openAll(t, s, kept, cfg),
		"error unsorted-positions clickhouse [positions paths] 2",
		"warning unsorted-paths  [paths] 1",
	)
	cfg = config(t, "trino", "spark")
	expect(t, openAll(t, s, kept, cfg),
		"error unsorted-paths trino [paths] 1",
		"warning unsorted-positions  [positions paths] 2",
	)
}

func TestRowsInsidePositionDeletes(t *testing.T) {
	tb, s := table(t, 2), shelf{}
	commit(tb, data("s3://l/a"), data("s3://l/b"))
	s.add(t, tb, "beyond", row{"s3://l/a", 99}, row{"s3://l/a", 100})
	s.add(t, tb, "misspelt", row{"s3://l/a", 1}, row{"s3a://l/b", 2})
	s["outside"] = parquetOf(t, row{"s3://l/a", 1}, row{"s3://l/b", 2})
	commit(tb, scantest.File{Path: "outside", Content: iceberg.EntryContentPosDeletes, Records: 3, Size: int64(len(s["outside"])), Lower: bound("s3://l/a"), Upper: bound("s3://l/a")})
	s["size"] = parquetOf(t, row{"s3://l/a", 1})
	commit(tb, scantest.File{Path: "size", Content: iceberg.EntryContentPosDeletes, Records: 1, Size: 7, Lower: bound("s3://l/a"), Upper: bound("s3://l/a")})
	s["junk"] = []byte("PAR1 this is no parquet PAR1")
	commit(tb, scantest.File{Path: "junk", Content: iceberg.EntryContentPosDeletes, Records: 1, Size: 28, Lower: bound("s3://l/a"), Upper: bound("s3://l/a")})
	commit(tb, scantest.File{Path: "gone", Content: iceberg.EntryContentPosDeletes, Records: 1, Lower: bound("s3://l/a"), Upper: bound("s3://l/a")})
	commit(tb, scantest.File{Path: "avro", Content: iceberg.EntryContentPosDeletes, Format: iceberg.AvroFile, Records: 1, Lower: bound("s3://l/a"), Upper: bound("s3://l/a")})
	s["avro"] = nil
	_, kept := run(t, tb, config(t))
	expect(t, openAll(t, s, kept, config(t)),
		"error delete-file-corrupt  [junk] 1",
		"error delete-file-missing  [gone] 1",
		"error path-mismatch  [misspelt] 1",
		"error rows-outside-bounds  [outside] 1",
		"error size-lies  [size] 1",
		"warning positions-beyond-data  [beyond] 1",
		"note count-lies  [outside] 1",
		"note not-opened  [avro] 1",
	)
}

// What the gateway itself renders passes.
func TestWhatTheGatewayRendersPasses(t *testing.T) {
	set := roaring.BitmapOf(0, 5, 99)
	p, err := posdelete.New("s3://l/a", set)
	if err != nil {
		t.Fatal(err)
	}
	v, err := puffin.New("s3://l/b", set)
	if err != nil {
		t.Fatal(err)
	}
	s := shelf{}
	for name, f := range map[string]interface {
		Size() int64
		WriteRange(io.Writer, int64, int64) error
	}{"p": p, "v": v} {
		var b bytes.Buffer
		if err := f.WriteRange(&b, 0, f.Size()); err != nil {
			t.Fatal(err)
		}
		s[name] = b.Bytes()
	}
	tb := table(t, 3)
	commit(tb, data("s3://l/a"), data("s3://l/b"))
	shape := v.Shape()
	commit(tb,
		scantest.File{Path: "p", Content: iceberg.EntryContentPosDeletes, Records: 3, Size: p.Size(), Lower: bound("s3://l/a"), Upper: bound("s3://l/a")},
		scantest.File{Path: "v", Content: iceberg.EntryContentPosDeletes, Format: iceberg.PuffinFile, Records: 3, Size: v.Size(), Reference: "s3://l/b", Offset: shape.BlobOffset, Bytes: shape.BlobSize},
	)
	cfg := config(t, "clickhouse", "trino", "spark", "pyiceberg", "sail")
	_, kept := run(t, tb, cfg)
	expect(t, openAll(t, s, kept, cfg))
}

func TestVectorsThatLie(t *testing.T) {
	good, err := puffin.New("a", roaring.BitmapOf(1, 2, 3, 200))
	if err != nil {
		t.Fatal(err)
	}
	var raw bytes.Buffer
	if err := good.WriteRange(&raw, 0, good.Size()); err != nil {
		t.Fatal(err)
	}
	shape := good.Shape()
	tb, s := table(t, 3), shelf{}
	put := func(name string, body []byte, records int64, change func(*scantest.File)) {
		s[name] = body
		target := "data-" + name
		f := scantest.File{Path: name, Content: iceberg.EntryContentPosDeletes, Format: iceberg.PuffinFile, Records: records, Size: int64(len(body)), Reference: target, Offset: shape.BlobOffset, Bytes: shape.BlobSize}
		if change != nil {
			change(&f)
		}
		commit(tb, scantest.File{Path: target, Records: 300}, f)
	}
	damaged := bytes.Clone(raw.Bytes())
	damaged[shape.BlobOffset+shape.BlobSize/2] ^= 1
	bare := raw.Bytes()[:shape.BlobOffset+shape.BlobSize]
	put("crc", damaged, 4, nil)
	put("count", raw.Bytes(), 9, nil)
	put("target", raw.Bytes(), 4, nil) // the footer names data file "a"
	put("footer", bare, 4, nil)
	put("short", raw.Bytes()[:20], 4, nil)
	put("length", raw.Bytes(), 4, func(f *scantest.File) { f.Bytes-- })
	s["good"] = raw.Bytes()
	commit(tb, data("a")) // of 100 rows: position 200 is beyond
	commit(tb, scantest.File{Path: "good", Content: iceberg.EntryContentPosDeletes, Format: iceberg.PuffinFile, Records: 4, Reference: "a", Offset: shape.BlobOffset, Bytes: shape.BlobSize})
	empty := binary.BigEndian.AppendUint32(nil, 12)
	body := append(binary.BigEndian.AppendUint32(nil, 0xD1D33964), make([]byte, 8)...)
	empty = binary.BigEndian.AppendUint32(append(empty, body...), crc32.ChecksumIEEE(body))
	put("empty", empty, 0, func(f *scantest.File) { f.Offset, f.Bytes = 0, int64(len(empty)) })

	cfg := config(t, "spark", "pyiceberg")
	_, kept := run(t, tb, cfg)
	expect(t, openAll(t, s, kept, cfg),
		"error delete-file-corrupt  [length] 1",
		"error delete-file-corrupt  [crc] 1",
		"error delete-file-corrupt  [short] 1",
		"error vector-cardinality spark [count] 1",
		"error vector-empty  [empty] 1",
		"error vector-footer pyiceberg [footer empty] 2",
		"error vector-footer pyiceberg [count target] 2",
		"warning positions-beyond-data  [good] 1",
	)
}

type broken struct{}

func (broken) File(context.Context, string) (lint.File, error) {
	return nil, fault.ErrUnavailable
}

func TestAStoreThatIsAwayIsNoFinding(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("a"))
	commit(tb, positions("p", "a"))
	_, kept := run(t, tb, config(t))
	if _, err := lint.OpenDeletes(t.Context(), broken{}, kept, config(t)); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

package draintest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
)

// Path answers a new location for a file.
func (w *World) Path(suffix string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	return fmt.Sprintf("%s/data/f%05d%s", w.location, w.n, suffix)
}

// Options of a file to make.
type Options struct {
	Spec      int
	Partition map[int]any
	Seq       int64
	Avro      bool
	// PerGroup is how many rows a row group has; 0 = all.
	PerGroup int
	// NoStats leaves bounds and counts out.
	NoStats bool
}

// Data makes a data file of the present era.
func (w *World) Data(rows []Row, o Options) File {
	f := w.file(rows, Columns(w.Era), o)
	for _, r := range rows {
		if w.Era == 0 && w.Version >= 3 && r[Note] == nil {
			r[Note] = NoteDefault // what readers see once the column is there
		}
	}
	return f
}

// Equality makes an equality delete of the present era.
func (w *World) Equality(keys []int, rows []Row, o Options) File {
	columns := slices.Clone(keys)
	if !slices.Contains(columns, ID) && len(rows) > 0 && len(rows)%2 == 0 {
		columns = append(columns, ID) // columns beside the key ones are legal
	}
	f := w.file(rows, columns, o)
	f.Content, f.Keys = iceberg.EntryContentEqDeletes, keys
	return f
}

func (w *World) file(rows []Row, columns []int, o Options) File {
	w.tb.Helper()
	f := File{Format: iceberg.ParquetFile, Spec: o.Spec, Partition: o.Partition, Seq: o.Seq, Records: int64(len(rows))}
	var body []byte
	var err error
	if o.Avro {
		f.Format = iceberg.AvroFile
		body, err = Avro(w.Era, columns, rows)
	} else {
		if o.PerGroup == 0 {
			o.PerGroup = 1 << 20
		}
		body, err = Parquet(w.Era, columns, rows, o.PerGroup)
	}
	if err != nil {
		w.tb.Fatal(err)
	}
	f.Path = w.Path("." + strings.ToLower(string(f.Format)))
	f.Size = int64(len(body))
	w.Lake.Put(f.Path, body)
	w.mu.Lock()
	w.Rows[f.Path] = rows
	w.mu.Unlock()
	if !o.NoStats {
		w.stats(&f, rows, columns)
	}
	return f
}

func (w *World) stats(f *File, rows []Row, columns []int) {
	f.Lower, f.Upper, f.Values, f.Nulls = map[int][]byte{}, map[int][]byte{}, map[int]int64{}, map[int]int64{}
	for _, id := range columns {
		var lower, upper any
		for _, r := range rows {
			f.Values[id]++
			v := r[id]
			if id == Note && w.Era == 0 {
				continue
			}
			switch {
			case v == nil:
				f.Nulls[id]++
				continue
			case v != v: // NaN is in no bound
				continue
			}
			if lower == nil || less(v, lower) {
				lower = v
			}
			if upper == nil || less(upper, v) {
				upper = v
			}
		}
		if _, ok := f.Nulls[id]; !ok {
			f.Nulls[id] = 0
		}
		if lower != nil {
			f.Lower[id], f.Upper[id] = bound(w.Era, id, lower), bound(w.Era, id, upper)
		}
	}
}

package drain_test

import (
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/drain/draintest"
)

// BenchmarkDrain drains 200 equality deletes of 1000 random keys each out of 20 data files of 50 000 rows whose bounds
// tell nothing apart, by scanning and with an index that knows the data files.
func BenchmarkDrain(b *testing.B) {
	for _, mode := range []string{"scan", "index"} {
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w, _ := wide(b, 20, 50_000, 200, 1000)
				cfg := config()
				cfg.Memory = 64 << 20
				if mode == "index" {
					cfg.Index = openIndex(&failing{T: &testing.T{}}, b.TempDir())
					w.Write("main", "delete", files{w.Equality([]int{id}, ids(1, 2), opts{})})
					if _, err := drain.Run(b.Context(), w, cfg); err != nil {
						b.Fatal(err)
					}
					upserts(b, w, 1_000_000, 10, 100)
				}
				b.StartTimer()
				rep, err := drain.Run(b.Context(), w, cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(rep.BytesRead), "B-read")
				b.ReportMetric(float64(rep.RowsScanned), "rows")
				b.ReportMetric(float64(rep.DeleteKeys), "keys")
				if cfg.Index != nil {
					cfg.Index.Close()
				}
				b.StartTimer()
			}
		})
	}
}

// wide makes a table whose data files all have keys of the whole range.
func wide(tb testing.TB, dataFiles, rows, deletes, keys int) (*draintest.World, int) {
	tb.Helper()
	w := draintest.New(tb, 3)
	n := dataFiles * rows
	for f := range dataFiles {
		var batch []row
		for i := range rows {
			batch = append(batch, row{id: int64(i*dataFiles + f)})
		}
		rand.New(rand.NewPCG(1, uint64(f))).Shuffle(rows, func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		body, err := draintest.Parquet(0, []int{id}, batch, rows)
		if err != nil {
			tb.Fatal(err)
		}
		file := draintest.File{Content: iceberg.EntryContentData, Format: iceberg.ParquetFile, Path: w.Path(".parquet"), Records: int64(rows), Size: int64(len(body))}
		w.Lake.Put(file.Path, body)
		w.Write("main", "append", files{file})
	}
	upserts(tb, w, n, deletes, keys)
	return w, n
}

func upserts(tb testing.TB, w *draintest.World, n, deletes, keys int) {
	tb.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	for range deletes {
		var batch []row
		for range keys {
			batch = append(batch, row{id: r.Int64N(int64(n))})
		}
		w.Write("main", "delete", files{w.Equality([]int{id}, batch, opts{NoStats: true})})
	}
}

// TestMemoryIsBounded: deletes ten times larger than the limit do not make the heap larger than a few limits.
func TestMemoryIsBounded(t *testing.T) {
	w, _ := wide(t, 1, 1000, 12, 5000)
	cfg := config()
	cfg.Memory = 256 << 10
	cfg.Workers = 1
	runtime.GC()
	before := heap()
	var peak atomic.Int64
	cfg.Progress = func(p drain.Progress) {
		if p.Stage != "scan" || p.Done == p.Total {
			return
		}
		runtime.GC()
		peak.Store(max(peak.Load(), heap()-before))
	}
	rep, err := drain.Run(t.Context(), w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	held := rep.DeleteKeys * 24 * 4 / 3
	t.Logf("%d keys, %d bytes if they were held at once; %d commits; the heap grew by %d", rep.DeleteKeys, held, len(rep.Snapshots), peak.Load())
	if held < 6*cfg.Memory || len(rep.Snapshots) < 6 || peak.Load() > 4*cfg.Memory {
		t.Error("memory is not bounded, or the case is too small")
	}
}

// heap answers the bytes of objects.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

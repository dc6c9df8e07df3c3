package probe_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/libs/probe"
)

// big is a table of 100 000 manifest entries in 50 commits: half data files, half equality deletes, keys all over.
func big(b *testing.B) *scantest.Table {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	table := scantest.New(b, 2, schema(), specs()...)
	for c := range 50 {
		var files []scantest.File
		for i := range 2000 {
			lo := r.Int64N(1_000_000)
			f := scantest.File{
				Path: fmt.Sprintf("s3://lake/db/t/data/day=2026-11-%02d/%05d-%05d.parquet", i%20+1, c, i), Spec: 1, Records: 1000,
				Partition: map[int]any{1000: iceberg.Date(20000 + i%20)}, Lower: map[int][]byte{}, Upper: map[int][]byte{}, Values: map[int]int64{}, Nulls: map[int]int64{},
			}
			for id := 1; id <= 3; id++ {
				f.Lower[id], f.Upper[id], f.Values[id], f.Nulls[id] = long(lo), long(lo+500_000), 1000, 0
			}
			if i%2 == 0 {
				f.Content, f.EqualityIDs = iceberg.EntryContentEqDeletes, []int{1}
			}
			files = append(files, f)
		}
		table.Commit("overwrite", nil, files)
	}
	table.Metadata()
	return table
}

// The whole measurement beside only decoding the same manifests with iceberg-go.
func Benchmark100kEntries(b *testing.B) {
	table := big(b)
	meta, err := icebergscan.ParseTable(table.Metadata())
	if err != nil {
		b.Fatal(err)
	}
	head, err := meta.Head("main")
	if err != nil {
		b.Fatal(err)
	}
	scan, err := icebergscan.Open(b.Context(), table.Lake, meta, head)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("probe", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := probe.Run(b.Context(), meta, scan, probe.Config{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, c := range []icebergscan.ManifestContent{icebergscan.DeletesManifest, icebergscan.DataManifest} {
				for _, err := range scan.Entries(b.Context(), c, icebergscan.Want{AllStats: true}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	})
	b.Run("decode-iceberg-go", func(b *testing.B) {
		b.ReportAllocs()
		list, err := iceberg.ReadManifestList(bytes.NewReader(table.Lake.Objects[head.ManifestList]))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			for _, m := range list {
				if _, err := iceberg.ReadManifest(m, bytes.NewReader(table.Lake.Objects[m.FilePath()]), true); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

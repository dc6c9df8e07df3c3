package parquetio_test

import (
	"testing"

	"github.com/frazil-io/frazil/libs/parquetio/parquetiotest"
)

func BenchmarkEncode(b *testing.B) {
	s := parquetiotest.Schema()
	e := encoder(b, s)
	for name, rows := range map[string]int{"10": 10, "1024": 1024, "65536": 65536} {
		batch := parquetiotest.Batch(newRand(1), s, rows)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode(b, e, batch)
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

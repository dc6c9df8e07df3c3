package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	manyPartitions  = 1000
	partitionEvents = 1000
	partitionRounds = 5
	partitionsTopic = "partitions"

	// dedupScanned is how many events walks and increments have read.
	dedupScanned = "frazil_dedup_scanned_events_total"
)

// benchPartitions is part (q): the most that each service has in memory when a table of a thousand partitions is walked
// and then follows changes in all of them.
func benchPartitions(t *testing.T, f *field, r *report) {
	r.part("q", fmt.Sprintf("peak memory of each service in split mode with %d partitions of %d events", manyPartitions, partitionEvents))
	f.start(t)
	f.spread(t, partitionsTopic, manyPartitions, partitionEvents, ascending())
	g := startSplit(t, setting{broker: f.broker, memory: growthMemory})
	defer g.stop()
	began := time.Now()
	g.await(t, partitionsTopic)
	r.row("first load", Series{time.Since(began).Seconds()}, "s")
	producer, random, loads := f.producer(t, partitionsTopic), rand.New(rand.NewPCG(11, 12)), Series{}
	for range partitionRounds {
		records := make([]*kgo.Record, 0, 10*manyPartitions)
		for i := range cap(records) {
			rec := &kgo.Record{Partition: int32(i % manyPartitions)}
			// Keys were dealt out in turn: they stay in their partitions.
			pair(rec, random.Int64N(partitionEvents)*manyPartitions+int64(rec.Partition), random.Int64())
			records = append(records, rec)
		}
		before := g.metric(t, dedupScanned)
		if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for g.metric(t, dedupScanned) < before+float64(len(records)) {
			g.await(t, partitionsTopic)
		}
		loads = append(loads, time.Since(began).Seconds())
	}
	r.row("until 10 new events in each are in the table", loads, "s")
	r.row("run files open in dedup", Series{g.metric(t, "frazil_dedup_run_files_open")}, "")
	for _, s := range g.services {
		peak, _, err := peakMemory(s.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		r.ratio(fmt.Sprintf("%s: VmHWM / memory.max_bytes (%d MB)", s.name, growthMemory>>20), Series{float64(peak) / growthMemory},
			fmt.Sprintf("(%.1f MB)", float64(peak)/1e6), AtMost(1))
	}
}

package bench

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

const (
	chunksTopic   = "chunks"
	chunksLog2    = 6
	manyChunks    = 10_000
	changedChunks = 6_000
	chunkRounds   = 7
)

// benchChunks is part (i): a table of many small data files, most of which get a new delete file.
func benchChunks(t *testing.T, f *field, r *report) {
	r.part("i", fmt.Sprintf("loadTable and all manifests of %d data files, after a change in %d of them", manyChunks, changedChunks))
	f.start(t)
	f.fill(t, chunksTopic, manyChunks<<chunksLog2, ascending())
	g := startGateway(t, setting{broker: f.broker, more: fmt.Sprintf("tables: {%s: {chunk_log2: %d}}\n", chunksTopic, chunksLog2)})
	defer g.stop()
	began := time.Now()
	g.await(t, chunksTopic)
	r.row("first load, chunk by chunk", Series{time.Since(began).Seconds()}, "s")
	producer := f.producer(t, chunksTopic)
	changed, loaded, manifests, computed := Series{}, Series{}, Series{}, Series{}
	for round := range chunkRounds {
		end := int64(0)
		records := make([]*kgo.Record, changedChunks)
		for i := range records {
			records[i] = &kgo.Record{}
			pair(records[i], int64(i)<<chunksLog2+int64(round), int64(round))
		}
		for _, res := range producer.ProduceSync(t.Context(), records...) {
			if res.Err != nil {
				t.Fatal(res.Err)
			}
			end = max(end, res.Record.Offset+1)
		}
		before := g.cpu(t)
		changed = append(changed, g.loadTo(t, chunksTopic, end).Seconds())
		client := &readback.Client{REST: g.rest, Warehouse: "v2", Namespace: harness.Namespace, HTTP: http.DefaultClient}
		began := time.Now()
		table, err := client.Load(t.Context(), harness.TableName(chunksTopic))
		if err != nil {
			t.Fatal(err)
		}
		loaded = append(loaded, time.Since(began).Seconds())
		files, err := table.Files(t.Context(), table.Metadata.CurrentSnapshot)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, time.Since(began).Seconds())
		computed = append(computed, (g.cpu(t) - before).Seconds())
		if n := withDeletes(files); len(files) < manyChunks || n < changedChunks {
			t.Fatalf("%d data files, %d with a delete file", len(files), n)
		}
	}
	r.row("the load that publishes the change", changed, "s")
	r.row("a load after that", loaded, "s")
	r.row("a load after that, and all manifests, read", manifests, "s")
	r.row("processor time of the gateway for all of it", computed, "s")
}

func withDeletes(files []readback.DataFile) int {
	n := 0
	for _, file := range files {
		if file.Deletes != nil {
			n++
		}
	}
	return n
}

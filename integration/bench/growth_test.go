package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

const (
	freshSamples = 200
	freshTopic   = "fresh"
	freshEvents  = 100_000
	// trafficPerSecond closes the largest block, of 65536 offsets, several times meanwhile.
	trafficPerSecond = 2_000

	growth        = 10 // times as many keys
	growthRounds  = 40
	growthEvents  = 10_000
	growthMemory  = 256 << 20
	unchangedLoad = 10

	// scannedEvents is how many events a materializer has projected.
	scannedEvents = "frazil_materializer_scanned_events_total"
)

// pair is an event of a plain topic: a key, and a value that has it.
func pair(rec *kgo.Record, key, value int64) {
	rec.Key = fmt.Appendf(nil, `{"id":%d}`, key)
	rec.Value = fmt.Appendf(nil, `{"id":%d,"value":%d}`, key, value)
}

// ascending makes events of keys that all differ.
func ascending() func(*kgo.Record) {
	key := int64(0)
	return func(rec *kgo.Record) {
		pair(rec, key, key)
		key++
	}
}

// producer writes to partition 0 of a topic and waits for the acknowledgements of all replicas.
func (f *field) producer(t *testing.T, topic string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(0), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// loadTo loads a table until its snapshot reaches an end, and answers how long that took.
func (g *gateway) loadTo(t *testing.T, topic string, end int64) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		table := g.await(t, topic)
		last := table.Metadata.Snapshots[len(table.Metadata.Snapshots)-1]
		reached, err := strconv.ParseInt(last.Summary["frazil.end.0"], 10, 64)
		if err != nil {
			t.Fatalf("end of %s: %v", topic, err)
		}
		if reached >= end {
			return time.Since(began)
		}
	}
}

// benchFreshness is part (f): how long after its acknowledgement an event is in a table that is loaded.
func benchFreshness(t *testing.T, f *field, r *report) {
	r.part("f", "from the acknowledgement of an event to the first load that shows it, loading in a loop")
	f.start(t)
	f.fill(t, freshTopic, freshEvents, ascending())
	g := startGateway(t, setting{broker: f.broker})
	defer g.stop()
	g.await(t, freshTopic)
	random := rand.New(rand.NewPCG(1, 2))
	quiet := f.freshness(t, g, random)
	r.row(fmt.Sprintf("%d events, one after the other", freshSamples), quiet, "s")
	r.ratio("99th percentile", Series{quiet.Quantile(0.99)}, "s", AtMost(1))
	stop := f.traffic(t, freshTopic, trafficPerSecond)
	busy := f.freshness(t, g, random)
	stop()
	r.row(fmt.Sprintf("the same beside %d other events per second", trafficPerSecond), busy, "s")
	r.ratio("99th percentile", Series{busy.Quantile(0.99)}, "s", AtMost(1))
}

// freshness writes events and loads each until it shows.
func (f *field) freshness(t *testing.T, g *gateway, random *rand.Rand) Series {
	t.Helper()
	producer := f.producer(t, freshTopic)
	defer producer.Close()
	took := Series{}
	for i := range freshSamples {
		rec := &kgo.Record{}
		pair(rec, random.Int64N(freshEvents), int64(i))
		acknowledged, err := producer.ProduceSync(t.Context(), rec).First()
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, g.loadTo(t, freshTopic, acknowledged.Offset+1).Seconds())
	}
	return took
}

// traffic writes events at a steady rate until stop is called.
func (f *field) traffic(t *testing.T, topic string, perSecond int) (stop func()) {
	t.Helper()
	const ticks = 20 // per second
	producer := f.producer(t, topic)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		ticker := time.NewTicker(time.Second / ticks)
		defer ticker.Stop()
		random := rand.New(rand.NewPCG(9, 10))
		for {
			select {
			case <-ctx.Done():
				done <- producer.Flush(context.WithoutCancel(ctx))
				return
			case <-ticker.C:
			}
			for range perSecond / ticks {
				rec := &kgo.Record{}
				pair(rec, random.Int64N(freshEvents), random.Int64())
				producer.Produce(context.WithoutCancel(ctx), rec, nil)
			}
		}
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// benchGrowth is part (g): what a load after new events costs on a topic and on one with ten times as many keys, and
// what dedup takes in memory for them.
func benchGrowth(t *testing.T, f *field, r *report) {
	r.part("g", fmt.Sprintf("loading after %d new events, by the number of keys", growthEvents))
	f.start(t)
	g := startSplit(t, setting{broker: f.broker, memory: growthMemory})
	defer g.stop()
	sizes := map[string]int{"few": f.events, "many": growth * f.events}
	for _, name := range []string{"few", "many"} {
		f.fill(t, name, sizes[name], ascending())
		began, before := time.Now(), g.cpu(t)
		g.await(t, name)
		r.row(fmt.Sprintf("first load of %d keys", sizes[name]), Series{time.Since(began).Seconds()}, "s")
		r.row("  processor time of all services", Series{(g.cpu(t) - before).Seconds() / float64(sizes[name]) * 1e6}, "us per key")
	}
	seconds, computed := map[string]Series{}, map[string]Series{}
	random := rand.New(rand.NewPCG(3, 4))
	for round := range growthRounds + 1 {
		for name, keys := range sizes {
			end := f.update(t, name, int64(keys), random)
			before := g.cpu(t)
			took := g.loadTo(t, name, end)
			if round > 0 { // the first one warms
				seconds[name] = append(seconds[name], took.Seconds())
				computed[name] = append(computed[name], (g.cpu(t) - before).Seconds())
			}
		}
	}
	for _, name := range []string{"few", "many"} {
		r.row(fmt.Sprintf("load on %d keys", sizes[name]), seconds[name], "s")
		r.row("  processor time of all services", computed[name], "s")
	}
	// A load costs more when it closes a block or merges runs, as every tenth or so does: only sums compare.
	r.ratio("seconds of all loads, many / few", Series{seconds["many"].Sum() / seconds["few"].Sum()}, "", AtMost(1.2))
	r.row("ratio processor time of all loads, many / few", Series{computed["many"].Sum() / computed["few"].Sum()}, "(no target)")
	r.ratio("events scanned by further loads", Series{g.scannedBy(t, "many", unchangedLoad)}, "", AtMost(0))
	for _, s := range g.services {
		peak, _, err := peakMemory(s.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		r.ratio(fmt.Sprintf("%s: VmHWM / memory.max_bytes (%d MB)", s.name, growthMemory>>20), Series{float64(peak) / growthMemory},
			fmt.Sprintf("(%.1f MB)", float64(peak)/1e6), AtMost(1))
	}
}

// update writes new values of random keys and answers the topic's end.
func (f *field) update(t *testing.T, topic string, keys int64, random *rand.Rand) (end int64) {
	t.Helper()
	producer := f.producer(t, topic)
	defer producer.Close()
	records := make([]*kgo.Record, growthEvents)
	for i := range records {
		records[i] = &kgo.Record{}
		pair(records[i], random.Int64N(keys), random.Int64())
	}
	for _, res := range producer.ProduceSync(t.Context(), records...) {
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		end = max(end, res.Record.Offset+1)
	}
	return end
}

// scannedBy counts the events that loads of an unchanged table have scanned.
func (g *gateway) scannedBy(t *testing.T, topic string, loads int) float64 {
	t.Helper()
	before := g.metric(t, scannedEvents)
	for range loads {
		g.await(t, topic)
	}
	return g.metric(t, scannedEvents) - before
}

// metric is the sum of a metric over all processes, labels and all.
func (g *gateway) metric(t *testing.T, name string) float64 {
	t.Helper()
	total, found := 0.0, false
	for _, base := range g.health {
		status, body, err := get(t.Context(), base+"/metrics", "")
		if err != nil || status != http.StatusOK {
			t.Fatalf("metrics of %s: %d, %v", base, status, err)
		}
		lines := bufio.NewScanner(bytes.NewReader(body))
		for lines.Scan() {
			rest, ok := strings.CutPrefix(lines.Text(), name)
			if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
				continue
			}
			v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			if err != nil {
				t.Fatalf("metric %s: %v", name, err)
			}
			total, found = total+v, true
		}
	}
	if !found {
		t.Fatalf("no process has the metric %s", name)
	}
	return total
}

// benchFirstByte is part (h): the first byte of a delete file with many segments.
func benchFirstByte(t *testing.T, f *field, r *report) {
	const topic, log2, segments, changes = "segments", 16, 100, 400
	r.part("h", fmt.Sprintf("first byte of the delete files of a chunk of 2^%d offsets with %d segments, on one connection", log2, segments))
	f.start(t)
	f.fill(t, topic, 1<<log2, ascending())
	g := startGateway(t, setting{broker: f.broker, more: fmt.Sprintf("tables: {%s: {chunk_log2: %d}}\n", topic, log2)})
	defer g.stop()
	g.await(t, topic)
	producer := f.producer(t, topic)
	random := rand.New(rand.NewPCG(5, 6))
	for range segments {
		records := make([]*kgo.Record, changes)
		for i := range records {
			records[i] = &kgo.Record{}
			pair(records[i], random.Int64N(1<<log2), random.Int64())
		}
		end := int64(0)
		for _, res := range producer.ProduceSync(t.Context(), records...) {
			if res.Err != nil {
				t.Fatal(res.Err)
			}
			end = max(end, res.Record.Offset+1)
		}
		g.loadTo(t, topic, end)
	}
	all := []*asking{startEmpty(t)}
	for _, dialect := range dialects() {
		all = append(all, firstByte(t, g, topic, dialect))
	}
	askInTurn(t, r, all, 20)
}

// firstByte asks for the first byte of the delete file with the most positions.
func firstByte(t *testing.T, g *gateway, topic, dialect string) *asking {
	t.Helper()
	client := &readback.Client{REST: g.rest, Warehouse: dialect, Namespace: harness.Namespace, HTTP: http.DefaultClient}
	table, err := client.Load(t.Context(), harness.TableName(topic))
	if err != nil {
		t.Fatal(err)
	}
	files, err := table.Files(t.Context(), table.Metadata.CurrentSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	most := &readback.DeleteFile{}
	for _, file := range files {
		if file.Deletes != nil && file.Deletes.Rows > most.Rows {
			most = file.Deletes
		}
	}
	name := fmt.Sprintf("delete file of %s with %d positions", dialect, most.Rows)
	return &asking{name: name, status: http.StatusPartialContent, make: signedGet(table, most.Path, "bytes=0-0")}
}

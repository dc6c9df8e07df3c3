package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	walkTopic      = "shop.walked.orders"
	walkPartitions = 32
	walkChunkLog2  = 14
	walkParallel   = 8
)

// benchWalk is part (p): the first walk of a topic with one materializer of one core, and with two of them.
func benchWalk(t *testing.T, f *field, r *report) {
	r.part("p", fmt.Sprintf("first walk of a topic of %d partitions in split mode, by the number of materializers, each of one core", walkPartitions))
	f.start(t)
	source := newShop(shopSeed)
	perPartition := f.events / walkPartitions
	bytes := f.spread(t, walkTopic, walkPartitions, perPartition, func(rec *kgo.Record) {
		e := source.next()
		rec.Timestamp, rec.Key = time.UnixMicro(e.at), formatJSON.appendKey(nil, &e)
		if !e.tombstone {
			rec.Value = formatJSON.appendValue(nil, &e)
		}
	})
	events := float64(perPartition * walkPartitions)
	r.printf("  %.0f events, %.0f MB, in chunks of 2^%d; dedup.parallel %d", events, float64(bytes)/1e6, walkChunkLog2, walkParallel)
	rates, cores, computed := map[int]Series{}, map[int]Series{}, map[int]map[string]Series{}
	shares, scanned := Series{}, Series{}
	for range f.rounds {
		for _, n := range []int{1, 2} {
			w := f.walk(t, n)
			rates[n] = append(rates[n], events/w.took.Seconds())
			if computed[n] == nil {
				computed[n] = map[string]Series{}
			}
			all := 0.0
			for name, cpu := range w.cpu {
				all += cpu.Seconds() / w.took.Seconds()
				computed[n][name] = append(computed[n][name], cpu.Seconds()/events*1e6)
			}
			cores[n] = append(cores[n], all)
			if n == 2 {
				shares, scanned = append(shares, w.most/w.scanned), append(scanned, w.scanned/events)
			}
		}
	}
	for _, n := range []int{1, 2} {
		r.row(fmt.Sprintf("with %d: events per second", n), rates[n], "")
		r.row("  cores that all processes kept busy", cores[n], "")
		for _, name := range []string{"materializer", "dedup", "broker"} {
			if s, ok := computed[n][name]; ok {
				r.row("  processor time, "+name, s, "us per event")
			}
		}
	}
	r.row("events that two materializers scanned / events", scanned, "(no target)")
	r.row("most that one of two materializers scanned", shares, "of all events")
	r.row("ratio events per second, two / one", rates[2].Over(rates[1]), "(no target)")
	r.row("ratio processor time of the materializers, two / one", computed[2]["materializer"].Over(computed[1]["materializer"]), "(no target)")
}

// walked is what a first walk took.
type walked struct {
	took time.Duration
	cpu  map[string]time.Duration // by kind of process
	// scanned are the events that all materializers scanned, most those of the one that scanned most.
	scanned, most float64
}

// walk loads the topic by a gateway that has nothing.
func (f *field) walk(t *testing.T, materializers int) (w walked) {
	t.Helper()
	g := startSplit(t, setting{
		broker: f.broker, materializers: materializers, cores: 1,
		more: fmt.Sprintf("tables: {%s: {chunk_log2: %d}}\ndedup: {parallel: %d}\nslots: {scan: %[3]d}\n", walkTopic, walkChunkLog2, walkParallel),
	})
	defer g.stop()
	before := f.computed(t, g)
	began := time.Now()
	g.await(t, walkTopic)
	w.took, w.cpu = time.Since(began), f.computed(t, g)
	for name := range w.cpu {
		w.cpu[name] -= before[name]
	}
	w.scanned = g.metric(t, scannedEvents)
	for i, s := range g.services {
		if strings.HasPrefix(s.name, "materializer") {
			one := gateway{health: g.health[i : i+1]}
			w.most = max(w.most, one.metric(t, scannedEvents))
		}
	}
	return w
}

// computed is the processor time of the services, by kind, and of the broker if it is ours.
func (f *field) computed(t *testing.T, g *gateway) map[string]time.Duration {
	t.Helper()
	out := map[string]time.Duration{}
	add := func(name string, pid int) {
		d, err := cpuOf(pid)
		if err != nil {
			t.Fatal(err)
		}
		out[name] += d
	}
	for _, s := range g.services {
		kind, _, _ := strings.Cut(s.name, "-")
		add(kind, s.cmd.Process.Pid)
	}
	if f.brokerPID != 0 {
		add("broker", f.brokerPID)
	}
	return out
}

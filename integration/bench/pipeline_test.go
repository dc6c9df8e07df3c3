package bench

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// way is what part (a) measures in one format, round by round: events per second of CPU, and microseconds per event.
type way struct {
	rates map[string]Series
	costs map[string]Series
}

func (w *way) add(what string, m measured) {
	w.rates[what] = append(w.rates[what], m.PerSecond())
	w.costs[what] = append(w.costs[what], m.PerEvent())
}

// Parts of the way, in the order of the data.
var parts = [...]string{"fetch", "decode", "encode", "keys"}

// benchPipeline is part (a): from Kafka to cached row groups and marks.
func benchPipeline(t *testing.T, f *field, r *report) {
	r.part("a", "events per second of CPU, from Kafka to cached row groups and marks")
	for _, goal := range []struct {
		format format
		limit  float64
	}{{formatAvro, 0.2}, {formatJSON, 0.15}} {
		topic := f.topic(t, goal.format)
		r.printf("  %s; broker: %s", topic, f.kind)
		w := &way{rates: map[string]Series{}, costs: map[string]Series{}}
		for range f.rounds {
			w.round(t, f, topic)
		}
		w.print(r, goal.format, goal.limit)
	}
}

func (w *way) round(t *testing.T, f *field, topic *topic) {
	t.Helper()
	base := role{Format: topic.format, Broker: f.broker, Topic: topic.name, Events: topic.events, Profile: os.Getenv(profileVariable)}
	consuming := base
	consuming.Name = "consume"
	w.add("consume", play(t, consuming))
	w.add("whole", f.whole(t, topic))
	sum := 0.0
	for _, name := range parts {
		one := base
		one.Name, one.Dir = name, t.TempDir()
		m := play(t, one)
		w.add(name, m)
		sum += m.PerEvent()
	}
	w.rates["sum"] = append(w.rates["sum"], 1e6/sum)
	w.costs["sum"] = append(w.costs["sum"], sum)
}

// whole starts the gateway with nothing and loads the table: the walk has then read, encoded and marked everything.
func (f *field) whole(t *testing.T, topic *topic) measured {
	t.Helper()
	g := startGateway(t, setting{broker: f.broker, registry: f.registry})
	defer g.stop()
	before, began := g.cpu(t), time.Now()
	table := g.await(t, topic.name)
	m := measured{Events: int64(topic.events), Bytes: topic.bytes, CPU: (g.cpu(t) - before).Seconds(), Wall: time.Since(began).Seconds()}
	if len(table.Metadata.Snapshots) != 1 {
		t.Fatalf("%s has %d snapshots", topic.name, len(table.Metadata.Snapshots))
	}
	return m
}

func (w *way) print(r *report, as format, limit float64) {
	line := func(what, label string) {
		r.row(fmt.Sprintf("%s %s", as, label), w.rates[what], "events/s")
		r.row("", w.costs[what], "us/event")
	}
	line("consume", "franz-go consuming, PollFetches")
	line("whole", "the whole way, frazil up")
	line("sum", "the sum of the parts alone")
	for _, name := range parts {
		line(name, "  "+name+" alone")
	}
	r.ratio(fmt.Sprintf("%s: whole way / consuming", as), w.rates["whole"].Over(w.rates["consume"]), "", AtLeast(limit))
	r.ratio(fmt.Sprintf("%s: whole way / sum of the parts", as), w.rates["whole"].Over(w.rates["sum"]), "", AtLeast(0.8))
}

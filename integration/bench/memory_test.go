package bench

import (
	"fmt"
	"testing"
)

// leastMemory is the least that memory.max_bytes may be.
const leastMemory = 64 << 20

// benchMemory is part (e): the most that each service has in memory while a topic ten times as large as the limit is
// scanned.
func benchMemory(t *testing.T, f *field, r *report) {
	topic := f.topic(t, formatJSON)
	limit := max(leastMemory, topic.bytes/10)
	r.part("e", "peak memory of each service in split mode while a topic is scanned")
	r.printf("  memory.max_bytes %.1f MB, the topic has %.1f times as much", float64(limit)/1e6, float64(topic.bytes)/float64(limit))
	g := startSplit(t, setting{broker: f.broker, registry: f.registry, memory: limit})
	defer g.stop()
	idle := map[string]int64{}
	for _, s := range g.services {
		peak, _, err := peakMemory(s.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		idle[s.name] = peak
	}
	g.await(t, topic.name)
	for _, s := range g.services {
		peak, _, err := peakMemory(s.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		r.row(s.name+" before the scan", Series{float64(idle[s.name]) / 1e6}, "MB")
		r.ratio(fmt.Sprintf("%s: VmHWM / memory.max_bytes", s.name), Series{float64(peak) / float64(limit)}, fmt.Sprintf("(%.1f MB)", float64(peak)/1e6), AtMost(1))
	}
}

// Package oracle is the model that random histories are judged by: what was produced, and the dullest forward fold of
// it. It shares no code with the product.
package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/readback"
)

// Event is a record of an upsert topic of items: id is the key, text and n say which event it is.
type Event struct {
	Key     int
	Deleted bool
	N       int64
}

// Record is the event as it is produced: JSON without schemas, a null value deletes.
func (e Event) Record(topic string, partition int32) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, `{"id":%d}`, e.Key)}
	if !e.Deleted {
		r.Value = fmt.Appendf(nil, `{"id":%d,"text":"v%d","n":%d}`, e.Key, e.N, e.N)
	}
	return r
}

// Log has the committed events of one partition by offset.
type Log map[int64]Event

// Logs makes empty logs.
func Logs(partitions int) []Log {
	logs := make([]Log, partitions)
	for p := range logs {
		logs[p] = Log{}
	}
	return logs
}

// Live answers the rows that are live among the offsets [starts[p], ends[p]) of each partition, sorted, as Rows prints
// them. A key is in one partition only.
func Live(logs []Log, starts, ends []int64) []string {
	type at struct {
		p   int
		off int64
		e   Event
	}
	last := map[int]at{}
	for p, log := range logs {
		for _, off := range slices.Sorted(maps.Keys(log)) {
			if off >= starts[p] && off < ends[p] {
				last[log[off].Key] = at{p, off, log[off]}
			}
		}
	}
	var rows []string
	for _, a := range last {
		if !a.e.Deleted {
			rows = append(rows, fmt.Sprintf("%d/%d id=%d text=v%d n=%d row=%d", a.p, a.off, a.e.Key, a.e.N, a.e.N, int64(a.p)<<44|a.off))
		}
	}
	slices.Sort(rows)
	return rows
}

// Rows prints what was read, sorted.
func Rows(rows []readback.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%v/%v id=%v text=%v n=%v row=%v", r["kafka_partition"], r["kafka_offset"], r["id"], r["text"], r["n"], r["_row_id"]))
	}
	slices.Sort(out)
	return out
}

// Ends answers the ends that a table's current snapshot says it shows.
func Ends(s readback.Snapshot, partitions int) ([]int64, error) {
	ends := make([]int64, partitions)
	for p := range ends {
		var err error
		if ends[p], err = strconv.ParseInt(s.Summary[fmt.Sprintf("frazil.end.%d", p)], 10, 64); err != nil {
			return nil, fmt.Errorf("end of partition %d: %w", p, err)
		}
	}
	return ends, nil
}

package replicas

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/readback"
)

// topic and table of all tests.
const (
	topic = "shop.items"
	table = "shop_items"
)

// event is a committed record of the model.
type event struct {
	key     int
	deleted bool
	value   string
}

// fold is the model of what was produced: the dullest forward fold there is.
type fold struct {
	t      *testing.T
	rng    *rand.Rand
	logs   []map[int64]event // by offset
	ends   []int64
	serial int
}

func newFold(t *testing.T, partitions int, seed uint64) *fold {
	f := &fold{t: t, rng: rand.New(rand.NewPCG(seed, 2)), ends: make([]int64, partitions)}
	for range partitions {
		f.logs = append(f.logs, map[int64]event{})
	}
	return f
}

// shows answers the ends of a table's newest snapshot, and an error while they are not all that there is.
func (f *fold) shows(t *readback.Table) ([]int64, error) {
	s, err := t.Snapshot(0)
	if err != nil {
		return nil, err
	}
	ends, err := endsOf(s, len(f.ends))
	if err == nil && !slices.Equal(ends, f.ends) {
		err = fmt.Errorf("ends %v, want %v", ends, f.ends)
	}
	return ends, err
}

func endsOf(s readback.Snapshot, partitions int) ([]int64, error) {
	ends := make([]int64, partitions)
	for p := range ends {
		var err error
		if ends[p], err = strconv.ParseInt(s.Summary[fmt.Sprintf("frazil.end.%d", p)], 10, 64); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// judge compares rows with the fold at the ends.
func (f *fold) judge(rows []readback.Row, ends []int64) {
	f.t.Helper()
	got := []string{}
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%v/%v id=%v text=%v n=%v", r["kafka_partition"], r["kafka_offset"], r["id"], r["text"], r["n"]))
	}
	slices.Sort(got)
	if want := f.rows(ends); !slices.Equal(got, want) {
		f.t.Fatalf("at %v:\n got %s\nwant %s", ends, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func (f *fold) rows(ends []int64) []string {
	type at struct {
		p   int
		off int64
		e   event
	}
	last := map[int]at{}
	for p, log := range f.logs {
		for _, off := range slices.Sorted(maps.Keys(log)) {
			if off < ends[p] {
				last[log[off].key] = at{p, off, log[off]}
			}
		}
	}
	rows := []string{}
	for _, a := range last {
		if !a.e.deleted {
			rows = append(rows, fmt.Sprintf("%d/%d id=%d text=%s n=%s", a.p, a.off, a.e.key, a.e.value, a.e.value[1:]))
		}
	}
	slices.Sort(rows)
	return rows
}

// produce writes upserts and deletes of few keys.
func (f *fold) produce(client *kgo.Client, n int) {
	f.t.Helper()
	for range n {
		f.serial++
		e := event{key: f.rng.IntN(25), deleted: f.rng.IntN(5) == 0, value: fmt.Sprintf("v%d", f.serial)}
		r := &kgo.Record{Topic: topic, Partition: int32(e.key % len(f.logs)), Key: fmt.Appendf(nil, `{"id":%d}`, e.key)}
		if !e.deleted {
			r.Value = fmt.Appendf(nil, `{"id":%d,"text":%q,"n":%d}`, e.key, e.value, f.serial)
		}
		if err := client.ProduceSync(f.t.Context(), r).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
		f.logs[r.Partition][r.Offset] = e
		f.ends[r.Partition] = r.Offset + 1
	}
}

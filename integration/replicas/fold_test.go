package replicas

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
)

// topic and table of all tests.
const (
	topic = "shop.items"
	table = "shop_items"
)

// fold is the model of what was produced.
type fold struct {
	t      *testing.T
	rng    *rand.Rand
	logs   []oracle.Log
	ends   []int64
	serial int64
}

func newFold(t *testing.T, partitions int, seed uint64) *fold {
	return &fold{t: t, rng: rand.New(rand.NewPCG(seed, 2)), logs: oracle.Logs(partitions), ends: make([]int64, partitions)}
}

// shows answers the ends of a table's newest snapshot, and an error while they are not all that there is.
func (f *fold) shows(t *readback.Table) ([]int64, error) {
	s, err := t.Snapshot(0)
	if err != nil {
		return nil, err
	}
	ends, err := oracle.Ends(s, len(f.ends))
	if err == nil && !slices.Equal(ends, f.ends) {
		err = fmt.Errorf("ends %v, want %v", ends, f.ends)
	}
	return ends, err
}

// judge compares rows with the fold at the ends.
func (f *fold) judge(rows []readback.Row, ends []int64) {
	f.t.Helper()
	got := oracle.Rows(rows)
	if want := oracle.Live(f.logs, make([]int64, len(ends)), ends); !slices.Equal(got, want) {
		f.t.Fatalf("at %v:\n got %s\nwant %s", ends, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// produce writes upserts and deletes of few keys.
func (f *fold) produce(client *kgo.Client, n int) {
	f.t.Helper()
	for range n {
		f.serial++
		e := oracle.Event{Key: f.rng.IntN(25), Deleted: f.rng.IntN(5) == 0, N: f.serial}
		r := e.Record(topic, int32(e.Key%len(f.logs)))
		if err := client.ProduceSync(f.t.Context(), r).FirstErr(); err != nil {
			f.t.Fatal(err)
		}
		f.logs[r.Partition][r.Offset] = e
		f.ends[r.Partition] = r.Offset + 1
	}
}

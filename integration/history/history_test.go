package history

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

var (
	seed      = flag.Uint64("history.seed", 0, "run only the history of this seed")
	histories = flag.Int("history.count", 8, "how many histories to run")
	steps     = flag.Int("history.steps", 40, "steps of a history")
)

const topic = "shop.items"

// cut is a snapshot that was seen, and the ends that it shows.
type cut struct {
	dialect  string
	snapshot int64
	ends     []int64
}

// world is the product over a broker, and the model of what was produced.
type world struct {
	*inprocess.Frazil

	t   *testing.T
	rng *rand.Rand
	txn *kgo.Client

	partitions int
	logs       []oracle.Log // committed events
	ends       []int64      // last stable offsets
	cuts       []cut
	tables     map[string]*readback.Table // the last loaded, by dialect
	serial     int64
}

func TestLiveRowsAtEveryCutAreTheFold(t *testing.T) {
	if *seed != 0 {
		t.Run(strconv.FormatUint(*seed, 10), func(t *testing.T) { run(t, *seed) })
		return
	}
	for range *histories {
		s := rand.Uint64()
		t.Run(strconv.FormatUint(s, 10), func(t *testing.T) { run(t, s) })
	}
}

func run(t *testing.T, s uint64) {
	t.Logf("history.seed %d", s)
	w := newWorld(t, rand.New(rand.NewPCG(s, 1)))
	w.produce(1 + w.rng.IntN(60))
	for range *steps {
		switch x := w.rng.IntN(100); {
		case x < 40:
			w.produce(1 + w.rng.IntN(25))
		case x < 55:
			w.transaction(w.rng.IntN(3) > 0)
		case x < 80:
			w.load()
		case x < 93:
			w.readOld()
		case x < 98:
			w.restart()
		default:
			w.recreate()
		}
	}
	w.load()
	w.readOld()
}

func newWorld(t *testing.T, rng *rand.Rand) *world {
	t.Helper()
	w := &world{Frazil: inprocess.New(t), t: t, rng: rng, partitions: 1 + rng.IntN(3), tables: map[string]*readback.Table{}}
	_, err := kadm.NewClient(w.Producer).CreateTopic(t.Context(), int32(w.partitions), 1, nil, topic)
	w.must(err)
	w.txn = w.Client(kgo.TransactionalID("items"))
	w.forget()
	block := 2 * (1 + rng.IntN(2))
	chunk := block + rng.IntN(4)
	w.Config.Tables = map[string]app.TableConfig{topic: {Dedup: dedup.TableConfig{ChunkLog2: chunk, BlockLog2: block}}}
	t.Logf("%d partitions, chunks of 2^%d, blocks of 2^%d offsets", w.partitions, chunk, block)
	w.Start()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) forget() {
	w.logs, w.ends, w.cuts = oracle.Logs(w.partitions), make([]int64, w.partitions), nil
}

func (w *world) restart() {
	w.Stop()
	w.Start()
}

// record makes an upsert or a delete of one of few keys.
func (w *world) record() (*kgo.Record, oracle.Event) {
	w.serial++
	e := oracle.Event{Key: w.rng.IntN(25), Deleted: w.rng.IntN(5) == 0, N: w.serial}
	return e.Record(topic, int32(e.Key%w.partitions)), e
}

func (w *world) write(client *kgo.Client, n int, visible bool) {
	w.t.Helper()
	touched := map[int32]bool{}
	for range n {
		r, e := w.record()
		w.must(client.ProduceSync(w.t.Context(), r).FirstErr())
		touched[r.Partition] = true
		if visible {
			w.logs[r.Partition][r.Offset] = e
		}
		w.ends[r.Partition] = r.Offset + 1
	}
	if client == w.txn {
		for p := range touched {
			w.ends[p]++ // the marker
		}
	}
}

func (w *world) produce(n int) { w.write(w.Producer, n, true) }

func (w *world) transaction(commit bool) {
	w.t.Helper()
	w.must(w.txn.BeginTransaction())
	w.write(w.txn, 1+w.rng.IntN(6), commit)
	w.must(w.txn.EndTransaction(w.t.Context(), kgo.TransactionEndTry(commit)))
}

func (w *world) recreate() {
	w.t.Helper()
	old := maps.Clone(w.tables)
	admin := kadm.NewClient(w.Producer)
	_, err := admin.DeleteTopic(w.t.Context(), topic)
	w.must(err)
	w.Producer.PurgeTopicsFromClient(topic)
	w.txn.PurgeTopicsFromClient(topic)
	_, err = admin.CreateTopic(w.t.Context(), int32(w.partitions), 1, nil, topic)
	w.must(err)
	w.forget()
	w.produce(1 + w.rng.IntN(20))
	w.load()
	for _, t := range old {
		w.refused(t)
	}
}

// refused checks that a table of another incarnation is not readable any more, in words.
func (w *world) refused(t *readback.Table) {
	w.t.Helper()
	_, err := t.Rows(w.t.Context(), 0)
	var status *readback.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusNotFound || !strings.Contains(status.Body, "NoSuchKey") {
		w.t.Fatalf("the table of the topic before reads as %v, want 404 NoSuchKey", err)
	}
}

func (w *world) dialect() string { return []string{"v2", "v3"}[w.rng.IntN(2)] }

// load loads the table until it shows everything that was produced, and judges it.
func (w *world) load() {
	w.t.Helper()
	d := w.dialect()
	client := w.Catalog(d)
	var t *readback.Table
	var c cut
	w.Until("load", func() (err error) {
		if t, err = client.Load(w.t.Context(), "shop_items"); err != nil {
			return err
		}
		if c, err = w.cutOf(t, d); err == nil && !slices.Equal(c.ends, w.ends) {
			err = fmt.Errorf("ends %v, want %v", c.ends, w.ends)
		}
		return err
	})
	w.tables[d] = t
	w.judge(t, c)
	w.cuts = append(w.cuts, c)
}

func (w *world) cutOf(t *readback.Table, dialect string) (cut, error) {
	s, err := t.Snapshot(0)
	if err != nil {
		return cut{}, err
	}
	ends, err := oracle.Ends(s, w.partitions)
	return cut{dialect: dialect, snapshot: s.ID, ends: ends}, err
}

// readOld reads a snapshot that was seen before, with the newest metadata of its dialect.
func (w *world) readOld() {
	w.t.Helper()
	if len(w.cuts) == 0 {
		return
	}
	c := w.cuts[w.rng.IntN(len(w.cuts))]
	client := w.Catalog(c.dialect)
	t, err := client.Load(w.t.Context(), "shop_items")
	w.must(err)
	w.judge(t, c)
}

// judge compares the rows of a snapshot with the fold of the model at its cut.
func (w *world) judge(t *readback.Table, c cut) {
	w.t.Helper()
	rows, err := t.Rows(w.t.Context(), c.snapshot)
	w.must(err)
	got := oracle.Rows(rows)
	want := oracle.Live(w.logs, make([]int64, w.partitions), c.ends)
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s snapshot %d at %v:\n got %s\nwant %s", c.dialect, c.snapshot, c.ends, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

package lazy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

const (
	topic      = "shop.orders"
	table      = "shop_orders"
	partitions = 2
	perLog     = 3000 // records of each partition: more than the 500 that its schema is found in
	chunk      = 256
	age        = time.Minute // between neighbouring records
)

// Field ids of the metadata columns.
const (
	offsetField    = 2
	timestampField = 3
)

// shop is the product over a topic that was filled before the product began.
type shop struct {
	*inprocess.Frazil
	t      *testing.T
	seed   uint64
	newest time.Time
	logs   [partitions][]event

	mu      sync.Mutex
	fetched [partitions]int64 // the lowest offset that was asked for since it was last looked at
}

type event struct {
	key int
	row bool
	at  time.Time
}

func newShop(t *testing.T) *shop {
	s := &shop{Frazil: inprocess.New(t), t: t, seed: rand.Uint64(), newest: time.Now().Truncate(time.Millisecond)}
	t.Logf("seed %d", s.seed)
	r := rand.New(rand.NewPCG(s.seed, 1))
	_, err := kadm.NewClient(s.Producer).CreateTopic(t.Context(), partitions, 1, nil, topic)
	s.must(err)
	for p := range partitions {
		var batch []*kgo.Record
		for i := range perLog {
			e := event{key: p + partitions*r.IntN(700), row: r.IntN(10) > 0, at: s.newest.Add(-age * time.Duration(perLog-i))}
			batch = append(batch, s.record(p, e))
		}
		s.must(s.Producer.ProduceSync(t.Context(), batch...).FirstErr())
	}
	s.watch()
	s.Config.OnBadRecord, s.Config.Plan = dedup.BadRecordSkip, dedup.PlanLazy
	s.Config.Tables = map[string]app.TableConfig{topic: {Dedup: dedup.TableConfig{ChunkLog2: 8, BlockLog2: 6}}}
	s.Start()
	return s
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) record(p int, e event) *kgo.Record {
	rec := &kgo.Record{Topic: topic, Partition: int32(p), Key: fmt.Appendf(nil, `{"id":%d}`, e.key), Timestamp: e.at}
	if e.row {
		rec.Value = fmt.Appendf(nil, `{"id":%d,"qty":%d,"note":"n%d"}`, e.key, len(s.logs[p]), e.key%7)
	}
	s.logs[p] = append(s.logs[p], e)
	return rec
}

// watch notes from where the broker is asked for records.
func (s *shop) watch() {
	s.lowest()
	s.Broker.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.Broker.KeepControl()
		fetch, ok := req.(*kmsg.FetchRequest)
		if !ok {
			return nil, nil, false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, t := range fetch.Topics {
			for _, p := range t.Partitions {
				s.fetched[p.Partition] = min(s.fetched[p.Partition], p.FetchOffset)
			}
		}
		return nil, nil, false
	})
}

// lowest answers the lowest offset of each partition that was asked for since the last call.
func (s *shop) lowest() [partitions]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.fetched
	for p := range s.fetched {
		s.fetched[p] = perLog * 2
	}
	return was
}

// fold is the oracle: the newest row of each key, by "partition/offset".
func (s *shop) fold(ends ...int) []string {
	out := []string{}
	for p, log := range s.logs {
		at := map[int]int{}
		for i, e := range log[:ends[p]] {
			if delete(at, e.key); e.row {
				at[e.key] = i
			}
		}
		for _, i := range at {
			out = append(out, fmt.Sprintf("%d/%d", p, i))
		}
	}
	slices.Sort(out)
	return out
}

func places(rows []readback.Row) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%v/%v", r["kafka_partition"], r["kafka_offset"]))
	}
	slices.Sort(out)
	return out
}

// load loads the table, whose current snapshot must end at the given ends.
func (s *shop) load(ends ...int) *readback.Table {
	s.t.Helper()
	var t *readback.Table
	s.Until("load", func() (err error) {
		if t, err = s.Catalog("v2").Load(s.t.Context(), table); err != nil {
			return err
		}
		snap, err := t.Snapshot(0)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if got := snap.Summary[fmt.Sprintf("frazil.end.%d", p)]; got != fmt.Sprint(end) {
				return fmt.Errorf("partition %d ends at %s, want %d", p, got, end)
			}
		}
		return nil
	})
	return t
}

// query reads the files that pass a filter, as an engine that prunes by bounds does, and then the rows that do.
func (s *shop) query(t *readback.Table, file func(readback.DataFile) bool, row func(readback.Row) bool) []readback.Row {
	s.t.Helper()
	files, err := t.Files(s.t.Context(), 0)
	s.must(err)
	var out []readback.Row
	for _, f := range files {
		if !file(f) {
			continue
		}
		rows, err := t.FileRows(s.t.Context(), f)
		s.must(err)
		out = append(out, slices.DeleteFunc(rows, func(r readback.Row) bool { return !row(r) })...)
	}
	return out
}

func upper(f readback.DataFile, field int32) (int64, bool) {
	b := f.Upper[field]
	if len(b) != 8 {
		return 0, false
	}
	return int64(binary.LittleEndian.Uint64(b)), true
}

func TestAQueryReadsOnlyWhatItsPredicatesLeave(t *testing.T) {
	s := newShop(t)
	loaded := s.load(perLog, perLog)
	sampled := int64(perLog - 500)
	if low := s.lowest(); low[0] < sampled || low[1] < sampled {
		t.Fatalf("the load asked for offsets from %v on; the schema is in the newest 500", low)
	}
	files, err := loaded.Files(t.Context(), 0)
	s.must(err)
	if len(files) != partitions*(perLog/chunk+1) {
		t.Fatalf("%d files", len(files))
	}
	for _, f := range files {
		if !f.Room() || f.Deletes == nil || f.Deletes.Rows < 1 {
			t.Fatalf("file %+v", f)
		}
	}

	// kafka_offset >= 2900: one chunk of each partition.
	rows := s.query(loaded, func(f readback.DataFile) bool { u, _ := upper(f, offsetField); return u >= 2900 },
		func(r readback.Row) bool { return r["kafka_offset"].(int64) >= 2900 })
	s.wantRows(places(rows), func(p, i int) bool { return i >= 2900 }, perLog, perLog)
	s.wantLowest(2816, 2816)

	// A lower bound of kafka_timestamp: the marks are a quarter of their age apart.
	since := s.newest.Add(-8 * time.Hour).UnixMicro() // 480 records
	rows = s.query(loaded, func(f readback.DataFile) bool { u, ok := upper(f, timestampField); return !ok || u >= since },
		func(r readback.Row) bool { return r["kafka_offset"].(int64) >= perLog-480 })
	s.wantRows(places(rows), func(p, i int) bool { return i >= perLog-480 }, perLog, perLog)
	if low := s.lowest(); low[0] < perLog-480-200-chunk || low[1] < perLog-480-200-chunk {
		t.Fatalf("eight hours were asked for, the broker from %v on", low)
	}

	// kafka_partition = 1: nothing of the other partition.
	rows = s.query(loaded, func(f readback.DataFile) bool { return binary.LittleEndian.Uint32(f.Upper[1]) == 1 },
		func(readback.Row) bool { return true })
	s.wantRows(places(rows), func(p, i int) bool { return p == 1 }, perLog, perLog)
	if low := s.lowest(); low[0] != perLog*2 || low[1] != 0 {
		t.Fatalf("partition 1 was asked for, the broker from %v on", low)
	}

	// And all of it, once more, while the topic goes on.
	more := s.append(300)
	rows, err = loaded.Rows(t.Context(), 0)
	s.must(err)
	s.wantRows(places(rows), func(int, int) bool { return true }, perLog, perLog)
	next := s.load(more[0], more[1])
	rows, err = next.Rows(t.Context(), 0)
	s.must(err)
	s.wantRows(places(rows), func(int, int) bool { return true }, more[0], more[1])
}

// append adds records to every partition and answers the ends.
func (s *shop) append(n int) (ends [partitions]int) {
	s.t.Helper()
	r := rand.New(rand.NewPCG(s.seed, uint64(len(s.logs[0]))))
	for p := range partitions {
		var batch []*kgo.Record
		for range n {
			batch = append(batch, s.record(p, event{key: p + partitions*r.IntN(900), row: r.IntN(10) > 0, at: time.Now()}))
		}
		s.must(s.Producer.ProduceSync(s.t.Context(), batch...).FirstErr())
		ends[p] = len(s.logs[p])
	}
	return ends
}

func (s *shop) wantRows(got []string, keep func(p, i int) bool, ends ...int) {
	s.t.Helper()
	want := slices.DeleteFunc(s.fold(ends...), func(at string) bool {
		var p, i int
		_, err := fmt.Sscanf(at, "%d/%d", &p, &i)
		s.must(err)
		return !keep(p, i)
	})
	if !slices.Equal(got, want) {
		s.t.Fatalf("%d rows, want %d", len(got), len(want))
	}
}

func (s *shop) wantLowest(want ...int64) {
	s.t.Helper()
	if low := s.lowest(); !slices.Equal(low[:], want) {
		s.t.Fatalf("the broker was asked from %v on, want %v", low, want)
	}
}

// A lazy table is none of the warehouse v3 until everything was read, and says so; then both show the same.
func TestDeletionVectorsComeWhenEverythingWasRead(t *testing.T) {
	s := newShop(t)
	loaded := s.load(perLog, perLog)
	_, err := s.Catalog("v3").Load(t.Context(), table)
	var refused *readback.StatusError
	if !errors.As(err, &refused) || refused.Code != http.StatusBadRequest || !strings.Contains(refused.Body, "plan: eager") {
		t.Fatalf("v3: %v", err)
	}
	if p := loaded.Metadata.Properties; p["frazil.plan"] != "lazy" || p["frazil.walk.offsets"] != fmt.Sprint(partitions*perLog) ||
		p["frazil.walk.offsets-read"] != "0" {
		t.Fatalf("properties %v", p)
	}
	_, err = loaded.Rows(t.Context(), 0)
	s.must(err)
	ends := s.append(10)
	next := s.load(ends[0], ends[1])
	files, err := next.Files(t.Context(), 0)
	s.must(err)
	if slices.ContainsFunc(files, func(f readback.DataFile) bool { return f.Room() }) {
		t.Fatal("a table that was read whole shows rooms")
	}
	v3, err := s.Catalog("v3").Load(t.Context(), table)
	s.must(err)
	rows, err := v3.Rows(t.Context(), 0)
	s.must(err)
	s.wantRows(places(rows), func(int, int) bool { return true }, ends[0], ends[1])
}

// Readers of every file at once, while the topic goes on and the product is stopped and started again.
func TestManyReadersOfATableThatNobodyHasRead(t *testing.T) {
	s := newShop(t)
	loaded := s.load(perLog, perLog)
	files, err := loaded.Files(t.Context(), 0)
	s.must(err)
	r := rand.New(rand.NewPCG(s.seed, 2))
	var mu sync.Mutex
	var got []readback.Row
	read := func(i int) error {
		rows, err := loaded.FileRows(t.Context(), files[i])
		mu.Lock()
		defer mu.Unlock()
		got = append(got, rows...)
		return err
	}
	half := len(files) / 2
	order := r.Perm(len(files))
	all(t, order[:half], read)
	s.append(100)
	s.Stop()
	s.Start()
	ends := s.append(100)
	all(t, order[half:], read)
	s.wantRows(places(got), func(int, int) bool { return true }, perLog, perLog)
	next := s.load(ends[0], ends[1])
	rows, err := next.Rows(t.Context(), 0)
	s.must(err)
	s.wantRows(places(rows), func(int, int) bool { return true }, ends[0], ends[1])
}

// all does work on every item at once.
func all(t *testing.T, items []int, work func(int) error) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, len(items))
	for i, item := range items {
		wg.Go(func() { errs[i] = work(item) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Engines that know nothing of rooms read them right, with and without predicates, whoever comes first.
func TestEnginesReadRooms(t *testing.T) {
	engines := harness.Engines(t)
	if harness.Scale(t) == harness.Full {
		engines = append(engines, harness.ClickHouse, harness.Trino, harness.Flink)
	}
	for _, engine := range engines {
		t.Run(string(engine), func(t *testing.T) {
			s := newShop(t)
			catalogs := map[string]harness.Catalog{"v2": {URI: "http://" + s.Config.REST.Listen, Warehouse: "v2", S3: "http://" + s.Config.S3.Listen}}
			name := "kafka." + table
			answers := harness.Ask(t, engine, catalogs, []harness.Query{
				{ID: "new", Catalog: "v2", Table: name, Where: "kafka_offset >= 2900"},
				{ID: "count", Catalog: "v2", Table: name, Count: true},
				{ID: "all", Catalog: "v2", Table: name},
			})
			want := s.fold(perLog, perLog)
			for id, keep := range map[string]func(i int) bool{"new": func(i int) bool { return i >= 2900 }, "all": func(int) bool { return true }} {
				a := answers[id]
				if a.Error != "" {
					t.Fatalf("%s: %s", id, a.Error)
				}
				s.wantRows(answered(a), func(_, i int) bool { return keep(i) }, perLog, perLog)
			}
			if a := answers["count"]; a.Error != "" || a.Count == nil || *a.Count != int64(len(want)) {
				t.Fatalf("count: %+v, want %d", a, len(want))
			}
		})
	}
}

func answered(a harness.Answer) []string {
	p, o := slices.Index(a.Columns, "kafka_partition"), slices.Index(a.Columns, "kafka_offset")
	out := []string{}
	for _, r := range a.Rows {
		out = append(out, fmt.Sprintf("%v/%v", r[p], r[o]))
	}
	slices.Sort(out)
	return out
}

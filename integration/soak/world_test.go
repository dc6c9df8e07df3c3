package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/freeport"
)

const table = "shop_items"

// cut is a snapshot that was seen.
type cut struct {
	snapshot     int64
	starts, ends []int64
}

// failure is why a program failed.
type failure struct {
	kind string // two failures of one kind are taken for the same
	text string
}

func (f *failure) Error() string { return f.kind + ": " + f.text }

// world is the product over a broker, and the model of what was produced.
type world struct {
	*report
	ctx     context.Context
	gateway *gateway
	broker  *kfake.Cluster
	clients []*kgo.Client
	ports   []*freeport.Port
	plain   *kgo.Client
	txn     *kgo.Client
	dir     string

	partitions int
	margin     int64        // block, the longest margin of the start
	logs       []oracle.Log // committed events
	ends       []int64      // last stable offsets
	logStarts  []int64
	cuts       []cut
	tags       map[string]cut
	tables     map[string]*readback.Table // the last loaded, by dialect
	grown      bool                       // partitions were added
}

// run runs a program in a world of its own.
func run(t *testing.T, p program, r *report) (failed *failure) {
	t.Helper()
	w := &world{report: r, ctx: t.Context(), partitions: max(1, p.setting("partitions")), margin: 1 << p.setting("block")}
	step := "begin"
	defer func() {
		if x := recover(); x != nil {
			f, ok := x.(*failure)
			if !ok {
				panic(x)
			}
			failed = &failure{f.kind, fmt.Sprintf("at %q: %s\n--- log\n%s", step, f.text, w.gateway.log())}
		}
		w.close()
	}()
	w.open(p)
	for i, s := range p.steps {
		step = fmt.Sprintf("%d: %s", i+1, s)
		w.do(s)
		w.steps[s.word]++
	}
	step = "end"
	w.load("v2")
	for i := range w.cuts {
		w.readCut(w.cuts[i], "v3")
	}
	for name := range w.tags {
		w.readTag(name, "v2")
	}
	w.sample()
	w.must("stop", w.gateway.stop())
	return nil
}

func (w *world) fail(kind, format string, args ...any) {
	panic(&failure{kind, fmt.Sprintf(format, args...)})
}

func (w *world) must(kind string, err error) {
	if err != nil {
		w.fail(kind, "%v", err)
	}
}

func (w *world) open(p program) {
	w.gateway = &gateway{}
	var err error
	w.dir, err = os.MkdirTemp("", "frazil-soak-")
	w.must("directory", err)
	w.broker, err = kfake.NewCluster(kfake.NumBrokers(1))
	w.must("broker", err)
	w.gateway, err = newGateway(w.dir, p, w.broker.ListenAddrs(), w.address(), w.address())
	w.must("configure", err)
	w.plain, w.txn = w.client(), w.client(kgo.TransactionalID("items"))
	w.create()
	w.must("start", w.gateway.start())
}

// address is the world's until it is closed.
func (w *world) address() string {
	p, err := freeport.Reserve()
	w.must("port", err)
	w.ports = append(w.ports, p)
	return p.Address()
}

func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	opts = append(opts, kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	c, err := kgo.NewClient(opts...)
	w.must("client", err)
	w.clients = append(w.clients, c)
	return c
}

func (w *world) close() {
	w.gateway.kill()
	for _, c := range w.clients {
		c.Close()
	}
	if w.broker != nil {
		w.broker.Close()
	}
	for _, p := range w.ports {
		_ = p.Release() // a port that stays taken is no failure
	}
	_ = os.RemoveAll(w.dir) // neither is a directory that stays
}

// create makes the topic and an empty model of it.
func (w *world) create() {
	_, err := kadm.NewClient(w.plain).CreateTopic(w.ctx, int32(w.partitions), 1, nil, topic)
	w.must("create topic", err)
	w.logs, w.ends, w.logStarts = oracle.Logs(w.partitions), make([]int64, w.partitions), make([]int64, w.partitions)
	w.cuts, w.tags, w.tables, w.grown = nil, map[string]cut{}, map[string]*readback.Table{}, false
}

func (w *world) do(s step) {
	switch s.word {
	case "produce":
		w.write(w.plain, s.number(0), s.number(1), true)
	case "txn":
		commit := s.text(2) == "commit"
		w.must("begin", w.txn.BeginTransaction())
		w.write(w.txn, s.number(0), s.number(1), commit)
		w.must("end", w.txn.EndTransaction(w.ctx, kgo.TransactionEndTry(commit)))
	case "load":
		w.load(s.text(0))
	case "read":
		if n := uint64(len(w.cuts)); n > 0 {
			w.readCut(w.cuts[s.number(0)%n], s.text(1))
		}
	case "tag":
		if n := uint64(len(w.cuts)); n > 0 {
			w.tag(s.text(0), w.cuts[s.number(1)%n])
		}
	case "untag":
		w.untag(s.text(0))
	case "readtag":
		w.readTag(s.text(0), s.text(1))
	case "fold":
		w.fold()
	default:
		w.disturb(s)
	}
}

// disturb is what happens to the product and its topic.
func (w *world) disturb(s step) {
	switch s.word {
	case "evict":
		w.evict()
	case "loseruns":
		w.sample()
		w.must("stop", w.gateway.stop())
		w.must("remove", os.RemoveAll(filepath.Join(w.dir, "data", "runs")))
		w.must("start", w.gateway.start())
	case "restart":
		w.sample()
		w.must("stop", w.gateway.stop())
		w.must("start", w.gateway.start())
	case "kill":
		w.kill(time.Duration(s.number(0))*time.Millisecond, s.number(1), s.number(2))
	case "logstart":
		w.moveStart(int(s.number(0))%w.partitions, int64(s.number(1)))
	case "recreate":
		w.recreate()
	case "addparts":
		_, err := kadm.NewClient(w.plain).CreatePartitions(w.ctx, int(s.number(0)), topic)
		w.must("add partitions", err)
		w.grown = true
	}
}

// sample adds up what the process counted: it is about to end.
func (w *world) sample() { w.folded += w.gateway.metric("frazil_dedup_folded_marks") }

func (w *world) write(client *kgo.Client, n, seed uint64, visible bool) {
	r := rand.New(rand.NewPCG(seed, 3))
	touched := map[int32]bool{}
	for range n {
		e := oracle.Event{Key: r.IntN(25), Deleted: r.IntN(5) == 0, N: int64(r.Uint32())}
		rec := e.Record(topic, int32(e.Key%w.partitions))
		w.must("produce", client.ProduceSync(w.ctx, rec).FirstErr())
		touched[rec.Partition] = true
		if visible {
			w.logs[rec.Partition][rec.Offset] = e
		}
		w.ends[rec.Partition] = rec.Offset + 1
	}
	if client == w.txn {
		for p := range touched {
			w.ends[p]++ // the marker
		}
	}
}

func (w *world) catalog(dialect string) *readback.Client {
	return &readback.Client{REST: "http://" + w.gateway.rest, Warehouse: dialect, Namespace: "kafka", HTTP: &http.Client{Timeout: patience}}
}

// empty: nothing was ever produced, so that there is no schema.
func (w *world) empty() bool {
	return !slices.ContainsFunc(w.logs, func(l oracle.Log) bool {
		for _, e := range l {
			if !e.Deleted {
				return true
			}
		}
		return false
	})
}

// load loads the table until it shows everything that was produced, and judges it.
func (w *world) load(dialect string) {
	if w.empty() || w.grown && len(w.cuts) == 0 {
		return
	}
	client := w.catalog(dialect)
	var t *readback.Table
	var c cut
	w.must("load", until(func() (err error) {
		if t, err = client.Load(w.ctx, table); err != nil {
			return err
		}
		if c, err = w.cutOf(t); err != nil {
			return err
		}
		if w.grown {
			if reason := t.Metadata.Properties["frazil.stale-reason"]; !strings.Contains(reason, "partitions") {
				return fmt.Errorf("partitions were added, stale reason %q", reason)
			}
		} else if !slices.Equal(c.ends, w.ends) {
			return fmt.Errorf("ends %v, want %v; stale: %s", c.ends, w.ends, t.Metadata.Properties["frazil.stale-reason"])
		} else if err := w.checkStarts(c); err != nil {
			return err
		}
		rows, err := t.Rows(w.ctx, c.snapshot)
		if err != nil {
			if w.expired(c) {
				w.reads["expired"]++
				return nil
			}
			return fmt.Errorf("read the current snapshot: %w", err)
		}
		w.reads["current"]++
		w.judge(rows, c)
		return nil
	}))
	w.tables[dialect] = t
	if !slices.ContainsFunc(w.cuts, func(x cut) bool { return x.snapshot == c.snapshot }) {
		w.cuts = append(w.cuts, c)
	}
}

func (w *world) cutOf(t *readback.Table) (cut, error) {
	s, err := t.Snapshot(0)
	c := cut{snapshot: s.ID, starts: make([]int64, w.partitions)}
	if err == nil {
		c.ends, err = oracle.Ends(s, w.partitions)
	}
	for p := range w.partitions {
		if err == nil {
			c.starts[p], err = strconv.ParseInt(t.Metadata.Properties[fmt.Sprintf("frazil.start.%d", p)], 10, 64)
		}
	}
	return c, err
}

// checkStarts: a table starts at its log's start, or above by no more than twice the margin.
func (w *world) checkStarts(c cut) error {
	for p, start := range c.starts {
		low := w.logStarts[p]
		if high := low + 2*min((c.ends[p]-low)/10, w.margin); start < low || start > high {
			return fmt.Errorf("partition %d starts at %d, its log at %d", p, start, low)
		}
	}
	return nil
}

// expired reports whether Kafka has lost rows of a cut.
func (w *world) expired(c cut) bool {
	for p, start := range c.starts {
		if start < w.logStarts[p] && start < c.ends[p] {
			return true
		}
	}
	return false
}

// newest loads the table as it is, however old.
func (w *world) newest(dialect string) (t *readback.Table) {
	client := w.catalog(dialect)
	w.must("load", until(func() (err error) {
		t, err = client.Load(w.ctx, table)
		return err
	}))
	return t
}

// readCut reads a snapshot that was seen before. It is the fold at its cut, or is not listed any more.
func (w *world) readCut(c cut, dialect string) {
	tagged := slices.ContainsFunc(slices.Collect(maps.Values(w.tags)), func(x cut) bool { return x.snapshot == c.snapshot })
	for attempt := 0; ; attempt++ {
		t := w.newest(dialect)
		if _, err := t.Snapshot(c.snapshot); err != nil {
			if tagged && !w.expired(c) {
				w.fail("tagged snapshot lost", "snapshot %d [%v, %v) is tagged and not listed", c.snapshot, c.starts, c.ends)
			}
			w.reads["dropped"]++
			return
		}
		rows, err := t.Rows(w.ctx, c.snapshot)
		switch {
		case err == nil:
			w.reads["kept"]++
			w.judge(rows, c)
			return
		case w.expired(c):
			w.reads["expired"]++
			return
		case attempt == 2:
			// It was listed three times, so it is not one that has just been dropped.
			w.fail("listed snapshot unreadable", "snapshot %d [%v, %v): %v", c.snapshot, c.starts, c.ends, err)
		}
	}
}

// tag tags a cut that was seen. One that is not kept any more is refused.
func (w *world) tag(name string, c cut) {
	err := w.catalog("v2").Tag(w.ctx, table, name, c.snapshot)
	var status *readback.StatusError
	switch {
	case err == nil:
		w.tags[name] = c
	case errors.As(err, &status) && status.Code == http.StatusBadRequest && strings.Contains(status.Body, "keeps no snapshot"):
		t := w.newest("v2")
		if _, err := t.Snapshot(c.snapshot); err == nil {
			w.fail("tag refused", "snapshot %d is listed: %v", c.snapshot, status)
		}
		w.steps["tag refused"]++
	default:
		w.fail("tag refused", "%v", err)
	}
}

func (w *world) untag(name string) {
	if len(w.cuts) == 0 {
		return
	}
	w.must("untag", w.catalog("v3").Tag(w.ctx, table, name, 0))
	delete(w.tags, name)
}

// readTag reads by name, as an engine does.
func (w *world) readTag(name, dialect string) {
	c, ok := w.tags[name]
	if !ok {
		return
	}
	if ref, ok := w.newest(dialect).Metadata.Refs[name]; !w.expired(c) && (!ok || ref.SnapshotID != c.snapshot || ref.Type != "tag") {
		w.fail("tag lost", "tag %s is %+v, want snapshot %d", name, ref, c.snapshot)
	}
	w.reads["by tag"]++
	w.readCut(c, dialect)
}

// judge compares the rows of a snapshot with the fold of the model at its cut.
func (w *world) judge(rows []readback.Row, c cut) {
	got := oracle.Rows(rows)
	if want := oracle.Live(w.logs, c.starts, c.ends); !slices.Equal(got, want) {
		w.fail("wrong rows", "snapshot %d from %v to %v:\n got %s\nwant %s", c.snapshot, c.starts, c.ends,
			strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

package history

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
)

// Topic and its table.
const (
	Topic = "shop.items"
	table = "shop_items"
)

// patience is how long the product may take to do what it must.
const patience = 90 * time.Second

// cut is a snapshot that was seen.
type cut struct {
	snapshot     int64
	starts, ends []int64
	logs         []oracle.Log // as they were when it was seen
	location     string       // of the table then
	// torn: a log was cut off below its end since.
	torn bool
	// risky: the state was rolled back or a log was cut off since, so that nothing may know of it any more.
	risky bool
}

// held is a table that a client has loaded and goes on reading.
type held struct {
	table *readback.Table
	cut   *cut
}

// Failure is why a program failed.
type Failure struct {
	Kind string // two failures of one kind are taken for the same
	Text string
}

// Error says both.
func (f *Failure) Error() string { return f.Kind + ": " + f.Text }

func fail(kind, format string, args ...any) error {
	return &Failure{kind, fmt.Sprintf(format, args...)}
}

// must makes a Failure of an error that is none.
func must(kind string, err error) error {
	if _, ok := err.(*Failure); ok || err == nil {
		return err
	}
	return fail(kind, "%v", err)
}

// world is the product over a broker, and the model of what was produced.
type world struct {
	*Report
	Product
	ctx     context.Context
	broker  *broker
	clients []*kgo.Client
	plain   *kgo.Client
	txn     *kgo.Client

	partitions int
	keys       int
	margin     int64        // block, the longest margin of the start
	logs       []oracle.Log // committed events
	ends       []int64      // last stable offsets
	logStarts  []int64
	cuts       []*cut
	tags       map[string]*cut
	held       []held
	grown      bool // partitions were added
	added      int  // how many
	images     []any
	retention  time.Duration
	// location is where the table lies now, "" if that is not known.
	location string
	// locations of the table that were seen, and those of topics that were deleted.
	locations, former map[string]bool
	// unsettled are the processes that may not have noticed yet that the state was rolled back, or a log cut off; paused
	// those that stand still.
	unsettled, paused map[int]bool
}

// run runs a program in a world of its own.
func run(ctx context.Context, p Program, open Opener, r *Report) (failed *Failure) {
	dir, remove, err := tempDir()
	if err != nil {
		return &Failure{"directory", err.Error()}
	}
	defer remove()
	w := &world{
		Report: r, ctx: ctx, partitions: max(1, p.Setting("partitions")), keys: max(1, p.Setting("keys")),
		margin: 1 << p.Setting("block"), retention: time.Duration(p.Setting("retention")) * time.Millisecond,
		unsettled: map[int]bool{}, paused: map[int]bool{}, locations: map[string]bool{}, former: map[string]bool{},
	}
	defer w.close()
	err = must("open", w.open(p, dir, open))
	at := "begin"
	for i := 0; i < len(p.steps) && err == nil; i++ {
		at = fmt.Sprintf("%d: %s", i+1, p.steps[i])
		err = must(p.steps[i].Word, w.do(p.steps[i]))
		r.steps[p.steps[i].Word]++
	}
	if err == nil {
		at = "end"
		err = must("end", w.end())
	}
	if err == nil {
		return nil
	}
	f := err.(*Failure)
	failed = &Failure{f.Kind, fmt.Sprintf("at %q: %s", at, f.Text)}
	if w.Product != nil {
		failed.Text += "\n--- log\n" + w.Log()
	}
	return failed
}

func (w *world) open(p Program, dir string, open Opener) error {
	var err error
	if w.broker, err = openBroker(filepath.Join(dir, "kafka"), kfake.NumBrokers(1)); err != nil {
		return err
	}
	if w.plain, err = w.client(); err != nil {
		return err
	}
	if w.txn, err = w.client(kgo.TransactionalID("items")); err != nil {
		return err
	}
	if err := w.create(); err != nil {
		return err
	}
	if w.Product, err = open(p, dir, w.broker.ListenAddrs()); err != nil {
		return err
	}
	for i := range w.Most() {
		if err := w.Start(w.ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) client(opts ...kgo.Opt) (*kgo.Client, error) {
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err == nil {
		w.clients = append(w.clients, c)
	}
	return c, err
}

func (w *world) close() {
	if w.Product != nil {
		w.Close()
	}
	for _, c := range w.clients {
		c.Close()
	}
	if w.broker != nil {
		w.broker.Close()
	}
}

// end reads everything again, from everywhere.
func (w *world) end() error {
	w.resume()
	if w.mixed() {
		if err := w.upgrade("all", 0); err != nil {
			return err
		}
	}
	for i := range w.Most() {
		if !w.Answers(i) {
			continue
		}
		if err := w.load("v2", i); err != nil {
			return err
		}
	}
	for i, c := range w.cuts {
		if err := w.readCut(c, "v3", i); err != nil {
			return err
		}
	}
	for name := range w.tags {
		if err := w.readTag(name, "v2"); err != nil {
			return err
		}
	}
	for i, h := range w.held {
		if h.cut.torn {
			if err := w.mustBeGone(h, "what was cut off"); err != nil {
				return err
			}
			continue
		}
		if err := w.readHeld(i); err != nil {
			return err
		}
	}
	for i := range w.Most() {
		if err := w.Stop(i); err != nil {
			return fail("stop", "the process ended with %v", err)
		}
	}
	return nil
}

// create makes the topic and an empty model of it.
func (w *world) create() error {
	w.logs, w.ends, w.logStarts = oracle.Logs(w.partitions), make([]int64, w.partitions), make([]int64, w.partitions)
	maps.Copy(w.former, w.locations)
	w.location = ""
	w.cuts, w.tags, w.held, w.images, w.grown, w.added = nil, map[string]*cut{}, nil, nil, false, 0
	_, err := kadm.NewClient(w.plain).CreateTopic(w.ctx, int32(w.partitions), 1, nil, Topic)
	return err
}

func (w *world) do(s Step) error {
	switch s.Word {
	case "produce":
		return w.write(w.plain, s.Number(0), s.Number(1), true)
	case "txn":
		return w.transaction(s.Number(0), s.Number(1), s.Text(2) == "commit")
	case "load":
		return w.load(s.Text(0), w.some(s.Number(1)))
	case "peek":
		return w.peek(w.some(s.Number(0)))
	case "glance":
		if n := uint64(len(w.cuts)); n > 0 {
			return w.glance(w.cuts[s.Number(0)%n], s.Number(1))
		}
	case "read":
		if n := uint64(len(w.cuts)); n > 0 {
			return w.readCut(w.cuts[s.Number(0)%n], s.Text(1), int(s.Number(2)))
		}
	case "held":
		if n := uint64(len(w.held)); n > 0 {
			return w.readHeld(int(s.Number(0) % n))
		}
	case "tag":
		if n := uint64(len(w.cuts)); n > 0 {
			return w.tag(s.Text(0), w.cuts[s.Number(1)%n])
		}
	case "untag":
		return w.untag(s.Text(0))
	case "readtag":
		return w.readTag(s.Text(0), s.Text(1))
	case "fold":
		return w.fold()
	default:
		return w.disturb(s)
	}
	return nil
}

// some answers a process that answers.
func (w *world) some(n uint64) int {
	var all []int
	for i := range w.Most() {
		if w.Answers(i) {
			all = append(all, i)
		}
	}
	return all[n%uint64(len(all))]
}

func (w *world) write(client *kgo.Client, n, seed uint64, visible bool) error {
	r := rand.New(rand.NewPCG(seed, 3))
	events, records := make([]oracle.Event, n), make([]*kgo.Record, n)
	for i := range events {
		e := oracle.Event{Key: r.IntN(w.keys), Deleted: r.IntN(5) == 0, N: int64(r.Uint32())}
		events[i], records[i] = e, e.Record(Topic, int32(e.Key%w.partitions))
	}
	if err := client.ProduceSync(w.ctx, records...).FirstErr(); err != nil {
		return fail("produce", "%v", err)
	}
	touched := map[int32]bool{}
	for i, rec := range records {
		touched[rec.Partition] = true
		if visible {
			w.logs[rec.Partition][rec.Offset] = events[i]
		}
		w.ends[rec.Partition] = rec.Offset + 1
	}
	if client == w.txn {
		for p := range touched {
			w.ends[p]++ // the marker
		}
	}
	return nil
}

func (w *world) transaction(n, seed uint64, commit bool) error {
	if err := w.txn.BeginTransaction(); err != nil {
		return err
	}
	if err := w.write(w.txn, n, seed, commit); err != nil {
		return err
	}
	return w.txn.EndTransaction(w.ctx, kgo.TransactionEndTry(commit))
}

func (w *world) catalog(i int, dialect string) *readback.Client {
	return &readback.Client{
		REST: "http://" + w.Config(i).REST.Listen, Warehouse: dialect, Namespace: "kafka", HTTP: &http.Client{Timeout: patience},
	}
}

// empty: Kafka has no value, so that there may be no schema.
func (w *world) empty() bool {
	for p, log := range w.logs {
		for off, e := range log {
			if !e.Deleted && off >= w.logStarts[p] {
				return false
			}
		}
	}
	return true
}

// expired reports whether Kafka has lost rows of a cut.
func (w *world) expired(c *cut) bool {
	for p, start := range c.starts {
		if start < w.logStarts[p] && start < c.ends[p] {
			return true
		}
	}
	return false
}

func (w *world) tagged(c *cut) bool {
	for _, x := range w.tags {
		if x.snapshot == c.snapshot {
			return true
		}
	}
	return false
}

func (w *world) seen(id int64) *cut {
	if i := slices.IndexFunc(w.cuts, func(x *cut) bool { return x.snapshot == id }); i >= 0 {
		return w.cuts[i]
	}
	return nil
}

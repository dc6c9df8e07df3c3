package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

const manyReaders = 64

// barrier is a state whose calls wait where they are told to. What waits is in the middle of whatever led to it: a lock
// that is held there is held for as long as the test likes.
type barrier struct {
	chainstore.Store

	mu      sync.Mutex
	stops   func(write bool, name string) bool // nil: nothing waits
	open    chan struct{}                      // closed when what waits may go on
	waiting atomic.Int64
}

// close makes the calls wait that stops says, until the answer is called.
func (b *barrier) close(stops func(write bool, name string) bool) (open func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stops, b.open = stops, make(chan struct{})
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.open)
		b.stops = nil
	})
}

func (b *barrier) pass(ctx context.Context, write bool, name string) error {
	b.mu.Lock()
	stops, open := b.stops, b.open
	b.mu.Unlock()
	if stops == nil || !stops(write, name) {
		return nil
	}
	b.waiting.Add(1)
	defer b.waiting.Add(-1)
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Get implements chainstore.Store.
func (b *barrier) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	if err := b.pass(ctx, false, key); err != nil {
		return nil, 0, err
	}
	return b.Store.Get(ctx, key)
}

// GetBlob implements chainstore.Store.
func (b *barrier) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if err := b.pass(ctx, false, name); err != nil {
		return nil, err
	}
	return b.Store.GetBlob(ctx, name)
}

// CompareAndSet implements chainstore.Store.
func (b *barrier) CompareAndSet(ctx context.Context, key string, old chainstore.Version, value []byte) (chainstore.Version, error) {
	if err := b.pass(ctx, true, key); err != nil {
		return 0, err
	}
	return b.Store.CompareAndSet(ctx, key, old, value)
}

// PutBlob implements chainstore.Store.
func (b *barrier) PutBlob(ctx context.Context, name string, value []byte) error {
	if err := b.pass(ctx, true, name); err != nil {
		return err
	}
	return b.Store.PutBlob(ctx, name, value)
}

// crowd is the product in this process over a state with a barrier, for many clients at once.
type crowd struct {
	*inprocess.Frazil
	*fold

	t       *testing.T
	state   *barrier
	process *inprocess.Process
	http    *http.Client
}

func newCrowd(t *testing.T, configure func(*app.Config)) *crowd {
	t.Helper()
	harness.Scale(t)
	c := &crowd{
		Frazil: inprocess.New(t), t: t, state: &barrier{Store: memstore.New()},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * manyReaders}},
	}
	t.Cleanup(c.http.CloseIdleConnections)
	c.fold = newFold(t, 2, 64)
	_, err := kadm.NewClient(c.Producer).CreateTopics(t.Context(), 2, 1, nil, topic, other)
	c.must(err)
	c.Config.Tables = map[string]app.TableConfig{}
	for _, name := range []string{topic, other} {
		c.Config.Tables[name] = app.TableConfig{Dedup: dedup.TableConfig{ChunkLog2: 4, BlockLog2: 2}}
	}
	c.Config.Freshness.BackgroundInterval = time.Hour // tables move when the test says
	if configure != nil {
		configure(&c.Config)
	}
	c.start()
	return c
}

func (c *crowd) start() {
	c.t.Helper()
	c.process = &inprocess.Process{Config: c.Config, Store: c.state}
	c.must(c.process.Start(c.t.Context()))
	c.t.Cleanup(func() {
		if err := c.process.Stop(); err != nil {
			c.t.Error(err)
		}
	})
}

func (c *crowd) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *crowd) client(warehouse string) *readback.Client {
	client := c.Catalog(warehouse)
	client.HTTP = c.http
	return client
}

// held is a table as a client has loaded it, with the rows that it shows.
type held struct {
	*readback.Table
	want []string
}

// load loads the table until it shows everything.
func (c *crowd) load(warehouse string) held {
	c.t.Helper()
	var tb *readback.Table
	c.Until("load", func() (err error) {
		if tb, err = c.client(warehouse).Load(c.t.Context(), table); err == nil {
			_, err = c.shows(tb)
		}
		return err
	})
	return held{tb, oracle.Live(c.logs, make([]int64, len(c.ends)), c.ends)}
}

// read reads a table and compares its rows. It may be called from any goroutine.
func (h held) read(ctx context.Context) error {
	rows, err := h.Rows(ctx, 0)
	if err != nil {
		return err
	}
	if got, want := strings.Join(oracle.Rows(rows), "\n"), strings.Join(h.want, "\n"); got != want {
		return fmt.Errorf("snapshot %d:\n%s\nwant\n%s", h.Metadata.CurrentSnapshot, got, want)
	}
	return nil
}

// together does something n times at once. The answer is closed when all are done, and then err is what went wrong.
func together(n int, do func(i int) error) (done <-chan struct{}, err func() error) {
	errs := make([]error, n)
	ended := make(chan struct{})
	var at sync.WaitGroup
	for i := range n {
		at.Go(func() { errs[i] = do(i) })
	}
	go func() {
		at.Wait()
		close(ended)
	}()
	return ended, func() error {
		<-ended
		return errors.Join(errs...)
	}
}

// all does something n times at once and fails with all that went wrong.
func (c *crowd) all(n int, do func(i int) error) {
	c.t.Helper()
	_, err := together(n, do)
	c.must(err())
}

// Many readers at different snapshots read what was so then, while a writer goes on; and they read on, also what nobody
// has read before, while the writer is stopped in the middle of a write: nothing that it holds is in their way.
func TestReadersDoNotWaitForTheWriter(t *testing.T) {
	c := newCrowd(t, func(cfg *app.Config) { cfg.Freshness.AdvanceWait = 50 * time.Millisecond })
	var tables []held
	for i := range manyReaders {
		c.produce(c.Producer, 5)
		tables = append(tables, c.load([]string{"v2", "v3"}[i%2]))
	}
	read, fresh := tables[:manyReaders/2], tables[manyReaders/2:]

	done, err := together(manyReaders, func(i int) error {
		for range 3 {
			if err := read[i%len(read)].read(t.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	rounds := 0
	for reading := true; reading; rounds++ {
		c.produce(c.Producer, 5)
		tables = append(tables, c.load("v3"))
		select {
		case <-done:
			reading = false
		default:
		}
	}
	c.must(err())
	t.Logf("%d cuts while %d readers read", rounds, manyReaders)

	open := c.state.close(func(write bool, _ string) bool { return write })
	defer open()
	c.produce(c.Producer, 5)
	behind, failed := c.client("v3").Load(t.Context(), table) // it has waited, and the writer goes on without it
	c.must(failed)
	if behind.Metadata.Properties["frazil.stale-since"] == "" || c.state.waiting.Load() == 0 {
		t.Fatalf("the writer is not stopped: %d wait, properties %v", c.state.waiting.Load(), behind.Metadata.Properties)
	}
	c.all(manyReaders, func(i int) error { return fresh[i%len(fresh)].read(t.Context()) })
	c.all(manyReaders, func(i int) error {
		tb, err := c.client([]string{"v2", "v3"}[i%2]).Load(t.Context(), table)
		if err != nil {
			return err
		}
		return held{tb, tables[len(tables)-1].want}.read(t.Context())
	})
	if c.state.waiting.Load() == 0 {
		t.Error("the writer was not stopped all the time")
	}
	open()
	c.must(c.load("v3").read(t.Context()))
}

// other is a topic with a table of its own.
const other = "shop.others"

// oneSlot leaves one slot for each kind of work, and lets clients wait as long as the machine needs.
func oneSlot(cfg *app.Config) {
	cfg.Slots.Work, cfg.Slots.Scan, cfg.Dedup.Parallel = 1, 1, 1
	cfg.Freshness.LoadWait, cfg.S3.Hold = time.Minute, time.Minute
}

// Many clients that wait for the first walk of a table do not stop it, whatever few slots there are: it goes on, and all
// of them get the table.
func TestClientsThatWaitForAWalkDoNotStopIt(t *testing.T) {
	c := newCrowd(t, oneSlot)
	c.produce(c.Producer, 200)
	open := c.state.close(func(write bool, _ string) bool { return write })
	defer open()
	want := oracle.Live(c.logs, make([]int64, len(c.ends)), c.ends)
	_, err := together(manyReaders, func(i int) error {
		tb, err := c.client([]string{"v2", "v3"}[i%2]).Load(t.Context(), table)
		if err != nil {
			return err
		}
		return held{tb, want}.read(t.Context())
	})
	c.until("the clients wait", manyReaders)
	open()
	c.must(err())
}

// Many requests that wait for files of one table, more than there are slots of any kind, do not stop the walk of
// another.
func TestRequestsThatWaitForFilesDoNotStopAWalk(t *testing.T) {
	c := newCrowd(t, oneSlot)
	c.produce(c.Producer, 200)
	for i := range 40 {
		e := oracle.Event{Key: i % 7, N: int64(i)}
		c.must(c.Producer.ProduceSync(t.Context(), e.Record(other, int32(e.Key%2))).FirstErr())
	}
	h := c.load("v3")
	c.must(c.process.Stop()) // with it goes what it has in memory
	c.start()
	files, err := h.Files(t.Context(), 0)
	c.must(err)
	_, rest, _ := strings.Cut(h.Metadata.Location, "//")
	_, rest, _ = strings.Cut(rest, "/")
	epoch := strings.TrimPrefix(strings.TrimSuffix(rest, "/current"), table+"-")

	open := c.state.close(func(write bool, name string) bool { return !write && strings.Contains(name, epoch) })
	defer open()
	_, served := together(manyReaders, func(i int) error {
		name := files[i%len(files)].Path
		if d := files[i%len(files)].Deletes; i%2 == 0 && d != nil {
			name = d.Path
		}
		_, err := h.Object(t.Context(), name, "")
		return err
	})
	c.until("the requests wait", manyReaders)
	tb, err := c.client("v2").Load(t.Context(), "shop_others")
	c.must(err)
	rows, err := tb.Rows(t.Context(), 0)
	c.must(err)
	if len(rows) != 7 {
		t.Errorf("%d rows, want 7", len(rows))
	}
	if c.state.waiting.Load() == 0 {
		t.Error("nobody has waited")
	}
	open()
	c.must(served())
}

// until waits until as many requests are being answered by the edge.
func (c *crowd) until(what string, requests float64) {
	c.t.Helper()
	c.Until(what, func() error {
		now, err := sum("http://"+c.Config.REST.Listen, "frazil_edge_requests_active")
		if err == nil && now < requests {
			err = fmt.Errorf("%v requests", now)
		}
		return err
	})
}

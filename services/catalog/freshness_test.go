package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/memlog"
)

// settle waits for flights that a load started without waiting for them: to join one is to wait for it.
func (w *world) settle(topic string) {
	w.Helper()
	if _, err := w.flights.Do(context.Background(), topic, w.flight(w.table(topic))); err != nil {
		w.Log("settle:", err)
	}
}

func TestBrokersAwayServeTheLastCut(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	before := w.load(&catalogv1.LoadTableRequest{})
	w.kafka.SetDown(true)
	w.tick()
	down := w.load(&catalogv1.LoadTableRequest{})
	if down.GetMetadataLocation() != before.GetMetadataLocation() {
		t.Error("the last cut has another location")
	}
	m := parse(t, down.GetMetadataJson())
	if m.Properties["frazil.stale-since"] != "2023-11-14T22:15:00.000Z" || m.Properties["frazil.stale-reason"] == "" {
		t.Errorf("properties %v", m.Properties)
	}
	if m.CurrentSnapshotID != parse(t, before.GetMetadataJson()).CurrentSnapshotID {
		t.Error("inline metadata states another snapshot")
	}
	object := readObject(t, w.Service, down.GetMetadataLocation())
	if bytes.Contains(object, []byte("stale")) || !bytes.Equal(object, before.GetMetadataJson()) {
		t.Error("staleness leaked into the object")
	}
	w.settle("orders")
	w.append("orders", 1)
	w.kafka.SetDown(false)
	w.tick()
	w.load(&catalogv1.LoadTableRequest{}) // finds out
	w.settle("orders")
	w.tick()
	after := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
	if after.Properties["frazil.stale-since"] != "" || len(after.Snapshots) != 2 {
		t.Errorf("after recovery: %v, %d snapshots", after.Properties, len(after.Snapshots))
	}
}

func TestBrokersBackAndUnmovedIsFreshWithoutAdvance(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.load(&catalogv1.LoadTableRequest{})
	w.kafka.SetDown(true)
	w.tick()
	w.load(&catalogv1.LoadTableRequest{})
	w.kafka.SetDown(false)
	w.tick()
	w.settle("orders")
	if m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson()); m.Properties["frazil.stale-since"] != "" {
		t.Error("still stale")
	}
	if w.dedup.calls() != 1 {
		t.Errorf("%d advances", w.dedup.calls())
	}
}

func TestBrokersAwayFromTheBeginning(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Freshness.LoadWait = time.Millisecond })
	w.topic("orders", 1, 30)
	w.kafka.SetDown(true)
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("load: %v", err)
	}
	w.kafka.SetDown(false)
	if _, err := w.TableExists(context.Background(), &catalogv1.TableExistsRequest{Namespace: "kafka", Table: "orders"}); err != nil {
		t.Fatal(err)
	}
	w.kafka.SetDown(true)
	w.tick()
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("load of a known topic without a cut: %v", err)
	}
	// Nobody can say that a topic does not exist.
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{Table: "unheard_of"}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("load of an unknown topic: %v", err)
	}
}

func TestPartitionWithoutLeaderKeepsItsEnd(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 2, 30)
	w.load(&catalogv1.LoadTableRequest{})
	if err := w.kafka.SetOffline("orders", 0, true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.kafka.Append("orders", 1, kafkalog.Record{}, kafkalog.Record{}); err != nil {
		t.Fatal(err)
	}
	w.tick()
	m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
	summary := m.Snapshots[len(m.Snapshots)-1].Summary
	if summary["frazil.end.0"] != "30" || summary["frazil.end.1"] != "2" {
		t.Errorf("ends %v", summary)
	}
}

func TestDedupBehind(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.dedup.set(func(f *fakeDedup) { f.behind = "partition 0 stops at a bad record" })
	resp := w.load(&catalogv1.LoadTableRequest{})
	m := parse(t, resp.GetMetadataJson())
	if m.Properties["frazil.stale-reason"] != "partition 0 stops at a bad record" {
		t.Errorf("properties %v", m.Properties)
	}
	w.tick()
	w.load(&catalogv1.LoadTableRequest{})
	if w.dedup.calls() != 2 {
		t.Error("a table that is behind is not asked for again")
	}
	w.dedup.set(func(f *fakeDedup) { f.behind = "" })
	w.tick()
	if m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson()); m.Properties["frazil.stale-since"] != "" {
		t.Error("still stale")
	}
}

func TestDedupAway(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	progress := fmt.Errorf("scanned 3 of 9 chunks: %w", fault.ErrUnavailable)
	w.dedup.set(func(f *fakeDedup) { f.fail = progress })
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "3 of 9") {
		t.Errorf("first walk: %v", err)
	}
	w.dedup.set(func(f *fakeDedup) { f.fail = nil })
	w.load(&catalogv1.LoadTableRequest{})
	for _, fail := range []error{progress, fmt.Errorf("a head does not verify: %w", fault.ErrCorrupt)} {
		w.dedup.set(func(f *fakeDedup) { f.fail = fail })
		w.append("orders", 1)
		w.tick()
		m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
		if m.Properties["frazil.stale-since"] == "" {
			t.Errorf("%v: not stale", fail)
		}
		w.dedup.set(func(f *fakeDedup) { f.fail = nil })
		w.tick()
		w.settle("orders")
	}
	w.dedup.set(func(f *fakeDedup) { f.fail = fmt.Errorf("partitions were added: %w", fault.ErrInvalid) })
	w.append("orders", 1)
	w.tick()
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "partitions were added") {
		t.Errorf("refusal: %v", err)
	}
}

// A load that joins a first walk near the end of its wait gets a wait of its own.
func TestLateFirstLoadIsNotCheated(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.dedup.set(func(f *fakeDedup) {
		f.hold, f.entered = make(chan struct{}), make(chan struct{}, 2)
		f.fail = fmt.Errorf("scanned 3 of 9 chunks: %w", fault.ErrUnavailable)
	})
	errs := make(chan error, 2)
	load := func() {
		_, err := w.tryLoad(&catalogv1.LoadTableRequest{})
		errs <- err
	}
	go load()
	<-w.dedup.entered
	w.clock.advance(19 * time.Second)
	go load()
	for w.table("orders").loadedAt() != w.clock.now() { // until the second load is on its way to join
		runtime.Gosched()
	}
	w.dedup.hold <- struct{}{}
	if err := <-errs; !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("first load: %v", err)
	}
	<-w.dedup.entered
	w.dedup.set(func(f *fakeDedup) { f.fail = nil })
	w.dedup.hold <- struct{}{}
	if err := <-errs; err != nil {
		t.Errorf("late load: %v", err)
	}
}

func (t *table) loadedAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loaded
}

func TestCleanupPolicy(t *testing.T) {
	compact, unknown := memlog.DefaultConfig(), kafkalog.TopicConfig{}
	compact.Compact = true
	cases := map[string]struct {
		config   kafkalog.TopicConfig
		declared string
		refused  string
	}{
		"delete":                      {config: memlog.DefaultConfig()},
		"compact":                     {config: compact, refused: "cleanup.policy"},
		"compact, declared as delete": {config: compact, declared: "delete", refused: "cleanup.policy"},
		"unreadable":                  {config: unknown, refused: "tables.orders.cleanup_policy"},
		"unreadable, declared":        {config: unknown, declared: "delete"},
	}
	for name, c := range cases {
		w := newWorld(t, func(cfg *Config) { cfg.Tables = map[string]TableConfig{"orders": {CleanupPolicy: c.declared}} })
		w.topic("orders", 1, 5)
		if err := w.kafka.SetConfig("orders", c.config); err != nil {
			t.Fatal(err)
		}
		_, err := w.tryLoad(&catalogv1.LoadTableRequest{})
		if c.refused == "" && err != nil || c.refused != "" && (!errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v", name, err)
		}
		if c.refused != "" && w.dedup.calls() != 0 {
			t.Errorf("%s: dedup was asked", name)
		}
		page, err := w.ListTables(context.Background(), &catalogv1.ListTablesRequest{Namespace: "kafka"})
		if err != nil || len(page.GetTables()) != 1 {
			t.Errorf("%s: listed %v, %v", name, page, err)
		}
	}
}

// A topic that turns compacted is refused once its configuration is read again.
func TestTopicTurnsCompacted(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 5)
	w.load(&catalogv1.LoadTableRequest{})
	compact := memlog.DefaultConfig()
	compact.Compact = true
	if err := w.kafka.SetConfig("orders", compact); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Minute)
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("load: %v", err)
	}
}

func TestFiniteRetention(t *testing.T) {
	finite := memlog.DefaultConfig()
	finite.RetentionBytes = 1 << 30
	for name, c := range map[string]struct {
		config kafkalog.TopicConfig
		want   bool
	}{"unlimited": {memlog.DefaultConfig(), false}, "bytes": {finite, true}, "unknown": {kafkalog.TopicConfig{}, true}} {
		o := observation{config: c.config}
		if got := o.request("t", time.Second, 0).GetFiniteRetention(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTopicIsCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	before := w.load(&catalogv1.LoadTableRequest{})
	walk(t, w.Service, before.GetMetadataLocation())
	if _, err := w.kafka.RecreateTopic("orders", 1); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		w.append("orders", 1) // its ends are those of the topic before
	}
	w.tick()
	after := w.load(&catalogv1.LoadTableRequest{})
	if after.GetStateEpoch() == before.GetStateEpoch() || parse(t, after.GetMetadataJson()).UUID == parse(t, before.GetMetadataJson()).UUID {
		t.Error("another topic is the same table")
	}
	if w.dedup.known[1] != 0 || w.dedup.waits[1] != 20_000 {
		t.Errorf("known %v, waits %v: the new topic is a first load", w.dedup.known, w.dedup.waits)
	}
	if _, err := tryRead(w.Service, before.GetMetadataLocation()); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("an object of the replaced epoch: %v", err)
	}
	if _, err := w.ResolveEpoch(context.Background(), &catalogv1.ResolveEpochRequest{StateEpoch: before.GetStateEpoch()}); !errors.Is(err, fault.ErrRetired) || !strings.Contains(err.Error(), "created again") {
		t.Errorf("resolve: %v", err)
	}
}

// Dedup is away just as the topic is created again: the old topic's cut must not be served under its name.
func TestOldTopicIsNotServedForNewOne(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.load(&catalogv1.LoadTableRequest{})
	if _, err := w.kafka.RecreateTopic("orders", 1); err != nil {
		t.Fatal(err)
	}
	w.dedup.set(func(f *fakeDedup) { f.fail = fmt.Errorf("walking: %w", fault.ErrUnavailable) })
	w.tick()
	if resp, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("load: %v, %v", resp, err)
	}
}

func TestTopicIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.load(&catalogv1.LoadTableRequest{})
	if err := w.kafka.DeleteTopic("orders"); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(300 * time.Millisecond) // the list of topics still has it
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("load: %v", err)
	}
	if len(w.tables) != 0 {
		t.Error("a topic that is gone is remembered")
	}
}

func TestBackgroundFollowsRecentlyLoadedTables(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.topic("idle", 1, 30)
	w.load(&catalogv1.LoadTableRequest{})
	w.append("orders", 1)
	w.tick()
	w.background(context.Background())
	w.settle("orders")
	if w.dedup.calls() != 2 {
		t.Errorf("%d advances after the topic moved", w.dedup.calls())
	}
	w.tick()
	w.background(context.Background())
	w.settle("orders")
	if w.dedup.calls() != 2 {
		t.Errorf("%d advances though nothing moved", w.dedup.calls())
	}
	w.append("orders", 1)
	w.clock.advance(11 * time.Minute)
	w.background(context.Background())
	w.flights.Close()
	if w.dedup.calls() != 2 {
		t.Error("a table that nobody loads is followed")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Service.Run(ctx) }()
	<-w.Ready()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := w.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("load after the end: %v", err)
	}
}

// A version that dedup has given up since it was named is asked for anew.
func TestVersionIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.load(&catalogv1.LoadTableRequest{})
	w.dedup.set(func(f *fakeDedup) {
		epoch := f.current["orders"]
		f.change(epoch, func(*dedupv1.TableState) {})
		f.versions[epoch] = f.versions[epoch][len(f.versions[epoch])-1:]
	})
	w.cache.drop("")
	if got := w.load(&catalogv1.LoadTableRequest{}); !strings.Contains(got.GetMetadataLocation(), "/3-") {
		t.Errorf("location %s", got.GetMetadataLocation())
	}
}

// Dedup must never take readers back; an answer that does is not believed.
func TestOlderVersionIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 30)
	w.load(&catalogv1.LoadTableRequest{})
	w.append("orders", 1)
	w.tick()
	before := w.load(&catalogv1.LoadTableRequest{})
	w.dedup.set(func(f *fakeDedup) {
		epoch := f.current["orders"]
		f.versions[epoch] = f.versions[epoch][:1]
	})
	w.append("orders", 1)
	w.tick()
	after := w.load(&catalogv1.LoadTableRequest{})
	if after.GetMetadataLocation() != before.GetMetadataLocation() {
		t.Errorf("went back from %s to %s", before.GetMetadataLocation(), after.GetMetadataLocation())
	}
}

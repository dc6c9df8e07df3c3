package dedup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
)

// gate holds a scan of a walk until it is opened.
type gate struct {
	reached chan struct{}
	open    func()
}

// hold makes the first scan below off wait, at the longest until the test ends. A walk reads ahead: what lies above off
// may be unpublished yet when the gate is reached.
func (w *world) hold(off kafkapos.Offset) gate {
	opened := make(chan struct{})
	g := gate{make(chan struct{}), sync.OnceFunc(func() { close(opened) })}
	w.t.Cleanup(g.open)
	var once sync.Once
	inner := w.topic.scan
	w.topic.scan = func(rng kafkapos.Range) {
		if inner != nil {
			inner(rng)
		}
		if rng.Start < off && !rng.Empty() {
			once.Do(func() {
				close(g.reached)
				<-opened
			})
		}
	}
	return g
}

// get reads the delete file of an entry as a client with a life of its own does.
func (w *world) get(ctx context.Context, e *dedupv1.ManifestEntry) error {
	obj, err := objectname.Parse(e.GetDataKey())
	if err != nil {
		return err
	}
	key := objectname.Deletes{Data: obj.(objectname.DataFile), Dialect: objectname.V2, E: kafkapos.Offset(e.GetDeletes().GetE())}.Key()
	return w.ReadDeletes(&dedupv1.ReadDeletesRequest{ObjectKey: key, Length: 1 << 40}, &deleteStream{ctx: ctx})
}

// Many readers share one walk. Who hangs up ends nothing; what the walk has passed is served while it goes on below; and
// what arrives at the end of the log is published meanwhile.
func TestReadersShareAWalk(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.cfg.Waiting = 64
	w.restart()
	r := rand.New(rand.NewPCG(4, 4))
	w.topic.append(0, random(r, 160)...)
	st := w.advance()
	list := w.entries(st, last(st))[0] // ten files of 16 offsets
	g := w.hold(32)
	results := make(chan error, 100)
	ctx, hangUp := context.WithCancel(t.Context())
	for i := range 60 {
		go func() { results <- w.get(ctx, list[i%2]) }() // of [0,16) and [16,32)
	}
	<-g.reached
	hangUp()
	for range 60 {
		wantKind(t, <-results, context.Canceled)
	}
	for i := 9; i >= 2; i-- {
		if _, err := w.readEntry(st, list[i]); err != nil {
			t.Fatalf("file %d above the walk: %v", i, err)
		}
	}
	// The increment is planned and published while the walk holds a plan of an older version.
	w.topic.append(0, random(r, 30)...)
	next := w.advance()
	if got := last(next).GetCut()[0].GetEnd(); got != 190 {
		t.Fatalf("cut at %d while a walk goes on", got)
	}
	for range 20 {
		go func() { results <- w.get(t.Context(), list[0]) }() // joins it
	}
	g.open()
	for range 20 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if low, n, twice := w.topic.offsetsScanned(0); low != 0 || n != 190 || twice != 0 {
		t.Fatalf("read down to %d, %d offsets, %d of them twice", low, n, twice)
	}
	w.checkLazy(next, last(next), r)
	w.checkLazy(st, last(st), r)
}

// More readers than may wait are told to come again; the walk is not disturbed.
func TestWaitingReadersAreBounded(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.cfg.Waiting = 3
	w.restart()
	w.topic.append(0, put(1, 2, 3, 1, 2, 3)...)
	st := w.advance()
	e := w.entries(st, last(st))[0][0]
	g := w.hold(100)
	results := make(chan error, 10)
	for range 10 {
		go func() { results <- w.get(t.Context(), e) }()
	}
	<-g.reached
	for range 7 {
		wantKind(t, <-results, fault.ErrUnavailable)
	}
	g.open()
	for range 3 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
}

// Walks of several partitions go on side by side, over as many ranges as may be read at once.
func TestPartitionsAreWalkedSideBySide(t *testing.T) {
	w := newLazyWorld(t, 2)
	for p := range 2 {
		w.topic.append(p, put(1, 2, 3, 1, 2, 3)...)
	}
	st := w.advance()
	all := w.entries(st, last(st))
	var mu sync.Mutex
	inside, both := 0, make(chan struct{})
	w.topic.scan = func(rng kafkapos.Range) {
		if rng.Empty() {
			return
		}
		mu.Lock()
		if inside++; inside == 2 {
			close(both)
		}
		mu.Unlock()
		<-both // nobody gets on before both are here
	}
	results := make(chan error, 2)
	for p := range 2 {
		go func() { results <- w.get(t.Context(), all[p][0]) }()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
}

// Its size is said of a delete file that nobody has read without reading anything; names that were never issued have none.
func TestSizesAreSaidWithoutReading(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.topic.append(0, put(1, 2, 3, 1, 2, 3)...)
	st := w.advance()
	e := w.entries(st, last(st))[0][0]
	obj, err := objectname.Parse(e.GetDataKey())
	if err != nil {
		t.Fatal(err)
	}
	d := obj.(objectname.DataFile)
	size := func(d objectname.DataFile, at kafkapos.Offset, dialect string) (string, error) {
		s := &deleteStream{ctx: t.Context()}
		err := w.ReadDeletes(&dedupv1.ReadDeletesRequest{ObjectKey: objectname.Deletes{Data: d, Dialect: dialect, E: at}.Key()}, s)
		return s.size, err
	}
	said, err := size(d, 6, objectname.V2)
	if _, n, _ := w.topic.offsetsScanned(0); err != nil || n != 0 {
		t.Fatalf("%v, %d offsets were read", err, n)
	}
	beyond, split := d, d
	beyond.Range.End, split.Range = 12, kafkapos.Range{Start: 0, End: 40}
	key := [16]byte(st.GetCheckKey())
	for name, c := range map[string]struct {
		d       objectname.DataFile
		at      kafkapos.Offset
		dialect string
	}{
		"above the scanned end": {d, 7, objectname.V2}, "a file beyond it": {beyond.Signed(key), 6, objectname.V2},
		"over two chunks": {split.Signed(key), 6, objectname.V2}, "a vector": {d, 6, objectname.V3},
	} {
		if _, err := size(c.d, c.at, c.dialect); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole, err := w.object(objectname.Deletes{Data: d, Dialect: objectname.V2, E: 6}.Key())
	if err != nil || fmt.Sprint(len(whole)) != said {
		t.Fatalf("%d bytes, %s were said: %v", len(whole), said, err)
	}
}

// What was read since makes another snapshot of the same cut; the one before stays as it was.
func TestTheSameCutReadFurtherIsAnotherSnapshot(t *testing.T) {
	w := newLazyWorld(t, 1)
	r := rand.New(rand.NewPCG(5, 5))
	w.topic.append(0, random(r, 40)...)
	first := w.advance()
	if again := w.advance(); last(again).GetId() != last(first).GetId() || again.GetVersion() != first.GetVersion() {
		t.Fatal("nothing was read, and yet another snapshot was published")
	}
	w.checkLazy(first, last(first), r)
	second := w.advance()
	if last(second).GetId() == last(first).GetId() || last(second).GetCut()[0].GetEnd() != 40 {
		t.Fatalf("snapshot %v after %v", last(second), last(first))
	}
	if !slices.ContainsFunc(second.GetSnapshots(), func(s *dedupv1.Snapshot) bool {
		return s.GetId() == last(first).GetId() && slices.EqualFunc(s.GetGroups(), last(first).GetGroups(), func(a, b *dedupv1.GroupRef) bool {
			return a.GetName() == b.GetName()
		})
	}) {
		t.Fatal("the snapshot before is no longer what it was")
	}
	w.checkLazy(second, last(first), r)
	w.check(second, last(second))
	if third := w.advance(); third.GetVersion() != second.GetVersion() {
		t.Fatal("a table that was read whole goes on publishing")
	}
}

// A truncate event in what nobody had read stops the walk with a clear error, and the files above go on being served.
func TestAWalkThatCannotGoOn(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.topic.append(0, put(1, 2, 3)...)
	w.topic.append(0, event{class: 5}) // layout.Truncate
	w.topic.append(0, random(rand.New(rand.NewPCG(6, 6)), 40)...)
	st := w.advance()
	list := w.entries(st, last(st))[0]
	err := w.get(t.Context(), list[0])
	wantKind(t, err, fault.ErrInvalid)
	if err := w.get(t.Context(), list[1]); err != nil {
		t.Fatal(err)
	}
}

func TestProgressOfWalks(t *testing.T) {
	w := newLazyWorld(t, 2)
	id := &dedupv1.GetProgressRequest{TopicId: w.topicRef().GetTopicId()}
	if _, err := w.GetProgress(t.Context(), id); !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("before the first load: %v", err)
	}
	w.topic.append(0, put(slices.Repeat([]int{1, 2}, 20)...)...)
	w.topic.append(1, put(1)...)
	st := w.advance()
	g := w.hold(16)
	done := make(chan error, 1)
	files := w.entries(st, last(st))[0]
	go func() { done <- w.get(t.Context(), files[0]) }()
	<-g.reached
	if err := w.get(t.Context(), files[1]); err != nil { // served when the walk has passed it
		t.Fatal(err)
	}
	p, err := w.GetProgress(t.Context(), id)
	if err != nil || p.GetPlan() != PlanLazy || p.GetPartitions() != 2 || len(p.GetWalks()) != 2 {
		t.Fatalf("%v, %v", p, err)
	}
	if x := p.GetWalks()[0]; x.GetFrontier() != 16 || x.GetWanted() != 0 || x.GetEnd() != 40 {
		t.Fatalf("walk %v", x)
	}
	if x := p.GetWalks()[1]; x.GetFrontier() != 1 || x.GetWanted() != 1 {
		t.Fatalf("walk %v that nobody waits for", x)
	}
	g.open()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestLazyNeedsSkip(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		ok     bool
	}{
		"default":       {func(*Config) {}, true},
		"lazy, fail":    {func(c *Config) { c.Plan = PlanLazy }, false},
		"lazy, skip":    {func(c *Config) { c.Plan, c.OnBadRecord = PlanLazy, BadRecordSkip }, true},
		"a table, fail": {func(c *Config) { c.Tables = map[string]TableConfig{"t": {Plan: PlanLazy}} }, false},
		"a table, skip": {func(c *Config) { c.Tables = map[string]TableConfig{"t": {Plan: PlanLazy, OnBadRecord: BadRecordSkip}} }, true},
		"but this one fails": {func(c *Config) {
			c.Plan, c.OnBadRecord, c.Tables = PlanLazy, BadRecordSkip, map[string]TableConfig{"t": {OnBadRecord: BadRecordFail}}
		}, false},
		"no such plan": {func(c *Config) { c.Plan = "now" }, false},
		"no room":      {func(c *Config) { c.RoomBytes = 0 }, false},
	} {
		cfg := Default()
		cfg.RunDir = "runs"
		c.change(&cfg)
		if _, err := cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

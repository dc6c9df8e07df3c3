package dedup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
)

// kill ends a process at one of its changes of the store or of the disk. From then on it changes nothing and reads
// nothing.
type kill struct {
	mu   sync.Mutex
	left int // changes that still go through; negative: all
	// after: the change that it dies at goes through, but nobody hears of it.
	after bool
	dead  bool
	kinds map[string]int
}

// change is asked before each change. done: it may go through; an error: the process is dead.
func (k *kill) change(kind string) (done bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return false, errDead
	}
	k.kinds[kind]++
	if k.left != 0 {
		k.left--
		return true, nil
	}
	k.dead = true
	return k.after, errDead
}

func (k *kill) alive() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errDead
	}
	return nil
}

var errDead = fmt.Errorf("the process was killed: %w", fault.ErrUnavailable)

// disk is what Mem.Fail takes. A write of the disk that it dies at is torn: Mem keeps no part of it, and loses what was
// not synced when it crashes.
func (k *kill) disk(op fsys.Op, _ string) error {
	switch op {
	case fsys.OpCreate, fsys.OpWrite, fsys.OpSync, fsys.OpRename, fsys.OpRemove, fsys.OpSyncDir:
		_, err := k.change("file " + string(op))
		return err
	}
	return k.alive()
}

// killedStore is a store as the process sees it that is to be killed.
type killedStore struct {
	chainstore.Store
	k *kill
}

func (s killedStore) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	if err := s.k.alive(); err != nil {
		return nil, 0, err
	}
	return s.Store.Get(ctx, key)
}

func (s killedStore) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if err := s.k.alive(); err != nil {
		return nil, err
	}
	return s.Store.GetBlob(ctx, name)
}

func (s killedStore) List(ctx context.Context, prefix string) ([]string, error) {
	if err := s.k.alive(); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, prefix)
}

func (s killedStore) ListBlobs(ctx context.Context, prefix string) ([]string, error) {
	if err := s.k.alive(); err != nil {
		return nil, err
	}
	return s.Store.ListBlobs(ctx, prefix)
}

func (s killedStore) CompareAndSet(ctx context.Context, key string, old chainstore.Version, value []byte) (v chainstore.Version, err error) {
	kind, _, _ := strings.Cut(key, "/")
	done, dead := s.k.change("set " + kind)
	if done {
		v, err = s.Store.CompareAndSet(ctx, key, old, value)
	}
	if dead != nil {
		return 0, dead
	}
	return v, err
}

func (s killedStore) PutBlob(ctx context.Context, name string, value []byte) (err error) {
	kind, _, _ := strings.Cut(name, "/")
	done, dead := s.k.change("put " + kind)
	if done {
		err = s.Store.PutBlob(ctx, name, value)
	}
	if dead != nil {
		return dead
	}
	return err
}

func (s killedStore) DeleteBlob(ctx context.Context, name string) (err error) {
	done, dead := s.k.change("collect")
	if done {
		err = s.Store.DeleteBlob(ctx, name)
	}
	if dead != nil {
		return dead
	}
	return err
}

// duel is a process that is killed, and another one that goes on over the same store with a disk of its own.
type duel struct {
	victim *world
	other  *world
	k      *kill
	inner  *memstore.Store
	mu     sync.Mutex
	// meanwhile is what the other one does before the victim's compare-and-set of a head after skip more.
	meanwhile func()
	skip      int
	// alone: the other one only looks when all is over.
	alone bool
}

// meantStore lets the other process act just before the victim changes a head, so that the victim must rebase.
type meantStore struct {
	killedStore
	d *duel
}

func (s meantStore) CompareAndSet(ctx context.Context, key string, old chainstore.Version, value []byte) (chainstore.Version, error) {
	if strings.HasPrefix(key, "head/") && s.k.alive() == nil {
		s.d.turn()()
	}
	return s.killedStore.CompareAndSet(ctx, key, old, value)
}

// beside makes the other one act before the victim's compare-and-set of a head after skip more.
func (d *duel) beside(do func(), skip int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.alone {
		d.meanwhile, d.skip = do, skip
	}
}

// turn answers what the other one does now.
func (d *duel) turn() func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.skip--; d.meanwhile == nil || d.skip >= 0 {
		return func() {}
	}
	do := d.meanwhile
	d.meanwhile = nil
	return do
}

func newDuel(t *testing.T, k *kill, alone bool) *duel {
	d := &duel{k: k, inner: memstore.New(), alone: alone}
	d.other = newWorld(t, 2)
	d.victim = newWorld(t, 2)
	for i, w := range []*world{d.other, d.victim} {
		w.stop()
		w.topic = d.other.topic
		w.store = d.inner
		w.cfg.Parallel, w.cfg.Fold.Every, w.cfg.Fold.MinMarks = 1, 0, 1
		w.seed = uint64(100 * i)
	}
	d.victim.store = meantStore{killedStore{d.inner, k}, d}
	d.victim.disk.Fail(k.disk)
	d.other.start()
	d.victim.start()
	return d
}

// live is what the victim lives through. It ends with the first error.
func (d *duel) live() error {
	w, r := d.victim, rand.New(rand.NewPCG(21, 4))
	st := &dedupv1.TableState{}
	advance := func() error {
		w.now = w.now.Add(time.Second)
		resp, err := w.Advance(w.t.Context(), w.request())
		if err == nil && resp.GetStaleSinceMillis() != 0 {
			err = fmt.Errorf("%s: %w", resp.GetStaleReason(), fault.ErrUnavailable)
		}
		if err == nil {
			st = resp.GetState()
		}
		return err
	}
	tag := func(name string, id int64) error {
		_, err := w.UpdateTags(w.t.Context(), &dedupv1.UpdateTagsRequest{StateEpoch: st.GetStateEpoch(), Changes: []*dedupv1.TagChange{set(name, id)}})
		return err
	}
	otherAdvances := func() {
		w.topic.append(0, put(1, 2, 3)...)
		d.other.now = w.now
		d.other.advance()
	}
	steps := []func() error{
		func() error { // the first walk, while the other one publishes an increment
			w.topic.append(0, random(r, 30)...)
			w.topic.append(0, put(20, 21, 22)...) // the increment has their only newer events
			w.topic.append(0, random(r, 30)...)
			w.topic.append(1, random(r, 20)...)
			d.beside(d.incrementBeside, 2)
			return advance()
		},
		func() error { w.topic.append(0, random(r, 12)...); return advance() },
		func() error { return tag("kept", last(st).GetId()) },
		func() error { // an increment that loses to the other one's
			w.topic.append(0, random(r, 9)...)
			d.beside(otherAdvances, 0)
			return advance()
		},
		func() error { w.topic.starts[0] = 20; w.topic.append(1, random(r, 9)...); return advance() },
		func() error { w.now = w.now.Add(2 * time.Hour); w.topic.append(0, put(7, 8)...); return advance() },
		func() error { w.now = w.now.Add(2 * time.Hour); w.topic.append(1, put(7, 8)...); return advance() },
		func() error { return d.fold(otherAdvances) },
		func() error { return w.garbage.Collect(w.t.Context()) },
		func() error { w.now = w.now.Add(2 * time.Hour); return w.garbage.Collect(w.t.Context()) },
		func() error { return tag("kept", 0) },
		func() error { w.topic.append(0, random(r, 9)...); return advance() },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// incrementBeside publishes an increment of partition 0 by the other process, whatever the walk of it is at.
func (d *duel) incrementBeside() {
	w := d.other
	w.t.Helper()
	w.topic.append(0, put(22, 20, 21, 1)...) // the first one fills the chunk: the increment ends there
	if !w.increment(0) {
		w.t.Fatal("there is nothing to publish")
	}
}

// fold folds what the victim can fold, beside an increment of the other one.
func (d *duel) fold(meanwhile func()) error {
	w := d.victim
	rec, err := w.served(w.t.Context(), kafkapos.TopicID(w.topicRef().GetTopicId()))
	if err != nil {
		return err
	}
	plans, err := w.folds(w.t.Context(), rec)
	if err != nil {
		return err
	}
	d.beside(meanwhile, 0)
	for _, plan := range plans {
		if _, _, err := w.planner.Fold(w.t.Context(), plan, 0); err != nil {
			return err
		}
	}
	return nil
}

// TestKillAtEveryChange ends a process at every single change of the store or of its disk, before it and just after
// it, in a life of walks, increments, tags, a moving start, folding and collecting. Started again on what it left, with
// its unsynced files lost or not, it reads every kept cut right and scans nothing again that was published; so does
// another process over the same store.
func TestKillAtEveryChange(t *testing.T) { killAtEach(t, true) }

// TestKillAtEveryChangeOfTwoWriters does the same beside a second process, which walks, advances and publishes between
// the plan and the compare-and-set of the first one, so that it rebases. The second one goes on at once.
func TestKillAtEveryChangeOfTwoWriters(t *testing.T) { killAtEach(t, false) }

func killAtEach(t *testing.T, alone bool) {
	t.Helper()
	points, kinds := 0, map[string]int{}
	for n := 0; ; n += stride {
		k := &kill{left: n, after: n%2 == 1, kinds: map[string]int{}}
		if !killed(t, k, alone, n%3 != 0) {
			kinds = k.kinds
			break
		}
		points++
	}
	t.Logf("%d crash points: %v", points, kinds)
	for _, kind := range []string{
		"file create", "file write", "file sync", "file rename", "file remove", "file sync directory", "set head", "set record", "set epoch",
		"set topic", "collect", "put segment", "put fold", "put layout", "put page", "put root", "put rowgroups", "put snapshot", "put group", "put version",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no crash point at %q", kind)
		}
	}
}

// killed answers false if the life was over before the process was killed.
func killed(t *testing.T, k *kill, alone, power bool) bool {
	t.Helper()
	d := newDuel(t, k, alone)
	err := d.live()
	v, o := d.victim, d.other
	if err != nil && k.alive() == nil {
		t.Fatal(err)
	}
	v.stop()
	what := fmt.Sprintf("killed at %v", k.kinds)
	if !alone {
		o.goesOn(what, v)
	}
	v.disk.Fail(nil)
	if power {
		v.disk.Crash()
	}
	v.store = d.inner
	before := published(v)
	v.topic.resetScanned()
	v.start()
	v.goesOn(what, o)
	for p, was := range before {
		for off := range v.topic.scanned[p] {
			if alone && was != nil && off >= was.Head.Frontier && off < was.Head.End && off < was.Head.Tail.From {
				t.Fatalf("%s: partition %d offset %d was published and was scanned again", what, p, off)
			}
		}
	}
	if alone {
		o.goesOn(what, v)
	}
	v.stop()
	o.stop()
	v.stop, o.stop = func() {}, func() {}
	return err != nil
}

// goesOn brings the table up to date after another process has died or gone on, and reads every kept cut.
func (w *world) goesOn(what string, after *world) {
	w.t.Helper()
	w.now, w.known = after.now, max(w.known, after.known)
	w.topic.append(0, put(1, 9)...)
	w.checkAll(what, w.advance())
}

func (w *world) checkAll(what string, st *dedupv1.TableState) {
	w.t.Helper()
	for _, snap := range st.GetSnapshots() {
		if _, err := w.read(st, snap); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		w.check(st, snap)
	}
}

package dedup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// still is a world at rest: what its store and its disk hold, and the logs that they were made from.
type still struct {
	image
	runs  map[string][]byte // files by path
	logs  [][]event
	known uint64
	now   time.Time
}

// rest ends the service and takes the world down.
func (w *world) rest() still {
	w.t.Helper()
	out := still{runs: map[string][]byte{}, known: w.known, now: w.now}
	out.image = imageOf(w.t, w.store)
	for key := range out.values {
		epoch, ok := strings.CutPrefix(key, "epoch/")
		for p := 0; ok && p < len(w.topic.logs); p++ {
			runs, _ := w.disk.Contents(fmt.Sprintf("runs/%s-%d", epoch, p)) // one that is not there has none
			maps.Copy(out.runs, runs)
		}
	}
	for _, l := range w.topic.logs {
		out.logs = append(out.logs, slices.Clone(l))
	}
	w.stop()
	w.stop = func() {}
	return out
}

// awake starts a service over the world as it was.
func (s still) awake(w *world, store chainstore.Store) {
	w.t.Helper()
	w.stop()
	w.store, w.disk, w.known, w.now = store, fsys.NewMem(), s.known, s.now
	w.topic.logs = nil
	for _, l := range s.logs {
		w.topic.logs = append(w.topic.logs, slices.Clone(l))
	}
	w.topic.resetScanned()
	for name, b := range s.runs {
		w.write(name, b)
	}
	w.start()
}

func (w *world) write(name string, b []byte) {
	w.t.Helper()
	err := w.disk.MakeDir(path.Dir(name))
	if err == nil {
		err = fsys.WriteFile(w.disk, path.Dir(name), path.Base(name), true, func(f io.Writer) error {
			_, err := f.Write(b)
			return err
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// harm is one way to damage a value of n bytes.
type harm struct {
	cut, at int
	bit     byte // 0: the value is cut at cut instead
}

func (h harm) String() string {
	if h.bit == 0 {
		return fmt.Sprintf("cut at %d", h.cut)
	}
	return fmt.Sprintf("bit %d of byte %d", h.bit, h.at)
}

func (h harm) of(b []byte) []byte {
	if h.bit == 0 {
		return bytes.Clone(b[:h.cut])
	}
	b = bytes.Clone(b)
	b[h.at] ^= h.bit
	return b
}

// harms answers flips and cuts of a value: at its ends, and at some places in between.
func harms(r *rand.Rand, n, between int) []harm {
	places := map[int]bool{}
	for i := range min(n, 2) {
		places[i], places[n-1-i] = true, true
	}
	for range min(n, between) {
		places[r.IntN(n)] = true
	}
	var out []harm
	for _, at := range slices.Sorted(maps.Keys(places)) {
		out = append(out, harm{at: at, bit: 1 << r.IntN(8)})
		if at%3 == 0 {
			out = append(out, harm{cut: at})
		}
	}
	return out
}

// lookAt loads the table and reads every snapshot that is listed. What comes must be the fold at its cut, or an error
// that a client can understand; it is never wrong and never endless. whole: everything was right and up to date.
func (w *world) lookAt(what string) (whole bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.now = w.now.Add(time.Second)
	req := w.request()
	resp, err := w.Advance(ctx, req)
	if err != nil {
		w.refused(what, err)
		return false
	}
	st := resp.GetState()
	w.known = max(w.known, st.GetVersion())
	whole = resp.GetStaleSinceMillis() == 0
	for _, snap := range st.GetSnapshots() {
		got, err := w.read(st, snap)
		if err != nil {
			w.refused(what, err)
			whole = false
			continue
		}
		for p, c := range snap.GetCut() {
			want := fold(w.topic.logs[p], kafkapos.Offset(c.GetStart()), kafkapos.Offset(c.GetEnd()))
			if !slices.Equal(got[p], want) {
				w.t.Fatalf("%s: partition %d [%d,%d): rows %v, want %v", what, p, c.GetStart(), c.GetEnd(), got[p], want)
			}
		}
	}
	return whole
}

func (w *world) refused(what string, err error) {
	w.t.Helper()
	for _, kind := range []error{fault.ErrCorrupt, fault.ErrUnavailable, fault.ErrRetired, fault.ErrNotFound} {
		if errors.Is(err, kind) {
			return
		}
	}
	w.t.Fatalf("%s: %v is of no kind that says what to do", what, err)
}

// TestAnyDamagedValueIsRegained flips bits of every value of the state and cuts it, under a service that remembers
// nothing. Whatever it answers is right, also after more has come. A table whose record does not verify is refused; every
// other one is regained, as if the value were lost.
func TestAnyDamagedValueIsRegained(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	w, _ := livedLong(t)
	w.cfg.Fold.Every, w.cfg.Fold.MinMarks = 0, 1
	w.restart()
	w.now = w.now.Add(2 * time.Hour)
	w.topic.append(0, put(5)...)
	w.advance()
	w.now = w.now.Add(2 * time.Hour)
	w.topic.append(0, put(5)...)
	w.advance()
	if w.foldAll() == 0 {
		t.Fatal("nothing was folded")
	}
	s := w.rest()
	kinds, damages, shown := map[string]int{}, 0, 0
	for name, value := range s.all() {
		kind, _, _ := strings.Cut(name, "/")
		for _, h := range harms(r, len(value), 3) {
			what := fmt.Sprintf("seed %d: %s of %d bytes, %s", seed, name, len(value), h)
			broken := s.with(name, h.of(value))
			s.awake(w, broken.store(t))
			if !w.lookAt(what) {
				shown++
			}
			w.topic.append(damages%2, put(1, 9)...)
			w.lookAt(what + ", then more")
			if kind != "record" && kind != "epoch" {
				w.regains(what)
			}
			kinds[kind]++
			damages++
		}
	}
	t.Logf("%d damages, %d of them showed: %v", damages, shown, kinds)
	for _, kind := range append(state.LogKinds(), "record", "head", "epoch", "topic", "snapshot", "group", "version") {
		if kinds[kind] == 0 {
			t.Errorf("no %s was damaged", kind)
		}
	}
}

// all answers values and blobs by name.
func (s still) all() map[string][]byte {
	out := maps.Clone(s.blobs)
	for k, v := range s.values {
		out[k] = v.bytes
	}
	return out
}

// with answers the image with another value under a name.
func (s still) with(name string, b []byte) image {
	out := image{maps.Clone(s.values), maps.Clone(s.blobs)}
	if _, ok := out.blobs[name]; ok {
		out.blobs[name] = b
	} else {
		out.values[name] = stored{b, out.values[name].version}
	}
	return out
}

// TestAnyDamagedRunIsMadeAgain flips bits of every run file, cuts it and takes it away. The table is right and up to
// date all the same: what a run says is checked where it is read.
func TestAnyDamagedRunIsMadeAgain(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 3))
	w, _ := livedLong(t)
	s := w.rest()
	if len(s.runs) < 2 {
		t.Fatalf("%d run files", len(s.runs))
	}
	damages := 0
	for name, b := range s.runs {
		for i, h := range append(harms(r, len(b), 16), harm{}) {
			s.awake(w, s.store(t))
			if i == 9 {
				w.disk = fsys.NewMem()
				w.restart()
			} else {
				w.write(name, h.of(b))
			}
			what := fmt.Sprintf("seed %d: %s of %d bytes, %s", seed, name, len(b), h)
			for p := range w.topic.logs {
				w.topic.append(p, put(0, 1, 2, 3, 4, 5)...)
			}
			if !w.lookAt(what) {
				t.Fatalf("%s: not up to date", what)
			}
			damages++
		}
	}
	t.Logf("%d damages of %d files", damages, len(s.runs))
}

// TestADiskThatIsGoneServesTheLastCut loses the whole disk while the log cannot be read: what was published goes on
// being served and says that it is stale; then the runs are made again.
func TestADiskThatIsGoneServesTheLastCut(t *testing.T) {
	w, old := given(t, 2)
	s := w.rest()
	s.runs = nil
	s.awake(w, s.store(t))
	w.topic.append(0, put(1, 2, 3)...)
	end := kafkapos.Offset(last(old).GetCut()[0].GetEnd())
	w.topic.fail = func(_ kafkapos.Partition, rng kafkapos.Range) error {
		if rng.End < end {
			return fmt.Errorf("read %s: %w", rng, fault.ErrUnavailable)
		}
		return nil
	}
	resp, err := w.Advance(t.Context(), w.request())
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetStaleSinceMillis() == 0 || last(resp.GetState()).GetId() != last(old).GetId() {
		t.Fatalf("stale since %d, snapshot %v", resp.GetStaleSinceMillis(), last(resp.GetState()))
	}
	w.check(resp.GetState(), last(resp.GetState()))
	w.topic.fail = nil
	st := w.advance()
	if st.GetStateEpoch() != old.GetStateEpoch() {
		t.Fatal("a lost disk cost the state epoch")
	}
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
}

// TestAFullDiskStopsWhatIsNew fills the disk at every length that a life passes: what was published is served, and all
// of it is caught up when there is room again.
func TestAFullDiskStopsWhatIsNew(t *testing.T) {
	stopped := 0
	for limit := int64(1); limit < 4000; limit += 97 {
		w := newWorld(t, 2)
		w.disk.Limit(limit)
		r := rand.New(rand.NewPCG(uint64(limit), 6))
		full := false
		for range 6 {
			for p := range w.topic.logs {
				w.topic.append(p, random(r, 12)...)
			}
			w.topic.append(0, put(1, 2)...)
			full = !w.lookAt(fmt.Sprintf("full at %d bytes", limit)) || full
		}
		if full {
			stopped++
		}
		w.disk.Limit(0)
		st := w.advance()
		for _, snap := range st.GetSnapshots() {
			w.check(st, snap)
		}
		w.stop()
		w.stop = func() {}
	}
	t.Logf("%d disks were full", stopped)
	if stopped == 0 {
		t.Fatal("no disk was full")
	}
}

// TestADamagedLeftoverIsNotInTheWay damages what a killed process had written and not published. The next one plans
// the same again, under the same names.
func TestADamagedLeftoverIsNotInTheWay(t *testing.T) {
	leftovers := 0
	for n := 0; ; n++ {
		w, _ := given(t, 1)
		s := w.rest()
		w.store = &stoppingStore{Store: s.store(t), left: n}
		s.awake(w, w.store)
		w.topic.append(0, put(1, 2, 3, 30, 31)...)
		w.lookAt("stopped")
		inner := w.store.(*stoppingStore)
		after := imageOf(t, inner.Store)
		w.stop()
		w.stop = func() {}
		for name, b := range after.blobs {
			if _, was := s.blobs[name]; was {
				continue
			}
			leftovers++
			broken := image{after.values, maps.Clone(after.blobs)}
			broken.blobs[name] = harm{at: len(b) / 2, bit: 4}.of(b)
			w.store = broken.store(t)
			w.start()
			what := fmt.Sprintf("stopped after write %d, then %s damaged", n, name)
			w.lookAt(what)
			w.regains(what)
			w.topic.append(0, put(4)...)
			w.regains(what + ", then more")
			w.topic.logs[0] = w.topic.logs[0][:len(w.topic.logs[0])-1]
			w.stop()
			w.stop = func() {}
		}
		if inner.left > 0 {
			break
		}
	}
	t.Logf("%d leftovers", leftovers)
	if leftovers < 10 {
		t.Fatalf("only %d leftovers", leftovers)
	}
}

// stoppingStore stops before one write more than left.
type stoppingStore struct {
	chainstore.Store
	left int
}

func (s *stoppingStore) write() error {
	if s.left == 0 {
		return fmt.Errorf("stopped: %w", fault.ErrUnavailable)
	}
	s.left--
	return nil
}

func (s *stoppingStore) CompareAndSet(ctx context.Context, key string, old chainstore.Version, value []byte) (chainstore.Version, error) {
	if err := s.write(); err != nil {
		return 0, err
	}
	return s.Store.CompareAndSet(ctx, key, old, value)
}

func (s *stoppingStore) PutBlob(ctx context.Context, name string, value []byte) error {
	if err := s.write(); err != nil {
		return err
	}
	return s.Store.PutBlob(ctx, name, value)
}

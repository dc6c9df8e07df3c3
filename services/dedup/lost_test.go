package dedup

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fault"
)

// image is everything that a store holds.
type image struct {
	values map[string]stored
	blobs  map[string][]byte
}

type stored struct {
	bytes   []byte
	version chainstore.Version
}

func imageOf(t *testing.T, s chainstore.Store) image {
	t.Helper()
	out := image{map[string]stored{}, map[string][]byte{}}
	keys, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		b, v, err := s.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		out.values[k] = stored{b, v}
	}
	names, err := s.ListBlobs(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if out.blobs[n], err = s.GetBlob(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// store makes a store of the image.
func (i image) store(t *testing.T) chainstore.Store {
	t.Helper()
	s := memstore.New()
	if err := i.into(t, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// into puts the image into an empty store.
func (i image) into(t *testing.T, s chainstore.Store) error {
	for k, v := range i.values {
		for at := range v.version {
			if _, err := s.CompareAndSet(t.Context(), k, at, v.bytes); err != nil {
				return err
			}
		}
	}
	for n, b := range i.blobs {
		if err := s.PutBlob(t.Context(), n, b); err != nil {
			return err
		}
	}
	return nil
}

// livedLong makes the same life each time: walks, increments, deletes, several chunks and snapshots. It answers the
// state in the middle of it, too.
func livedLong(t *testing.T) (w *world, middle image) {
	t.Helper()
	w = newWorld(t, 2)
	r := rand.New(rand.NewPCG(4, 4))
	for step := range 6 {
		for p := range w.topic.logs {
			w.topic.append(p, random(r, 12)...)
		}
		w.topic.append(0, put(1, 2, 3)...)
		w.advance()
		if step == 3 {
			middle = imageOf(t, w.store)
		}
	}
	return w, middle
}

// regains expects that the table is read right again after at most a few loads, as an engine makes them that plans
// again after a 404, and that nothing wrong is read on the way.
func (w *world) regains(what string) {
	w.t.Helper()
	var err error
	for range 5 {
		resp, advanceErr := w.Advance(w.t.Context(), w.request())
		if err = advanceErr; err != nil {
			if !errors.Is(err, fault.ErrUnavailable) {
				break
			}
			continue
		}
		st := resp.GetState()
		w.known = max(w.known, st.GetVersion())
		_, err = w.read(st, last(st))
		if err == nil && resp.GetStaleSinceMillis() == 0 {
			w.check(st, last(st))
			return
		}
		if err != nil && !errors.Is(err, fault.ErrRetired) && !errors.Is(err, fault.ErrNotFound) {
			break
		}
	}
	w.t.Errorf("%s: the table is not regained: %v", what, err)
}

// TestAnyLostValueIsRegained takes every single value of a store away, and every versioned one back to what it was
// before, under a service that remembers nothing or only the version.
func TestAnyLostValueIsRegained(t *testing.T) {
	first, _ := livedLong(t)
	all := imageOf(t, first.store)
	losses := map[string]func(now, middle image){}
	for name := range all.blobs {
		losses["missing "+name] = func(now, _ image) { delete(now.blobs, name) }
	}
	for key := range all.values {
		losses["missing "+key] = func(now, _ image) { delete(now.values, key) }
		losses["older "+key] = func(now, middle image) { now.values[key] = middle.values[key] }
	}
	for what, lose := range losses {
		for _, moves := range []bool{false, true} {
			w, middle := livedLong(t)
			now := imageOf(t, w.store)
			w.stop()
			lose(now, middle)
			w.store = now.store(t)
			w.start()
			if moves {
				w.topic.append(1, put(5)...)
			}
			w.regains(what)
			w.topic.append(0, put(7, 8)...)
			w.regains(what + ", then more")
			w.stop()
			w.stop = func() {}
		}
	}
	t.Logf("%d losses", len(losses))
	if len(losses) < 40 || !strings.Contains(strings.Join(sortedNames(all.blobs), " "), "segment/") {
		t.Errorf("only %d losses", len(losses))
	}
}

func sortedNames(m map[string][]byte) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

package dedup

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore/diskstore"
	"github.com/frazil-io/frazil/libs/fault"
)

// TestADamagedEmbeddedStoreServesNothingWrong flips bits of the files of an embedded store, and cuts them, under
// callers that know the newest version. The store does not open, or the table is right, refused, or made anew.
func TestADamagedEmbeddedStoreServesNothingWrong(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 8))
	log := slog.New(slog.DiscardHandler)
	w, _ := livedLong(t)
	s := w.rest()
	dir := filepath.Join(t.TempDir(), "state")
	if err := s.disk(t, dir, log); err != nil {
		t.Fatal(err)
	}
	var n tally
	s.damageFiles(w, r, fmt.Sprintf("seed %d", seed), dir, log, &n) // everything lies in the log
	store, err := diskstore.Open(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s.damageFiles(w, r, fmt.Sprintf("seed %d, opened again", seed), dir, log, &n) // in a table
	t.Logf("%d damages: %d stores did not open, %d tables were whole", n.damages, n.closed, n.whole)
	if n.closed == 0 || n.whole == 0 || n.closed+n.whole == n.damages {
		t.Errorf("of %d damages %d stores did not open and %d tables were whole", n.damages, n.closed, n.whole)
	}
}

type tally struct{ damages, closed, whole int }

// damageFiles damages each file of an embedded store at some places, one at a time, and looks at the table over it.
func (s still) damageFiles(w *world, r *rand.Rand, what, dir string, log *slog.Logger, n *tally) {
	t := w.t
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for range min(len(b), 12) {
			h := harm{at: r.IntN(len(b)), bit: 1 << r.IntN(8)}
			if r.IntN(4) == 0 {
				h = harm{cut: r.IntN(len(b))}
			}
			n.damages++
			to := filepath.Join(t.TempDir(), "state")
			err := os.CopyFS(to, os.DirFS(dir))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, e.Name()), h.of(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.overStore(w, to, fmt.Sprintf("%s: %s of %d bytes, %s", what, e.Name(), len(b), h), log, n)
		}
	}
}

// overStore looks at the table over the embedded store in dir.
func (s still) overStore(w *world, dir, what string, log *slog.Logger, n *tally) {
	t := w.t
	t.Helper()
	store, err := diskstore.Open(dir, log)
	if err != nil {
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnavailable) {
			t.Fatalf("%s: %v", what, err)
		}
		n.closed++
		return
	}
	s.awake(w, store)
	if w.lookAt(what) {
		n.whole++
	}
	w.topic.append(0, put(1, 9)...)
	w.lookAt(what + ", then more")
	w.stop()
	w.stop = func() {}
	if err := store.Close(); err != nil && !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("%s: close: %v", what, err)
	}
}

// disk puts the image into an embedded store.
func (i image) disk(t *testing.T, dir string, log *slog.Logger) error {
	s, err := diskstore.Open(dir, log)
	if err != nil {
		return err
	}
	return errors.Join(i.into(t, s), s.Close())
}

package dedup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
)

// beside is another replica over the same store, with a disk of its own.
func (w *world) beside() *world {
	w.t.Helper()
	o := *w
	o.disk, o.clock = fsys.NewMem(), &sync.Mutex{}
	o.start()
	w.t.Cleanup(func() { o.stop() })
	return &o
}

// TestTwoReplicasOfALazyTable: both walk, publish increments and cut the same table at once. Nothing that either answers is
// anything but the fold.
func TestTwoReplicasOfALazyTable(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 13))
			w := newLazyWorld(t, 2)
			w.cfg.PublishOffsets = 1 << (4 + seed%3) // one, two or four chunks at a time
			w.restart()
			for p := range 2 {
				w.topic.append(p, random(r, 60+r.IntN(80))...)
			}
			both := []*world{w, w.beside()}
			st := w.advance()
			for range 6 {
				for p := range 2 {
					w.topic.append(p, random(r, r.IntN(20))...)
				}
				var readers sync.WaitGroup
				errs := make([]error, 10)
				list := w.entries(st, last(st))
				for i := range errs {
					p := r.IntN(2)
					if len(list[p]) == 0 {
						continue
					}
					e, by := list[p][r.IntN(len(list[p]))], both[i%2]
					readers.Go(func() { errs[i] = by.getEntry(t.Context(), e) })
				}
				by := both[r.IntN(2)]
				by.known = w.known
				for _, other := range both {
					if other != by {
						other.sleep(time.Second)
					}
				}
				st = by.advance()
				w.known = by.known
				readers.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				for _, by := range both {
					by.checkLazy(st, st.GetSnapshots()[r.IntN(len(st.GetSnapshots()))], r)
				}
			}
			for _, snap := range st.GetSnapshots() {
				both[r.IntN(2)].checkLazy(st, snap, r)
			}
			st = w.advance()
			w.check(st, last(st))
		})
	}
}

// getEntry reads the delete file of an entry, of which there may be none.
func (w *world) getEntry(ctx context.Context, e *dedupv1.ManifestEntry) error {
	if e.GetDeletes() == nil {
		return nil
	}
	if err := w.get(ctx, e); err != nil && !errors.Is(err, fault.ErrUnavailable) {
		return fmt.Errorf("file [%d,%d) of partition %d: %w", e.GetStart(), e.GetEnd(), e.GetPartition(), err)
	}
	return nil
}

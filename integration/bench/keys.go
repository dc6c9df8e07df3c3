package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/frazil-io/frazil/libs/change"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/supersede"
)

// runFanIn is how many neighbouring runs of about one size are merged, as the product does.
const runFanIn = 4

// keysAlone plans the walk over the events of the shop, chunk by chunk from the newest on, and writes and merges the
// runs of keys.
func keysAlone(_ context.Context, r *role) (measured, error) {
	log2 := chunkLog2(r.Format)
	var chunks [][]supersede.Event
	hasher, source := change.NewHasher([16]byte{1}), newShop(shopSeed)
	for i := range r.Events {
		e := source.next()
		if i>>log2 == len(chunks) {
			chunks = append(chunks, nil)
		}
		class := layout.Row
		if e.after == nil {
			class = layout.Delete
		}
		last := len(chunks) - 1
		chunks[last] = append(chunks[last], supersede.Event{
			Offset: kafkapos.Offset(i), Class: class, Hash: keyrun.Hash(hasher.Hash(binary.BigEndian.AppendUint64([]byte("id"), uint64(e.key)))),
		})
	}
	w := &walk{dir: r.Dir, log2: log2, filters: keyrun.NewFilters(filterBytes)}
	defer w.close()
	return r.measure(func(m *measured) error {
		for i := range slices.Backward(chunks) {
			if err := w.chunk(i, chunks[i]); err != nil {
				return err
			}
			m.Events += int64(len(chunks[i]))
		}
		m.Bytes = w.written
		return nil
	})
}

// walk is the runs of the chunks that were walked, by ascending range.
type walk struct {
	dir     string
	log2    int
	filters *keyrun.Filters
	runs    []*keyrun.Run
	files   []*os.File
	made    int
	written int64
	marks   int
}

func (w *walk) close() {
	for _, f := range w.files {
		_ = f.Close() // only read
	}
}

func (w *walk) chunk(number int, events []supersede.Event) error {
	above, err := keyrun.NewSet(w.runs...)
	if err != nil {
		return err
	}
	plan, err := supersede.PlanWalk(events, above)
	if err != nil {
		return err
	}
	w.marks += len(plan.Marks)
	rng := layout.Chunk(kafkapos.Offset(number)<<w.log2, w.log2)
	run, err := w.write(func(out *bufio.Writer) error {
		_, err := keyrun.Write(out, rng, plan.Run)
		return err
	})
	if err != nil {
		return err
	}
	w.runs = slices.Insert(w.runs, 0, run)
	return w.tidy()
}

// tidy merges neighbours of about one size.
func (w *walk) tidy() error {
	tier := func(r *keyrun.Run) int {
		n := 0
		for e := max(r.Entries(), 1) >> 10; e > 0; e >>= 2 {
			n++
		}
		return n
	}
	for i := 0; i+runFanIn <= len(w.runs); {
		some := w.runs[i : i+runFanIn]
		if slices.ContainsFunc(some, func(r *keyrun.Run) bool { return tier(r) != tier(some[0]) }) {
			i++
			continue
		}
		merged, err := w.write(func(out *bufio.Writer) error {
			_, err := keyrun.Merge(out, some...)
			return err
		})
		if err != nil {
			return err
		}
		w.runs = slices.Replace(w.runs, i, i+runFanIn, merged)
		i = 0
	}
	return nil
}

func (w *walk) write(body func(*bufio.Writer) error) (*keyrun.Run, error) {
	f, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("%d.run", w.made)))
	if err != nil {
		return nil, err
	}
	w.files = append(w.files, f)
	w.made++
	out := bufio.NewWriterSize(f, 256<<10)
	if err := errors.Join(body(out), out.Flush(), f.Sync()); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	w.written += info.Size()
	return keyrun.Open(f, info.Size(), w.filters)
}

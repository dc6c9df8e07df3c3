package bench

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/diskstore"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore/redistest"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/supersede"
)

const (
	marksLog2      = 18 // of a chunk
	markIncrements = 100
)

// benchMarks is part (k): what a mark takes in the state, as increments publish it, gathered by chunk, and folded.
func benchMarks(t *testing.T, f *field, r *report) {
	r.part("k", fmt.Sprintf("bytes per mark: %d increments of %d random keys of %d, chunks of 2^%d offsets", markIncrements, increment, f.events, marksLog2))
	u := newRewrites(f.events)
	var published, gathered, folded [][]byte
	var all []*marks.Segment
	for range markIncrements {
		seg, err := marks.NewSegment(u.increment(), marksLog2)
		published, all = append(published, encoded(t, seg, err)), append(all, seg)
	}
	one, err := marks.Merge(all...)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range one.Chunks() {
		seg, err := marks.NewSegment(slices.Collect(part.All()), marksLog2)
		gathered = append(gathered, encoded(t, seg, err))
		b, err := layout.NewBuilder(part.Range(), marksLog2)
		if err != nil {
			t.Fatal(err)
		}
		for off := part.Range().Start; off < part.Range().End; off++ {
			if err := b.Add(off, layout.Row); err != nil {
				t.Fatal(err)
			}
		}
		l, err := b.Layouts()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range marks.Fold(l[0], layout.CurrentRows, []kafkapos.Offset{u.end}, u.end, []*marks.Chunk{part}) {
			folded = append(folded, encoded(t, g, nil))
		}
	}
	total := float64(one.Marks())
	for _, form := range []struct {
		name   string
		values [][]byte
	}{
		{"as increments publish them", published}, {"gathered by chunk", gathered}, {"folded, one group per chunk", folded},
	} {
		size := 0
		for _, v := range form.values {
			size += len(v)
		}
		r.row(fmt.Sprintf("%s: %d values", form.name, len(form.values)), Series{float64(size) / total}, "bytes per mark")
		r.row("  in the embedded store, on disk", Series{float64(onDisk(t, form.values)) / total}, "bytes per mark")
		r.row("  in Redis, in memory", Series{float64(inRedis(t, form.values)) / total}, "bytes per mark")
	}
}

func encoded(t *testing.T, v interface{ Bytes() ([]byte, error) }, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rewrites is a log of rows whose keys are written again and again.
type rewrites struct {
	newest []kafkapos.Offset // by key
	end    kafkapos.Offset
	random *rand.Rand
}

func newRewrites(keys int) *rewrites {
	u := &rewrites{newest: make([]kafkapos.Offset, keys), end: kafkapos.Offset(keys), random: rand.New(rand.NewPCG(9, 9))}
	for i := range u.newest {
		u.newest[i] = kafkapos.Offset(i)
	}
	return u
}

// increment writes random keys and answers the marks.
func (u *rewrites) increment() []supersede.Mark {
	var out []supersede.Mark
	for range increment {
		key := u.random.IntN(len(u.newest))
		out = append(out, supersede.Mark{Older: u.newest[key], Newer: u.end})
		u.newest[key] = u.end
		u.end++
	}
	return out
}

// putAll stores values under names like those of the product.
func putAll(t *testing.T, s chainstore.Store, values [][]byte) {
	t.Helper()
	for i, v := range values {
		name := fmt.Sprintf("segment/abcdefghij234567/0/%d-%x", i, sha256.Sum256(v))
		if err := s.PutBlob(t.Context(), name[:len("segment/abcdefghij234567/0/")+24], v); err != nil {
			t.Fatal(err)
		}
	}
}

// onDisk is what the files of an embedded store take that has the values in tables and not in its log.
func onDisk(t *testing.T, values [][]byte) int64 {
	t.Helper()
	dir := t.TempDir()
	for i := range 2 { // what is opened again has moved its log to tables
		s, err := diskstore.Open(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			putAll(t, s, values)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	size, err := diskBytes(dir)
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// diskBytes is what the tables of a closed store take.
func diskBytes(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sst" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// inRedis is what used_memory grows by.
func inRedis(t *testing.T, values [][]byte) int64 {
	t.Helper()
	server := redistest.Start(t)
	defer server.Kill()
	cfg := redisstore.Default()
	cfg.Addresses = []string{server.Addr}
	s, err := redisstore.Open(cfg, slog.New(slog.DiscardHandler), noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	used := func() int64 {
		text, err := server.Client.Info(t.Context(), "memory").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(text, "used_memory:")
		digits, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := s.PutBlob(t.Context(), "segment/abcdefghij234567/0/first", []byte("connections have their buffers")); err != nil {
		t.Fatal(err)
	}
	before := used()
	putAll(t, s, values)
	grown := used() - before
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return grown
}

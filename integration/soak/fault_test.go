package soak

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/readback"
)

// foldRounds is how many cuts are published in the hope that the process folds something.
const foldRounds = 6

// fold publishes cuts until marks were folded. Without a key that comes again there may be nothing to fold.
func (w *world) fold() {
	if w.empty() || w.grown {
		return
	}
	before := w.gateway.metric("frazil_dedup_fold_passes")
	for i := range uint64(foldRounds) {
		w.write(w.plain, 4, i, true)
		w.load("v3")
		if w.gateway.metric("frazil_dedup_fold_passes") > before {
			return
		}
	}
}

// evict removes the encoded row groups from under the running process.
func (w *world) evict() {
	err := filepath.WalkDir(filepath.Join(w.dir, "data", "cache"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the process was faster
		}
		return err
	})
	w.must("evict", err)
}

// kill ends the process while it works on new records.
func (w *world) kill(after time.Duration, n, seed uint64) {
	w.sample()
	w.write(w.plain, n, seed, true)
	client, ctx := w.catalog("v2"), w.ctx
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		for range 20 {
			if _, err := client.Load(ctx, table); err != nil {
				return // it was killed
			}
		}
	}()
	select {
	case <-time.After(after):
	case <-loaded:
	}
	w.gateway.kill()
	<-loaded
	w.must("start", w.gateway.start())
}

// moveStart removes a share of a log, in thousandths.
func (w *world) moveStart(p int, share int64) {
	at := w.logStarts[p] + (w.ends[p]-w.logStarts[p])*share/1000
	if at == w.logStarts[p] {
		return
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, int32(p), at, -1)
	res, err := kadm.NewClient(w.plain).DeleteRecords(w.ctx, offsets)
	if err == nil {
		err = res.Error()
	}
	w.must("delete records", err)
	w.logStarts[p] = at
}

// recreate deletes the topic and makes it anew: the tables of the one before are refused, in words.
func (w *world) recreate() {
	old := w.tables
	_, err := kadm.NewClient(w.plain).DeleteTopic(w.ctx, topic)
	w.must("delete topic", err)
	w.plain.PurgeTopicsFromClient(topic)
	w.txn.PurgeTopicsFromClient(topic)
	w.create()
	w.write(w.plain, 12, uint64(len(old)), true)
	w.load("v2")
	for _, t := range old {
		_, err := t.Rows(w.ctx, 0)
		var status *readback.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusNotFound || !strings.Contains(status.Body, "NoSuchKey") {
			w.fail("old incarnation", "the table of the topic before reads as %v, want 404 NoSuchKey", err)
		}
	}
}

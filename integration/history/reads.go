package history

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
)

// keptTables is how many tables clients hold at most.
const keptTables = 6

// keptImages is how far back the state can be rolled, in loads.
const keptImages = 4

// newsAttempts is how often a replica is told of something new before it must know what others did, and how often a
// snapshot may be listed and be gone when it is read: a slow reader meets that where snapshots are kept for a moment.
const newsAttempts = 20

// nudge moves the ends: a replica asks for the state again when they move, else only every ten seconds. Until then it
// does not know of tags that others set, nor of what they dropped.
func (w *world) nudge() error { return w.write(w.plain, 1, uint64(w.waits), true) }

// again is an error that a client meets by asking again.
type again struct{ error }

// until repeats try for as long as it answers again, and patience lasts.
func (w *world) until(kind string, try func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := try()
		retry, ok := err.(again)
		if !ok {
			return must(kind, err)
		}
		if w.waits++; time.Now().After(deadline) {
			return fail(kind, "after %v: %v", patience, retry.error)
		}
		select {
		case <-w.ctx.Done():
			return fail(kind, "%v", w.ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// status is the code of an answer, 0 if there was none.
func status(err error) int {
	var s *readback.StatusError
	if errors.As(err, &s) {
		return s.Code
	}
	return 0
}

// gone reports whether an object is not there, and the answer says so as S3 does.
func gone(err error) bool {
	return status(err) == http.StatusNotFound && strings.Contains(err.Error(), "NoSuchKey")
}

// ask loads the table as a client does that comes back after 503, and takes v2 where v3 is refused because a lazy table
// was not read whole. Nothing else is allowed.
func (w *world) ask(i int, dialect string) (t *readback.Table, err error) {
	t, err = w.catalog(i, dialect).Load(w.ctx, table)
	if status(err) == http.StatusBadRequest && dialect == "v3" && strings.Contains(err.Error(), "plan lazy") {
		w.reads["v3 refused"]++
		t, err = w.catalog(i, "v2").Load(w.ctx, table)
	}
	if status(err) == http.StatusServiceUnavailable {
		w.reads["503"]++
		return nil, again{err}
	}
	return t, err
}

// load loads the table until it shows everything that was produced, and judges it.
func (w *world) load(dialect string, i int) error {
	if w.empty() || w.grown && len(w.cuts) == 0 {
		return nil
	}
	if image := w.Image(); image != nil {
		w.images = append(w.images, image)
		w.images = w.images[max(0, len(w.images)-keptImages):]
	}
	var t *readback.Table
	var c *cut
	missing := map[int64]int{}
	err := w.until("load", func() (err error) {
		if t, err = w.ask(i, dialect); err != nil {
			return err
		}
		if c, err = w.cutOf(t); err != nil {
			return err
		}
		if err := w.complete(t, c); err != nil {
			return err
		}
		rows, err := w.rows(t, c.snapshot, i)
		switch {
		case err == nil:
			w.reads["current"]++
			return w.judge(rows, c)
		case !gone(err):
			return err
		case w.expired(c):
			w.reads["expired"]++
			return nil
		}
		// It was replaced while it was read, or the state was rolled back: the next load shows another. One that is
		// shown again and again must be there.
		if missing[c.snapshot]++; missing[c.snapshot] > newsAttempts && len(w.unsettled) == 0 {
			if w.mixed() {
				w.reads["named by another encoder"]++
				return nil
			}
			return fail("current snapshot unreadable", "%v", err)
		}
		if nerr := w.nudge(); nerr != nil {
			return nerr
		}
		return again{err}
	})
	if err != nil {
		return err
	}
	return w.remember(t, c, i)
}

// remember keeps what was loaded from process i. Nothing but a loss makes another state epoch.
func (w *world) remember(t *readback.Table, c *cut, i int) error {
	at := t.Metadata.Location
	if w.location != "" && at != w.location && len(w.unsettled) == 0 {
		return fail("state epoch replaced", "the table lies at %s, was at %s, and nothing was lost", at, w.location)
	}
	w.location, w.locations[at], c.location = at, true, at
	delete(w.unsettled, i)
	// Whoever notices the loss of the state later makes another state epoch.
	c.risky = len(w.unsettled) > 0
	if have := w.seen(c.snapshot); have != nil {
		have.risky = c.risky
		c = have
	} else {
		w.cuts = append(w.cuts, c)
	}
	w.held = append(w.held, held{t, c})
	w.held = w.held[max(0, len(w.held)-keptTables):]
	return nil
}

// rows reads a snapshot, coming back after 503.
func (w *world) rows(t *readback.Table, snapshot int64, i int) (rows []readback.Row, err error) {
	// Any replica serves what another has answered.
	t.Config["s3.endpoint"] = "http://" + w.Config(i).S3.Listen
	var answer error
	err = w.until("read", func() error {
		if rows, answer = t.Rows(w.ctx, snapshot); status(answer) == http.StatusServiceUnavailable {
			w.reads["503"]++
			return again{answer}
		}
		return nil
	})
	return rows, errors.Join(err, answer)
}

// complete reports what a table does not show yet.
func (w *world) complete(t *readback.Table, c *cut) error {
	reason := t.Metadata.Properties["frazil.stale-reason"]
	// A state epoch that was made after partitions were added, because the one before was lost, has all of them.
	_, anew := t.Metadata.Properties[fmt.Sprintf("frazil.start.%d", w.partitions+w.added-1)]
	switch {
	case w.former[t.Metadata.Location]:
		return again{fmt.Errorf("%s is of the topic before", t.Metadata.Location)}
	case w.torn(t.Metadata.Location):
		return again{fmt.Errorf("%s has shown what was cut off since", t.Metadata.Location)}
	case w.grown && !anew && !strings.Contains(reason, "partitions"):
		return again{fmt.Errorf("partitions were added, stale reason %q", reason)}
	case w.grown && !anew:
		return nil
	case !slices.Equal(c.ends, w.ends):
		return again{fmt.Errorf("ends %v, want %v; stale: %s", c.ends, w.ends, reason)}
	}
	// A table starts at its log's start, or above by no more than twice the margin.
	for p, start := range c.starts {
		low := w.logStarts[p]
		if high := low + 2*min((c.ends[p]-low)/10, w.margin); start < low || start > high {
			return again{fmt.Errorf("partition %d starts at %d, its log at %d", p, start, low)}
		}
	}
	return nil
}

// peek loads the table and reads nothing of it.
func (w *world) peek(i int) error {
	if w.empty() || w.grown {
		return nil
	}
	var t *readback.Table
	var c *cut
	err := w.until("load", func() (err error) {
		if t, err = w.ask(i, "v2"); err != nil {
			return err
		}
		if c, err = w.cutOf(t); err != nil {
			return err
		}
		return w.complete(t, c)
	})
	if err != nil {
		return err
	}
	w.reads["peek"]++
	return w.remember(t, c, i)
}

// dataPath is partition, start and end in the path of a data file.
var dataPath = regexp.MustCompile(`/data/([0-9]+)/([0-9]+)-([0-9]+)-`)

// glance reads one file of a snapshot, as a query does that prunes the others. It has the live rows of its range, or
// the snapshot is not what it was any more.
func (w *world) glance(c *cut, n uint64) error {
	if w.empty() {
		return nil
	}
	t, err := w.newest(w.some(n), "v2")
	if err != nil {
		return err
	}
	if _, err := t.Snapshot(c.snapshot); err != nil {
		w.reads["dropped"]++
		return nil
	}
	files, err := t.Files(w.ctx, c.snapshot)
	if err != nil || len(files) == 0 {
		return w.unlessGone(c, err)
	}
	f := files[n%uint64(len(files))]
	var rows []readback.Row
	var answer error
	err = w.until("read", func() error {
		if rows, answer = t.FileRows(w.ctx, f); status(answer) == http.StatusServiceUnavailable {
			w.reads["503"]++
			return again{answer}
		}
		return nil
	})
	if err = errors.Join(err, answer); err != nil {
		return w.unlessGone(c, err)
	}
	var at [3]int64
	for i, m := range dataPath.FindStringSubmatch(f.Path)[1:] {
		if at[i], err = strconv.ParseInt(m, 10, 64); err != nil {
			return err
		}
	}
	var want []string
	for _, row := range oracle.Live(c.logs, c.starts, c.ends) {
		var p, off int64
		if _, err := fmt.Sscanf(row, "%d/%d ", &p, &off); err != nil {
			return err
		}
		if p == at[0] && off >= at[1] && off < at[2] {
			want = append(want, row)
		}
	}
	w.reads["one file"]++
	return w.same(rows, want, c)
}

// unlessGone lets a read of a snapshot fail that may be gone: readCut knows.
func (w *world) unlessGone(c *cut, err error) error {
	if gone(err) {
		return w.readCut(c, "v2", 0)
	}
	return err
}

func (w *world) cutOf(t *readback.Table) (*cut, error) {
	s, err := t.Snapshot(0)
	if err != nil {
		return nil, err
	}
	c := &cut{snapshot: s.ID, starts: make([]int64, w.partitions), logs: w.logs}
	if c.ends, err = oracle.Ends(s, w.partitions); err != nil {
		return nil, err
	}
	for p := range w.partitions {
		if c.starts[p], err = strconv.ParseInt(t.Metadata.Properties[fmt.Sprintf("frazil.start.%d", p)], 10, 64); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// newest loads the table as it is, however old.
func (w *world) newest(i int, dialect string) (t *readback.Table, err error) {
	err = w.until("load", func() (err error) {
		t, err = w.ask(i, dialect)
		return err
	})
	return t, err
}

// readCut reads a snapshot that was seen before. It is the fold at its cut, or is not listed any more.
func (w *world) readCut(c *cut, dialect string, n int) error {
	if w.empty() { // a table that was lost cannot be made again
		return nil
	}
	i := w.some(uint64(n))
	for attempt := 0; ; attempt++ {
		t, err := w.newest(i, dialect)
		if err != nil {
			return err
		}
		if _, err := t.Snapshot(c.snapshot); err != nil {
			if dialect == "v3" {
				dialect = "v2" // v3 does not list what shows files of a lazy table that nobody has read
				continue
			}
			if w.tagged(c) && !c.risky && !w.expired(c) {
				if attempt < newsAttempts {
					if err := w.nudge(); err != nil {
						return err
					}
					continue
				}
				return fail("tagged snapshot lost", "snapshot %d [%v, %v) is tagged and not listed", c.snapshot, c.starts, c.ends)
			}
			w.reads["dropped"]++
			return nil
		}
		at := w.some(uint64(n) + 1)
		if w.mixed() {
			at = i
		}
		rows, err := w.rows(t, c.snapshot, at)
		switch {
		case err == nil:
			w.reads["kept"]++
			return w.judge(rows, c)
		case !gone(err):
			return err
		case w.expired(c):
			w.reads["expired"]++
			return nil
		case attempt == newsAttempts && w.mixed():
			w.reads["named by another encoder"]++
			return nil
		case attempt == newsAttempts && len(w.unsettled) == 0 || w.tagged(c) && !c.risky && !w.mixed():
			// It was listed again and again, so it is not one that has just been dropped.
			return fail("listed snapshot unreadable", "snapshot %d [%v, %v): %v", c.snapshot, c.starts, c.ends, err)
		}
		if err := w.nudge(); err != nil {
			return err
		}
	}
}

// readHeld goes on with what a client loaded long ago. It is the fold at its cut, or the snapshot is not listed any
// more and says so.
func (w *world) readHeld(n int) error {
	h := w.held[n]
	i := w.some(uint64(n))
	rows, err := w.rows(h.table, h.cut.snapshot, i)
	switch {
	case err == nil:
		w.reads["held"]++
		return w.judge(rows, h.cut)
	case !gone(err):
		return err
	case w.expired(h.cut) || h.cut.risky || w.empty():
		w.reads["held and lost"]++
		return nil
	}
	t, err2 := w.newest(i, "v2")
	if err2 != nil {
		return err2
	}
	if _, err2 := t.Snapshot(h.cut.snapshot); err2 == nil {
		// The start may have cut its files: then they have other names now.
		return w.readCut(h.cut, "v2", i)
	}
	w.reads["held and dropped"]++
	return nil
}

// tag tags a cut that was seen. One that is not kept any more is refused.
func (w *world) tag(name string, c *cut) error {
	i := w.some(uint64(c.snapshot))
	return w.until("tag", func() error {
		err := w.catalog(i, "v2").Tag(w.ctx, table, name, c.snapshot)
		switch {
		case err == nil:
			w.tags[name] = c
			return nil
		case status(err) == http.StatusServiceUnavailable, status(err) == http.StatusConflict && len(w.unsettled) > 0:
			return again{err}
		case status(err) == http.StatusBadRequest && strings.Contains(err.Error(), "keeps no snapshot"):
			w.steps["tag refused"]++
			t, lerr := w.newest(i, "v2")
			if lerr != nil {
				return lerr
			}
			if _, lerr := t.Snapshot(c.snapshot); lerr == nil {
				return fail("tag refused", "snapshot %d is listed: %v", c.snapshot, err)
			}
			return nil
		}
		return err
	})
}

func (w *world) untag(name string) error {
	if len(w.cuts) == 0 || w.empty() {
		return nil
	}
	err := w.until("untag", func() error {
		err := w.catalog(w.some(0), "v2").Tag(w.ctx, table, name, 0)
		if status(err) == http.StatusServiceUnavailable || status(err) == http.StatusConflict && len(w.unsettled) > 0 {
			return again{err}
		}
		return err
	})
	if err == nil {
		delete(w.tags, name)
	}
	return err
}

// readTag reads by name, as an engine does.
func (w *world) readTag(name, dialect string) error {
	c, ok := w.tags[name]
	if !ok || w.empty() {
		return nil
	}
	for attempt := 0; ; attempt++ {
		t, err := w.newest(w.some(0), dialect)
		if err != nil {
			return err
		}
		ref, ok := t.Metadata.Refs[name]
		if ok && ref.SnapshotID == c.snapshot && ref.Type == "tag" || w.expired(c) || c.risky {
			break
		}
		dialect = "v2" // likewise
		if attempt == newsAttempts {
			return fail("tag lost", "tag %s is %+v, want snapshot %d", name, ref, c.snapshot)
		}
		if err := w.nudge(); err != nil {
			return err
		}
	}
	w.reads["by tag"]++
	return w.readCut(c, dialect, 0)
}

// torn reports whether a state epoch has shown what a log does not have any more.
func (w *world) torn(location string) bool {
	return slices.ContainsFunc(w.cuts, func(c *cut) bool { return c.torn && c.location == location })
}

// mustBeGone: the files of a table that clients hold are refused, in words, by all processes that were loaded from.
func (w *world) mustBeGone(h held, what string) error {
	if w.empty() {
		return nil
	}
	if _, err := w.rows(h.table, h.cut.snapshot, w.some(0)); !gone(err) {
		return fail("old incarnation", "the table of %s reads as %v, want 404 NoSuchKey", what, err)
	}
	return nil
}

// judge compares the rows of a snapshot with the fold of the model at its cut.
func (w *world) judge(rows []readback.Row, c *cut) error {
	return w.same(rows, oracle.Live(c.logs, c.starts, c.ends), c)
}

func (w *world) same(rows []readback.Row, want []string, c *cut) error {
	if got := oracle.Rows(rows); !slices.Equal(got, want) {
		return fail("wrong rows", "snapshot %d from %v to %v:\n got %s\nwant %s", c.snapshot, c.starts, c.ends,
			strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	return nil
}

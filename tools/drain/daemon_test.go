package drain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/libs/freeport"
	"github.com/frazil-io/frazil/tools/command"
)

func TestReasonOfTheBacklog(t *testing.T) {
	p := &drain.Forecast{EqualityDeleteFiles: 10, DeleteKeys: 1000, ProbeUnits: 5000, Snapshots: 7}
	for _, tc := range []struct {
		limits backlog
		want   string
	}{
		{backlog{}, "there are equality deletes"},
		{backlog{probeUnits: 5000, files: 10, keys: 1000, snapshots: 7}, ""},
		{backlog{probeUnits: 4999}, "5k probe units, above 5k"},
		{backlog{files: 9}, "10 equality delete files, above 9"},
		{backlog{keys: 999}, "1k delete keys, above 999"},
		{backlog{snapshots: 6}, "7 snapshots since the last drain, above 6"},
	} {
		if got := tc.limits.reason(p); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.limits, got, tc.want)
		}
	}
	if got := (&backlog{}).reason(&drain.Forecast{Snapshots: 100}); got != "" {
		t.Errorf("nothing to drain: %q", got)
	}
}

// lines is a stream that somebody waits for.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// wait answers the text once it has a word.
func (l *lines) wait(t *testing.T, word string) string {
	t.Helper()
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, word) {
			return text
		}
		select {
		case <-l.more:
		case <-t.Context().Done():
			t.Fatalf("never said %q: %s", word, text)
		}
	}
}

// The daemon drains what is above a limit, shows it, and ends when it is told to.
func TestDaemon(t *testing.T) {
	w := onDisk(t, 3)
	want := w.Visible("main")
	uri, now := sqlite(t, w)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	address := freeport.Address(t)
	log := &lines{more: make(chan struct{}, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- drainer{now: time.Now}.run(ctx, []string{
			"db.t", "--catalog-uri", uri, "--daemon", "--every", "50ms", "--serve", address, "--index-dir", t.TempDir(),
			"--max-equality-deletes", "1", "--merge-positions", "2",
		}, command.Streams{Out: io.Discard, Err: log})
	}()
	log.wait(t, "msg=drained")
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !regexp.MustCompile(`frazil_table_drain_commits_total\{table="db.t",branch="main"\} [1-9]`).Match(body) ||
		!strings.Contains(string(body), `frazil_table_drain_last_success_seconds`) {
		t.Errorf("%s, %v", body, err)
	}
	if resp, err := http.Get("http://" + address + "/readyz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("not ready: %v", err)
	} else {
		resp.Body.Close()
	}
	// One delete is below the limit of one.
	w.Adopt(now())
	if n := w.EqualityDeletes("main"); n != 0 {
		t.Fatalf("%d equality deletes left", n)
	}
	draintest.Same(t, "after the drain", w.Visible("main"), want)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

func TestUsageOfTheDaemon(t *testing.T) {
	for _, args := range [][]string{
		{"--daemon", "--dry-run"}, {"--daemon", "--every", "0s"}, {"--serve", "127.0.0.1:0"}, {"--max-probe-units", "1G"},
		{"--daemon", "--max-probe-units", "x"}, {"--daemon", "--max-delete-keys", "0"}, {"--merge-positions", "1"},
		{"--from-branch", "a", "--to-branch", "a"}, {"--to-branch", "main"},
	} {
		if _, _, err := drainIt(t, append([]string{"a.b", "--catalog-uri", "http://127.0.0.1:1"}, args...)...); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestFromStagingToMain(t *testing.T) {
	w := onDisk(t, 2)
	want := w.Visible("main")
	w.Branch("staging", "main")
	w.Write("main", "delete", nil) // main has a snapshot of its own now
	w.Dump()
	uri, now := sqlite(t, w)
	if _, _, err := drainIt(t, "db.t", "--catalog-uri", uri, "--from-branch", "staging", "--to-branch", "main"); err == nil || !strings.Contains(err.Error(), "not known to be in the history") {
		t.Errorf("a target with a snapshot of its own: %v", err)
	}
	w.Adopt(now())
	draintest.Same(t, "staging", w.Visible("staging"), want)
	if w.EqualityDeletes("staging") != 0 || w.EqualityDeletes("main") == 0 {
		t.Error("staging is to be drained, and main left alone")
	}
	w.Branch("main", "staging")
	w.Branch("staging", "main")
	w.Write("staging", "overwrite", []draintest.File{w.Data([]draintest.Row{{draintest.ID: int64(7)}}, draintest.Options{}), w.Equality([]int{draintest.ID}, []draintest.Row{{draintest.ID: int64(7)}}, draintest.Options{})})
	w.Dump()
	uri, now = sqlite(t, w)
	want = w.Visible("staging")
	out, _, err := drainIt(t, "db.t", "--catalog-uri", uri, "--from-branch", "staging", "--to-branch", "main")
	if err != nil || !strings.Contains(out, "the target was moved on to snapshot") {
		t.Fatalf("%s, %v", out, err)
	}
	w.Adopt(now())
	draintest.Same(t, "main", w.Visible("main"), want)
	if w.EqualityDeletes("main") != 0 {
		t.Error("main has equality deletes")
	}
}

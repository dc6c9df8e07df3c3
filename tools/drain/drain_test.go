package drain

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/tools/command"
)

func drainIt(t *testing.T, args ...string) (string, string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := drainer{now: time.Now}.run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return out.String(), errs.String(), err
}

// table makes a random table with equality deletes on the disk.
func onDisk(t *testing.T, version int) *draintest.World {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := draintest.NewAt(t, version, "file://"+filepath.Join(t.TempDir(), "db", "t"))
	x := &draintest.Writer{R: rand.New(rand.NewPCG(seed, 5)), W: w, Branch: "main"}
	for { // until there is something to do
		x.Step()
		p, err := drain.Plan(t.Context(), w, drain.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if p.EqualityDeleteFiles >= 5 && p.DataFiles >= 3 {
			break
		}
	}
	w.Dump()
	return w
}

// sqlite makes a catalog of the world and answers its URI and the location of the metadata in it.
func sqlite(t *testing.T, w *draintest.World) (string, func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	_, at := w.Metadata()
	for _, statement := range []string{
		`CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
			metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))`,
		`INSERT INTO iceberg_tables VALUES ('default', 'db', 't', '` + at + `', NULL, 'TABLE')`,
		`INSERT INTO iceberg_tables VALUES ('default', 'db', 'other', 'file:///nowhere', NULL, 'TABLE')`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return "sqlite:///" + path, func() string {
		var now, before sql.NullString
		if err := db.QueryRowContext(t.Context(), `SELECT metadata_location, previous_metadata_location FROM iceberg_tables WHERE table_name = 't'`).Scan(&now, &before); err != nil {
			t.Fatal(err)
		}
		return now.String
	}
}

func TestDrainsATableOfAnSQLCatalog(t *testing.T) {
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			w := onDisk(t, version)
			uri, now := sqlite(t, w)
			want, deletes, before := w.Visible("main"), w.EqualityDeletes("main"), now()

			out, _, err := drainIt(t, "db.t", "--catalog-uri", uri, "--dry-run", "--format", "json")
			if err != nil {
				t.Fatal(err)
			}
			var plan Planned
			if err := json.Unmarshal([]byte(out), &plan); err != nil {
				t.Fatal(err)
			}
			if int(plan.EqualityDeleteFiles) != deletes || now() != before || plan.Batches != 1 {
				t.Fatalf("plan %s", out)
			}
			out, _, err = drainIt(t, "db.t", "--catalog-uri", uri, "--format", "json")
			if err != nil {
				t.Fatal(err)
			}
			var r Result
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			if int(r.EqualityDeleteFiles) != deletes || len(r.Snapshots) != 1 || r.ProbeUnits != plan.ProbeUnits || r.ProbeUnitsPruned != plan.ProbeUnitsPruned || r.DataFilesScanned > plan.DataFiles {
				t.Fatalf("planned %+v, did %s", plan.Forecast, out)
			}
			w.Adopt(now())
			draintest.Same(t, "after the drain", w.Visible("main"), want)
			if n := w.EqualityDeletes("main"); n != 0 {
				t.Fatalf("%d equality deletes left", n)
			}
			if out, _, err = drainIt(t, "db.t", "--catalog-uri", uri); err != nil || !strings.Contains(out, "nothing to drain") {
				t.Fatalf("once more: %s, %v", out, err)
			}
		})
	}
}

func TestTextOfPlanAndResult(t *testing.T) {
	w := onDisk(t, 3)
	uri, now := sqlite(t, w)
	out, _, err := drainIt(t, "db.t", "--catalog-uri", uri, "--dry-run")
	if err != nil || !strings.Contains(out, "deletion vectors, in one commit") || !strings.Contains(out, "probe units") {
		t.Fatalf("%s, %v", out, err)
	}
	_, at := w.Metadata()
	if alone, _, err := drainIt(t, "--metadata", at, "--dry-run"); err != nil || !strings.HasSuffix(alone, out[strings.Index(out, "\n"):]) {
		t.Fatalf("%s, %v", alone, err)
	}
	index := t.TempDir()
	out, _, err = drainIt(t, "db.t", "--catalog-uri", uri, "--memory", "2KiB", "--index-dir", index)
	if err != nil || !strings.Contains(out, "equality delete files with") || !strings.Contains(out, "read into it") {
		t.Fatalf("%s, %v", out, err)
	}
	want := w.Visible("main")
	w.Adopt(now())
	draintest.Same(t, "after the drain", w.Visible("main"), want)
}

// restCatalog is a REST catalog of one table that does with a commit what the API says, and nothing else.
type restCatalog struct {
	mu   sync.Mutex
	tb   testing.TB
	meta []byte
	at   string
	n    int
	// before is called before a commit is looked at.
	before func()
	// fail answers a status instead of the truth, after the commit was applied; 0 = the truth.
	fail int
}

func (c *restCatalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/v1/config":
		io.WriteString(w, `{"defaults":{},"overrides":{"prefix":"p"}}`)
	case r.URL.Path == "/v1/p/namespaces/db/tables/t" && r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"metadata-location":%q,"metadata":%s}`, c.at, c.meta)
	case r.URL.Path == "/v1/p/namespaces/db/tables/t" && r.Method == http.MethodPost:
		if c.before != nil {
			c.before()
		}
		status, text := c.commit(r.Body)
		if c.fail != 0 {
			status, text = c.fail, "the answer was lost"
			c.fail = 0
		}
		w.WriteHeader(status)
		if status != http.StatusOK {
			fmt.Fprintf(w, `{"error":{"message":%q,"code":%d}}`, text, status)
			return
		}
		fmt.Fprintf(w, `{"metadata-location":%q,"metadata":%s}`, c.at, c.meta)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

type commitRequest struct {
	Requirements []struct {
		Type       string `json:"type"`
		UUID       string `json:"uuid"`
		Ref        string `json:"ref"`
		SnapshotID int64  `json:"snapshot-id"`
	} `json:"requirements"`
	Updates []json.RawMessage `json:"updates"`
}

func (c *restCatalog) commit(body io.Reader) (int, string) {
	var req commitRequest
	if err := json.NewDecoder(body).Decode(&req); err != nil {
		return http.StatusBadRequest, err.Error()
	}
	d := json.NewDecoder(bytes.NewReader(c.meta))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		c.tb.Error(err)
	}
	refs := m["refs"].(map[string]any)
	for _, r := range req.Requirements {
		switch r.Type {
		case "assert-table-uuid":
			if r.UUID != m["table-uuid"] {
				return http.StatusConflict, "uuid"
			}
		case "assert-ref-snapshot-id":
			ref, _ := refs[r.Ref].(map[string]any)
			if fmt.Sprint(ref["snapshot-id"]) != fmt.Sprint(r.SnapshotID) {
				return http.StatusConflict, "the branch has moved"
			}
		default:
			return http.StatusBadRequest, "unknown requirement " + r.Type
		}
	}
	if len(req.Requirements) != 2 {
		return http.StatusBadRequest, "requirements are missing"
	}
	for _, u := range req.Updates {
		d := json.NewDecoder(bytes.NewReader(u))
		d.UseNumber()
		var one map[string]any
		if err := d.Decode(&one); err != nil {
			return http.StatusBadRequest, err.Error()
		}
		switch one["action"] {
		case "add-snapshot":
			s := one["snapshot"].(map[string]any)
			seq, _ := s["sequence-number"].(json.Number).Int64()
			last, _ := m["last-sequence-number"].(json.Number).Int64()
			if seq <= last {
				return http.StatusBadRequest, "Cannot add snapshot with sequence number older than last sequence number"
			}
			if v, ok := m["next-row-id"].(json.Number); ok {
				if s["first-row-id"].(json.Number) < v {
					return http.StatusBadRequest, "first row id is behind"
				}
				first, _ := s["first-row-id"].(json.Number).Int64()
				added, _ := s["added-rows"].(json.Number).Int64()
				m["next-row-id"] = first + added
			}
			m["snapshots"], m["last-sequence-number"], m["last-updated-ms"] = append(m["snapshots"].([]any), s), seq, s["timestamp-ms"]
		case "set-snapshot-ref":
			name := one["ref-name"].(string)
			delete(one, "action")
			delete(one, "ref-name")
			refs[name] = one
			if name == "main" {
				m["current-snapshot-id"] = one["snapshot-id"]
			}
		default:
			return http.StatusBadRequest, fmt.Sprint("unknown action ", one["action"])
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		c.tb.Error(err)
	}
	c.n++
	c.meta, c.at = text, fmt.Sprintf("%s-%d", c.at, c.n)
	return http.StatusOK, ""
}

func TestDrainsATableOfARESTCatalog(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fail  int
		steal bool
	}{{name: "plain"}, {name: "the answer is lost", fail: 504}, {name: "another writer is faster", steal: true}} {
		t.Run(tc.name, func(t *testing.T) {
			w := onDisk(t, 3)
			want := w.Visible("main")
			c := &restCatalog{tb: t, fail: tc.fail}
			c.meta, c.at = w.Metadata()
			if tc.steal {
				c.before = func() {
					c.before = nil
					w.Write("main", "append", []draintest.File{w.Data([]draintest.Row{{draintest.ID: int64(1)}}, draintest.Options{})})
					w.Dump()
					want = w.Visible("main")
					c.meta, c.at = w.Metadata()
				}
			}
			server := httptest.NewServer(c)
			defer server.Close()
			out, logged, err := drainIt(t, "db.t", "--catalog-uri", server.URL, "--format", "json")
			if err != nil {
				t.Fatal(err)
			}
			var r Result
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			if (r.Conflicts == 1) != tc.steal || tc.steal != strings.Contains(logged, "lost to another writer") {
				t.Fatalf("%s\n%s", out, logged)
			}
			at := w.Table().Location + "/metadata/adopted.metadata.json"
			w.Lake.Put(at, c.meta)
			w.Adopt(at)
			draintest.Same(t, "after the drain", w.Visible("main"), want)
			if n := w.EqualityDeletes("main"); n != 0 {
				t.Fatalf("%d equality deletes left", n)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		nil, {"a.b", "c.d", "--catalog-uri", "http://x"}, {"a.b"}, {"--metadata", "x"}, {"a.b", "--catalog-uri", "ftp://x"},
		{"a.b", "--catalog-uri", "http://x", "--format", "xml"}, {"a.b", "--catalog-uri", "http://x", "--memory", "1"},
		{"a.b", "--catalog-uri", "http://x", "--memory", "x"}, {"a.b", "--catalog-uri", "http://x", "--workers", "-1"},
		{"a.b", "--catalog-uri", "http://x", "--no-index", "--index-dir", "x"},
	} {
		if _, _, err := drainIt(t, args...); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	p := newProgress(&out, func() time.Time { return at }, false)
	for i := range 4 {
		at = at.Add(10 * time.Second)
		p.step(drain.Progress{Batch: 1, Batches: 2, Stage: "scan", Done: int64(i) * 1000, Total: 6000})
	}
	want := []string{
		"batch 1 of 2: scan   [###.................]  17%  1k of 6k rows, 100/s, 50s left",
		"batch 1 of 2: scan   [##########..........]  50%  3k of 6k rows, 100/s, 30s left", "",
	}
	if got := strings.Split(out.String(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

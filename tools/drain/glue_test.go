package drain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/lint"
)

// glue is a Glue Data Catalog with one table.
type glue struct {
	t       *testing.T
	at      string
	version int
	before  func() // called before an update is looked at
	updates int
}

func (g *glue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		DatabaseName, Name, VersionID string
		SkipArchive                   bool
		TableInput                    struct {
			Name, TableType, Owner string
			Parameters             map[string]string
			CreateTime             json.RawMessage
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		g.t.Error(err)
	}
	switch r.Header.Get("X-Amz-Target") {
	case "AWSGlue.GetTable":
		fmt.Fprintf(w, `{"Table":{"Name":"t","DatabaseName":"db","CreateTime":1.7e9,"Owner":"me","TableType":"EXTERNAL_TABLE","VersionId":"%d",
			"StorageDescriptor":{"Columns":[{"Name":"id","Type":"int"}]},"Parameters":{"table_type":"ICEBERG","mine":"kept","metadata_location":%q}}}`, g.version, g.at)
	case "AWSGlue.UpdateTable":
		if g.before != nil {
			g.before()
		}
		in := body.TableInput
		if in.Name != "t" || in.TableType != "EXTERNAL_TABLE" || in.Owner != "me" || in.Parameters["mine"] != "kept" || in.CreateTime != nil || !body.SkipArchive {
			g.t.Errorf("table input %+v", in)
		}
		if body.VersionID != strconv.Itoa(g.version) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"ConcurrentModificationException","Message":"Update table failed due to concurrent modifications."}`)
			return
		}
		if in.Parameters["previous_metadata_location"] != g.at {
			g.t.Errorf("previous location %s", in.Parameters["previous_metadata_location"])
		}
		g.at = in.Parameters["metadata_location"]
		g.version++
		g.updates++
		fmt.Fprint(w, `{}`)
	default:
		g.t.Errorf("request %v", r.Header)
	}
}

func TestDrainsATableOfGlue(t *testing.T) {
	w := onDisk(t, 2)
	want := w.Visible("main")
	g := &glue{t: t, version: 7}
	_, g.at = w.Metadata()
	g.before = func() { // another writer
		g.before = nil
		w.Write("main", "append", []draintest.File{w.Data([]draintest.Row{{draintest.ID: int64(1)}}, draintest.Options{})})
		w.Dump()
		want = w.Visible("main")
		_, g.at = w.Metadata()
		g.version++
	}
	s := httptest.NewServer(g)
	defer s.Close()
	out, _, err := drainIt(t, "db.t", "--catalog-type", "glue", "--prop", "glue.endpoint="+s.URL, "--prop", "glue.region=eu-west-1",
		"--prop", "glue.access-key-id=AKID", "--prop", "glue.secret-access-key=x")
	if err != nil || !strings.Contains(out, "1 commits were lost to other writers") || g.updates != 1 {
		t.Fatalf("%s, %v", out, err)
	}
	w.Adopt(g.at)
	draintest.Same(t, "after the drain", w.Visible("main"), want)
	if n := w.EqualityDeletes("main"); n != 0 {
		t.Fatalf("%d equality deletes left", n)
	}
}

// What drain leaves behind is what frazil lint wants, for readers of every kind.
func TestLintFindsNothingAfterwards(t *testing.T) {
	for _, version := range []int{2, 3} {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		w := draintest.NewAt(t, version, "file://"+filepath.Join(t.TempDir(), "db", "t"))
		x := &draintest.Writer{R: rand.New(rand.NewPCG(seed, 6)), W: w, Branch: "main", Kinds: []string{"upsert", "append", "spec", "compact"}, ParquetOnly: true}
		for range 12 {
			x.Step()
		}
		w.Dump()
		uri, _ := sqlite(t, w)
		for range 2 {
			if _, _, err := drainIt(t, "db.t", "--catalog-uri", uri, "--memory", "2KiB"); err != nil {
				t.Fatal(err)
			}
		}
		readers := "spark,trino,pyiceberg,duckdb,snowflake"
		var out, errs strings.Builder
		err := lint.Command().Run(t.Context(), []string{"db.t", "--catalog-uri", uri, "--readers", readers, "--open-deletes", "--strict", "--allow-preview"}, command.Streams{Out: &out, Err: &errs})
		if err != nil {
			t.Errorf("version %d: %v\n%s%s", version, err, out.String(), errs.String())
		}
	}
}

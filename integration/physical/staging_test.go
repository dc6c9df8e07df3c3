package physical

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// TestFromStagingToMain: the writer knows a staging branch and readers know main, which begins with the first drain and
// never has an equality delete. PyIceberg refuses those, so that it reads main says that there is none.
func TestFromStagingToMain(t *testing.T) {
	w := newWorld(t)
	flags := append([]string{"--from-branch", "staging", "--to-branch", "main", "--format", "json"}, w.indexFlags()...)
	tables := []map[string]any{
		{"table": "staged_v2", "version": 2, "partitioned": true, "rows": 20, "space": 60, "commits": 5, "branch": "staging", "seed": *seed},
		{"table": "staged_v3", "version": 3, "partitioned": false, "rows": 20, "space": 60, "commits": 5, "branch": "staging", "seed": *seed + 1},
	}
	var names []string
	for _, table := range tables {
		names = append(names, table["table"].(string))
	}
	drain := func(name string) (r struct {
		Forwarded           int64
		EqualityDeleteFiles int64 `json:"equality_delete_files"`
	}, errs string, code int) {
		t.Helper()
		out, errs, code := w.frazil(t, append([]string{"drain", namespace + "." + name}, flags...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("drain %s: %v\n%s%s", name, err, out, errs)
		}
		return r, errs, code
	}
	live := map[string]liveRows{}
	for round := range 3 {
		lines, err := w.upsert(t.Context(), tables...)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range lines {
			live[l.Table] = l
			tables[i]["live"], tables[i]["seed"] = l.Live, *seed+int64(10*round+i+10)
		}
		for _, name := range names {
			if r, errs, code := drain(name); code != 0 || r.EqualityDeleteFiles == 0 || r.Forwarded != w.metadata(t, name).Current {
				t.Errorf("%s, round %d: exit code %d, %+v, main is at %d\n%s", name, round, code, r, w.metadata(t, name).Current, errs)
			}
		}
		for name, a := range w.ask(t, harness.PyIceberg, all(names)) {
			compare(t, fmt.Sprintf("%s, round %d", name, round), live[name].rows(), a)
		}
	}
	// Whoever commits to main as well is told so: what main has is not thrown away.
	for i, table := range tables {
		table = maps.Clone(table)
		delete(table, "branch")
		tables[i] = table
	}
	if _, err := w.upsert(t.Context(), tables...); err != nil {
		t.Fatal(err)
	}
	for i, table := range tables {
		table["branch"] = "staging"
		before := w.metadata(t, names[i]).Current
		if _, err := w.upsert(t.Context(), table); err != nil {
			t.Fatal(err)
		}
		r, errs, code := drain(names[i])
		if code != 1 || r.EqualityDeleteFiles == 0 || r.Forwarded != 0 || !strings.Contains(errs, "have to be made on branch staging") {
			t.Errorf("%s: main went its own way: exit code %d, %+v\n%s", names[i], code, r, errs)
		}
		if now := w.metadata(t, names[i]).Current; now != before {
			t.Errorf("%s: main was moved from %d to %d", names[i], before, now)
		}
	}
}

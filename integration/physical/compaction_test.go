package physical

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// TestTheIndexReadsACompactionOnce counts what drains read from the S3 server after Spark has compacted a whole table:
// the index takes the files that were added and no other, where an index that is made anew reads the table.
func TestTheIndexReadsACompactionOnce(t *testing.T) {
	w := newWorld(t)
	g := newGate(t, w.lake)
	const commits = 8
	var names []string
	live := map[string]liveRows{}
	// Ids of all files are interleaved, so that no bounds tell them apart; odd ones are in no file that is compacted.
	upsert := func(odd, n, rows int) {
		t.Helper()
		var tables []map[string]any
		for i, name := range names {
			table := map[string]any{"table": name, "version": 2 + i/2, "partitioned": false, "rows": rows, "space": 20000, "commits": n, "odd": odd, "seed": *seed + int64(i/2)}
			if l, ok := live[name]; ok {
				table["live"], table["seed"] = l.Live, *seed+int64(i/2+10*len(l.Live))
			}
			tables = append(tables, table)
		}
		lines, err := w.upsert(t.Context(), tables...)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			live[l.Table] = l
		}
	}
	for _, version := range []string{"v2", "v3"} { // twins: the same rows, the same files
		names = append(names, "kept_"+version, "anew_"+version)
	}
	drain := func(name string, flags []string) (r drainReport, read map[string]int64, bytes int64) {
		t.Helper()
		g.take()
		r = w.drainThrough(t, g, name, flags...)
		_, all := g.take()
		read = map[string]int64{}
		for path, n := range all {
			if kindOfObject(path) == readData {
				read[path], bytes = n, bytes+n
			}
		}
		return r, read, bytes
	}
	upsert(0, commits, 2000)
	first := map[string]map[string]int64{}
	for _, name := range names {
		r, read, _ := drain(name, w.indexFlags())
		// The newest data file is younger than all deletes.
		if r.DataFilesIndexed != commits-1 {
			t.Errorf("%s, first: %+v", name, r)
		}
		first[name] = read
	}
	var compactions []harness.Query
	for _, name := range names {
		compactions = append(compactions, harness.Query{ID: name, SQL: fmt.Sprintf("CALL %s.system.rewrite_data_files(table => '%s.%s', options => map('rewrite-all', 'true'))", cat, namespace, name)})
	}
	for name, a := range w.ask(t, harness.Spark, compactions) {
		if a.Error != "" || fmt.Sprint(a.Rows[0][0]) != fmt.Sprint(commits) {
			t.Fatalf("compaction of %s: %v %s", name, a.Rows, a.Error)
		}
	}
	upsert(1, 1, 200)
	for _, name := range names {
		r, read, _ := drain(name, w.indexFlags())
		if r.DataFilesIndexed != 1 || r.DataFilesForgotten != commits-1 {
			t.Errorf("%s, after the compaction: %+v", name, r)
		}
		for path, n := range read {
			if first[name][path] > 0 {
				t.Errorf("%s: %d bytes were read of %s, which was there before", name, n, path)
			}
		}
	}
	upsert(1, 1, 200)
	for i := 0; i < len(names); i += 2 {
		kept, read, bytes := drain(names[i], w.indexFlags())
		anew, readAnew, bytesAnew := drain(names[i+1], []string{"--index-dir", filepath.Join(w.lake.Dir, "anew")})
		t.Logf("%s: %d objects, %d bytes; an index that is made anew: %d objects, %d bytes", names[i], len(read), bytes, len(readAnew), bytesAnew)
		// The equality delete, and the data of the commit before; anew the compacted data, too.
		if kept.DataFilesIndexed != 1 || len(read) != 2 || anew.DataFilesIndexed != 2 || len(readAnew) != 3 {
			t.Errorf("%s: %+v, %d objects; anew %+v, %d objects", names[i], kept, len(read), anew, len(readAnew))
		}
		if bytes*5 > bytesAnew {
			t.Errorf("%s: %d bytes, and %d with an index that is made anew", names[i], bytes, bytesAnew)
		}
	}
	for name, a := range w.ask(t, harness.PyIceberg, all(names)) {
		t.Run(strings.ReplaceAll(name, "_", "/"), func(t *testing.T) { compare(t, name, live[name].rows(), a) })
	}
}

package replicas

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/oracle"
)

// engines that read while replicas are killed, the dialects that they take, and whether a query costs them seconds.
var engines = []struct {
	harness.Engine
	dialects []string
	slow     bool
}{
	{harness.PyIceberg, []string{"v2", "v3"}, false},
	{harness.DuckDB, []string{"v2", "v3"}, false},
	{harness.ClickHouse, []string{"v2"}, false},
	{harness.Trino, []string{"v2", "v3"}, false},
	{harness.Spark, []string{"v2", "v3"}, true},
	{harness.Flink, []string{"v2", "v3"}, true},
}

// stage is a state of the table that was loaded, tagged, and went by.
type stage struct {
	tag      string
	snapshot int64
	rows     []string
}

// Every engine reads the present, snapshots and tags of a table while, in every query, a process of some service is
// killed at the moment when the engine asks for what that service makes.
func TestEnginesReadWhileReplicasAreKilled(t *testing.T) {
	harness.NeedFull(t, "six engines")
	in := newInstallation(t, 6, 4)
	f := newFold(t, 4, 11)
	_, err := kadm.NewClient(in.producer).CreateTopic(t.Context(), 4, 1, nil, topic)
	in.must(err)
	stages := make([]stage, 4)
	for i := range stages {
		f.produce(in.producer, 200)
		stages[i] = remember(t, in, f, fmt.Sprintf("stage_%d", i))
	}
	for _, e := range engines {
		t.Run(string(e.Engine), func(t *testing.T) {
			catalogs := map[string]harness.Catalog{}
			var queries []harness.Query
			for _, d := range e.dialects {
				catalogs[d] = harness.Catalog{URI: "http://" + in.rest.address(), Warehouse: d, S3: "http://" + in.s3.address()}
				queries = append(queries, questions(d, stages, e.slow)...)
			}
			s := newSaboteur(in)
			answers := harness.Ask(t, e.Engine, catalogs, queries)
			s.end(t)
			for _, q := range queries {
				judgeAnswer(t, answers[q.ID], stages[stageOf(q, stages)].rows)
			}
		})
	}
}

// remember tags what the table shows now.
func remember(t *testing.T, in *installation, f *fold, tag string) stage {
	t.Helper()
	judgeEnd(t, in, f)
	client := in.catalog("v2")
	tb, err := client.Load(t.Context(), table)
	in.must(err)
	in.must(client.Tag(t.Context(), table, tag, tb.Metadata.CurrentSnapshot))
	return stage{tag: tag, snapshot: tb.Metadata.CurrentSnapshot, rows: oracle.Live(f.logs, make([]int64, len(f.ends)), f.ends)}
}

// questions are the queries of one dialect: each state that was, by its snapshot and by its tag, and the present as rows
// and as a count. An engine that is slow is asked for one snapshot and one tag.
func questions(dialect string, stages []stage, slow bool) []harness.Query {
	var all []harness.Query
	ask := func(what string, q harness.Query) {
		q.ID, q.Catalog, q.Table = dialect+" "+what, dialect, harness.Namespace+"."+table
		all = append(all, q)
	}
	for i, s := range stages[:len(stages)-1] {
		if !slow || i == 0 {
			ask(fmt.Sprint("snapshot ", i), harness.Query{Snapshot: s.snapshot})
		}
		if !slow || i == 1 {
			ask(fmt.Sprint("tag ", i), harness.Query{Tag: s.tag})
		}
	}
	ask("now", harness.Query{})
	ask("count", harness.Query{Count: true})
	return all
}

// stageOf is the state that a query asks for.
func stageOf(q harness.Query, stages []stage) int {
	at := slices.IndexFunc(stages, func(s stage) bool { return s.tag == q.Tag || s.snapshot == q.Snapshot })
	if at < 0 {
		at = len(stages) - 1
	}
	return at
}

func judgeAnswer(t *testing.T, got harness.Answer, want []string) {
	t.Helper()
	switch {
	case got.Error != "":
		t.Errorf("%s: %s", got.ID, got.Error)
		return
	case got.Count != nil:
		if *got.Count != int64(len(want)) {
			t.Errorf("%s: %d, want %d", got.ID, *got.Count, len(want))
		}
		return
	}
	var rows []string
	for _, values := range got.Rows {
		row := map[string]any{}
		for i, column := range got.Columns {
			row[column] = values[i]
		}
		var p, off int64
		if _, err := fmt.Sscan(fmt.Sprint(row["kafka_partition"], " ", row["kafka_offset"]), &p, &off); err != nil {
			t.Fatalf("%s: %v: %v", got.ID, row, err)
		}
		if at, _ := row["kafka_timestamp"].(string); !strings.HasPrefix(at, "tz:") {
			t.Fatalf("%s: kafka_timestamp %v", got.ID, row["kafka_timestamp"])
		}
		rows = append(rows, fmt.Sprintf("%d/%d id=%v text=%v n=%v row=%d", p, off, row["id"], row["text"], row["n"], p<<44|off))
	}
	slices.Sort(rows)
	if !slices.Equal(rows, want) {
		t.Errorf("%s:\n got %s\nwant %s", got.ID, strings.Join(rows, "\n     "), strings.Join(want, "\n     "))
	}
}

// saboteur kills one process in every query: at its first request for something that the process's service makes. The
// process is started again while the query goes on, and the next query may begin when it serves.
type saboteur struct {
	in *installation

	mu       sync.Mutex
	victims  []*process // the next one first
	armed    bool
	repaired chan struct{} // closed when the last victim serves again
	kills    map[string]int
}

func newSaboteur(in *installation) *saboteur {
	s := &saboteur{in: in, repaired: make(chan struct{}), kills: map[string]int{}}
	close(s.repaired)
	for number := range replicasEach {
		for _, service := range services {
			s.victims = append(s.victims, in.of(service)[number])
		}
	}
	load, get := s.load, s.get
	in.rest.sees.Store(&load)
	in.s3.sees.Store(&get)
	return s
}

// end stops it and checks that it did anything.
func (s *saboteur) end(t *testing.T) {
	t.Helper()
	s.in.rest.sees.Store(nil)
	s.in.s3.sees.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	<-s.repaired
	for _, service := range services {
		if s.kills[service] == 0 {
			t.Errorf("no process of %s was killed: the test shows less than it should", service)
		}
	}
	t.Logf("killed %v", s.kills)
}

// load sees a request to the catalog. One for a table begins a query.
func (s *saboteur) load(line string) {
	if !strings.HasPrefix(line, "GET ") || !strings.Contains(line, "/tables/") {
		return
	}
	s.mu.Lock()
	repaired := s.repaired
	s.mu.Unlock()
	<-repaired
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = true
}

// makes says by a part of the path which objects come from a service.
var makes = map[string]string{"dedup": "/deletes/", "materializer": "/data/", "catalog": "/metadata/", "edge": "/data/"}

// get sees a request for an object.
func (s *saboteur) get(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	victim := s.victims[0]
	if !s.armed || !strings.HasPrefix(line, "GET ") || !strings.Contains(line, makes[victim.service]) {
		return
	}
	s.armed = false
	s.victims = append(s.victims[1:], victim)
	s.kills[victim.service]++
	victim.kill()
	repaired := make(chan struct{})
	s.repaired = repaired
	go func() {
		defer close(repaired)
		victim.start()
		victim.awaitReady()
	}()
}

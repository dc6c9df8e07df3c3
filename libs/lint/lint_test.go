package lint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/libs/lint"
	"github.com/frazil-io/frazil/libs/readers"
)

func schema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "day", Type: iceberg.PrimitiveTypes.Date},
		iceberg.NestedField{ID: 3, Name: "nest", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 4, Name: "x", Type: iceberg.PrimitiveTypes.Int32},
		}}},
	)
}

func table(t *testing.T, version int) *scantest.Table {
	return scantest.New(t, version, schema(),
		iceberg.NewPartitionSpecID(0),
		iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "day", Transform: iceberg.IdentityTransform{}}))
}

func config(t *testing.T, names ...string) lint.Config {
	t.Helper()
	m, err := readers.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	cfg := lint.Config{MaxFiles: 3}
	for _, n := range names {
		r, err := m.Reader(n)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Readers = append(cfg.Readers, r)
	}
	return cfg
}

func run(t *testing.T, tb *scantest.Table, cfg lint.Config) ([]lint.Finding, *lint.Deletes) {
	t.Helper()
	meta, err := icebergscan.ParseTable(tb.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	head, err := meta.Head("main")
	if err != nil {
		t.Fatal(err)
	}
	scan, err := icebergscan.Open(t.Context(), tb.Lake, meta, head)
	if err != nil {
		t.Fatal(err)
	}
	found, kept, err := lint.Run(t.Context(), meta, head, scan, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return found, kept
}

// brief is one line for each finding.
func brief(found []lint.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, fmt.Sprintf("%s %s %s %v %d", f.Severity, f.Check, strings.Join(f.Readers, ","), f.Files, f.Count))
	}
	return out
}

func expect(t *testing.T, found []lint.Finding, want ...string) {
	t.Helper()
	if got := brief(found); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func data(path string) scantest.File { return scantest.File{Path: path, Records: 100} }

func equality(path string, ids ...int) scantest.File {
	return scantest.File{Path: path, Records: 5, Content: iceberg.EntryContentEqDeletes, EqualityIDs: ids}
}

func positions(path, target string) scantest.File {
	return scantest.File{Path: path, Records: 5, Content: iceberg.EntryContentPosDeletes, Reference: target, Lower: bound(target), Upper: bound(target)}
}

func bound(path string) map[int][]byte {
	if path == "" {
		return nil
	}
	return map[int][]byte{int(icebergscan.PathFieldID): []byte(path)}
}

func vector(path, target string) scantest.File {
	return scantest.File{Path: path, Records: 5, Content: iceberg.EntryContentPosDeletes, Format: iceberg.PuffinFile, Reference: target, Offset: 4, Bytes: 50}
}

func commit(tb *scantest.Table, files ...scantest.File) { tb.Commit("overwrite", nil, files) }

func TestACleanTableHasNoFindings(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("s3://l/a"))
	commit(tb, positions("s3://l/p", "s3://l/a"))
	found, _ := run(t, tb, config(t, "spark", "clickhouse", "polars", "snowflake"))
	expect(t, found)
}

func TestOneEqualityDeleteIsEnough(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("a"))
	for i := range 5 {
		commit(tb, equality(fmt.Sprintf("e%d", i), 1))
	}
	found, _ := run(t, tb, config(t, "spark", "snowflake", "starrocks", "bodo"))
	expect(t, found,
		"error unread-equality bodo [e0 e1 e2] 5",
		"error unread-equality snowflake [e0 e1 e2] 5",
		"error unread-equality starrocks [e0 e1 e2] 5",
	)
	if !strings.Contains(found[0].Text, "ignores equality deletes without an error") || !strings.Contains(found[2].Text, "not verified") {
		t.Errorf("got %+v", found)
	}
}

func TestVectorsUnread(t *testing.T) {
	tb := table(t, 3)
	commit(tb, data("a"))
	commit(tb, vector("v", "a"))
	found, _ := run(t, tb, config(t, "clickhouse", "spark", "athena"))
	expect(t, found,
		"error format-version athena [] 0",
		"error unread-deletion-vector athena [v] 1",
		"error unread-deletion-vector clickhouse [v] 1",
	)
}

// Dremio skips global equality deletes and reads the others: the table decides.
func TestPartialSupportDependsOnTheTable(t *testing.T) {
	day := map[int]any{1000: iceberg.Date(1)}
	in := func(f scantest.File) scantest.File { f.Spec, f.Partition = 1, day; return f }
	tb := table(t, 2)
	commit(tb, in(data("a")))
	commit(tb, in(equality("e", 1)))
	found, _ := run(t, tb, config(t, "dremio", "impala"))
	expect(t, found)
	commit(tb, equality("global", 1))
	found, _ = run(t, tb, config(t, "dremio", "impala"))
	expect(t, found,
		"error need-one-spec impala [] 0",
		"error unread-equality dremio [e global] 2",
	)
}

func TestSeveralKeysForRisingWave(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("a"))
	commit(tb, equality("e", 1), equality("f", 2), equality("g", 2, 1), equality("h", 1, 2))
	found, _ := run(t, tb, config(t, "risingwave"))
	expect(t, found, "error need-one-key risingwave [] 0")
	if !strings.Contains(found[0].Text, "there are 3") {
		t.Errorf("got %s", found[0].Text)
	}
}

func TestPathsThatDoNotMatchAsStrings(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("s3://l/db/a%20b.parquet"), data("s3://l/db//c"), data("s3://l/db/d"))
	commit(tb,
		positions("p1", "s3a://l/db/a%20b.parquet"), positions("p2", "s3://l/db/c"), positions("p3", "s3://l/db/a b.parquet"),
		positions("ok", "s3://l/db/d"), positions("gone", "s3://l/db/gone"))
	found, _ := run(t, tb, config(t))
	slices.Sort(found[0].Files)
	expect(t, found, "error path-mismatch  [p1 p2 p3] 3", "note dangling-position-delete  [gone] 1")
}

func TestDeletesInAnotherPartitionThanTheirData(t *testing.T) {
	tb := table(t, 2)
	a, b := data("a"), data("b")
	a.Spec, a.Partition = 1, map[int]any{1000: iceberg.Date(1)}
	b.Spec, b.Partition = 1, map[int]any{1000: nil}
	commit(tb, a, b)
	other, spec, ok := positions("other", "a"), positions("spec", "a"), positions("ok", "b")
	other.Spec, other.Partition = 1, map[int]any{1000: iceberg.Date(2)}
	ok.Spec, ok.Partition = 1, map[int]any{1000: nil}
	commit(tb, other, spec, ok)
	found, _ := run(t, tb, config(t))
	slices.Sort(found[0].Files)
	expect(t, found, "error partition-mismatch  [other spec] 2")
}

func TestSeveralVectorsForAFile(t *testing.T) {
	tb := table(t, 3)
	commit(tb, data("a"), data("b"))
	commit(tb, vector("v1", "a"), vector("w", "b"))
	commit(tb, vector("v2", "a"))
	found, _ := run(t, tb, config(t))
	expect(t, found, "error several-vectors  [v1 v2] 2")
}

func TestPositionsFromBeforeTheUpgrade(t *testing.T) {
	tb := table(t, 3)
	commit(tb, data("a"), data("b"))
	commit(tb, positions("pa", "a"), positions("pb", "b"))
	commit(tb, vector("v", "a"))
	found, _ := run(t, tb, config(t))
	expect(t, found, "warning positions-beside-vector  [pa] 1", "note positions-in-v3  [pa pb] 2")
}

func TestVectorsThatCannotBe(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("a"))
	half := vector("half", "a")
	half.Bytes = 0
	commit(tb, half)
	found, _ := run(t, tb, config(t))
	expect(t, found, "error vector-before-v3  [half] 1", "error vector-incomplete  [half] 1")
}

func TestSequenceNumbers(t *testing.T) {
	tb := table(t, 3)
	commit(tb, scantest.File{Path: "nothing", Records: 1})
	commit(tb, data("a"))
	old, oldVector := positions("old", "a"), vector("oldv", "a")
	old.Seq, oldVector.Seq = 1, 1
	commit(tb, old, oldVector)
	found, _ := run(t, tb, config(t, "duckdb"))
	expect(t, found,
		"error positions-older-than-data duckdb [old] 1",
		"error vector-older-than-data  [oldv] 1",
		"warning positions-beside-vector  [old] 1",
		"note positions-in-v3  [old] 1",
	)
	found, _ = run(t, tb, config(t))
	if !slices.Contains(brief(found), "warning positions-older-than-data  [old] 1") {
		t.Errorf("got %q", brief(found))
	}
}

func TestPathBounds(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("s3://lake/db/t/data/a.parquet"), data("s3://lake/db/t/data/b.parquet"), data("s3://lake/db/t/data/c.parquet"))
	missing, cut, shared := positions("missing", ""), positions("cut", ""), positions("shared", "")
	cut.Lower, cut.Upper = bound("s3://lake/db/t/d"), bound("s3://lake/db/t/e")
	shared.Lower, shared.Upper = bound("s3://lake/db/t/data/a.parquet"), bound("s3://lake/db/t/data/b.parquet")
	commit(tb, missing, cut, shared)
	found, _ := run(t, tb, config(t, "polars"))
	expect(t, found,
		"warning need-path-bounds polars [missing cut shared] 3",
		"warning no-path-bounds  [missing] 1",
		"warning shared-position-delete  [missing cut shared] 3",
		"warning truncated-path-bounds  [cut] 1",
	)
}

// In version 3, because iceberg-go writes no references in version 2.
func TestReferenceAgainstBounds(t *testing.T) {
	tb := table(t, 3)
	commit(tb, data("a"), data("b"))
	p := positions("p", "a")
	p.Lower, p.Upper = bound("b"), bound("b")
	referenced := positions("referenced", "a") // names one file, and still Polars wants bounds
	referenced.Lower, referenced.Upper = nil, nil
	commit(tb, p, referenced)
	found, _ := run(t, tb, config(t, "polars"))
	expect(t, found,
		"error reference-against-bounds  [p] 1",
		"warning need-path-bounds polars [referenced] 1",
		"note positions-in-v3  [p referenced] 2",
	)
}

func TestSummariesThatLie(t *testing.T) {
	tb := table(t, 2)
	tb.Commit("append", nil, []scantest.File{data("a")})
	tb.Commit("delete", map[string]string{"total-records": "7", "total-position-deletes": "0"}, []scantest.File{positions("p", "a")})
	found, _ := run(t, tb, config(t, "doris"))
	expect(t, found,
		"error need-honest-summary doris [] 0",
		"warning summary-lies  [] 0",
		"warning summary-lies  [] 0",
	)
	if !strings.Contains(found[1].Text, "total-position-deletes = 0, the manifests say 5") {
		t.Errorf("got %s", found[1].Text)
	}
}

func TestZeroRecords(t *testing.T) {
	tb := table(t, 2)
	empty := data("empty")
	empty.Records = 0
	commit(tb, data("a"), empty)
	p := positions("p", "a")
	p.Records = 0
	commit(tb, p)
	found, _ := run(t, tb, config(t, "presto"))
	expect(t, found,
		"error need-record-count presto [p] 1",
		"error zero-records  [p] 1",
		"note zero-records  [empty] 1",
	)
}

func TestEqualityColumns(t *testing.T) {
	tb := table(t, 2)
	commit(tb, data("a"))
	commit(tb, equality("dropped", 2), equality("nested", 4), equality("unknown", 99))
	tb.Schemas = append(tb.Schemas, iceberg.NewSchema(1, schema().Fields()[0], schema().Fields()[2]))
	found, _ := run(t, tb, config(t))
	expect(t, found,
		"error equality-column-unknown  [unknown] 1",
		"warning equality-column-dropped  [dropped] 1",
		"warning equality-column-nested  [nested] 1",
	)
}

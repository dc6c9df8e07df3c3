package lint_test

import (
	"slices"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
)

// DuckDB 1.5.5 gets equality deletes right only in tables of a certain kind; integration/physical reads the others with
// it.
func TestEqualityDeletesThatDuckDBGetsWrong(t *testing.T) {
	in := func(f scantest.File, day any) scantest.File {
		f.Spec, f.Partition = 1, map[int]any{1000: day}
		return f
	}
	nulls := func(f scantest.File, column int) scantest.File {
		f.Nulls, f.Values = map[int]int64{column: 1}, map[int]int64{column: 10}
		return f
	}
	avro := data("a")
	avro.Format = iceberg.AvroFile
	for name, c := range map[string]struct {
		files []scantest.File
		wide  bool
		want  []string
	}{
		"right":                               {files: []scantest.File{data("a"), equality("e", 1)}},
		"right in partitions":                 {files: []scantest.File{in(data("a"), iceberg.Date(1)), in(equality("e", 1, 2), iceberg.Date(1))}},
		"nulls in columns that do not matter": {files: []scantest.File{nulls(data("a"), 2), nulls(equality("e", 1), 2)}},
		"a key that several partitions may have": {
			files: []scantest.File{in(data("a"), iceberg.Date(1)), in(equality("e", 1), iceberg.Date(1))},
			want:  []string{"error need-partition-in-key duckdb [e] 1"},
		},
		"a null partition": {
			files: []scantest.File{in(data("a"), nil), in(equality("e", 1, 2), nil)},
			want:  []string{"error need-no-null-partitions duckdb [a e] 2"},
		},
		"null keys in data": {
			files: []scantest.File{nulls(data("a"), 2), equality("e", 2)},
			want:  []string{"error need-no-null-keys duckdb [a] 1"},
		},
		"null keys in deletes": {
			files: []scantest.File{data("a"), nulls(equality("e", 2), 2)},
			want:  []string{"error need-no-null-keys duckdb [e] 1"},
		},
		"nested keys": {
			files: []scantest.File{data("a"), equality("e", 4)},
			want:  []string{"error need-top-level-keys duckdb [e] 1", "warning equality-column-nested  [e] 1"},
		},
		"widened keys": {
			files: []scantest.File{data("a"), equality("e", 1)}, wide: true,
			want: []string{"error need-same-key-types duckdb [e] 1"},
		},
		"Avro": {
			files: []scantest.File{avro},
			want:  []string{"error file-format duckdb [a] 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tb := table(t, 2)
			if c.wide {
				before := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int32, Required: true})
				after := iceberg.NewSchema(1, schema().Fields()...)
				tb.Schemas = []*iceberg.Schema{before, after}
			}
			for _, f := range c.files {
				commit(tb, f)
			}
			found, _ := run(t, tb, config(t, "duckdb"))
			for i := range found {
				slices.Sort(found[i].Files)
			}
			expect(t, found, c.want...)
			found, _ = run(t, tb, config(t, "spark"))
			for _, f := range found {
				if f.Severity == "error" {
					t.Errorf("for Spark: %+v", f)
				}
			}
		})
	}
}

// Iceberg Java counts a deletion vector by its own length in total-files-size, others count the file that it lies in.
func TestBothSumsOfFileSizesAreHonest(t *testing.T) {
	for total, want := range map[string][]string{
		"1050": nil, // data 1000, vector 50
		"2000": nil, // data 1000, Puffin file 1000
		"1051": {"warning summary-lies  [] 0"},
	} {
		tb := table(t, 3)
		commit(tb, data("a"))
		tb.Commit("delete", map[string]string{"total-files-size": total}, []scantest.File{vector("v", "a")})
		found, _ := run(t, tb, config(t))
		expect(t, found, want...)
	}
}

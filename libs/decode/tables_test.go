package decode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
)

var goodTables = []string{"inv.customers", "inv.orders", "inv.docs_full", "inv.uniq", "inv.Odd_N_me", "inv.all_types"}

// outcome is what a record decoded to.
type outcome struct {
	class  layout.Class
	hash   [10]byte
	row    row // class Row
	reason string
}

func decodeAll(tb testing.TB, t *table, records []decode.Sample) []outcome {
	tb.Helper()
	batch := column.NewBatch(t.schema)
	out := make([]outcome, len(records))
	for i := range records {
		ev, err := t.dec.Decode(context.Background(), record(&records[i]), batch)
		only, onlyErr := t.dec.Decode(context.Background(), record(&records[i]), nil)
		if only != ev || (err == nil) != (onlyErr == nil) {
			tb.Fatalf("record %s: %v with a batch, %v without", &records[i], ev, only)
		}
		out[i] = outcome{class: ev.Class, hash: ev.Hash}
		var bad *decode.BadRecord
		if errors.As(err, &bad) != (ev.Class == layout.Bad) || (err != nil && bad == nil) {
			tb.Fatalf("record %s: class %d with error %v", &records[i], ev.Class, err)
		}
		if bad != nil {
			out[i].reason = bad.Reason
		}
	}
	wholeRows(tb, batch)
	rows := rowsOf(batch)
	for i := range out {
		if out[i].class == layout.Row {
			out[i].row, rows = rows[0], rows[1:]
		}
	}
	if len(rows) > 0 {
		tb.Fatalf("%d rows without a record", len(rows))
	}
	return out
}

// wholeRows wants every leaf to hold as many rows as the batch: nothing of a record that is no row.
func wholeRows(tb testing.TB, b *column.Batch) {
	tb.Helper()
	for i, l := range b.Leaves {
		rows := len(l.Def)
		switch {
		case l.MaxDef == 0:
			rows = l.Len()
		case l.MaxRep > 0:
			rows = 0
			for _, rep := range l.Rep {
				if rep == 0 {
					rows++
				}
			}
		}
		if rows != b.Rows {
			tb.Fatalf("leaf %d has %d rows, the batch %d", i, rows, b.Rows)
		}
	}
}

// jsonOracle is what a JSON record is, by encoding/json: its class and the text of its value's columns.
func jsonOracle(tb testing.TB, r *decode.Sample) (layout.Class, row) {
	if r.Value == nil {
		return layout.Delete, nil
	}
	value := parseJSON(tb, r.Value)
	var after *connect
	if _, wrapped := value["payload"]; wrapped {
		var env struct{ Schema connect }
		if err := json.Unmarshal(r.Value, &env); err != nil {
			tb.Fatal(err)
		}
		for i := range env.Schema.Fields {
			if env.Schema.Fields[i].Field == "after" {
				after = &env.Schema.Fields[i]
			}
		}
		value = as[map[string]any](tb, value["payload"])
	}
	if value["op"] == "d" {
		return layout.Delete, nil
	}
	out := row{}
	for name, v := range as[map[string]any](tb, value["after"]) {
		if after == nil {
			out[name] = bareText(tb, v)
			if v == "NaN" || v == "Infinity" || v == "-Infinity" { // the columns hold fractions, too
				out[name] = floatText(floatOf(tb, v))
			}
			continue
		}
		for i := range after.Fields {
			if after.Fields[i].Field == name {
				out[name] = expect(tb, &after.Fields[i], v)
			}
		}
	}
	return layout.Row, out
}

// badAllTypes are the records of all_types with a time that no table can hold, where the schema tells.
var badAllTypes = map[kafkapos.Offset]string{2: `"c_date"`, 3: `"c_tstz"`}

func TestJSONSamplesDecodeAsTheOracleSays(t *testing.T) {
	for _, prefix := range []string{"pgjson", "pgjsonschema"} {
		for _, name := range goodTables {
			t.Run(prefix+"/"+name, func(t *testing.T) {
				topic, records := sampleTopic(t, prefix, name)
				tab := discover(t, topic, records, nil)
				got := decodeAll(t, tab, records)
				for i := range records {
					r := &records[i]
					if column, bad := badAllTypes[r.Offset]; bad && prefix == "pgjsonschema" && name == "inv.all_types" {
						if got[i].class != layout.Bad || !strings.Contains(got[i].reason, column) {
							t.Fatalf("record %s: class %d, reason %q", r, got[i].class, got[i].reason)
						}
						continue
					}
					class, want := jsonOracle(t, r)
					if got[i].class != class {
						t.Fatalf("record %s: class %d, want %d: %s", r, got[i].class, class, got[i].reason)
					}
					if class == layout.Row {
						compareRow(t, r, got[i].row, want)
					}
				}
				compareFold(t, tab, records, got)
			})
		}
	}
}

func compareRow(t *testing.T, r *decode.Sample, got, want row) {
	t.Helper()
	want["kafka_partition"] = "3"
	want["kafka_offset"] = fmt.Sprint(r.Offset)
	want["kafka_timestamp"] = time.UnixMilli(r.TimestampMs).UTC().Format(time.RFC3339Nano)
	want["_row_id"] = fmt.Sprint(3<<44 | int64(r.Offset))
	for name, w := range want {
		if w == "?" { // bare JSON: the text itself
			w = fmt.Sprintf("%q", rawColumn(t, r.Value, name))
		}
		if got[name] != w {
			t.Errorf("record %s column %q: %s, want %s", r, name, got[name], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("record %s: %d columns, want %d", r, len(got), len(want))
	}
}

func rawColumn(t *testing.T, value []byte, name string) string {
	var env struct{ After map[string]json.RawMessage }
	if err := json.Unmarshal(value, &env); err != nil {
		t.Fatal(err)
	}
	return string(env.After[name])
}

// compareFold folds by key hash and by the key's text, and wants the same survivors.
func compareFold(t *testing.T, tab *table, records []decode.Sample, got []outcome) {
	t.Helper()
	byHash, byText := map[[10]byte]kafkapos.Offset{}, map[string]kafkapos.Offset{}
	for i := range records {
		if got[i].class == layout.Bad {
			continue
		}
		key := parseJSON(t, records[i].Key)
		if p, ok := key["payload"].(map[string]any); ok {
			key = p
		}
		text := fmt.Sprint(key)
		delete(byHash, got[i].hash)
		delete(byText, text)
		if got[i].class == layout.Row {
			byHash[got[i].hash], byText[text] = records[i].Offset, records[i].Offset
		}
	}
	if len(byHash) != len(byText) {
		t.Fatalf("%d live rows by hash, %d by key", len(byHash), len(byText))
	}
	live := map[kafkapos.Offset]bool{}
	for _, off := range byHash {
		live[off] = true
	}
	for _, off := range byText {
		if !live[off] {
			t.Errorf("row at %d should live", off)
		}
	}
}

func TestAvroSamplesDecodeAsJSONWithSchemas(t *testing.T) {
	reg := sampleRegistry(t)
	for _, name := range goodTables {
		t.Run(name, func(t *testing.T) {
			jsonTopic, jsonRecords := sampleTopic(t, "pgjsonschema", name)
			want := decodeAll(t, discover(t, jsonTopic, jsonRecords, nil), jsonRecords)
			topic, records := sampleTopic(t, "pgavro", name)
			tab := discover(t, topic, records, reg)
			got := decodeAll(t, tab, records)
			if len(got) != len(want) {
				t.Fatalf("%d records, want %d", len(got), len(want))
			}
			for i := range got {
				if got[i].class != want[i].class || got[i].reason != want[i].reason {
					t.Fatalf("record %d: class %d (%s), want %d (%s)", i, got[i].class, got[i].reason, want[i].class, want[i].reason)
				}
				if name == "inv.Odd_N_me" { // the Avro converter renames these columns
					if got[i].row["sp_ace"] != want[i].row["sp ace"] || got[i].row["____"] != want[i].row["Ключ"] {
						t.Errorf("record %d: %v, want %v", i, got[i].row, want[i].row)
					}
					continue
				}
				delete(got[i].row, "kafka_timestamp")
				delete(want[i].row, "kafka_timestamp")
				for col, w := range want[i].row {
					if got[i].row[col] != w {
						t.Errorf("record %d column %q: %s, want %s", i, col, got[i].row[col], w)
					}
				}
				if len(got[i].row) != len(want[i].row) {
					t.Errorf("record %d: %d columns, want %d", i, len(got[i].row), len(want[i].row))
				}
			}
		})
	}
}

func TestEqualKeysHaveEqualHashesInEveryFormat(t *testing.T) {
	reg := sampleRegistry(t)
	for _, name := range goodTables[:4] {
		var want []outcome
		for _, prefix := range []string{"pgjson", "pgjsonschema", "pgavro"} {
			topic, records := sampleTopic(t, prefix, name)
			got := decodeAll(t, discover(t, topic, records, reg), records)
			if want == nil {
				want = got
			}
			for i := range want {
				if got[i].hash != want[i].hash || got[i].hash == [10]byte{} {
					t.Errorf("%s %s record %d: hash %x, want %x", prefix, name, i, got[i].hash, want[i].hash)
				}
			}
		}
	}
}

func TestDiscoverRefusesWhatCannotBeATable(t *testing.T) {
	reg := sampleRegistry(t)
	for _, prefix := range []string{"pgjson", "pgjsonschema", "pgavro"} {
		for name, want := range map[string][]string{
			"inv.docs":     {"record 0:1", "placeholder", `"body"`},
			"inv.evolve":   {"record 0:4", "(id)", "(a_new, id)"},
			"inv.trunc_me": {"record 0:3", "truncate"},
			"inv.nopk":     {"record 0:0", "key"},
			"inv.signals":  {"signal table", "topics.exclude"},
			"message":      {"logical messages", "topics.exclude"},
		} {
			topic, records := sampleTopic(t, prefix, name)
			_, err := decode.Discover(context.Background(), topic, records, reg)
			if !errors.Is(err, fault.ErrInvalid) {
				t.Errorf("%s: %v", topic, err)
				continue
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: %v, want %q in it", topic, err, w)
				}
			}
		}
	}
}

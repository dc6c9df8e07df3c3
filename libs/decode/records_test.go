package decode_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/schema"
)

// bareTable is a table of JSON without schemas.
func bareTable(tb testing.TB, envelope string, key []string, columns ...schema.Field) *table {
	tb.Helper()
	return newTable(tb, decode.Discovery{
		Decoding: decode.Decoding{KeyFormat: decode.FormatJSON, ValueFormat: decode.FormatJSON, Envelope: envelope, KeyFields: key},
		Writers:  []*schema.Schema{{Fields: columns}},
	}, nil)
}

func col(name string, k schema.Kind) schema.Field {
	return schema.Field{Name: name, Type: schema.Type{Kind: k}}
}

func allKinds(tb testing.TB) *table {
	return bareTable(tb, decode.EnvelopeUpsert, []string{"id"}, col("id", schema.Long), col("n", schema.Long),
		col("f", schema.Double), col("s", schema.String), col("b", schema.Boolean))
}

// one decodes one record, with and without a batch.
func one(tb testing.TB, t *table, key, value []byte) outcome {
	tb.Helper()
	return decodeAll(tb, t, []decode.Sample{{Offset: 7, TimestampMs: 1, Key: key, Value: value}})[0]
}

func TestJSONValues(t *testing.T) {
	tab := allKinds(t)
	for _, c := range []struct{ value, column, want string }{ // want "" is Bad
		{`{"n":9007199254740993}`, "n", "9007199254740993"},
		{`{"n":9223372036854775807}`, "n", "9223372036854775807"},
		{`{"n":-9223372036854775808}`, "n", "-9223372036854775808"},
		{`{"n":9223372036854775808}`, "n", ""},
		{`{"n":-9223372036854775809}`, "n", ""},
		{`{"n":18446744073709551616}`, "n", ""},
		{`{"n":99999999999999999999999999}`, "n", ""},
		{`{"n":42.0}`, "n", "42"},
		{`{"n":-0}`, "n", "0"},
		{`{"n":4.2e1}`, "n", "42"},
		{`{"n":1E3}`, "n", "1000"},
		{`{"n":9.223372036854775807e18}`, "n", "9223372036854775807"},
		{`{"n":9.223372036854775808e18}`, "n", ""},
		{`{"n":42.5}`, "n", ""},
		{`{"n":1e-1}`, "n", ""},
		{`{"n":1e999999999999}`, "n", ""},
		{`{"n":0e999999999999}`, "n", ""},
		{`{"n":"42"}`, "n", ""},
		{`{"n":true}`, "n", ""},
		{`{"n":01}`, "n", ""},
		{`{"n":1.}`, "n", ""},
		{`{"n":.5}`, "n", ""},
		{`{"n":1e}`, "n", ""},
		{`{"n":+1}`, "n", ""},
		{`{"n":-}`, "n", ""},
		{`{"n":null}`, "n", "null"},
		{`{}`, "n", "null"},
		{`{"f":1}`, "f", floatText(1)},
		{`{"f":-0.0}`, "f", floatText(negativeZero())},
		{`{"f":1.7976931348623157E308}`, "f", floatText(1.7976931348623157e308)},
		{`{"f":4.9e-324}`, "f", floatText(4.9e-324)},
		{`{"f":1e999}`, "f", ""},
		{`{"f":"NaN"}`, "f", "7ff8000000000001"},
		{`{"f":"-Infinity"}`, "f", "fff0000000000000"},
		{`{"f":"nan"}`, "f", ""},
		{`{"s":"a"}`, "s", `"a"`},
		{`{"s":""}`, "s", `""`},
		{`{"s":"\"\\\/\b\f\n\r\t"}`, "s", `"\"\\/\b\f\n\r\t"`},
		{`{"s":"\u0041\u00e9\u20AC\ud83d\ude00\u0000"}`, "s", `"Aé€😀\x00"`},
		{`{"s":"é€😀 and a long tail of ASCII"}`, "s", `"é€😀 and a long tail of ASCII"`},
		{`{"s":"long ASCII first, then é\n and €"}`, "s", `"long ASCII first, then é\n and €"`},
		{`{"s":"\ud83d"}`, "s", ""},
		{`{"s":"\ude00\ud83d"}`, "s", ""},
		{`{"s":"\ud83dA"}`, "s", ""},
		{`{"s":"\ud83d\u0041"}`, "s", ""},
		{`{"s":"\x41"}`, "s", ""},
		{`{"s":"\u00g0"}`, "s", ""},
		{"{\"s\":\"a\nb\"}", "s", ""},
		{"{\"s\":\"eight ch\x01\"}", "s", ""},
		{"{\"s\":\"\xff\"}", "s", ""},
		{"{\"s\":\"\xc3\"}", "s", ""},
		{"{\"s\":\"abc\x85defghijkl\"}", "s", ""},
		{"{\"s\":{\"abc\x85defghijkl\":1}}", "s", ""},
		{"{\"s\":\"\xed\xa0\x80\"}", "s", ""},
		{"{\"s\":\"\\n\xff\"}", "s", ""},
		{`{"s":{"a": [1, 2.50]}}`, "s", `"{\"a\": [1, 2.50]}"`},
		{`{"s":[ ]}`, "s", `"[ ]"`},
		{`{"s":[1,]}`, "s", ""},
		{`{"s":{"a":1,}}`, "s", ""},
		{`{"s":{"a"}}`, "s", ""},
		{`{"s":[1 2]}`, "s", ""},
		{`{"s":1}`, "s", ""},
		{`{"s":true}`, "s", ""},
		{`{"b":true}`, "b", "true"},
		{`{"b":false}`, "b", "false"},
		{`{"b":tru}`, "b", ""},
		{`{"b":0}`, "b", ""},
		{`{"n":1,"n":2}`, "n", "2"},
		{`{"n":1,"s":"x","n":null}`, "n", "null"},
		{`{"s":[1,2,3],"n":1,"s":"last"}`, "s", `"last"`},
		{`{"n":"no number","n":5}`, "n", "5"},
		{`{"n":1,"\u006e":2}`, "n", "2"},
		{"\t{ \"n\" : \r\n 1 , \"s\" : \"a\" } \n", "n", "1"},
		{`{"s":"a","b":true,"f":2,"n":1}`, "n", "1"},
		{`{"n":1} x`, "n", ""},
		{`{"n":1}}`, "n", ""},
		{`{"n":1`, "n", ""},
		{`{"n":1,}`, "n", ""},
		{`{,"n":1}`, "n", ""},
		{`{"n" 1}`, "n", ""},
		{`{n:1}`, "n", ""},
		{`[1]`, "n", ""},
		{`1`, "n", ""},
		{``, "n", ""},
		{`{"unknown":null,"n":1}`, "n", "1"},
		{`{"s":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`, "s",
			`"` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `"`},
		{`{"s":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "s", ""},
	} {
		got := one(t, tab, []byte(`{"id":1}`), []byte(c.value))
		switch {
		case c.want == "" && got.class != layout.Bad:
			t.Errorf("%.60q: class %d, want bad", c.value, got.class)
		case c.want != "" && (got.class != layout.Row || got.row[c.column] != c.want):
			t.Errorf("%.60q: class %d, %s = %s, want %s (%s)", c.value, got.class, c.column, got.row[c.column], c.want, got.reason)
		}
	}
}

func negativeZero() float64 { z := 0.0; return -z }

func TestKeyColumnsThatTheValueLacksComeFromTheKey(t *testing.T) {
	tab := bareTable(t, decode.EnvelopeUpsert, []string{"id", "region"}, col("n", schema.Long), col("id", schema.Long), col("region", schema.String))
	for value, want := range map[string]string{
		`{"n":1}`:                      `5 "eu"`,
		`{"n":1,"id":6}`:               `6 "eu"`,
		`{"n":1,"id":6,"region":null}`: `6 null`,
	} {
		got := one(t, tab, []byte(`{"region":"eu","id":5}`), []byte(value))
		if text := got.row["id"] + " " + got.row["region"]; text != want {
			t.Errorf("%s: %s, want %s (%s)", value, text, want, got.reason)
		}
	}
	got := one(t, tab, []byte(`{"id":"x","region":"us","id":5,"region":"eu"}`), []byte(`{"n":1}`))
	if text := got.row["id"] + " " + got.row["region"]; text != `5 "eu"` {
		t.Errorf("a key that names fields twice: %s (%s)", text, got.reason)
	}
}

func TestKeys(t *testing.T) {
	long := bareTable(t, decode.EnvelopeUpsert, []string{"id"}, col("id", schema.Long))
	two := bareTable(t, decode.EnvelopeUpsert, []string{"a", "b"}, col("a", schema.Long), col("b", schema.String))
	text := bareTable(t, decode.EnvelopeUpsert, []string{"key"}, col("key", schema.String))
	number := bareTable(t, decode.EnvelopeUpsert, []string{"key"}, col("key", schema.Long))
	for _, c := range []struct {
		tab   *table
		name  string
		equal []string // one identity
		bad   []string
	}{
		{long, "one field", []string{`{"id":1}`, ` { "id" : 1 } `, `{"id":1.0}`, `{"id":10e-1}`, `{"id":2,"id":1}`},
			[]string{`{"id":"1"}`, `{"id":1.5}`, `{"ID":1}`, `{}`, `{"id":1,"x":2}`, `{"id":1}x`, `1`, `"1"`, `null`, `{"id":1`, `[1]`, ``}},
		{two, "two fields", []string{`{"a":1,"b":"x"}`, `{"b":"x","a":1}`, `{"b":"\u0078","a":1}`},
			[]string{`{"a":1}`, `{"b":"x"}`, `{"a":1,"b":{}}`, `{"a":1,"b":1}`}},
		{text, "text", []string{`"k 1"`, `k 1`, `"k\u00201"`, ` "k 1"`, `{"key":"k 1"}`}, []string{"\xff", `{"key":1}`, `{"k":1}`, `{`}},
		{number, "number", []string{`12`, `{"key":12}`, `12.0`}, []string{`x`, `"12"`, `{"key":"12"}`, `null`}},
	} {
		first := one(t, c.tab, []byte(c.equal[0]), nil)
		for _, k := range c.equal {
			if got := one(t, c.tab, []byte(k), nil); got.class != layout.Delete || got.hash != first.hash {
				t.Errorf("%s: %s: class %d, hash %x, want %x (%s)", c.name, k, got.class, got.hash, first.hash, got.reason)
			}
		}
		for _, k := range c.bad {
			if got := one(t, c.tab, []byte(k), nil); got.class != layout.Bad || got.hash != [10]byte{} {
				t.Errorf("%s: %s: class %d, want bad", c.name, k, got.class)
			}
		}
	}
}

func TestDebeziumEnvelopes(t *testing.T) {
	tab := bareTable(t, decode.EnvelopeDebezium, []string{"id"}, col("id", schema.Long), col("s", schema.String))
	key := []byte(`{"id":1}`)
	for _, c := range []struct {
		value string
		key   []byte
		class layout.Class
		s     string
	}{
		{`{"op":"c","after":{"id":1,"s":"a"},"before":null}`, key, layout.Row, `"a"`},
		{`{"after":{"id":1,"s":"a"},"before":{"deep":[{}]},"op":"u"}`, key, layout.Row, `"a"`},
		{`{"op":"R","after":{"id":1,"s":"a"}}`, key, layout.Row, `"a"`},
		{`{"op":"d","after":{"id":1,"s":"first"},"op":"u","after":{"id":1,"s":"last"}}`, key, layout.Row, `"last"`},
		{`{"after":{"id":1,"s":"a"},"op":"d"}`, key, layout.Delete, ""},
		{`{"after":{"id":1,"s":"a"},"after":null,"op":"d"}`, key, layout.Delete, ""},
		{`{"op":"d","after":null}`, key, layout.Delete, ""},
		{`null`, key, layout.Delete, ""},
		{`{"op":"t","after":null}`, nil, layout.Truncate, ""},
		{`{"op":"m","message":{"prefix":"x"}}`, nil, layout.NonRow, ""},
		{`{"ts_ms":5}`, key, layout.NonRow, ""},
		{`{"op":"c","after":null}`, key, layout.Bad, ""},
		{`{"op":"c"}`, key, layout.Bad, ""},
		{`{"op":"x","after":{"id":1}}`, key, layout.Bad, ""},
		{`{"op":"cc","after":{"id":1}}`, key, layout.Bad, ""},
		{`{"op":1,"after":{"id":1}}`, key, layout.Bad, ""},
		{`{"op":null,"after":{"id":1}}`, key, layout.Bad, ""},
		{`{"after":{"id":1}}`, key, layout.Bad, ""},
		{`{"id":1,"s":"a"}`, key, layout.Bad, ""},
		{`{"op":"c","after":{"id":1,"s":"a"},"source":{]}`, key, layout.Bad, ""},
		{`{"op":"c","after":[]}`, key, layout.Bad, ""},
		{`{"op":"c","after":{"id":1,"s":"a"}}`, nil, layout.Bad, ""},
		{`{"op":"d","after":null}`, nil, layout.Bad, ""},
	} {
		got := one(t, tab, c.key, []byte(c.value))
		if got.class != c.class || got.row["s"] != c.s {
			t.Errorf("%s: class %d, s = %s, want %d, %s (%s)", c.value, got.class, got.row["s"], c.class, c.s, got.reason)
		}
	}
	if got := one(t, tab, nil, nil); got.reason != "no key" {
		t.Errorf("a tombstone without a key: %v", got)
	}
}

func TestPlaceholdersWithoutASchema(t *testing.T) {
	tab := bareTable(t, decode.EnvelopeDebezium, []string{"id"}, col("id", schema.Long), col("s", schema.String))
	text := b64("__debezium_unavailable_value")
	for _, s := range []string{`"__debezium_unavailable_value"`, `"` + text + `"`, `["__debezium_unavailable_value"]`, `["` + text + `"]`,
		`["` + placeholderUUID() + `"]`, placeholderInts(), `{"__debezium_unavailable_value":"__debezium_unavailable_value"}`} {
		for _, op := range []string{"u", "c", "r"} {
			got := one(t, tab, []byte(`{"id":1}`), fmt.Appendf(nil, `{"op":%q,"after":{"id":1,"s":%s}}`, op, s))
			if got.class != layout.Bad || !strings.Contains(got.reason, `"s"`) || !strings.Contains(got.reason, "placeholder") {
				t.Errorf("op %s, %s: class %d (%s)", op, s, got.class, got.reason)
			}
		}
		got := one(t, tab, []byte(`{"id":1}`), fmt.Appendf(nil, `{"op":"u","after":{"id":1,"s":"x"},"before":{"s":%s}}`, s))
		if got.class != layout.Row {
			t.Errorf("before %s: class %d (%s)", s, got.class, got.reason)
		}
	}
}

func TestAKeyOfAnotherTypeIsBad(t *testing.T) {
	key, value := connectRecord(connectField("string", "", ""), `"x"`)
	tab := discover(t, "t", []decode.Sample{{Key: key, Value: value}}, nil)
	for typ, want := range map[string]layout.Class{"int64": layout.Delete, "int32": layout.Delete, "string": layout.Bad, "double": layout.Bad} {
		key := fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[{"type":%q,"field":"id"}]},"payload":{"id":%s}}`, typ,
			map[string]string{"string": `"1"`}[typ]+map[bool]string{true: "1"}[typ != "string"])
		if got := one(t, tab, key, nil); got.class != want {
			t.Errorf("%s: class %d, want %d (%s)", typ, got.class, want, got.reason)
		}
	}
}

func TestReasonsHoldNoData(t *testing.T) {
	tab := allKinds(t)
	const secret = "s3cr3t"
	for _, c := range [][2]string{
		{`{"id":"s3cr3t"}`, `{"n":1}`}, {`{"s3cr3t":1}`, `{"n":1}`}, {`s3cr3t`, `{"n":1}`}, {`{"id":1}`, `{"n":"s3cr3t"}`},
		{`{"id":1}`, `{"f":"s3cr3t"}`}, {`{"id":1}`, `s3cr3t`}, {`{"id":1}`, `{"s":"s3cr3t`}, {`{"id":1}`, `{"b":s3cr3t}`},
	} {
		got := one(t, tab, []byte(c[0]), []byte(c[1]))
		if got.class != layout.Bad || strings.Contains(got.reason, secret) || got.reason == "" {
			t.Errorf("%s %s: class %d, reason %q", c[0], c[1], got.class, got.reason)
		}
	}
}

func TestUnknownColumnsAskForAnExtension(t *testing.T) {
	tab := bareTable(t, decode.EnvelopeDebezium, []string{"id"}, col("id", schema.Long))
	rec := &decode.Sample{Offset: 9, Key: []byte(`{"id":1}`), Value: []byte(`{"op":"c","after":{"id":1,"new":2.5,"also":null}}`)}
	batch := column.NewBatch(tab.schema)
	ev, err := tab.dec.Decode(context.Background(), record(rec), batch)
	var unknown *decode.UnknownColumns
	if !errors.As(err, &unknown) || !errors.Is(err, fault.ErrInvalid) || ev != (decode.Event{}) || batch.Rows != 0 || batch.Leaves[0].Len() != 0 {
		t.Fatalf("%v, %v, %d rows", ev, err, batch.Rows)
	}
	if !strings.Contains(err.Error(), `"new" double`) {
		t.Errorf("%v does not say which column", err)
	}
	tab.found.Writers = append(tab.found.Writers, unknown.Schema)
	wider := newTable(t, tab.found, nil)
	if got := decodeAll(t, wider, []decode.Sample{*rec})[0]; got.row["new"] != floatText(2.5) {
		t.Errorf("after the extension: %v", got)
	}
	// A delete has no row, so its columns ask for nothing.
	rec.Value = []byte(`{"after":{"id":1,"new":2.5},"op":"d"}`)
	if got := decodeAll(t, tab, []decode.Sample{*rec})[0]; got.class != layout.Delete {
		t.Errorf("a delete: %v", got)
	}
}

func TestRegistryFaultsDecideNothing(t *testing.T) {
	samples := benchSamples(t, decode.FormatAvro, 2)
	reg := benchRegistry()
	tab := discover(t, "shop.orders", samples, reg)
	reg.err = fmt.Errorf("connection refused: %w", fault.ErrUnavailable)
	ev, err := tab.dec.Decode(context.Background(), record(&samples[0]), nil)
	if !errors.Is(err, fault.ErrUnavailable) || ev != (decode.Event{}) {
		t.Errorf("registry down: %v, %v", ev, err)
	}
	reg.err = nil
	if got := one(t, tab, samples[0].Key, samples[0].Value); got.class != layout.Row {
		t.Errorf("registry up again: %v", got)
	}
	unknown := append([]byte{0, 0, 0, 3, 0xe7}, samples[0].Value[5:]...)
	if got := one(t, tab, samples[0].Key, unknown); got.class != layout.Bad || !strings.Contains(got.reason, "999") {
		t.Errorf("unknown schema: %v", got)
	}
	if got := one(t, tab, unknown, nil); got.class != layout.Bad {
		t.Errorf("unknown key schema: %v", got)
	}
	for _, v := range [][]byte{{}, {0, 0, 0, 0}, []byte("{}"), {1, 0, 0, 0, 7}} {
		if got := one(t, tab, samples[0].Key, v); got.class != layout.Bad {
			t.Errorf("value %x: %v", v, got)
		}
	}
}

func TestEvolvedKeyIsBad(t *testing.T) {
	reg := sampleRegistry(t)
	for _, prefix := range []string{"pgjson", "pgjsonschema", "pgavro"} {
		topic, records := sampleTopic(t, prefix, "inv.evolve")
		reg.subjects["pgavro.inv.evolve-value"] = reg.subjects["pgavro.inv.evolve-value"][:4]
		tab := discover(t, topic, records[:2], reg)
		got := decodeAll(t, tab, records[11:12])
		if got[0].class != layout.Bad || !strings.Contains(got[0].reason, "key") {
			t.Errorf("%s record 11: %v", prefix, got[0])
		}
	}
}

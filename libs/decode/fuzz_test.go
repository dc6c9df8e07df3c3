package decode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/avro"
	"github.com/valyala/fastjson"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/schema"
)

// decodeOnce decodes one record both ways and answers the class, the row and what else went wrong.
func decodeOnce(t *testing.T, tab *table, key, value []byte) (layout.Class, row, error) {
	batch := column.NewBatch(tab.schema)
	s := &decode.Sample{Offset: 7, TimestampMs: 1, Key: key, Value: value}
	ev, err := tab.dec.Decode(context.Background(), record(s), batch)
	only, onlyErr := tab.dec.Decode(context.Background(), record(s), nil)
	if ev != only || (err == nil) != (onlyErr == nil) {
		t.Fatalf("%v, %v with a batch; %v, %v without", ev, err, only, onlyErr)
	}
	if (ev.Class == layout.Row) != (batch.Rows == 1) {
		t.Fatalf("class %d with %d rows", ev.Class, batch.Rows)
	}
	for _, l := range batch.Leaves {
		if batch.Rows == 0 && (l.Len() > 0 || len(l.Def) > 0 || len(l.Rep) > 0 || len(l.Data) > 0) {
			t.Fatalf("class %d left something in the batch", ev.Class)
		}
	}
	if ev.Class == layout.Row {
		return ev.Class, rowsOf(batch)[0], err
	}
	return ev.Class, nil, err
}

// FuzzJSONRow decodes bare JSON and compares with encoding/json, and with fastjson where that can tell.
func FuzzJSONRow(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"n":9007199254740993,"f":-0.5e3,"s":"a\u00e9\n","b":true}`, `{"n":1,"n":2,"s":{"x":[1,{}]}}`, `null`,
		`{"n":42.0,"f":1,"s":""}`, `{"n":9223372036854775808}`, `{"s":"\ud83d\ude00"}`, `{"x":1}`, `{"x":null}`, `[]`, ``,
		`{"s":"exactly8","n":-1}`, `{"s":"é exactly","b":false}`, " {\t\"n\"\n:\r1 }", `{"n":1e3,"f":"NaN"}`, `{"s":"a` + "\x00" + `"}`,
	} {
		f.Add([]byte(seed))
	}
	tab := allKinds(f)
	f.Fuzz(func(t *testing.T, value []byte) {
		lower := strings.ToLower(string(value))
		if strings.Contains(lower, `\ud`) || strings.Count(lower, "[")+strings.Count(lower, "{") > 400 || longExponent(lower) {
			value, lower = []byte(`{}`), "" // rules of our own: see TestJSONValues
		}
		class, got, err := decodeOnce(t, tab, []byte(`{"id":1}`), value)
		want, unknown, ok := rowOracle(value)
		switch {
		case string(bytes.TrimSpace(value)) == "null":
			if class != layout.Delete {
				t.Fatalf("%q: class %d, want a delete", value, class)
			}
		case !ok:
			if class != layout.Bad {
				t.Fatalf("%q: class %d, want bad", value, class)
			}
		case unknown:
			var u *decode.UnknownColumns
			if !errors.As(err, &u) && class != layout.Bad { // bad: no column can be made for the value
				t.Fatalf("%q: class %d, %v, want unknown columns", value, class, err)
			}
		case class != layout.Row:
			t.Fatalf("%q: class %d, %v, want a row", value, class, err)
		default:
			for name, w := range want {
				if got[name] != w {
					t.Fatalf("%q: %s = %s, want %s", value, name, got[name], w)
				}
			}
			againstFastJSON(t, value, got)
		}
	})
}

func longExponent(s string) bool {
	for i := 0; i+5 < len(s); i++ {
		if s[i] == 'e' && strings.Trim(s[i+1:i+6], "+-0123456789") == "" {
			return true
		}
	}
	return false
}

// rowOracle is what the row of allKinds must be, by encoding/json. ok is false for a bad record.
func rowOracle(value []byte) (want row, unknown, ok bool) {
	var fields map[string]json.RawMessage
	if !json.Valid(value) || !utf8.Valid(value) || json.Unmarshal(value, &fields) != nil {
		return nil, false, false
	}
	want = row{"id": "1", "n": "null", "f": "null", "s": "null", "b": "null"}
	for name, raw := range fields {
		text, good := "null", true
		if string(raw) != "null" {
			switch name {
			case "id", "n":
				text, good = integerOracle(raw)
			case "f":
				text, good = floatOracle(raw)
			case "s":
				text, good = textOracle(raw)
			case "b":
				text, good = string(raw), raw[0] == 't' || raw[0] == 'f'
			default:
				unknown = true
			}
		}
		if !good {
			return nil, false, false
		}
		if _, known := want[name]; known {
			want[name] = text
		}
	}
	return want, unknown, true
}

func integerOracle(raw []byte) (string, bool) {
	r, ok := new(big.Rat).SetString(string(raw))
	if !ok || !r.IsInt() || !r.Num().IsInt64() || raw[0] == '"' {
		return "", false
	}
	return r.Num().String(), true
}

func floatOracle(raw []byte) (string, bool) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		if s == "NaN" || s == "Infinity" || s == "+Infinity" || s == "-Infinity" {
			v, _ := strconv.ParseFloat(s, 64)
			return floatText(v), true
		}
		return "", false
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	return floatText(v), err == nil
}

func textOracle(raw []byte) (string, bool) {
	var s string
	if raw[0] == '"' {
		err := json.Unmarshal(raw, &s)
		return strconv.Quote(s), err == nil
	}
	return strconv.Quote(string(raw)), raw[0] == '{' || raw[0] == '['
}

// againstFastJSON compares text and numbers with fastjson, which knows the first of repeated fields only.
func againstFastJSON(t *testing.T, value []byte, got row) {
	v, err := fastjson.ParseBytes(value)
	if err != nil {
		t.Fatalf("%q: fastjson: %v", value, err)
	}
	o := v.GetObject()
	seen := map[string]int{}
	o.Visit(func(key []byte, _ *fastjson.Value) { seen[string(key)]++ })
	if seen["s"] == 1 && o.Get("s").Type() == fastjson.TypeString {
		if w := strconv.Quote(string(o.Get("s").GetStringBytes())); got["s"] != w {
			t.Fatalf("%q: s = %s, fastjson says %s", value, got["s"], w)
		}
	}
	if n := o.Get("n"); seen["n"] == 1 && n.Type() == fastjson.TypeNumber {
		if i, err := n.Int64(); err == nil && got["n"] != strconv.FormatInt(i, 10) {
			t.Fatalf("%q: n = %s, fastjson says %d", value, got["n"], i)
		}
	}
}

// FuzzAvroValue decodes Avro; what is not bad must be what another decoder reads as well, to the last byte.
func FuzzAvroValue(f *testing.F) {
	topic, records := sampleTopic(f, "pgavro", "inv.all_types")
	for _, r := range records {
		if r.Value != nil {
			f.Add(r.Value[5:])
		}
	}
	reg := sampleRegistry(f)
	tab := discover(f, topic, records, reg)
	writer := avro.MustParse(reg.subjects[topic+"-value"][0].Text)
	f.Fuzz(func(t *testing.T, payload []byte) {
		value := append(bytes.Clone(records[0].Value[:5]), payload...)
		class, _, err := decodeOnce(t, tab, records[0].Key, value)
		if err != nil && class != layout.Bad {
			t.Fatal(err)
		}
		if class == layout.Bad {
			return
		}
		var v any
		rest, err := writer.Decode(payload, &v)
		if err != nil || len(rest) > 0 {
			t.Fatalf("class %d, and the other decoder says %v, %d bytes left", class, err, len(rest))
		}
	})
}

// FuzzConnectValue decodes {schema, payload} with any schema and payload: it must not panic, and must not serve what
// is not JSON.
func FuzzConnectValue(f *testing.F) {
	topic, records := sampleTopic(f, "pgjsonschema", "inv.customers")
	for _, r := range records[:4] {
		f.Add(r.Value)
	}
	key, value := connectRecord(connectField("map", "", `,"keys":{"type":"int32"},"values":{"type":"double"}`), `[[1,0.5],[2,1]]`)
	f.Add(value)
	tab := discover(f, topic, records, nil)
	f.Fuzz(func(t *testing.T, value []byte) {
		class, _, _ := decodeOnce(t, tab, records[0].Key, value)
		if class != layout.Bad && class != layout.Gap && !json.Valid(value) {
			t.Fatalf("class %d for what is not JSON: %q", class, value)
		}
		_, _ = decode.Discover(context.Background(), "t", []decode.Sample{{Key: key, Value: value}}, nil)
	})
}

// FuzzKey decodes bare keys: one that is read has the same hash when encoding/json writes it again.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":"x"}`, `{"b":"\u0078","a":1.0}`, `{"a":null,"b":null}`, `{"a":1}`, `{"a":1,"b":"x","c":1}`,
		`{"a":1,"a":2,"b":""}`, `1`, `"x"`, ``} {
		f.Add([]byte(seed))
	}
	tab := bareTable(f, decode.EnvelopeUpsert, []string{"b", "a"}, col("a", schema.Long), col("b", schema.String))
	f.Fuzz(func(t *testing.T, key []byte) {
		if key == nil {
			key = []byte{}
		}
		ev, err := tab.dec.Decode(context.Background(), record(&decode.Sample{Key: key}), nil)
		if ev.Class == layout.Bad {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		d := json.NewDecoder(bytes.NewReader(key))
		d.UseNumber()
		if err := d.Decode(&m); err != nil || len(m) != 2 {
			t.Fatalf("%q: not a key of two fields: %v", key, err)
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := tab.dec.Decode(context.Background(), record(&decode.Sample{Key: again}), nil); other != ev || err != nil {
			t.Fatalf("%q: %v; written again %q: %v, %v", key, ev, again, other, err)
		}
	})
}

// FuzzDiscover looks at any two records: it must not panic, and what it finds must be decodable.
func FuzzDiscover(f *testing.F) {
	f.Add([]byte(`{"id":1}`), []byte(`{"op":"c","after":{"id":1},"source":{}}`), []byte(`{"id":2,"x":[1]}`))
	f.Add([]byte(`abc`), []byte(`{"a":1.5}`), []byte(`{"a":2,"b":"NaN"}`))
	f.Add([]byte(`5`), []byte(`{"ts_ms":1}`), []byte(`null`))
	reg := sampleRegistry(f)
	f.Add([]byte{0, 0, 0, 0, 1, 2}, []byte{0, 0, 0, 0, 4, 0, 0}, []byte{})
	f.Fuzz(func(t *testing.T, key, first, second []byte) {
		samples := []decode.Sample{{Key: key, Value: first}, {Offset: 1, Key: key, Value: second}}
		found, err := decode.Discover(context.Background(), "t", samples, reg)
		if err == nil {
			decodeAll(t, newTable(t, found, reg), samples)
		}
	})
}

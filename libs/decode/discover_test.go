package decode_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/schema"
)

// refused wants a topic of one record to be refused, with a text in the reason.
func refused(t *testing.T, s decode.Sample, reg registry.Registry, want string) {
	t.Helper()
	_, err := decode.Discover(context.Background(), "t", []decode.Sample{s}, reg)
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%q: %v, want %q", s.Value, err, want)
	}
}

// samples are records of partition 2, from offset 100 on.
func samples(keysAndValues ...string) []decode.Sample {
	var out []decode.Sample
	for i := 0; i < len(keysAndValues); i += 2 {
		out = append(out, decode.Sample{Partition: 2, Offset: kafkapos.Offset(100 + i/2), Key: []byte(keysAndValues[i]), Value: []byte(keysAndValues[i+1])})
	}
	return out
}

func TestDiscoverBareJSON(t *testing.T) {
	const env = `{"source":{},"before":null,"op":"c","after":`
	for _, c := range []struct {
		in   []decode.Sample
		want string // "" is refused with refusal
		deny string
	}{
		{samples(`{"id":1}`, `{"id":1,"n":1,"f":1.5,"s":"x","b":true,"o":{"a":1},"l":[],"z":null}`),
			"upsert [id] id long, n long, f double, s string, b boolean, o string, l string, z string", ""},
		{samples(`{"id":1}`, env+`{"id":1,"f":1}}`, `{"id":2}`, env+`{"id":2,"f":0.5,"new":"x"}}`), "debezium [id] id long, f double, new string", ""},
		{samples(`{"id":1}`, `{"n":1}`), "upsert [id] n long, id long", ""},
		{samples(`{"b":1,"a":"x"}`, `{"n":1}`), "upsert [b a] n long, b long, a string", ""},
		{samples(`17`, `{"n":1}`, `-3`, `{"n":1}`), "upsert [key] n long, key long", ""},
		{samples(`17`, `{"n":1}`, `017`, `{"n":1}`), "upsert [key] n long, key string", ""},
		{samples(`abc`, `{"n":1}`), "upsert [key] n long, key string", ""},
		{samples(`"abc"`, `{"n":1}`), "upsert [key] n long, key string", ""},
		{samples(`{"id":1}`, `{"f":"NaN"}`, `{"id":2}`, `{"f":1.5}`), "upsert [id] f double, id long", ""},
		{samples(`{"id":1}`, `{"s":"x"}`, `{"id":2}`, `{"s":{}}`, `{"id":3}`, `null`), "upsert [id] s string, id long", ""},
		{samples(`{"id":1}`, `{"n":1}`, `{"id":2}`, `{"n":"x"}`), "", `"n" in record 2:101 does not agree with record 2:100`},
		{samples(`{"id":1}`, `{"n":1}`, `{"id":2}`, `{"n":true}`), "", `several types`},
		{samples(`{"id":1}`, `{"n":18446744073709551615}`), "", `"n" in record 2:100: integers of more than 64 bits`},
		{samples(`{"id":1}`, `{"n":1}`, `{"id":"x"}`, `{"n":1}`), "", `"id"`},
		{samples(`{"id":1}`, `{"n":1}`, `{"x":1}`, `{"n":1}`), "", `record 2:101`},
		{samples(`{"id":1}`, `{"n":1}`, `17`, `{"n":1}`), "", `record 2:101`},
		{samples(`{"id":"1"}`, `{"id":1}`), "", `"id"`},
		{samples(`{"id":{}}`, `{"n":1}`), "", `not a plain value`},
		{samples(`{}`, `{"n":1}`), "", `no fields`},
		{samples(`{"id":1}`, `[1]`), "", `not a JSON object`},
		{samples(`{"id":1}`, `nonsense`), "", `neither JSON`},
		{samples(`{"id":1}`, `nonsense`, `{"id":1}`, `{"n":1}`), "upsert [id] n long, id long", ""},
		{samples(`{"id":1}`, env+`{"id":1}}`, `{"id":1}`, `{"id":1}`), "", `some are not`},
		{samples(`{"id":1}`, env+`"{}"}`), "", `MongoDB`},
		{samples(`{"id":1}`, `{"ts_ms":1}`), "", `heartbeat`},
		{samples(`{"id":1}`, `{"status":"BEGIN","id":"1","event_count":null,"data_collections":null,"ts_ms":1}`), "", `transaction`},
		{samples(`{"databaseName":"x"}`, `{"source":{},"databaseName":"x","ddl":"DROP"}`), "", `schema change`},
		{samples(`{"id":1}`, `{"id":"1","aggregate_type":"x","type":"y","additional_data":{},"timestamp":1}`), "", `notification`},
		{samples(`{"id":1}`, `{"database":"d","table":"t","type":"insert","ts":1,"data":{}}`), "", `Maxwell`},
		{samples(`{"id":1}`, `{"table":"t","op_type":"I","op_ts":"","pos":"1","after":{}}`), "", `GoldenGate`},
		{samples(`{"id":1}`, `{"specversion":"1.0","iodebeziumconnector":"postgresql","data":{}}`), "", `CloudEvents`},
		{samples(`{"id":1}`, `{"id":1,"__deleted":"false"}`), "", `flattened`},
		{samples(`{"id":1}`, `{"id":1,"_row_id":5}`), "", `reserves`},
	} {
		found, err := decode.Discover(context.Background(), "t", c.in, nil)
		if c.want == "" {
			if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.deny) {
				t.Errorf("%s: %v, want %q", c.in[0].Value, err, c.deny)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.in[0].Value, err)
			continue
		}
		if got := describe(found); got != c.want {
			t.Errorf("%s: %s, want %s", c.in[0].Value, got, c.want)
		}
	}
}

func describe(d decode.Discovery) string {
	var cols []string
	for _, f := range d.Writers[len(d.Writers)-1].Fields {
		cols = append(cols, f.Name+" "+f.Type.String())
	}
	return fmt.Sprint(d.Decoding.Envelope, " ", d.Decoding.KeyFields, " ", strings.Join(cols, ", "))
}

func TestDiscoverWithoutRecords(t *testing.T) {
	for _, in := range [][]decode.Sample{nil, {{Key: []byte("k")}}, samples(`{"id":1}`, `null`)} {
		if _, err := decode.Discover(context.Background(), "t", in, nil); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
}

func TestDiscoverMixedFormats(t *testing.T) {
	refused(t, decode.Sample{Key: []byte("k"), Value: []byte{0, 1}}, nil, "neither JSON")
	mixed := append(samples(`{"id":1}`, `{"id":1}`), decode.Sample{Offset: 5, Key: []byte(`{"id":1}`), Value: []byte{0, 0, 0, 0, 7, 0}})
	if _, err := decode.Discover(context.Background(), "t", mixed, benchRegistry()); err == nil || !strings.Contains(err.Error(), "record 0:5") {
		t.Errorf("%v", err)
	}
}

func TestDiscoverUsesTheRegisteredHistory(t *testing.T) {
	reg := sampleRegistry(t)
	topic, records := sampleTopic(t, "pgavro", "inv.evolve")
	reg.subjects[topic+"-value"] = reg.subjects[topic+"-value"][:4]
	found, err := decode.Discover(context.Background(), topic, records[:1], reg)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Writers) != 4 {
		t.Fatalf("%d writers, want 4", len(found.Writers))
	}
	tab := newTable(t, found, reg)
	last := tab.schema.Fields[len(tab.schema.Fields)-2]
	if last.Name != "a_new" || tab.schema.Fields[5].Name != "b" || tab.schema.Fields[5].Type.Kind != schema.Long {
		t.Errorf("columns %+v", tab.schema.Fields)
	}
	for i, got := range decodeAll(t, tab, records[:4]) { // each with its own writer schema
		if want := []string{"1", "2", "3", "20"}[i]; got.row["b"] != want || got.row["a_new"] != "null" {
			t.Errorf("record %d: %v", i, got.row)
		}
	}
	reg.err = fmt.Errorf("down: %w", fault.ErrUnavailable)
	if _, err := decode.Discover(context.Background(), topic, records[:1], reg); !errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrInvalid) {
		t.Errorf("registry down: %v", err)
	}
}

func TestNewDecoderRefusesUnfitSpecs(t *testing.T) {
	tab := allKinds(t)
	good := decode.Spec{Schema: tab.schema, Decoding: tab.found.Decoding}
	for name, change := range map[string]func(*decode.Spec){
		"no schema":       func(s *decode.Spec) { s.Schema = nil },
		"no _row_id":      func(s *decode.Spec) { s.Schema = &schema.Schema{Fields: s.Schema.Fields[:5]} },
		"no metadata":     func(s *decode.Spec) { s.Schema = &schema.Schema{Fields: s.Schema.Fields[2:]} },
		"no format":       func(s *decode.Spec) { s.Decoding.ValueFormat = "" },
		"no envelope":     func(s *decode.Spec) { s.Decoding.Envelope = "maxwell" },
		"no key":          func(s *decode.Spec) { s.Decoding.KeyFields = nil },
		"a key twice":     func(s *decode.Spec) { s.Decoding.KeyFields = []string{"id", "id"} },
		"no such key":     func(s *decode.Spec) { s.Decoding.KeyFields = []string{"x"} },
		"no registry":     func(s *decode.Spec) { s.Decoding.ValueFormat = decode.FormatAvro },
		"nested and bare": func(s *decode.Spec) { s.Schema = newTable(t, nestedDiscovery(), nil).schema },
	} {
		spec := good
		change(&spec)
		if _, err := decode.NewDecoder(spec, nil); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func nestedDiscovery() decode.Discovery {
	list := schema.Field{Name: "l", Type: schema.Type{Kind: schema.List, Elem: &schema.Field{Type: schema.Type{Kind: schema.Int}}}}
	return decode.Discovery{
		Decoding: decode.Decoding{KeyFormat: decode.FormatJSON, ValueFormat: decode.FormatJSONSchema, Envelope: decode.EnvelopeUpsert, KeyFields: []string{"id"}},
		Writers:  []*schema.Schema{{Fields: []schema.Field{col("id", schema.Long), list}}},
	}
}

package decode_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/twmb/avro"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/registry"
)

// The made-up topic that speed and allocations are measured on: ten columns, before and after, a source block.
const (
	benchRow = `{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"status","type":"string"},` +
		`{"name":"segment","type":"string"},{"name":"uuid","type":"string"},{"name":"note","type":"string"},` +
		`{"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":18,"scale":2}},{"name":"ts","type":` +
		`{"type":"long","connect.name":"io.debezium.time.MicroTimestamp"}},{"name":"qty","type":["null","int"]},` +
		`{"name":"flag","type":"boolean"},{"name":"score","type":"double"}]}`
	benchEnvelope = `{"type":"record","name":"Envelope","namespace":"shop.orders","fields":[{"name":"before","type":["null",` +
		benchRow + `]},{"name":"after","type":["null","Value"]},{"name":"source","type":{"type":"record","name":"Source",` +
		`"fields":[{"name":"version","type":"string"},{"name":"connector","type":"string"},{"name":"name","type":"string"},` +
		`{"name":"ts_ms","type":"long"},{"name":"snapshot","type":"string"},{"name":"db","type":"string"},` +
		`{"name":"schema","type":"string"},{"name":"table","type":"string"},{"name":"txId","type":"long"},` +
		`{"name":"lsn","type":"long"}]}},{"name":"op","type":"string"},{"name":"ts_ms","type":"long"}]}`
	benchKey = `{"type":"record","name":"Key","namespace":"shop.orders","fields":[{"name":"id","type":"long"}]}`
)

func benchRegistry() *fakeRegistry {
	return &fakeRegistry{subjects: map[string][]registry.Schema{
		"shop.orders-value": {{ID: 7, Type: "AVRO", Text: benchEnvelope}},
		"shop.orders-key":   {{ID: 8, Type: "AVRO", Text: benchKey}},
	}}
}

type benchValue struct {
	ID      int64   `json:"id" avro:"id"`
	Status  string  `json:"status" avro:"status"`
	Segment string  `json:"segment" avro:"segment"`
	UUID    string  `json:"uuid" avro:"uuid"`
	Note    string  `json:"note" avro:"note"`
	Amount  []byte  `json:"amount" avro:"amount"`
	TS      int64   `json:"ts" avro:"ts"`
	Qty     *int32  `json:"qty" avro:"qty"`
	Flag    bool    `json:"flag" avro:"flag"`
	Score   float64 `json:"score" avro:"score"`
}

type benchSource struct {
	Version   string `json:"version" avro:"version"`
	Connector string `json:"connector" avro:"connector"`
	Name      string `json:"name" avro:"name"`
	TsMs      int64  `json:"ts_ms" avro:"ts_ms"`
	Snapshot  string `json:"snapshot" avro:"snapshot"`
	DB        string `json:"db" avro:"db"`
	Schema    string `json:"schema" avro:"schema"`
	Table     string `json:"table" avro:"table"`
	TxID      int64  `json:"txId" avro:"txId"`
	LSN       int64  `json:"lsn" avro:"lsn"`
}

type benchEvent struct {
	Before *benchValue `json:"before" avro:"before"`
	After  *benchValue `json:"after" avro:"after"`
	Source benchSource `json:"source" avro:"source"`
	Op     string      `json:"op" avro:"op"`
	TsMs   int64       `json:"ts_ms" avro:"ts_ms"`
}

func makeEvent(i int) *benchEvent {
	value := func(k int) *benchValue {
		qty := int32(i % 100)
		return &benchValue{int64(i*7919 + 1), []string{"paid", "shipped", "returned"}[(i+k)%3],
			fmt.Sprintf("customer-segment-%04d", i%5000), fmt.Sprintf("%08x-1111-4222-8333-%012x", i*2654435761, i*7),
			"priority customer express warehouse north", []byte{1, byte(i), byte(i >> 8), 3}, 1760000000000000 + int64(i),
			&qty, i%3 == 0, float64(i) / 3}
	}
	return &benchEvent{value(0), value(1), benchSource{"3.6.1.Final", "postgresql", "prod", 1760000000000, "false", "shop",
		"public", "orders", int64(i), int64(i * 100)}, "u", 1760000000123}
}

// benchSamples are n events in one format.
func benchSamples(tb testing.TB, format string, n int) []decode.Sample {
	tb.Helper()
	valueSchema, keySchema := avro.MustParse(benchEnvelope), avro.MustParse(benchKey)
	out := make([]decode.Sample, n)
	for i := range out {
		e := makeEvent(i)
		s := decode.Sample{Offset: kafkapos.Offset(i), TimestampMs: 1760000000123}
		var err error
		switch format {
		case decode.FormatAvro:
			s.Value, err = valueSchema.AppendEncode(wire(7), e)
			if err == nil {
				s.Key, err = keySchema.AppendEncode(wire(8), map[string]any{"id": e.After.ID})
			}
		case decode.FormatJSON:
			s.Value, err = json.Marshal(e)
			s.Key = fmt.Appendf(nil, `{"id":%d}`, e.After.ID)
		case decode.FormatJSONSchema:
			s.Value, err = json.Marshal(map[string]any{"payload": e, "schema": benchConnect()})
			s.Value = schemaFirst(tb, s.Value)
			s.Key = fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"}],`+
				`"optional":false},"payload":{"id":%d}}`, e.After.ID)
		}
		if err != nil {
			tb.Fatal(err)
		}
		out[i] = s
	}
	return out
}

func wire(id uint32) []byte { return binary.BigEndian.AppendUint32([]byte{0}, id) }

func schemaFirst(tb testing.TB, b []byte) []byte {
	var m struct{ Schema, Payload json.RawMessage }
	if err := json.Unmarshal(b, &m); err != nil {
		tb.Fatal(err)
	}
	return fmt.Appendf(nil, `{"schema":%s,"payload":%s}`, m.Schema, m.Payload)
}

func benchConnect() map[string]any {
	field := func(name, typ string) map[string]any {
		return map[string]any{"field": name, "type": typ, "optional": true}
	}
	amount := field("amount", "bytes")
	amount["name"] = "org.apache.kafka.connect.data.Decimal"
	amount["parameters"] = map[string]string{"scale": "2", "connect.decimal.precision": "18"}
	ts := field("ts", "int64")
	ts["name"] = "io.debezium.time.MicroTimestamp"
	rowFields := []any{field("id", "int64"), field("status", "string"), field("segment", "string"), field("uuid", "string"),
		field("note", "string"), amount, ts, field("qty", "int32"), field("flag", "boolean"), field("score", "double")}
	before, after, source := field("before", "struct"), field("after", "struct"), field("source", "struct")
	before["fields"], after["fields"] = rowFields, rowFields
	source["fields"] = []any{field("version", "string")}
	return map[string]any{"type": "struct", "name": "shop.orders.Envelope",
		"fields": []any{before, after, source, field("op", "string"), field("ts_ms", "int64")}}
}

func BenchmarkDecode(b *testing.B) {
	for _, format := range []string{decode.FormatAvro, decode.FormatJSON, decode.FormatJSONSchema} {
		b.Run(format, func(b *testing.B) {
			samples := benchSamples(b, format, 4096)
			tab := discover(b, "shop.orders", samples, benchRegistry())
			batch := column.NewBatch(tab.schema)
			ctx := context.Background()
			b.SetBytes(int64(len(samples[100].Value) + len(samples[100].Key)))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i&4095 == 0 {
					batch.Reset()
				}
				ev, err := tab.dec.Decode(ctx, record(&samples[i&4095]), batch)
				if err != nil || ev.Class != layout.Row {
					b.Fatal(ev, err)
				}
				i++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func TestDecodeAllocatesNothingInTheSteadyState(t *testing.T) {
	for _, format := range []string{decode.FormatAvro, decode.FormatJSON, decode.FormatJSONSchema} {
		samples := benchSamples(t, format, 256)
		tab := discover(t, "shop.orders", samples, benchRegistry())
		batch := column.NewBatch(tab.schema)
		ctx := context.Background()
		rec := record(&samples[0])
		decodeSome := func() {
			batch.Reset()
			for i := range samples {
				rec.Key, rec.Value = samples[i].Key, samples[i].Value
				if _, err := tab.dec.Decode(ctx, rec, batch); err != nil {
					t.Fatal(err)
				}
				if _, err := tab.dec.Decode(ctx, rec, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		decodeSome()
		if n := testing.AllocsPerRun(5, decodeSome); n != 0 {
			t.Errorf("%s: %v allocations for %d records", format, n, len(samples))
		}
	}
}

func TestAllTypesAllocateNothingInTheSteadyState(t *testing.T) {
	reg := sampleRegistry(t)
	for _, prefix := range []string{"pgjson", "pgjsonschema", "pgavro"} {
		topic, records := sampleTopic(t, prefix, "inv.all_types")
		tab := discover(t, topic, records, reg)
		batch := column.NewBatch(tab.schema)
		rec := record(&records[0])
		decodeFirst := func() {
			batch.Reset()
			if _, err := tab.dec.Decode(context.Background(), rec, batch); err != nil {
				t.Fatal(err)
			}
		}
		decodeFirst()
		if n := testing.AllocsPerRun(100, decodeFirst); n != 0 {
			t.Errorf("%s: %v allocations a record", prefix, n)
		}
	}
}

// base64 of a text, for records written by hand.
func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

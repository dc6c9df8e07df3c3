package decode_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/registry"
)

// avroMaker makes up Avro schemas, values of them, and the text that the column must show.
type avroMaker struct {
	r     *rand.Rand
	names int
}

// made is a made-up type: its schema, and a maker of values and their texts.
type made struct {
	schema any
	value  func() (v any, text string)
}

func (m *avroMaker) name(prefix string) string {
	m.names++
	return fmt.Sprintf("%s%d", prefix, m.names)
}

func (m *avroMaker) typ(depth int) made {
	n := 12
	if depth > 3 {
		n = 8
	}
	switch m.r.IntN(n) {
	case 0:
		return made{"boolean", func() (any, string) { v := m.r.IntN(2) == 0; return v, fmt.Sprint(v) }}
	case 1:
		return made{"int", func() (any, string) { v := m.r.Int32() - m.r.Int32(); return v, fmt.Sprint(v) }}
	case 2:
		return made{"long", func() (any, string) { v := int64(m.r.Uint64()) >> m.r.IntN(64); return v, fmt.Sprint(v) }}
	case 3:
		return made{"float", func() (any, string) { v := m.r.Float32(); return v, floatText(float64(v)) }}
	case 4:
		return made{"double", func() (any, string) { v := m.r.NormFloat64(); return v, floatText(v) }}
	case 5:
		return made{"string", func() (any, string) {
			v := strings.Repeat("é", m.r.IntN(3)) + strings.Repeat("x", m.r.IntN(90))
			return v, fmt.Sprintf("%q", v)
		}}
	case 6:
		return made{"bytes", func() (any, string) { v := m.bytes(m.r.IntN(20)); return v, fmt.Sprintf("%x", v) }}
	case 7:
		return m.enumOrFixed()
	case 8:
		return m.record(depth)
	case 9:
		elem := m.nullable(depth + 1)
		return made{map[string]any{"type": "array", "items": elem.schema}, func() (any, string) {
			vs, texts := []any{}, []string{}
			for range m.r.IntN(4) {
				v, text := elem.value()
				vs, texts = append(vs, v), append(texts, text)
			}
			return vs, "[" + strings.Join(texts, " ") + "]"
		}}
	case 10: // one entry at most: the order of more is the encoder's
		elem := m.nullable(depth + 1)
		return made{map[string]any{"type": "map", "values": elem.schema}, func() (any, string) {
			if m.r.IntN(2) == 0 {
				return map[string]any{}, "[]"
			}
			v, text := elem.value()
			return map[string]any{"k": v}, `["k":` + text + "]"
		}}
	}
	return m.nullable(depth)
}

func (m *avroMaker) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.r.Uint32())
	}
	return b
}

func (m *avroMaker) enumOrFixed() made {
	if m.r.IntN(2) == 0 {
		symbols := []string{"A", "B", "C"}
		return made{map[string]any{"type": "enum", "name": m.name("E"), "symbols": symbols}, func() (any, string) {
			v := symbols[m.r.IntN(3)]
			return v, fmt.Sprintf("%q", v)
		}}
	}
	size := 1 + m.r.IntN(9)
	return made{map[string]any{"type": "fixed", "name": m.name("F"), "size": size}, func() (any, string) {
		v := m.bytes(size)
		return v, fmt.Sprintf("%x", v)
	}}
}

// nullable wraps a type in a union with null, on either side, or does not.
func (m *avroMaker) nullable(depth int) made {
	inner := m.typ(depth + 1)
	if _, union := inner.schema.([]any); union || m.r.IntN(4) == 0 {
		return inner
	}
	union := []any{"null", inner.schema}
	if m.r.IntN(3) == 0 {
		slices.Reverse(union)
	}
	return made{union, func() (any, string) {
		if m.r.IntN(4) == 0 {
			return nil, "null"
		}
		return inner.value()
	}}
}

func (m *avroMaker) record(depth int) made {
	var fields []any
	var makers []made
	for i := range 1 + m.r.IntN(4) {
		f := m.nullable(depth + 1)
		makers = append(makers, f)
		fields = append(fields, map[string]any{"name": fmt.Sprintf("f%d", i), "type": f.schema})
	}
	return made{map[string]any{"type": "record", "name": m.name("R"), "fields": fields}, func() (any, string) {
		v, texts := map[string]any{}, []string{}
		for i, f := range makers {
			fv, text := f.value()
			v[fmt.Sprintf("f%d", i)] = fv
			texts = append(texts, fmt.Sprintf("f%d=%s", i, text))
		}
		return v, "{" + strings.Join(texts, " ") + "}"
	}}
}

func TestAvroOfAnySchemaDecodesToWhatAnotherEncoderWrote(t *testing.T) {
	seed := rand.Uint64()
	m := &avroMaker{r: rand.New(rand.NewPCG(seed, 0))}
	for round := range 60 {
		rec := m.record(0)
		text, err := json.Marshal(rec.schema)
		if err != nil {
			t.Fatal(err)
		}
		encoder, err := avro.Parse(string(text))
		if err != nil {
			t.Fatalf("seed %d round %d: %v: %s", seed, round, err, text)
		}
		reg := &fakeRegistry{subjects: map[string][]registry.Schema{
			"t-value": {{ID: 7, Type: "AVRO", Text: string(text)}}, "t-key": {{ID: 8, Type: "AVRO", Text: `"string"`}}}}
		var samples []decode.Sample
		var want []string
		for range 10 {
			v, wantText := rec.value()
			value, err := encoder.AppendEncode(wire(7), v)
			if err != nil {
				t.Fatalf("seed %d round %d: %v: %s", seed, round, err, text)
			}
			samples = append(samples, decode.Sample{Key: append(wire(8), 2, 'k'), Value: value})
			want = append(want, wantText)
		}
		tab := discover(t, "t", samples, reg)
		for i, got := range decodeAll(t, tab, samples) {
			var parts []string
			for _, f := range tab.schema.Fields[3 : len(tab.schema.Fields)-2] {
				parts = append(parts, f.Name+"="+got.row[f.Name])
			}
			if text := "{" + strings.Join(parts, " ") + "}"; got.class != layout.Row || text != want[i] {
				t.Fatalf("seed %d round %d: class %d (%s)\n%s, want\n%s", seed, round, got.class, got.reason, text, want[i])
			}
			if got.row["key"] != `"k"` {
				t.Fatalf("seed %d round %d: key %s", seed, round, got.row["key"])
			}
			for cut := range len(samples[i].Value) { // what is cut short is bad, or is caught by its length
				if short := one(t, tab, samples[i].Key, samples[i].Value[:cut]); short.class != layout.Bad {
					t.Fatalf("seed %d round %d: %d of %d bytes are class %d", seed, round, cut, len(samples[i].Value), short.class)
				}
			}
			if long := one(t, tab, samples[i].Key, append(samples[i].Value[:len(samples[i].Value):len(samples[i].Value)], 0)); long.class != layout.Bad {
				t.Fatalf("seed %d round %d: a byte too many is class %d", seed, round, long.class)
			}
		}
	}
}

func TestAvroSchemasThatAreNoTable(t *testing.T) {
	for text, want := range map[string]string{
		`"string"`: "not records",
		`{"type":"record","name":"R","fields":[{"name":"a","type":["int","string"]}]}`:                         "union of several types",
		`{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"]}]}`:                             "refers to itself",
		`{"type":"record","name":"R","fields":[{"name":"a","type":"null"}]}`:                                   "only null",
		`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"record","name":"E","fields":[]}}]}`: "without fields",
		`{"type":"record","name":"R","fields":[{"name":"a","type":"Unknown"}]}`:                                "unknown type",
		`{"type":"record","name":"R","fields":[{"name":"kafka_offset","type":"long"}]}`:                        "the name of a metadata column",
		`{"type":"record","name":"R","fields":[{"name":"__deleted","type":"string"}]}`:                         "flattened",
		`{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"A","type":"int"}]}`:          "only by case",
		`not json`: "not JSON",
		`[]`:       "empty union",
	} {
		reg := &fakeRegistry{subjects: map[string][]registry.Schema{
			"t-value": {{ID: 7, Type: "AVRO", Text: text}}, "t-key": {{ID: 8, Type: "AVRO", Text: `"string"`}}}}
		refused(t, decode.Sample{Key: append(wire(8), 2, 'k'), Value: append(wire(7), 0)}, reg, want)
	}
	reg := &fakeRegistry{subjects: map[string][]registry.Schema{"t-value": {{ID: 7, Type: "PROTOBUF", Text: `syntax = "proto3";`}}}}
	refused(t, decode.Sample{Key: []byte("k"), Value: append(wire(7), 0)}, reg, "only Avro is read")
	refused(t, decode.Sample{Key: []byte("k"), Value: append(wire(7), 0)}, nil, "registry.url")
}

// Records may refer to themselves where they are skipped, to any depth that is written.
func TestRecursiveTypesAreSkipped(t *testing.T) {
	text := `{"type":"record","name":"Env","fields":[{"name":"before","type":["null",{"type":"record","name":"V","fields":[{"name":"a","type":"int"}]}]},` +
		`{"name":"after","type":["null","V"]},{"name":"source","type":{"type":"record","name":"Tree","fields":[{"name":"kids","type":{"type":"array","items":"Tree"}},` +
		`{"name":"any","type":["int","string","null"]}]}},{"name":"op","type":"string"}]}`
	reg := &fakeRegistry{subjects: map[string][]registry.Schema{"t-value": {{ID: 7, Text: text}}, "t-key": {{ID: 8, Text: `"string"`}}}}
	// before null; after {a: 5}; source: one kid {no kids, any = 7}, any = "x"; op "c"
	body := []byte{0, 2, 10, 2, 0, 0, 14, 0, 2, 2, 'x', 2, 'c'}
	sample := decode.Sample{Key: append(wire(8), 2, 'k'), Value: append(wire(7), body...)}
	tab := discover(t, "t", []decode.Sample{sample}, reg)
	if got := one(t, tab, sample.Key, sample.Value); got.class != layout.Row || got.row["a"] != "5" {
		t.Errorf("%v", got)
	}
	deep := append([]byte{0, 2, 10}, []byte(strings.Repeat("\x02", 100000))...)
	if got := one(t, tab, sample.Key, append(wire(7), deep...)); got.class != layout.Bad {
		t.Errorf("100000 levels: %v", got)
	}
}

// An int of the writer is 32 bits wide, even where the column is a long.
func TestAvroIntegersAreOfTheirWidth(t *testing.T) {
	reg := &fakeRegistry{subjects: map[string][]registry.Schema{"t-key": {{ID: 8, Text: `"string"`}}, "t-value": {
		{ID: 6, Text: `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`},
		{ID: 7, Text: `{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}`}}}}
	value := []byte{0xfe, 0xff, 0xff, 0xff, 0x0f} // 2^31 - 1
	over := []byte{0x80, 0x80, 0x80, 0x80, 0x10}  // 2^31
	key := append(wire(8), 2, 'k')
	tab := discover(t, "t", []decode.Sample{{Key: key, Value: append(wire(7), value...)}}, reg)
	for _, c := range []struct {
		id    uint32
		b     []byte
		class layout.Class
		a     string
	}{{6, value, layout.Row, "2147483647"}, {6, over, layout.Bad, ""}, {7, over, layout.Row, "2147483648"}} {
		if got := one(t, tab, key, append(wire(c.id), c.b...)); got.class != c.class || got.row["a"] != c.a {
			t.Errorf("schema %d, %x: class %d, %s (%s)", c.id, c.b, got.class, got.row["a"], got.reason)
		}
	}
}

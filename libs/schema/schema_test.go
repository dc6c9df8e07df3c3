package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

func col(name string, t schema.Type) schema.Field { return schema.Field{Name: name, Type: t} }

func kind(k schema.Kind) schema.Type { return schema.Type{Kind: k} }

func decimal(p, s int) schema.Type { return schema.Type{Kind: schema.Decimal, Precision: p, Scale: s} }

func list(t schema.Type) schema.Type { return listOf(schema.Field{Type: t}) }

func listOf(elem schema.Field) schema.Type {
	elem.Name = "element"
	return schema.Type{Kind: schema.List, Elem: &elem}
}

func structOf(fields ...schema.Field) schema.Type {
	return schema.Type{Kind: schema.Struct, Fields: fields}
}

func mapOf(k, v schema.Type) schema.Type {
	return schema.Type{Kind: schema.Map, Key: &schema.Field{Name: "key", Type: k, Required: true}, Elem: &schema.Field{Name: "value", Type: v}}
}

func writer(fields ...schema.Field) *schema.Schema { return &schema.Schema{Fields: fields} }

func extend(t *testing.T, list []*schema.Schema, fields ...schema.Field) *schema.Schema {
	t.Helper()
	s, _, err := schema.Extend(list, writer(fields...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const goldenJSON = `{"type":"struct","schema-id":0,"fields":[` +
	`{"id":1,"name":"kafka_partition","required":true,"type":"int"},` +
	`{"id":2,"name":"kafka_offset","required":true,"type":"long"},` +
	`{"id":3,"name":"kafka_timestamp","required":true,"type":"timestamptz"},` +
	`{"id":4,"name":"id","required":false,"type":"long","doc":"microseconds"},` +
	`{"id":5,"name":"price","required":false,"type":"decimal(10, 2)"},` +
	`{"id":6,"name":"tags","required":false,"type":{"type":"list","element-id":7,"element-required":false,"element":"string"}},` +
	`{"id":8,"name":"m","required":false,"type":{"type":"map","key-id":9,"key":"int","value-id":10,"value-required":false,"value":"double"}},` +
	`{"id":11,"name":"p","required":false,"type":{"type":"struct","fields":[{"id":12,"name":"x","required":false,"type":"double"}]}}]}`

func golden(t *testing.T) *schema.Schema {
	return extend(t, nil, schema.Field{Name: "id", Type: kind(schema.Long), Doc: "microseconds"}, col("price", decimal(10, 2)),
		col("tags", list(kind(schema.String))), col("m", mapOf(kind(schema.Int), kind(schema.Double))), col("p", structOf(col("x", kind(schema.Double)))))
}

func TestTheFirstSchemaHasTheMetadataColumnsAndIdsFromOne(t *testing.T) {
	s := golden(t)
	got, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != goldenJSON {
		t.Errorf("got  %s\nwant %s", got, goldenJSON)
	}
	again, err := schema.ParseJSON(got)
	if err != nil {
		t.Fatal(err)
	}
	if back, _ := again.MarshalJSON(); !bytes.Equal(back, got) {
		t.Errorf("read back: %s", back)
	}
	var viaJSON schema.Schema
	if err := json.Unmarshal(got, &viaJSON); err != nil || schema.Fingerprint(&viaJSON) != schema.Fingerprint(s) {
		t.Errorf("by encoding/json: %v", err)
	}
}

func TestFileSchemaAndFingerprint(t *testing.T) {
	s := golden(t)
	file := schema.FileSchema(s)
	last := file.Fields[len(file.Fields)-1]
	if len(file.Fields) != len(s.Fields)+1 || last.ID != 2147483540 || last.Name != "_row_id" || !last.Required || last.Type.Kind != schema.Long {
		t.Errorf("last column %+v", last)
	}
	if got, want := schema.Fingerprint(file), "h3jkhz72ni"; got != want {
		t.Errorf("fingerprint %s, want %s: it is in the path of every data file", got, want)
	}
	same := golden(t)
	same.ID, same.Fields[3].Doc = 9, "other"
	if schema.Fingerprint(same) != schema.Fingerprint(s) {
		t.Error("the id or the doc of a schema is in its fingerprint")
	}
	for name, change := range map[string]func(*schema.Schema){
		"name":      func(s *schema.Schema) { s.Fields[3].Name = "i" },
		"id":        func(s *schema.Schema) { s.Fields[3].ID = 99 },
		"type":      func(s *schema.Schema) { s.Fields[3].Type.Kind = schema.Int },
		"required":  func(s *schema.Schema) { s.Fields[3].Required = true },
		"precision": func(s *schema.Schema) { s.Fields[4].Type.Precision++ },
		"scale":     func(s *schema.Schema) { s.Fields[4].Type.Scale++ },
		"element":   func(s *schema.Schema) { s.Fields[5].Type.Elem.ID++ },
		"key":       func(s *schema.Schema) { s.Fields[6].Type.Key.ID++ },
		"nested":    func(s *schema.Schema) { s.Fields[7].Type.Fields[0].Name = "y" },
		"dropped":   func(s *schema.Schema) { s.Fields = s.Fields[:7] },
	} {
		other := golden(t)
		change(other)
		if schema.Fingerprint(other) == schema.Fingerprint(s) {
			t.Errorf("%s is not in the fingerprint", name)
		}
	}
}

func TestExtend(t *testing.T) {
	first := extend(t, nil, col("a", kind(schema.Int)), col("f", kind(schema.Float)), col("d", decimal(5, 2)),
		col("p", structOf(col("x", kind(schema.Int)))), col("l", list(kind(schema.Int))))
	table := []*schema.Schema{first}
	before, _ := first.MarshalJSON()
	same, changed, err := schema.Extend(table, writer(col("f", kind(schema.Float)), col("d", decimal(4, 2))))
	if err != nil || changed || same != first {
		t.Errorf("a writer that fits: %v, changed %v", err, changed)
	}
	second, changed, err := schema.Extend(table, writer(col("a", kind(schema.Long)), col("f", kind(schema.Double)), col("d", decimal(9, 2)),
		col("new", kind(schema.String)), col("p", structOf(col("y", kind(schema.Date)), col("x", kind(schema.Int)))), col("l", list(kind(schema.Long)))))
	if err != nil || !changed || second.ID != 1 {
		t.Fatalf("%v, changed %v", err, changed)
	}
	if now, _ := first.MarshalJSON(); !bytes.Equal(now, before) {
		t.Errorf("the older schema changed to %s", now)
	}
	got, _ := second.MarshalJSON()
	for _, want := range []string{`"id":4,"name":"a","required":false,"type":"long"`, `"type":"double"`, `decimal(9, 2)`,
		`{"id":11,"name":"new","required":false,"type":"string"}`, `{"id":12,"name":"y","required":false,"type":"date"}`, `"element":"long"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	// An id is never used again, even if a later schema no longer has it.
	third := extend(t, []*schema.Schema{second, first}, col("b", kind(schema.Int)))
	if f := third.Fields[len(third.Fields)-1]; f.Name != "b" || f.ID != 13 || third.ID != 2 {
		t.Errorf("got %+v, schema id %d", f, third.ID)
	}
}

func TestExtendRefuses(t *testing.T) {
	for _, c := range []struct {
		table, writer schema.Field
		want          string
	}{
		{col("a", kind(schema.Long)), col("a", kind(schema.String)), `"a" changes from long to string`},
		{col("a", kind(schema.Long)), col("a", kind(schema.Double)), `"a"`},
		{col("a", decimal(5, 2)), col("a", decimal(6, 3)), `"a"`},
		{col("a", kind(schema.Date)), col("a", kind(schema.Timestamp)), `"a"`},
		{col("a", kind(schema.Timestamp)), col("a", kind(schema.Timestamptz)), `"a"`},
		{col("a", kind(schema.Int)), col("a", structOf(col("x", kind(schema.Int)))), `"a"`},
		{col("a", list(kind(schema.Int))), col("a", kind(schema.Int)), `"a"`},
		{col("a", list(kind(schema.Int))), col("a", list(kind(schema.String))), `"a.element"`},
		{col("a", mapOf(kind(schema.Int), kind(schema.Int))), col("a", mapOf(kind(schema.Long), kind(schema.Int))), `"a.key"`},
		{col("a", structOf(col("x", kind(schema.Int)))), col("a", structOf(col("x", kind(schema.Binary)))), `"a.x"`},
		{col("a", kind(schema.Int)), col("A", kind(schema.Int)), `only by case`},
		{col("a", kind(schema.Int)), col("kafka_offset", kind(schema.Int)), `the name of a metadata column`},
		{col("a", kind(schema.Int)), col("Kafka_Timestamp", kind(schema.Int)), `the name of a metadata column`},
		{col("a", kind(schema.Int)), col("_row_id", kind(schema.Int)), `reserves`},
		{col("a", kind(schema.Int)), col("", kind(schema.Int)), `empty name`},
		{col("a", kind(schema.Int)), col("s", structOf()), `"s"`},
		{schema.Field{Name: "a", Type: kind(schema.Long), Doc: "microseconds"}, col("a", kind(schema.Long)), `meaning`},
		{col("a", listOf(schema.Field{Type: kind(schema.Long), Doc: "microseconds"})), col("a", list(kind(schema.Long))), `"a.element"`},
		{col("a", mapOf(kind(schema.Int), kind(schema.Int))), col("a", mapOf(kind(schema.Int), kind(schema.String))), `"a.value"`},
	} {
		table := []*schema.Schema{extend(t, nil, c.table)}
		_, _, err := schema.Extend(table, writer(c.writer))
		if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %s", c.writer.Name, err, c.want)
		}
	}
	if _, _, err := schema.Extend(nil, writer(col("a", kind(schema.Int)), col("a", kind(schema.Int)))); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a name twice: %v", err)
	}
}

// Any order of the same writers gives a schema that holds them all, and every column keeps its first id.
func TestExtendInAnyOrder(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	writers := []*schema.Schema{
		writer(col("a", kind(schema.Int)), col("b", kind(schema.String))),
		writer(col("a", kind(schema.Long)), col("c", list(structOf(col("x", kind(schema.Float)))))),
		writer(col("c", list(structOf(col("x", kind(schema.Double)), col("y", decimal(3, 1)))))),
		writer(col("c", list(structOf(col("y", decimal(8, 1)))))),
	}
	for range 50 {
		r.Shuffle(len(writers), func(i, j int) { writers[i], writers[j] = writers[j], writers[i] })
		var list []*schema.Schema
		ids := map[string]int32{}
		for _, w := range writers {
			s, changed, err := schema.Extend(list, w)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if changed {
				list = append(list, s)
			}
			seen := map[int32]bool{}
			walk("", s.Fields, func(path string, f *schema.Field) {
				if id, ok := ids[path]; ok && id != f.ID || seen[f.ID] {
					t.Fatalf("seed %d: column %s has id %d, had %d", seed, path, f.ID, id)
				}
				ids[path], seen[f.ID] = f.ID, true
			})
		}
		for _, w := range writers {
			if _, changed, err := schema.Extend(list, w); changed || err != nil {
				t.Fatalf("seed %d: the result does not hold a writer: %v", seed, err)
			}
		}
	}
}

func walk(path string, fields []schema.Field, visit func(string, *schema.Field)) {
	for i := range fields {
		f := &fields[i]
		visit(path+"."+f.Name, f)
		walk(path+"."+f.Name, f.Type.Fields, visit)
		if f.Type.Elem != nil {
			walk(path+"."+f.Name, []schema.Field{*f.Type.Elem}, visit)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for text, kind := range map[string]error{
		``:                fault.ErrInvalid,
		`{}`:              fault.ErrInvalid,
		`{"type":"list"}`: fault.ErrInvalid,
		`{"type":"struct","fields":[{"id":1,"name":"a","type":"uuid"}]}`:                                                                                        fault.ErrUnsupported,
		`{"type":"struct","fields":[{"id":1,"name":"a","type":"decimal(39, 2)"}]}`:                                                                              fault.ErrInvalid,
		`{"type":"struct","fields":[{"id":1,"name":"a","type":"decimal(5, 6)"}]}`:                                                                               fault.ErrInvalid,
		`{"type":"struct","fields":[{"id":1,"name":"a","type":{"type":"variant"}}]}`:                                                                            fault.ErrUnsupported,
		`{"type":"struct","fields":[{"id":1,"name":"a"}]}`:                                                                                                      fault.ErrInvalid,
		`{"type":"struct","fields":[{"id":1,"name":"a","type":` + strings.Repeat(`{"type":"list","element":`, 100) + `"int"` + strings.Repeat(`}`, 100) + `}]}`: fault.ErrInvalid,
	} {
		if _, err := schema.ParseJSON([]byte(text)); !errors.Is(err, kind) {
			t.Errorf("%.80s: %v, want %v", text, err, kind)
		}
	}
	if s, err := schema.ParseJSON([]byte(`{"type":"struct","fields":[{"id":1,"name":"a","type":"decimal(9,2)"}]}`)); err != nil || s.Fields[0].Type.Scale != 2 {
		t.Errorf("decimal without a space: %v", err)
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(goldenJSON))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := schema.ParseJSON(text)
		if err != nil {
			return
		}
		out, err := s.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := schema.ParseJSON(out)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if schema.Fingerprint(s) != schema.Fingerprint(again) {
			t.Fatalf("%s is another schema", out)
		}
	})
}

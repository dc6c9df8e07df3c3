package decode_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/schema"
)

// sampleTopic reads the records of testdata/<prefix>/<prefix>.<table>.jsonl.
func sampleTopic(tb testing.TB, prefix, table string) (topic string, records []decode.Sample) {
	tb.Helper()
	topic = prefix + "." + table
	file, err := os.Open(filepath.Join("testdata", prefix, topic+".jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var r struct {
			Partition  int32
			Offset, TS int64
			Key        *string `json:"key_b64"`
			Value      *string `json:"value_b64"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			tb.Fatal(err)
		}
		records = append(records, decode.Sample{Partition: kafkapos.Partition(r.Partition), Offset: kafkapos.Offset(r.Offset),
			TimestampMs: r.TS, Key: unbase64(tb, r.Key), Value: unbase64(tb, r.Value)})
	}
	return topic, records
}

func unbase64(tb testing.TB, s *string) []byte {
	if s == nil {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(*s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// fakeRegistry answers from a dump of a registry; err, when set, comes instead of any answer.
type fakeRegistry struct {
	subjects map[string][]registry.Schema
	err      error
}

func sampleRegistry(tb testing.TB) *fakeRegistry {
	tb.Helper()
	b, err := os.ReadFile("testdata/registry-schemas.json")
	if err != nil {
		tb.Fatal(err)
	}
	var dump []struct {
		Subject string
		ID      int32
		Schema  string
	}
	if err := json.Unmarshal(b, &dump); err != nil {
		tb.Fatal(err)
	}
	r := &fakeRegistry{subjects: map[string][]registry.Schema{}}
	for _, s := range dump {
		r.subjects[s.Subject] = append(r.subjects[s.Subject], registry.Schema{ID: s.ID, Type: "AVRO", Text: s.Schema})
	}
	return r
}

func (r *fakeRegistry) ByID(_ context.Context, id int32) (registry.Schema, error) {
	if r.err != nil {
		return registry.Schema{}, r.err
	}
	for _, versions := range r.subjects {
		for _, s := range versions {
			if s.ID == id {
				return s, nil
			}
		}
	}
	return registry.Schema{}, fmt.Errorf("schema %d: %w", id, fault.ErrNotFound)
}

func (r *fakeRegistry) Versions(_ context.Context, subject string) ([]registry.Schema, error) {
	if r.err != nil {
		return nil, r.err
	}
	if v := r.subjects[subject]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("subject %q: %w", subject, fault.ErrNotFound)
}

// table is a discovered topic.
type table struct {
	found  decode.Discovery
	schema *schema.Schema // of the files
	dec    *decode.Decoder
}

func discover(tb testing.TB, topic string, records []decode.Sample, reg registry.Registry) *table {
	tb.Helper()
	found, err := decode.Discover(context.Background(), topic, records, reg)
	if err != nil {
		tb.Fatal(err)
	}
	return newTable(tb, found, reg)
}

func newTable(tb testing.TB, found decode.Discovery, reg registry.Registry) *table {
	tb.Helper()
	var list []*schema.Schema
	for _, w := range found.Writers {
		s, changed, err := schema.Extend(list, w)
		if err != nil {
			tb.Fatal(err)
		}
		if changed {
			list = append(list, s)
		}
	}
	t := &table{found: found, schema: schema.FileSchema(list[len(list)-1])}
	var err error
	t.dec, err = decode.NewDecoder(decode.Spec{Schema: t.schema, Decoding: found.Decoding, Partition: 3, HashKey: [16]byte{1, 2, 3}}, reg)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func record(s *decode.Sample) *kafkalog.Record {
	return &kafkalog.Record{Offset: s.Offset, TimestampMs: s.TimestampMs, Key: s.Key, Value: s.Value}
}

// row is a row as text, column by column.
type row map[string]string

// rowsOf reads a batch back, slot by slot, into text.
func rowsOf(b *column.Batch) []row {
	r := reader{b: b, level: make([]int, len(b.Leaves)), value: make([]int, len(b.Leaves))}
	out := make([]row, b.Rows)
	for i := range out {
		out[i] = row{}
		r.leaf = 0
		for j := range b.Schema.Fields {
			f := &b.Schema.Fields[j]
			out[i][f.Name] = r.field(f, 0, 0)
		}
	}
	return out
}

type reader struct {
	b            *column.Batch
	leaf         int
	level, value []int // next slot and next value, by leaf
}

func (r *reader) def(leaf int) uint8 {
	if len(r.b.Leaves[leaf].Def) == 0 {
		return 0
	}
	return r.b.Leaves[leaf].Def[r.level[leaf]]
}

func leaves(f *schema.Field) int {
	n := 0
	switch f.Type.Kind {
	case schema.Struct:
		for i := range f.Type.Fields {
			n += leaves(&f.Type.Fields[i])
		}
		return n
	case schema.List:
		return leaves(f.Type.Elem)
	case schema.Map:
		return leaves(f.Type.Key) + leaves(f.Type.Elem)
	}
	return 1
}

// none consumes one slot of every leaf of f.
func (r *reader) none(f *schema.Field) {
	for range leaves(f) {
		r.level[r.leaf]++
		r.leaf++
	}
}

func (r *reader) field(f *schema.Field, def, rep uint8) string {
	if !f.Required {
		def++
		if r.def(r.leaf) < def {
			r.none(f)
			return "null"
		}
	}
	switch f.Type.Kind {
	case schema.Struct:
		var parts []string
		for i := range f.Type.Fields {
			parts = append(parts, f.Type.Fields[i].Name+"="+r.field(&f.Type.Fields[i], def, rep))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case schema.List, schema.Map:
		return r.repeated(f, def, rep)
	}
	leaf := r.leaf
	r.leaf++
	r.level[leaf]++
	r.value[leaf]++
	return valueText(&f.Type, r.b.Leaves[leaf], r.value[leaf]-1)
}

func (r *reader) repeated(f *schema.Field, def, rep uint8) string {
	if r.def(r.leaf) == def {
		r.none(f)
		return "[]"
	}
	first := r.leaf
	var parts []string
	for {
		r.leaf = first
		part := ""
		if f.Type.Key != nil {
			part = r.field(f.Type.Key, def+1, rep+1) + ":"
		}
		parts = append(parts, part+r.field(f.Type.Elem, def+1, rep+1))
		l := r.b.Leaves[first]
		if r.level[first] >= len(l.Rep) || l.Rep[r.level[first]] != rep+1 {
			return "[" + strings.Join(parts, " ") + "]"
		}
	}
}

func valueText(t *schema.Type, l *column.Leaf, i int) string {
	switch l.Kind {
	case column.Bool:
		return fmt.Sprint(l.Bools[i])
	case column.Float32:
		return floatText(float64(l.Float32s[i]))
	case column.Float64:
		return floatText(l.Float64s[i])
	case column.Bytes:
		if t.Kind == schema.Binary {
			return fmt.Sprintf("%x", l.Value(i))
		}
		return fmt.Sprintf("%q", l.Value(i))
	}
	n := new(big.Int)
	switch l.Kind {
	case column.Int32:
		n.SetInt64(int64(l.Int32s[i]))
	case column.Int64:
		n.SetInt64(l.Int64s[i])
	default:
		n = twosComplement(l.Value(i))
	}
	switch t.Kind {
	case schema.Decimal:
		return decimalText(n, t.Scale)
	case schema.Timestamp, schema.Timestamptz:
		return time.UnixMicro(n.Int64()).UTC().Format(time.RFC3339Nano)
	}
	return n.String()
}

func floatText(v float64) string { return fmt.Sprintf("%x", math.Float64bits(v)) }

func twosComplement(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

// decimalText is n * 10^-scale as a fraction: the same text for the same number.
func decimalText(n *big.Int, scale int) string {
	r := new(big.Rat).SetInt(n)
	if scale < 0 {
		return r.Mul(r, new(big.Rat).SetInt(pow10(-scale))).String()
	}
	return r.Quo(r, new(big.Rat).SetInt(pow10(scale))).String()
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// connect is an embedded schema, as the oracle reads it.
type connect struct {
	Type       string
	Name       string
	Field      string
	Fields     []connect
	Items      *connect
	Parameters map[string]string
}

// expect is the oracle: the dullest way from a value and its schema to the text of the column.
func expect(tb testing.TB, c *connect, v any) string {
	if v == nil {
		return "null"
	}
	switch c.Name {
	case "org.apache.kafka.connect.data.Decimal":
		scale := integerOf(tb, c.Parameters["scale"])
		return decimalText(twosComplement(mustBase64(tb, v)), scale)
	case "io.debezium.data.VariableScaleDecimal":
		m := as[map[string]any](tb, v)
		scale := integerOf(tb, as[json.Number](tb, m["scale"]).String())
		return fmt.Sprintf("%q", plainText(twosComplement(mustBase64(tb, m["value"])), scale))
	case "io.debezium.time.Timestamp":
		return time.UnixMilli(int64(integerOf(tb, as[json.Number](tb, v).String()))).UTC().Format(time.RFC3339Nano)
	case "io.debezium.time.MicroTimestamp":
		return time.UnixMicro(int64(integerOf(tb, as[json.Number](tb, v).String()))).UTC().Format(time.RFC3339Nano)
	case "io.debezium.time.ZonedTimestamp":
		at, err := time.Parse(time.RFC3339Nano, as[string](tb, v))
		if err != nil {
			tb.Fatal(err)
		}
		return at.UTC().Format(time.RFC3339Nano)
	}
	switch c.Type {
	case "struct":
		var parts []string
		for i := range c.Fields {
			parts = append(parts, c.Fields[i].Field+"="+expect(tb, &c.Fields[i], as[map[string]any](tb, v)[c.Fields[i].Field]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case "array":
		var parts []string
		for _, e := range as[[]any](tb, v) {
			parts = append(parts, expect(tb, c.Items, e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case "bytes":
		return fmt.Sprintf("%x", mustBase64(tb, v))
	case "float":
		return floatText(float64(float32(floatOf(tb, v))))
	case "double":
		return floatText(floatOf(tb, v))
	}
	return bareText(tb, v)
}

// as is v as a T.
func as[T any](tb testing.TB, v any) T {
	tb.Helper()
	t, ok := v.(T)
	if !ok {
		tb.Fatalf("%v is %T", v, v)
	}
	return t
}

func integerOf(tb testing.TB, text string) int {
	tb.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func bareText(tb testing.TB, v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", v)
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return floatText(floatOf(tb, v))
		}
		return v.String()
	}
	return "?"
}

func floatOf(tb testing.TB, v any) float64 {
	switch v {
	case "NaN":
		return math.NaN()
	case "Infinity":
		return math.Inf(1)
	case "-Infinity":
		return math.Inf(-1)
	}
	f, err := as[json.Number](tb, v).Float64()
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func mustBase64(tb testing.TB, v any) []byte {
	b, err := base64.StdEncoding.DecodeString(as[string](tb, v))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// plainText is BigDecimal.toPlainString.
func plainText(n *big.Int, scale int) string {
	digits, sign := new(big.Int).Abs(n).String(), ""
	if n.Sign() < 0 {
		sign = "-"
	}
	if scale <= 0 {
		if n.Sign() == 0 {
			return "0"
		}
		return sign + digits + strings.Repeat("0", -scale)
	}
	for len(digits) <= scale {
		digits = "0" + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

func parseJSON(tb testing.TB, b []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		tb.Fatal(err)
	}
	return m
}

package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

const topic = "inv.item"

// gateway is the product with one topic of one partition, in chunks of 16 and blocks of 4 offsets.
type gateway struct {
	*inprocess.Frazil
	t *testing.T
}

// newGateway starts the product, after the changes.
func newGateway(t *testing.T, change ...func(*inprocess.Frazil)) *gateway {
	t.Helper()
	g := &gateway{inprocess.New(t), t}
	g.create()
	g.Config.Tables = map[string]app.TableConfig{topic: {Dedup: dedup.TableConfig{ChunkLog2: 4, BlockLog2: 2}}}
	for _, c := range change {
		c(g.Frazil)
	}
	g.Start()
	return g
}

func (g *gateway) create() {
	g.t.Helper()
	_, err := kadm.NewClient(g.Producer).CreateTopic(g.t.Context(), 1, 1, nil, topic)
	g.must(err)
}

func (g *gateway) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// record is a record of the topic. An empty key or value is Kafka's null.
type record struct {
	key, value string
	headers    map[string]string
}

func (r record) kafka() *kgo.Record {
	out := &kgo.Record{Topic: topic}
	if r.key != "" {
		out.Key = []byte(r.key)
	}
	if r.value != "" {
		out.Value = []byte(r.value)
	}
	for k, v := range r.headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	return out
}

func (g *gateway) produce(records ...record) {
	g.t.Helper()
	for _, r := range records {
		g.must(g.Producer.ProduceSync(g.t.Context(), r.kafka()).FirstErr())
	}
}

func key(id int) string { return fmt.Sprintf(`{"id":%d}`, id) }

// tsMs is the source time of every event: order never comes from it.
const tsMs = 1700000000000

func envelope(op, before, after string) string {
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"connector":"postgresql","db":"inv","schema":"inv","table":"item","lsn":77,"ts_ms":%d},"op":%q,"ts_ms":%d}`,
		before, after, tsMs, op, tsMs)
}

func row(id, qty int, note string) string {
	return fmt.Sprintf(`{"id":%d,"qty":%d,"note":%q}`, id, qty, note)
}

func create(id, qty int, note string) record {
	return record{key: key(id), value: envelope("c", "null", row(id, qty, note))}
}

func snapshotRead(id, qty int, note string) record {
	return record{key: key(id), value: envelope("r", "null", row(id, qty, note))}
}

func update(id, qty int, note string) record {
	return record{key: key(id), value: envelope("u", "null", row(id, qty, note))}
}

// remove is a delete under the default replica identity: before has the key, the rest is filled.
func remove(id int) record {
	return record{key: key(id), value: envelope("d", fmt.Sprintf(`{"id":%d,"qty":null,"note":""}`, id), "null")}
}

func tombstone(id int) record { return record{key: key(id)} }

var warehouses = []string{"v2", "v3"}

// loaded answers the table once its cut ends at end.
func (g *gateway) loaded(warehouse string, end int64) *readback.Table {
	g.t.Helper()
	var t *readback.Table
	g.Until("load", func() (err error) {
		if t, err = g.Catalog(warehouse).Load(g.t.Context(), "inv_item"); err != nil {
			return err
		}
		s, err := t.Snapshot(0)
		if err != nil {
			return err
		}
		if got := s.Summary["frazil.end.0"]; got != fmt.Sprint(end) {
			return fmt.Errorf("end %s, want %d", got, end)
		}
		return nil
	})
	return t
}

// texts prints rows by the named columns, sorted.
func texts(rows []readback.Row, columns ...string) []string {
	out := []string{}
	for _, r := range rows {
		var f []string
		for _, c := range columns {
			f = append(f, fmt.Sprint(r[c]))
		}
		out = append(out, strings.Join(f, " "))
	}
	slices.Sort(out)
	return out
}

// shows checks the rows (id qty note) of the table at a cut that ends at end, in both warehouses.
func (g *gateway) shows(end int64, want ...string) {
	g.t.Helper()
	for _, w := range warehouses {
		g.rows(g.loaded(w, end), 0, want, "id", "qty", "note")
	}
}

func (g *gateway) rows(t *readback.Table, snapshot int64, want []string, columns ...string) {
	g.t.Helper()
	rows, err := t.Rows(g.t.Context(), snapshot)
	g.must(err)
	if want == nil {
		want = []string{}
	}
	if got := texts(rows, columns...); !slices.Equal(got, want) {
		g.t.Errorf("format version %d shows %q, want %q", t.Metadata.FormatVersion, got, want)
	}
}

// refusal loads the table until it is refused and answers the message.
func (g *gateway) refusal() string {
	g.t.Helper()
	var message string
	g.Until("refusal", func() error {
		_, err := g.Catalog("v2").Load(g.t.Context(), "inv_item")
		var status *readback.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusBadRequest {
			return fmt.Errorf("load answers %v, want 400", err)
		}
		var body struct {
			Error struct{ Message, Type string }
		}
		g.must(json.Unmarshal([]byte(status.Body), &body))
		if body.Error.Type != "BadRequestException" {
			g.t.Errorf("type %q, want BadRequestException", body.Error.Type)
		}
		message = body.Error.Message
		return nil
	})
	return message
}

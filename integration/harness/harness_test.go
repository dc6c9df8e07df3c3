package harness_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/franz"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// TestAReplayIsByteForByte puts a captured topic into a broker, restarts the broker, and compares every byte of every
// record, offsets and timestamps included.
func TestAReplayIsByteForByte(t *testing.T) {
	broker := harness.StartBroker(t)
	file := filepath.Join(harness.Root(t), "integration", "testdata", "samples", "pgjson", "pgjson.inv.customers.jsonl")
	want := harness.Captured(t, file)
	harness.NewAdmin(t, broker).Replay(t, "pgjson.inv.customers", harness.Captured(t, file))
	broker.Stop(t)
	broker.Start(t)
	cfg := franz.Default()
	cfg.Brokers = []string{broker.Addr()}
	door, err := franz.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	topic, err := door.Topic(t.Context(), "pgjson.inv.customers")
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	_, err = door.Read(t.Context(), topic, 0, kafkapos.Range{End: kafkapos.Offset(len(want))}, kafkalog.Visitor{Record: func(r *kafkalog.Record) error {
		w := want[i]
		same := r.Offset == kafkapos.Offset(i) && r.TimestampMs == w.Timestamp.UnixMilli() && len(r.Headers) == len(w.Headers) &&
			bytes.Equal(r.Key, w.Key) && (r.Key == nil) == (w.Key == nil) && bytes.Equal(r.Value, w.Value) && (r.Value == nil) == (w.Value == nil)
		for j := range w.Headers {
			same = same && r.Headers[j].Name == w.Headers[j].Key && bytes.Equal(r.Headers[j].Value, w.Headers[j].Value)
		}
		if !same {
			t.Errorf("record %d: got %+v, want %+v", i, r, w)
		}
		i++
		return nil
	}})
	if err != nil || i != len(want) {
		t.Errorf("%d records of %d, %v", i, len(want), err)
	}
}

// TestTheOracleKnowsTheKnownAnswer pins the fold to what the SQL that made the samples left behind.
func TestTheOracleKnowsTheKnownAnswer(t *testing.T) {
	harness.Scale(t)
	dir := filepath.Join(harness.Root(t), "integration", "testdata")
	file := filepath.Join(dir, "samples", "pgavro", "pgavro.inv.orders.jsonl")
	folds := harness.Fold(t, filepath.Join(dir, "registry-schemas.json"), []harness.FoldJob{{ID: "orders", File: file, Ends: []int64{2, 12}}})
	for end, want := range map[int64][]string{
		2: {
			`kafka_partition=0 kafka_offset=0 kafka_timestamp="tz:2026-11-29T20:43:26.284000" order_id=10 line_no=1 item="nut" qty=5 price="d:1.2500" `,
			`kafka_partition=0 kafka_offset=1 kafka_timestamp="tz:2026-11-29T20:43:26.287000" order_id=10 line_no=2 item="bolt" qty=7 price="d:0.1000" `,
		},
		12: {
			`kafka_partition=0 kafka_offset=10 kafka_timestamp="tz:2026-11-29T20:44:01.902000" order_id=10 line_no=9 item="bolt" qty=14 price="d:0.1000" `,
			`kafka_partition=0 kafka_offset=11 kafka_timestamp="tz:2026-11-29T20:44:01.903000" order_id=11 line_no=1 item="cog" qty=1 price="d:9.9999" `,
		},
	} {
		got := folds["orders"][end]
		if len(got.Rows) != len(want) {
			t.Fatalf("fold at %d has %d rows, want %d", end, len(got.Rows), len(want))
		}
		for i := range want {
			if got.Row(i) != want[i] {
				t.Errorf("fold at %d:\n%s\nwant\n%s", end, got.Row(i), want[i])
			}
		}
	}
}

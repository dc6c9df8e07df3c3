package materializer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/materializer"
)

func TestScanProjectsEveryOffset(t *testing.T) {
	w := newWorld(t)
	w.append(upsert(1, 0), upsert(2, 1), del(1), upsert(1, 3))
	if _, err := w.kafka.AppendAborted(topicName, 0, upsert(9, 4), upsert(9, 5)); err != nil {
		t.Fatal(err)
	}
	w.append(upsert(2, 7))
	end := kafkapos.Offset(8) // the abort has a marker of its own
	if err := w.kafka.Drop(topicName, 0, 1); err != nil {
		t.Fatal(err)
	}
	s, err := w.scan(span(0, end))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int64]layout.Class{0: layout.Row, 2: layout.Delete, 3: layout.Row, 7: layout.Row}
	if fmt.Sprint(s.classes) != fmt.Sprint(want) {
		t.Errorf("classes %v, want %v", s.classes, want)
	}
	if fmt.Sprint(s.nonrows) != "[[4,7)]" {
		t.Errorf("offsets without an event %v", s.nonrows)
	}
	if s.hashes[0] != s.hashes[2] || s.hashes[0] != s.hashes[3] || s.hashes[0] == s.hashes[7] {
		t.Error("keys and hashes do not go together")
	}
	if tr := s.trailer; tr.GetPosition() != 8 || tr.GetEvents() != 4 || tr.GetLogStartOffset() != 0 || tr.GetLeaderEpoch() < 0 || tr.GetBytes() == 0 {
		t.Errorf("trailer %v", tr)
	}
}

func TestKeyBatchesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.fill(70_000)
	s, err := w.scan(span(0, 70_000))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.classes) != 70_000 || s.batches != 2 {
		t.Errorf("%d events in %d batches", len(s.classes), s.batches)
	}
}

func TestARowGroupThatBeginsBelowTheScanIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.fill(3000)
	s, err := w.scan(span(2500, 3000), span(0, 1024), span(1024, 2048), span(2048, 3000))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.classes) != 500 {
		t.Errorf("%d events are projected, want 500", len(s.classes))
	}
	for off := range s.classes {
		if off < 2500 {
			t.Fatalf("offset %d is projected", off)
		}
	}
	if len(s.groups) != 3 {
		t.Fatalf("%d row groups", len(s.groups))
	}
	equalRows(t, "file", rowsOf(t, w.readAll(w.record(span(0, 3000), s))), expected(span(0, 3000)))
}

func TestARowGroupWithoutRowsIsReportedSo(t *testing.T) {
	w := newWorld(t)
	w.append(del(1), del(2), upsert(1, 2))
	s, err := w.scan(span(0, 3), span(0, 2), span(2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.groups) != 2 || s.groups[0].GetRows() != 0 || s.groups[0].GetSizeBytes() != 0 || s.groups[1].GetRows() != 1 {
		t.Errorf("row groups %v", s.groups)
	}
}

func TestAScanThatContradictsItselfIsInvalid(t *testing.T) {
	w := newWorld(t)
	w.fill(100)
	for what, groups := range map[string][]kafkapos.Range{
		"beyond the end": {span(50, 101)}, "unordered": {span(50, 60), span(10, 20)}, "overlapping": {span(10, 30), span(20, 40)}, "empty": {span(5, 5)},
	} {
		if _, err := w.scan(span(0, 100), groups...); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := w.scan(span(0, 101)); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("beyond the log: %v", err)
	}
}

func TestABadRecordIsReportedAndHasNoRow(t *testing.T) {
	w := newWorld(t)
	broken := upsert(1, 1)
	broken.Value = []byte(`{"id":`)
	w.append(upsert(1, 0), broken, upsert(2, 2))
	s, err := w.scan(span(0, 3), span(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	if s.classes[1] != layout.Bad || s.bad[1] == "" || s.hashes[1] != strings.Repeat("\x00", 10) || s.groups[0].GetRows() != 2 {
		t.Errorf("classes %v, bad %v, rows %d", s.classes, s.bad, s.groups[0].GetRows())
	}
}

func TestARowGroupLargerThanAllMemoryIsRefused(t *testing.T) {
	w := newWorld(t, func(c *materializer.Config) { c.Memory.MaxBytes = 16 << 20 })
	for i := range 40 {
		big := upsert(i, i)
		big.Value = fmt.Appendf(nil, `{"id":%d,"name":"%s"}`, i, strings.Repeat("x", 200<<10))
		w.append(big)
	}
	_, err := w.scan(span(0, 40), span(0, 40))
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "memory.max_bytes") {
		t.Errorf("8 MB of rows in 14 MB: %v", err)
	}
	if _, err := w.scan(span(0, 40), span(0, 10)); err != nil {
		t.Errorf("2 MB of rows: %v", err)
	}
}

func TestARecordWithAnUnknownColumnStopsTheScan(t *testing.T) {
	w := newWorld(t)
	odd := upsert(1, 1)
	odd.Value = []byte(`{"id":1,"name":"x","amount":1,"colour":"red"}`)
	w.append(upsert(1, 0), odd)
	if _, err := w.scan(span(0, 2), span(0, 2)); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "offset 1") {
		t.Errorf("%v", err)
	}
}

func TestDiscoverSchemaLooksFurtherBackThanAbortedTransactions(t *testing.T) {
	w := newWorld(t)
	w.fill(10)
	noise := make([]kafkalog.Record, 3000)
	for i := range noise {
		noise[i] = upsert(1, i)
	}
	rng, err := w.kafka.AppendAborted(topicName, 0, noise...)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{
		Topic: w.spec().GetTopic(), Ranges: map[int32]*typesv1.OffsetRange{0: {Start: 0, End: int64(rng.End)}},
	})
	if err != nil || resp.GetBytesPerOffset() != 1 {
		t.Errorf("%v, %v", resp, err)
	}
}

// Deletes show no columns: what is below them does. A topic that has nothing else has no columns yet.
func TestDiscoverSchemaLooksFurtherBackThanDeletes(t *testing.T) {
	for _, value := range [][]byte{nil, []byte("null")} {
		w := newWorld(t)
		deletes := make([]kafkalog.Record, 3000)
		for i := range deletes {
			deletes[i] = upsert(1, i)
			deletes[i].Value = value
		}
		w.append(deletes...)
		discover := func(end int64) (*materializerv1.DiscoverSchemaResponse, error) {
			return w.client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{
				Topic: w.spec().GetTopic(), Ranges: map[int32]*typesv1.OffsetRange{0: {Start: 0, End: end}},
			})
		}
		if _, err := discover(3000); !errors.Is(err, fault.ErrNotFound) || !strings.Contains(err.Error(), "no row yet") {
			t.Errorf("%q: nothing but deletes: %v", value, err)
		}
		w.append(upsert(1, 0))
		w.append(deletes...)
		if resp, err := discover(6001); err != nil || len(resp.GetWriterSchemasJson()) != 1 {
			t.Errorf("%q: a row below deletes: %v, %v", value, resp, err)
		}
	}
}

func TestDiscoverSchema(t *testing.T) {
	w := newWorld(t)
	w.fill(2000)
	ref := w.spec().GetTopic()
	resp, err := w.client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{
		Topic: ref, Ranges: map[int32]*typesv1.OffsetRange{0: {Start: 0, End: 2000}, 1: {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := resp.GetDecoding(); d.GetEnvelope() != "upsert" || d.GetValueFormat() != "json" || fmt.Sprint(d.GetKeyFields()) != "[id]" {
		t.Errorf("decoding %v", d)
	}
	if len(resp.GetWriterSchemasJson()) == 0 || resp.GetBytesPerOffset() < 40 || resp.GetBytesPerOffset() > 100 {
		t.Errorf("%d schemas, %d bytes per offset", len(resp.GetWriterSchemasJson()), resp.GetBytesPerOffset())
	}
	if _, err := w.kafka.RecreateTopic(topicName, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{Topic: ref}); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("another incarnation: %v", err)
	}
	ref.Topic = "nothing"
	if _, err := w.client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{Topic: ref}); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("no topic: %v", err)
	}
}

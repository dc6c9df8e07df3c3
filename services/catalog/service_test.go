package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	foreign "github.com/apache/iceberg-go"
	"go.opentelemetry.io/otel/metric/noop"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/memlog"
)

// fakeClock moves only when it is told to.
type fakeClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// world is a catalog between a Kafka in memory and a fake dedup.
type world struct {
	*testing.T
	kafka *memlog.Cluster
	door  kafkalog.Metadata // to kafka
	dedup *fakeDedup
	clock *fakeClock
	*Service
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	w := &world{T: t, kafka: memlog.New("cluster"), dedup: newFakeDedup(), clock: &fakeClock{at: time.Unix(1_700_000_100, 0)}}
	w.door = w.kafka
	w.Service = w.replica(change...)
	return w
}

// replica is another catalog over the same Kafka and dedup, with nothing in its caches.
func (w *world) replica(change ...func(*Config)) *Service {
	w.Helper()
	cfg := Default()
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg, Deps{
		Kafka: w.door, Dedup: w.dedup.serve(w.T), Now: w.clock.now, Logger: slog.New(slog.DiscardHandler),
		Meter: noop.NewMeterProvider().Meter("test"),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.flights.Close(); s.renders.Close(); s.dir.close() })
	return s
}

func (w *world) topic(name string, partitions, records int) {
	w.Helper()
	if _, err := w.kafka.CreateTopic(name, partitions); err != nil {
		w.Fatal(err)
	}
	for range records {
		w.append(name, 1)
	}
}

func (w *world) append(name string, records int) {
	w.Helper()
	if _, err := w.kafka.Append(name, 0, make([]kafkalog.Record, records)...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) load(req *catalogv1.LoadTableRequest) *catalogv1.LoadTableResponse {
	w.Helper()
	resp, err := w.tryLoad(req)
	if err != nil {
		w.Fatal(err)
	}
	return resp
}

func (w *world) tryLoad(req *catalogv1.LoadTableRequest) (*catalogv1.LoadTableResponse, error) {
	if req.Namespace == "" {
		req.Namespace = "kafka"
	}
	if req.Table == "" {
		req.Table = "orders"
	}
	return w.LoadTable(context.Background(), req)
}

// tick lets the offsets' TTL and the cut interval pass.
func (w *world) tick() { w.clock.advance(time.Second) }

type metadataDoc struct {
	FormatVersion     int               `json:"format-version"`
	UUID              string            `json:"table-uuid"`
	Properties        map[string]string `json:"properties"`
	CurrentSnapshotID int64             `json:"current-snapshot-id"`
	NextRowID         int64             `json:"next-row-id"`
	Refs              map[string]struct {
		SnapshotID int64  `json:"snapshot-id"`
		Type       string `json:"type"`
	} `json:"refs"`
	Snapshots []struct {
		ID           int64             `json:"snapshot-id"`
		ManifestList string            `json:"manifest-list"`
		Summary      map[string]string `json:"summary"`
	} `json:"snapshots"`
}

func parse(t *testing.T, data []byte) (m metadataDoc) {
	t.Helper()
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return m
}

func readObject(t *testing.T, s *Service, uri string) []byte {
	t.Helper()
	data, err := tryRead(s, uri)
	if err != nil {
		t.Fatalf("read %s: %v", uri, err)
	}
	return data
}

func tryRead(s *Service, uri string) ([]byte, error) {
	resp, err := s.ReadMetadata(context.Background(), &catalogv1.ReadMetadataRequest{ObjectKey: strings.TrimPrefix(uri, "s3://frazil/")})
	return resp.GetData(), err
}

// walk reads everything that a load names, and answers the objects by location.
func walk(t *testing.T, s *Service, location string) map[string][]byte {
	t.Helper()
	objects := map[string][]byte{location: readObject(t, s, location)}
	for _, snap := range parse(t, objects[location]).Snapshots {
		objects[snap.ManifestList] = readObject(t, s, snap.ManifestList)
		for _, m := range readList(t, objects[snap.ManifestList]) {
			objects[m.FilePath()] = readObject(t, s, m.FilePath())
		}
	}
	return objects
}

func readList(t *testing.T, data []byte) []foreign.ManifestFile {
	t.Helper()
	lines, err := foreign.ReadManifestList(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func readEntries(t *testing.T, s *Service, m foreign.ManifestFile) []foreign.ManifestEntry {
	t.Helper()
	entries, err := foreign.ReadManifest(m, bytes.NewReader(readObject(t, s, m.FilePath())), false)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestUnmovedTopicAsksNobodyAndAnswersTheSame(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 2, 30)
	first := w.load(&catalogv1.LoadTableRequest{})
	w.tick()
	second := w.load(&catalogv1.LoadTableRequest{})
	if w.dedup.calls() != 1 {
		t.Errorf("%d advances, want 1", w.dedup.calls())
	}
	if first.GetMetadataLocation() != second.GetMetadataLocation() || !bytes.Equal(first.GetMetadataJson(), second.GetMetadataJson()) {
		t.Error("the same cut is answered with other bytes")
	}
	known := w.load(&catalogv1.LoadTableRequest{KnownMetadataLocation: first.GetMetadataLocation()})
	if len(known.GetMetadataJson()) != 0 || known.GetMetadataLocation() != first.GetMetadataLocation() {
		t.Error("what the caller holds is sent again")
	}
	w.append("orders", 5)
	w.tick()
	third := w.load(&catalogv1.LoadTableRequest{KnownMetadataLocation: first.GetMetadataLocation()})
	if third.GetMetadataLocation() == first.GetMetadataLocation() || w.dedup.calls() != 2 {
		t.Errorf("a moved topic has location %s after %d advances", third.GetMetadataLocation(), w.dedup.calls())
	}
	m := parse(t, third.GetMetadataJson())
	if m.Snapshots[len(m.Snapshots)-1].Summary["frazil.end.0"] != "35" || m.Snapshots[0].Summary["frazil.end.0"] != "" {
		t.Errorf("ends in the summaries: %v", m.Snapshots)
	}
	if m.UUID != parse(t, first.GetMetadataJson()).UUID {
		t.Error("the table's UUID changed")
	}
	if w.dedup.waits[0] != 20_000 || w.dedup.waits[1] != 5_000 {
		t.Errorf("waits %v ms", w.dedup.waits)
	}
	if w.dedup.known[0] != 0 || w.dedup.known[1] == 0 {
		t.Errorf("known versions %v", w.dedup.known)
	}
}

func TestOffsetsAreReadOncePerTTL(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 10)
	w.load(&catalogv1.LoadTableRequest{})
	w.append("orders", 1)
	w.clock.advance(100 * time.Millisecond)
	w.load(&catalogv1.LoadTableRequest{})
	if w.dedup.calls() != 1 {
		t.Error("ends were looked at within their TTL")
	}
	w.clock.advance(120 * time.Millisecond)
	w.load(&catalogv1.LoadTableRequest{})
	if w.dedup.calls() != 1 {
		t.Error("two cuts within the least interval")
	}
	w.clock.advance(250 * time.Millisecond)
	w.load(&catalogv1.LoadTableRequest{})
	if w.dedup.calls() != 2 {
		t.Error("no cut after the interval")
	}
}

func TestCutIntervalGrowsWithPartitions(t *testing.T) {
	f := Default().Freshness
	for partitions, want := range map[int]time.Duration{1: 1, 50: 1, 51: 2, 1000: 20} {
		if got := f.cutInterval(partitions); got != want*f.MinCutInterval {
			t.Errorf("%d partitions: %v", partitions, got)
		}
	}
}

// Every object has the same bytes on a replica that has never seen it, whatever the first one cached.
func TestReplicasRenderTheSameBytes(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 3, 250)
	for _, dialect := range []string{"v2", "v3"} {
		location := w.load(&catalogv1.LoadTableRequest{Warehouse: dialect}).GetMetadataLocation()
		want := walk(t, w.Service, location)
		got := walk(t, w.replica(), location)
		if len(got) != len(want) || len(want) != 6 { // metadata, list, 2 groups of 2 manifests
			t.Errorf("%s: %d and %d objects", dialect, len(want), len(got))
		}
		for name := range want {
			if !bytes.Equal(got[name], want[name]) {
				t.Errorf("%s has other bytes on a replica", name)
			}
		}
	}
}

func TestInlineMetadataIsTheObject(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 130)
	resp := w.load(&catalogv1.LoadTableRequest{Warehouse: "v3"})
	if !bytes.Equal(readObject(t, w.replica(), resp.GetMetadataLocation()), resp.GetMetadataJson()) {
		t.Error("the location names other bytes than were answered")
	}
}

// What metadata says of a snapshot, what its manifest list says and what the entries say is the same.
func TestCountsAgree(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 130)
	w.load(&catalogv1.LoadTableRequest{})
	w.append("orders", 200)
	w.tick()
	dataPaths := map[string][]string{}
	for _, dialect := range []string{"v2", "v3"} {
		resp := w.load(&catalogv1.LoadTableRequest{Warehouse: dialect})
		m := parse(t, resp.GetMetadataJson())
		snap := m.Snapshots[len(m.Snapshots)-1]
		var rows, files, deletes, deleted int64
		for _, line := range readList(t, readObject(t, w.Service, snap.ManifestList)) {
			if got := readObject(t, w.Service, line.FilePath()); int64(len(got)) != line.Length() {
				t.Errorf("manifest of %d bytes, the list says %d", len(got), line.Length())
			}
			sum := line.AddedRows() + line.ExistingRows()
			for _, e := range readEntries(t, w.Service, line) {
				sum -= e.DataFile().Count()
				added := e.Status() == foreign.EntryStatusADDED
				if added != (e.SnapshotID() == line.SnapshotID()) {
					t.Errorf("entry of snapshot %d is %v in a manifest of %d", e.SnapshotID(), e.Status(), line.SnapshotID())
				}
				if line.ManifestContent() == foreign.ManifestContentDeletes {
					deletes++
					deleted += e.DataFile().Count()
					continue
				}
				files++
				rows += e.DataFile().Count()
				dataPaths[dialect] = append(dataPaths[dialect], e.DataFile().FilePath())
			}
			if sum != 0 {
				t.Errorf("manifest rows differ from its entries by %d", sum)
			}
		}
		for key, want := range map[string]int64{"total-records": rows, "total-data-files": files, "total-delete-files": deletes, "total-position-deletes": deleted} {
			if snap.Summary[key] != itoa(want) {
				t.Errorf("%s %s: %s, the entries hold %d", dialect, key, snap.Summary[key], want)
			}
		}
		if files != 4 || deletes != 4 || rows != 326 {
			t.Errorf("%s: %d files, %d delete files, %d rows", dialect, files, deletes, rows)
		}
	}
	if !slices.Equal(dataPaths["v2"], dataPaths["v3"]) {
		t.Error("the dialects name other data files")
	}
}

func itoa(v int64) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestDeletesAreStatedAsEachDialectNeeds(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 130)
	for _, dialect := range []string{"v2", "v3"} {
		m := parse(t, w.load(&catalogv1.LoadTableRequest{Warehouse: dialect}).GetMetadataJson())
		for _, line := range readList(t, readObject(t, w.Service, m.Snapshots[0].ManifestList)) {
			for _, e := range readEntries(t, w.Service, line) {
				f := e.DataFile()
				if line.ManifestContent() == foreign.ManifestContentData {
					if dialect == "v3" && (f.FirstRowID() == nil || *f.FirstRowID()%100 != 0) {
						t.Errorf("first row id %v", f.FirstRowID())
					}
					continue
				}
				if !strings.Contains(f.FilePath(), "/deletes/"+dialect+"/0/") || f.Count() != 3 || f.ReferencedDataFile() == nil {
					t.Errorf("%s: delete file %s with %d rows", dialect, f.FilePath(), f.Count())
				}
				if dialect == "v3" && (*f.ContentOffset() != 4 || *f.ContentSizeInBytes() >= f.FileSizeBytes()) {
					t.Errorf("deletion vector at %d+%d of %d", *f.ContentOffset(), *f.ContentSizeInBytes(), f.FileSizeBytes())
				}
			}
		}
		if dialect == "v3" && m.NextRowID != 1<<44 {
			t.Errorf("next row id %d", m.NextRowID)
		}
	}
}

func TestEmptyTopicIsAnEmptyTable(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 2, 0)
	m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
	if len(m.Snapshots) != 1 || m.Snapshots[0].Summary["total-records"] != "0" {
		t.Fatalf("snapshots %v", m.Snapshots)
	}
	if lines := readList(t, readObject(t, w.Service, m.Snapshots[0].ManifestList)); len(lines) != 0 {
		t.Errorf("%d manifests", len(lines))
	}
}

func TestListedSnapshotsAndTags(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.ListedSnapshots = 3 })
	w.topic("orders", 1, 10)
	w.load(&catalogv1.LoadTableRequest{})
	for range 5 {
		w.append("orders", 1)
		w.tick()
		w.load(&catalogv1.LoadTableRequest{})
	}
	var tagged int64
	w.dedup.set(func(f *fakeDedup) {
		f.change(f.current["orders"], func(s *dedupv1.TableState) {
			tagged = s.GetSnapshots()[0].GetId()
			s.Tags = map[string]int64{"month-end": tagged, "lost": 12345}
		})
	})
	w.append("orders", 1)
	w.tick()
	m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
	if len(m.Snapshots) != 4 || m.Snapshots[0].ID != tagged {
		t.Errorf("%d snapshots listed, the first is %d", len(m.Snapshots), m.Snapshots[0].ID)
	}
	if len(m.Refs) != 2 || m.Refs["month-end"].SnapshotID != tagged || m.Refs["main"].SnapshotID != m.CurrentSnapshotID {
		t.Errorf("refs %v", m.Refs)
	}
	if m.Snapshots[3].ID != m.CurrentSnapshotID {
		t.Error("the current snapshot is not the last one")
	}
	refs := parse(t, w.load(&catalogv1.LoadTableRequest{RefsOnly: true}).GetMetadataJson())
	if len(refs.Snapshots) != 2 || len(refs.Refs) != 2 || refs.CurrentSnapshotID != m.CurrentSnapshotID {
		t.Errorf("refs only: %v", refs.Snapshots)
	}
	// Time travel: the oldest listed snapshot is readable as it was.
	for _, line := range readList(t, readObject(t, w.replica(func(c *Config) { c.ListedSnapshots = 3 }), m.Snapshots[0].ManifestList)) {
		if line.AddedRows() != 9 && line.AddedRows() != 3 {
			t.Errorf("the tagged snapshot has %d rows", line.AddedRows())
		}
	}
}

func TestErrorsOfNames(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 1)
	for name, c := range map[string]struct {
		req  *catalogv1.LoadTableRequest
		want error
	}{
		"table":     {&catalogv1.LoadTableRequest{Table: "nothing"}, fault.ErrNotFound},
		"namespace": {&catalogv1.LoadTableRequest{Namespace: "other"}, fault.ErrNotFound},
		"warehouse": {&catalogv1.LoadTableRequest{Warehouse: "v9"}, fault.ErrInvalid},
	} {
		if _, err := w.tryLoad(c.req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.dedup.calls() != 0 {
		t.Error("a name that is wrong reached dedup")
	}
}

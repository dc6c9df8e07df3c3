package probe_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/libs/probe"
)

type story struct {
	t      *testing.T
	table  *scantest.Table
	at     time.Time
	before *probe.Record
	n      int
}

func newStory(t *testing.T) *story {
	return &story{t: t, table: scantest.New(t, 2, schema(), specs()[0]), at: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)}
}

// upsert commits a data file and an equality delete file of the given keys.
func (s *story) upsert(keys int64) {
	s.n++
	n := string(rune('a' + s.n))
	s.table.Commit("overwrite", map[string]string{"added-equality-deletes": itoa(keys)}, []scantest.File{
		{Path: "d" + n, Records: 10},
		{Path: "e" + n, Records: keys, Content: iceberg.EntryContentEqDeletes, EqualityIDs: []int{1}},
	})
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// run probes an hour later.
func (s *story) run() (probe.Trend, *probe.Report, *icebergscan.Table) {
	s.t.Helper()
	s.at = s.at.Add(time.Hour)
	r := measure(s.t, s.table, probe.Config{})
	meta, err := icebergscan.ParseTable(s.table.Metadata())
	if err != nil {
		s.t.Fatal(err)
	}
	head, err := meta.Head("main")
	if err != nil {
		s.t.Fatal(err)
	}
	r.Table, r.Ref, r.At = "db.t", "main", s.at
	if head != nil {
		r.SnapshotID, r.SequenceNumber = head.ID, head.SequenceNumber
	}
	trend := probe.Compare(s.before, meta, r)
	rec := r.Record()
	rec.Reset = trend.Kind == probe.Reset
	s.before = &rec
	return trend, r, meta
}

func TestTrendTellsGrowthFromReset(t *testing.T) {
	s := newStory(t)
	s.upsert(5)
	if got, _, _ := s.run(); got.Kind != probe.First {
		t.Fatalf("got %+v", got)
	}
	if got, _, _ := s.run(); got.Kind != probe.Same || got.ProbeUnits != 0 {
		t.Fatalf("got %+v", got)
	}
	s.upsert(7) // touches one file
	s.upsert(3) // touches two
	got, _, _ := s.run()
	if got.Kind != probe.Grown || got.Snapshots != 2 || got.KeysAdded != 10 || got.ProbeUnits != 13 || got.ProbeUnitsPerHour != 13 || got.KeysAddedPerHour != 10 || got.Operations["overwrite"] != 2 {
		t.Fatalf("got %+v", got)
	}
	// A compaction removes all deletes, and a writer adds more in the same interval than there was: a reset still.
	s.table.Commit("replace", map[string]string{"removed-equality-deletes": "15"}, []scantest.File{{Path: "compacted", Records: 30}}, "db", "dc", "dd", "eb", "ec", "ed")
	s.upsert(500)
	s.upsert(500)
	got, _, _ = s.run()
	if got.Kind != probe.Reset || got.ResetOperation != "replace" || got.ResetBy != 1004 || got.KeysRemoved != 15 || got.KeysAdded != 1000 || got.ProbeUnitsPerHour != 0 || got.KeysAddedPerHour != 1000 {
		t.Fatalf("got %+v", got)
	}
}

func TestTrendAfterARollbackOrARecreation(t *testing.T) {
	s := newStory(t)
	s.upsert(5)
	s.upsert(5)
	s.run()
	other := *s.before
	other.SnapshotID, other.SequenceNumber = 77, 99
	s.upsert(5)
	_, r, meta := s.run()
	if got := probe.Compare(&other, meta, r); got.Kind != probe.Diverged {
		t.Errorf("a snapshot that is gone and was newer: %+v", got)
	}
	other.SequenceNumber = 1
	if got := probe.Compare(&other, meta, r); got.Kind != probe.Grown || !got.Expired {
		t.Errorf("a snapshot that expired: %+v", got)
	}
	other.TableUUID = "another"
	if got := probe.Compare(&other, meta, r); got.Kind != probe.Recreated {
		t.Errorf("another table: %+v", got)
	}
}

func TestHistorySurvivesATornLine(t *testing.T) {
	s := newStory(t)
	s.upsert(5)
	var file bytes.Buffer
	for range 3 {
		s.run()
		if err := s.before.AppendTo(&file); err != nil {
			t.Fatal(err)
		}
	}
	other := *s.before
	other.Table = "db.other"
	if err := other.AppendTo(&file); err != nil {
		t.Fatal(err)
	}
	torn := file.Bytes()[:file.Len()-20]
	got, bad, err := probe.ReadHistory(bytes.NewReader(torn), "db.t", "main")
	if err != nil || len(got) != 3 || bad != 1 || got[2] != *s.before {
		t.Errorf("%d records, %d bad, %v", len(got), bad, err)
	}
}

func TestSettingsSayWhatTheyDo(t *testing.T) {
	s := newStory(t)
	for range 4 {
		s.upsert(5)
	}
	_, r, meta := s.run()
	text := func(notes []probe.Note) string {
		var b strings.Builder
		for _, n := range notes {
			b.WriteString(n.Setting + "=" + n.Value + ": " + n.Text + "\n")
		}
		return b.String()
	}
	if got := text(probe.Settings(meta, r, 0)); !strings.Contains(got, "delete-file-threshold=: unset") || !strings.Contains(got, "2147483647") ||
		!strings.Contains(got, "Of 4 data files it would take 3 at 1, 0 at 10") || !strings.Contains(got, "does not see them") {
		t.Errorf("got %s", got)
	}
	if got := text(probe.Settings(meta, r, 2)); !strings.Contains(got, "delete-file-threshold=2: rewrite_data_files takes 2 of 4 data files") {
		t.Errorf("got %s", got)
	}
	s.table.Properties["optimizer.delete-file-threshold"] = "2"
	s.table.Properties["flink-maintenance.convert-equality-deletes.target-branch"] = "main"
	s.table.Refs["staging"] = 1002
	s.table.Commit("overwrite", map[string]string{"equality-convert-staging-snapshot": "1001"}, nil)
	_, r, meta = s.run()
	got := text(probe.Settings(meta, r, 0))
	for _, want := range []string{
		"optimizer.delete-file-threshold=2: rewrite_data_files takes 2 of 4",
		"are converted into branch main; converted up to snapshot 1001; 4 snapshots of branch main wait",
		"branch=staging: 10 delete keys in equality deletes, 3 snapshots behind main",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if got := probe.ThresholdsFor(meta, 7); len(got) != 8 || got[3] != 7 {
		t.Errorf("got %v", got)
	}
}

func TestChartIsWellFormed(t *testing.T) {
	s := newStory(t)
	var records []probe.Record
	for i := range 5 {
		s.upsert(int64(i + 1))
		s.run()
		records = append(records, *s.before)
	}
	records[3].Reset = true
	for _, recs := range [][]probe.Record{nil, records[:1], records} {
		var b bytes.Buffer
		if err := probe.Chart(&b, "db.<t>", recs); err != nil {
			t.Fatal(err)
		}
		dec := xml.NewDecoder(&b)
		lines := 0
		for {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "polyline" {
				lines++
			}
		}
		if want := 0; len(recs) > 2 && lines != 2 || len(recs) < 2 && lines != want {
			t.Errorf("%d records: %d lines", len(recs), lines)
		}
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1k", 1234567: "1.23M", 20_000_000_000: "20G", 9_223_372_036_854_775_807: "9.22E", -1500: "-1.5k", 150_000: "150k"} {
		if got := probe.Short(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

package dedup

import (
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/layout"
)

// DuckDB (Iceberg extension 1.5.5) reads the newest snapshot that is not younger than its transaction, which begins
// before the table is loaded.
func TestSnapshotTimesLieBeforeTheLook(t *testing.T) {
	w := newWorld(t, 1)
	w.topic.append(0, event{layout.Row, 1}, event{layout.Row, 2})
	first := last(w.advance())
	if got := w.now.UnixMilli() - first.GetTimestampMillis(); got != 30_000 {
		t.Errorf("the first snapshot lies %d ms before the look, want 30000", got)
	}
	w.topic.append(0, event{layout.Row, 3})
	second := last(w.advance())
	if got := w.now.UnixMilli() - second.GetTimestampMillis(); got != 1000 {
		t.Errorf("the second snapshot lies %d ms before the look, want 1000", got)
	}
	w.topic.append(0, event{layout.Row, 4})
	w.now = w.now.Add(-10 * time.Second)
	if third := last(w.advance()); third.GetTimestampMillis() != second.GetTimestampMillis()+1 {
		t.Errorf("under a clock that went back, a snapshot of %d follows one of %d", third.GetTimestampMillis(), second.GetTimestampMillis())
	}
}

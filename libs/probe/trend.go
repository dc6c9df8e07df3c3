package probe

import (
	"strconv"
	"time"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// TrendKind says how a run lies to the one before.
type TrendKind string

// The kinds.
const (
	// First: there is no run to compare with.
	First TrendKind = "first"
	// Same: the snapshot is the one of before.
	Same TrendKind = "same-snapshot"
	// Grown: snapshots were added and no equality delete was removed. The differences are growth.
	Grown TrendKind = "grown"
	// Reset: equality deletes were removed in between, as a compaction or a drain does. The differences mix growth
	// with the removal; KeysAdded and KeysRemoved tell them apart.
	Reset TrendKind = "reset"
	// Diverged: the snapshot of before is no ancestor any more: a rollback, or a branch that was replaced.
	Diverged TrendKind = "diverged"
	// Recreated: it is another table of the same name.
	Recreated TrendKind = "recreated"
)

// Trend compares a run with the one before.
type Trend struct {
	Kind TrendKind `json:"kind"`
	// Since is when the run before was, Elapsed how long ago.
	Since   time.Time     `json:"since,omitzero"`
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`
	// Snapshots lie between, by operation. Expired tells that some of them are not listed any more, so that the
	// counts below are of the listed ones.
	Snapshots  int            `json:"snapshots,omitempty"`
	Operations map[string]int `json:"operations,omitempty"`
	Expired    bool           `json:"expired,omitempty"`
	// KeysAdded and KeysRemoved are delete keys by the summaries of the snapshots between.
	KeysAdded   int64 `json:"delete_keys_added"`
	KeysRemoved int64 `json:"delete_keys_removed"`
	// ResetBy is the last snapshot that removed equality deletes, 0 if it is not known.
	ResetBy        int64     `json:"reset_by_snapshot_id,omitempty"`
	ResetOperation string    `json:"reset_operation,omitempty"`
	ResetAt        time.Time `json:"reset_at,omitzero"`
	// Differences, now minus before.
	ProbeUnits          int64 `json:"probe_units"`
	ProbeUnitsPruned    int64 `json:"probe_units_pruned"`
	DeleteKeys          int64 `json:"delete_keys"`
	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	// ProbeUnitsPerHour is the pace of growth; absent unless Kind is Grown.
	ProbeUnitsPerHour float64 `json:"probe_units_per_hour,omitempty"`
	// KeysAddedPerHour is the pace of what writers add, whatever was removed.
	KeysAddedPerHour float64 `json:"delete_keys_added_per_hour,omitempty"`
}

// Keys of snapshot summaries (Iceberg spec, Appendix F).
const (
	addedEqualityDeletes   = "added-equality-deletes"
	removedEqualityDeletes = "removed-equality-deletes"
)

// Compare says what happened between two runs. before is nil for the first one.
func Compare(before *Record, t *icebergscan.Table, now *Report) Trend {
	if before == nil {
		return Trend{Kind: First}
	}
	rec := now.Record()
	out := Trend{
		Since: before.At, Elapsed: now.At.Sub(before.At),
		ProbeUnits: rec.ProbeUnits - before.ProbeUnits, ProbeUnitsPruned: rec.ProbeUnitsPruned - before.ProbeUnitsPruned,
		DeleteKeys: rec.DeleteKeys - before.DeleteKeys, EqualityDeleteFiles: rec.EqualityDeleteFiles - before.EqualityDeleteFiles,
	}
	switch {
	case before.TableUUID != rec.TableUUID:
		out.Kind = Recreated
		return out
	case before.SnapshotID == rec.SnapshotID:
		out.Kind = Same
		return out
	}
	found := out.walk(t, now.SnapshotID, before)
	switch {
	case !found && rec.SequenceNumber < before.SequenceNumber, !found && !out.Expired:
		out.Kind = Diverged
	case out.KeysRemoved > 0, out.DeleteKeys < 0, out.EqualityDeleteFiles < 0:
		out.Kind = Reset
	default:
		out.Kind = Grown
	}
	out.pace()
	return out
}

// walk counts the ancestors of a snapshot down to that of the run before, and reports whether it was reached.
func (tr *Trend) walk(t *icebergscan.Table, from int64, before *Record) bool {
	tr.Operations = map[string]int{}
	for id := from; id != before.SnapshotID && tr.Snapshots <= len(t.Snapshots); {
		s, err := t.Snapshot(id)
		if err != nil {
			// The chain leaves the list. Before's own snapshot still being listed means that it is no ancestor.
			_, listed := t.Snapshot(before.SnapshotID)
			tr.Expired = listed != nil
			return false
		}
		tr.Snapshots++
		tr.Operations[s.Operation()]++
		removed := count(s, removedEqualityDeletes)
		tr.KeysAdded = add(tr.KeysAdded, count(s, addedEqualityDeletes))
		tr.KeysRemoved = add(tr.KeysRemoved, removed)
		if removed > 0 && tr.ResetBy == 0 {
			tr.ResetBy, tr.ResetOperation, tr.ResetAt = s.ID, s.Operation(), time.UnixMilli(s.TimestampMs).UTC()
		}
		if s.ParentID == 0 {
			_, listed := t.Snapshot(before.SnapshotID)
			tr.Expired = listed != nil && before.SnapshotID != 0
			return before.SnapshotID == 0
		}
		id = s.ParentID
	}
	return true
}

func count(s *icebergscan.Snapshot, key string) int64 {
	n, err := strconv.ParseInt(s.Summary[key], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (tr *Trend) pace() {
	hours := tr.Elapsed.Hours()
	if hours <= 0 {
		return
	}
	tr.KeysAddedPerHour = float64(tr.KeysAdded) / hours
	if tr.Kind == Grown {
		tr.ProbeUnitsPerHour = float64(tr.ProbeUnits) / hours
	}
}

package probe

import "time"

// Report is what one run found. Its JSON form is documented in docs/PROBE.md.
type Report struct {
	// Table is the name that the caller used.
	Table         string    `json:"table"`
	TableUUID     string    `json:"table_uuid"`
	FormatVersion int       `json:"format_version"`
	At            time.Time `json:"at"`
	// Ref is the branch or tag that was measured. SnapshotID is 0 for a table without snapshots.
	Ref            string    `json:"ref"`
	SnapshotID     int64     `json:"snapshot_id"`
	SequenceNumber int64     `json:"sequence_number"`
	SnapshotTime   time.Time `json:"snapshot_time"`

	Totals Counts `json:"totals"`
	// Partitions by falling probe units, one row each; the row of global deletes is among them.
	Partitions []Partition `json:"partitions"`
	// KeyColumns are the sets of columns that equality deletes compare, by falling delete keys.
	KeyColumns []KeyColumns `json:"key_columns,omitempty"`
	// FilesByDeletes says how many data files have at least so many equality delete files, after pruning by bounds.
	FilesByDeletes []Threshold `json:"data_files_by_equality_delete_files,omitempty"`

	// ManifestBytes and Entries say what the run has read, Passes how often.
	ManifestBytes int64 `json:"manifest_bytes"`
	Entries       int64 `json:"manifest_entries"`
	Passes        int   `json:"passes"`
}

// Counts are the figures of a partition or of the table. All are of live files.
type Counts struct {
	DataFiles   int64 `json:"data_files"`
	DataRecords int64 `json:"data_records"` // rows in data files, deleted ones included

	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	EqualityDeleteBytes int64 `json:"equality_delete_bytes"`
	// DeleteKeys are the rows of equality delete files.
	DeleteKeys int64 `json:"delete_keys"`
	// DanglingDeleteFiles are equality delete files that touch no data file any more.
	DanglingDeleteFiles int64 `json:"dangling_equality_delete_files"`

	Plain  Cost `json:"plain"`
	Pruned Cost `json:"pruned"`

	PositionDeleteFiles int64 `json:"position_delete_files"`
	DeletedPositions    int64 `json:"deleted_positions"` // rows of position delete files
	DeletionVectors     int64 `json:"deletion_vectors"`
	VectorPositions     int64 `json:"vector_positions"` // cardinality of the deletion vectors
}

// Cost is what equality deletes cost, by one way of counting pairs.
type Cost struct {
	// ProbeUnits are delete keys x data files that they may touch. They stop at the largest int64.
	ProbeUnits int64 `json:"probe_units"`
	// DataFilesTouched are data files that at least one equality delete may touch.
	DataFilesTouched int64 `json:"data_files_touched"`
	// WorstFanout is the number of data files that one equality delete file may touch, at the worst.
	WorstFanout int64 `json:"worst_fanout"`
	// WorstKeys is the number of delete keys that the rows of one data file are held against, at the worst.
	WorstKeys int64 `json:"worst_keys_per_data_file"`
}

// Partition is the row of a partition: its data files, and the equality deletes that are in it. The costs of global
// deletes are in the row of those.
type Partition struct {
	// Global marks the row of the equality deletes of unpartitioned specs. SpecID is theirs, or -1 if they have
	// several.
	Global bool   `json:"global,omitempty"`
	SpecID int32  `json:"spec_id"`
	Path   string `json:"partition"`
	Counts
	// GlobalUnits are the probe units that global deletes cause in the data files of this partition.
	GlobalUnits       int64 `json:"global_probe_units,omitempty"`
	GlobalUnitsPruned int64 `json:"global_probe_units_pruned,omitempty"`
}

// KeyColumns is one set of columns that equality deletes compare.
type KeyColumns struct {
	FieldIDs []int32  `json:"field_ids"`
	Names    []string `json:"names"`
	Files    int64    `json:"equality_delete_files"`
	Keys     int64    `json:"delete_keys"`
}

// Threshold is how many data files have at least AtLeast equality delete files.
type Threshold struct {
	AtLeast int64 `json:"at_least"`
	Files   int64 `json:"data_files"`
}

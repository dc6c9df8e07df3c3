package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Record is what is kept of a run. Records are lines of JSON in a file that only grows; old fields keep their names.
type Record struct {
	Table          string    `json:"table"`
	TableUUID      string    `json:"table_uuid"`
	Ref            string    `json:"ref"`
	At             time.Time `json:"at"`
	SnapshotID     int64     `json:"snapshot_id"`
	SequenceNumber int64     `json:"sequence_number"`

	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	DeleteKeys          int64 `json:"delete_keys"`
	DataFiles           int64 `json:"data_files"`
	ProbeUnits          int64 `json:"probe_units"`
	ProbeUnitsPruned    int64 `json:"probe_units_pruned"`
	WorstFanout         int64 `json:"worst_fanout"`
	PositionDeleteFiles int64 `json:"position_delete_files"`
	DeletionVectors     int64 `json:"deletion_vectors"`
	// Reset marks a run that found that equality deletes had been removed since the one before.
	Reset bool `json:"reset,omitempty"`
}

// Record answers what to keep of a report.
func (r *Report) Record() Record {
	return Record{
		Table: r.Table, TableUUID: r.TableUUID, Ref: r.Ref, At: r.At, SnapshotID: r.SnapshotID, SequenceNumber: r.SequenceNumber,
		EqualityDeleteFiles: r.Totals.EqualityDeleteFiles, DeleteKeys: r.Totals.DeleteKeys, DataFiles: r.Totals.DataFiles,
		ProbeUnits: r.Totals.Plain.ProbeUnits, ProbeUnitsPruned: r.Totals.Pruned.ProbeUnits, WorstFanout: r.Totals.Plain.WorstFanout,
		PositionDeleteFiles: r.Totals.PositionDeleteFiles, DeletionVectors: r.Totals.DeletionVectors,
	}
}

// AppendTo writes the record as one line.
func (r Record) AppendTo(w io.Writer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// ReadHistory reads the records of one table and ref, in the order of the file. Lines that are no records are counted
// and passed over: a crash may have cut one short.
func ReadHistory(r io.Reader, table, ref string) (records []Record, bad int, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var rec Record
			switch {
			case json.Unmarshal(line, &rec) != nil || rec.At.IsZero():
				bad++
			case rec.Table == table && rec.Ref == ref:
				records = append(records, rec)
			}
		}
		if err == io.EOF {
			return records, bad, nil
		}
		if err != nil {
			return nil, bad, fmt.Errorf("read history: %w", err)
		}
	}
}

package draintest

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/iceberg-go"
)

// Live is a live entry as iceberg-go reads it.
type Live struct {
	iceberg.DataFile
	Seq int64
}

// Live answers the live files of a branch.
func (w *World) Live(branch string) []Live {
	var out []Live
	for _, m := range w.manifests(branch) {
		entries, err := iceberg.ReadManifest(m, bytes.NewReader(w.Lake.Get(m.FilePath())), false)
		if err != nil {
			w.tb.Fatalf("manifest %s: %v", m.FilePath(), err)
		}
		w.check(m, entries)
		for _, e := range entries {
			if e.Status() != iceberg.EntryStatusDELETED {
				out = append(out, Live{e.DataFile(), e.SequenceNum()})
			}
		}
	}
	return out
}

// check holds what the manifest list says of a manifest against its entries.
func (w *World) check(m iceberg.ManifestFile, entries []iceberg.ManifestEntry) {
	var files, rows [3]int64
	for _, e := range entries {
		files[e.Status()]++
		rows[e.Status()] += e.DataFile().Count()
		if e.Status() != iceberg.EntryStatusDELETED && e.SequenceNum() < m.MinSequenceNum() || e.SequenceNum() > m.SequenceNum() {
			w.tb.Fatalf("%s has sequence number %d, its manifest those from %d to %d", e.DataFile().FilePath(), e.SequenceNum(), m.MinSequenceNum(), m.SequenceNum())
		}
		if e.DataFile().SpecID() != m.PartitionSpecID() {
			w.tb.Fatalf("%s has spec %d in a manifest of %d", e.DataFile().FilePath(), e.DataFile().SpecID(), m.PartitionSpecID())
		}
	}
	stated := [3]int64{int64(m.ExistingDataFiles()), int64(m.AddedDataFiles()), int64(m.DeletedDataFiles())}
	if files != stated || rows != [3]int64{m.ExistingRows(), m.AddedRows(), m.DeletedRows()} {
		w.tb.Fatalf("%s has files %v with rows %v, and states %v, %v", m.FilePath(), files, rows, stated, [3]int64{m.ExistingRows(), m.AddedRows(), m.DeletedRows()})
	}
	if int64(len(w.Lake.Get(m.FilePath()))) != m.Length() {
		w.tb.Fatalf("%s has %d bytes and states %d", m.FilePath(), len(w.Lake.Get(m.FilePath())), m.Length())
	}
	if sums := m.Partitions(); len(sums) > 0 && len(sums) != Specs()[m.PartitionSpecID()].NumFields() {
		w.tb.Fatalf("%s has %d partition summaries", m.FilePath(), len(sums))
	}
	for i, s := range m.Partitions() {
		for _, e := range entries {
			id := Specs()[m.PartitionSpecID()].Field(i).FieldID
			switch v := e.DataFile().Partition()[id].(type) {
			case nil:
				if !s.ContainsNull {
					w.tb.Fatalf("%s is of a null partition that its summary does not have", e.DataFile().FilePath())
				}
			case string:
				if s.LowerBound == nil || s.UpperBound == nil || v < string(*s.LowerBound) || v > string(*s.UpperBound) {
					w.tb.Fatalf("%s is outside the summary of its manifest", e.DataFile().FilePath())
				}
			case int32:
				b := binary.LittleEndian.AppendUint32(nil, uint32(v))
				if s.LowerBound == nil || s.UpperBound == nil || bytes.Compare(b, *s.LowerBound) < 0 || bytes.Compare(b, *s.UpperBound) > 0 { // small numbers
					w.tb.Fatalf("%s is outside the summary of its manifest", e.DataFile().FilePath())
				}
			}
		}
	}
}

func (w *World) manifests(branch string) []iceberg.ManifestFile {
	s, err := w.Table().Head(branch)
	if err != nil {
		w.tb.Fatal(err)
	}
	if s == nil {
		return nil
	}
	out, err := iceberg.ReadManifestList(bytes.NewReader(w.Lake.Get(s.ManifestList)))
	if err != nil {
		w.tb.Fatalf("manifest list %s: %v", s.ManifestList, err)
	}
	return out
}

package iceberg

import (
	"strconv"

	"github.com/frazil-io/frazil/libs/avrofile"
)

// ManifestList is the manifests of one snapshot. Their order is kept.
type ManifestList struct {
	FormatVersion int
	SnapshotID    int64
	// ParentID is the snapshot before; 0 = none.
	ParentID  int64
	Manifests []ManifestFile
}

// RenderManifestList makes the bytes of a manifest list. A list without manifests is a table without rows.
func RenderManifestList(l ManifestList) ([]byte, error) {
	if err := checkFormat(l.FormatVersion); err != nil {
		return nil, err
	}
	parent := "null" // as Java's writer says it
	if l.ParentID != 0 {
		parent = strconv.FormatInt(l.ParentID, 10)
	}
	properties := []avrofile.Property{
		{"snapshot-id", strconv.FormatInt(l.SnapshotID, 10)},
		{"parent-snapshot-id", parent},
		{"sequence-number", strconv.Itoa(sequenceNumber)},
	}
	if l.FormatVersion >= V3 {
		properties = append(properties, avrofile.Property{"first-row-id", "0"})
	}
	properties = append(properties, avrofile.Property{"format-version", strconv.Itoa(l.FormatVersion)})
	o := avrofile.New(ManifestListSchema(l.FormatVersion), properties...)
	for i := range l.Manifests {
		o.Append(func(b []byte) []byte { return l.appendManifest(b, &l.Manifests[i]) })
	}
	return o.Bytes()
}

func (l *ManifestList) appendManifest(b []byte, m *ManifestFile) []byte {
	b = avrofile.AppendString(b, m.Path)
	b = avrofile.AppendLong(b, m.Length)
	b = avrofile.AppendLong(b, specID)
	b = avrofile.AppendLong(b, int64(m.Content))
	b = avrofile.AppendLong(b, sequenceNumber)
	b = avrofile.AppendLong(b, sequenceNumber)
	b = avrofile.AppendLong(b, m.SnapshotID)
	b = avrofile.AppendLong(b, m.AddedFiles)
	b = avrofile.AppendLong(b, m.ExistingFiles)
	b = avrofile.AppendLong(b, 0)
	b = avrofile.AppendLong(b, m.AddedRows)
	b = avrofile.AppendLong(b, m.ExistingRows)
	b = avrofile.AppendLong(b, 0)
	b = avrofile.AppendNull(b) // partitions: there are no partition fields
	b = avrofile.AppendNull(b) // key_metadata
	if l.FormatVersion < V3 {
		return b
	}
	if m.Content != Data {
		return avrofile.AppendNull(b)
	}
	return avrofile.AppendLong(avrofile.AppendSome(b), m.FirstRowID)
}

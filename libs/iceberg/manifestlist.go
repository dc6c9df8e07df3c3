package iceberg

import "strconv"

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
	properties := []property{
		{"snapshot-id", strconv.FormatInt(l.SnapshotID, 10)},
		{"parent-snapshot-id", parent},
		{"sequence-number", strconv.Itoa(sequenceNumber)},
	}
	if l.FormatVersion >= V3 {
		properties = append(properties, property{"first-row-id", "0"})
	}
	properties = append(properties, property{"format-version", strconv.Itoa(l.FormatVersion)})
	o := newOCF(manifestListSchema(l.FormatVersion), properties...)
	for i := range l.Manifests {
		o.append(func(b []byte) []byte { return l.appendManifest(b, &l.Manifests[i]) })
	}
	return o.bytes()
}

func (l *ManifestList) appendManifest(b []byte, m *ManifestFile) []byte {
	b = appendString(b, m.Path)
	b = appendLong(b, m.Length)
	b = appendLong(b, specID)
	b = appendLong(b, int64(m.Content))
	b = appendLong(b, sequenceNumber)
	b = appendLong(b, sequenceNumber)
	b = appendLong(b, m.SnapshotID)
	b = appendLong(b, m.AddedFiles)
	b = appendLong(b, m.ExistingFiles)
	b = appendLong(b, 0)
	b = appendLong(b, m.AddedRows)
	b = appendLong(b, m.ExistingRows)
	b = appendLong(b, 0)
	b = appendNull(b) // partitions: there are no partition fields
	b = appendNull(b) // key_metadata
	if l.FormatVersion < V3 {
		return b
	}
	if m.Content != Data {
		return appendNull(b)
	}
	return appendLong(appendSome(b), m.FirstRowID)
}

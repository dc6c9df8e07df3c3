package icebergscan

// Content says what a file holds.
type Content int8

// The contents. The values are those of the spec.
const (
	Data            Content = 0
	PositionDeletes Content = 1 // position delete files and deletion vectors
	EqualityDeletes Content = 2
)

// Status says what a manifest's snapshot did with a file.
type Status int8

// The states. The values are those of the spec.
const (
	Existing Status = 0
	Added    Status = 1
	Deleted  Status = 2
)

// Absent stands for a number that a manifest does not state.
const Absent = int64(-1)

// Entry is one line of a manifest. The entry and all slices in it are lent until the next entry is asked for.
type Entry struct {
	Manifest *Manifest
	Status   Status
	// SnapshotID is that of the snapshot that added or removed the file.
	SnapshotID int64
	// SequenceNumber is the data sequence number: deletes apply by it (Iceberg spec, "Scan Planning").
	SequenceNumber int64
	// FileSequenceNumber is that of the commit that added the file.
	FileSequenceNumber int64

	Content Content
	Path    []byte // the full location, as it is written
	Format  []byte // PARQUET, AVRO, ORC, PUFFIN; letter case as written
	SpecID  int32
	// Partition is the tuple in ascending order of the spec's field ids.
	Partition []Value
	Records   int64 // deleted keys or positions in delete files
	SizeBytes int64
	// EqualityIDs are the ids of an equality delete's columns.
	EqualityIDs []int32
	// ReferencedDataFile is the only data file that a position delete is about; nil = not stated.
	ReferencedDataFile []byte
	// ContentOffset and ContentSize locate a deletion vector, bytes; Absent otherwise.
	ContentOffset, ContentSize int64
	// FirstRowID as written; Absent = none.
	FirstRowID int64

	stats []ColumnStats
	key   []byte

	of              *decoder
	file, partition []byte
}

// ColumnStats are what a manifest says of one column of a file.
type ColumnStats struct {
	FieldID int32
	// Values counts all values, Nulls the nulls among them; Absent = not stated.
	Values, Nulls int64
	// Lower and Upper are inclusive limits in Iceberg's single-value serialisation; nil = not stated, and the empty
	// string is not nil.
	Lower, Upper []byte
}

// Stats answers the statistics of a column; all Absent or nil if none are stated or they were not asked for.
func (e *Entry) Stats(fieldID int32) ColumnStats {
	for i := range e.stats {
		if e.stats[i].FieldID == fieldID {
			return e.stats[i]
		}
	}
	return ColumnStats{FieldID: fieldID, Values: Absent, Nulls: Absent}
}

// DeletionVector reports whether the entry is a deletion vector: a position delete in a Puffin file (Iceberg spec,
// "Deletion Vectors").
func (e *Entry) DeletionVector() bool {
	return e.Content == PositionDeletes && equalFold(e.Format, "PUFFIN")
}

// PartitionKey answers bytes that are equal exactly for files of the same spec and partition. Lent like the entry.
func (e *Entry) PartitionKey() []byte { return e.key }

func equalFold(a []byte, upper string) bool {
	if len(a) != len(upper) {
		return false
	}
	for i, c := range a {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}

// PathFieldID is the reserved id of file_path in position delete files (Iceberg spec, "Reserved Field IDs").
const PathFieldID int32 = 2147483546

// PosFieldID is the reserved id of pos.
const PosFieldID int32 = 2147483545

// Target answers the only data file that a position delete entry is about, by reference or by equal bounds of
// file_path (ContentFileUtil.referencedDataFile of Iceberg Java); nil if it may be about several. Bounds count only if
// statistics of PathFieldID were asked for. Lent like the entry.
func (e *Entry) Target() []byte {
	if e.ReferencedDataFile != nil {
		return e.ReferencedDataFile
	}
	if s := e.Stats(PathFieldID); s.Lower != nil && string(s.Lower) == string(s.Upper) {
		return s.Lower
	}
	return nil
}

// Package iceberg renders the metadata that Frazil serves: table metadata JSON, manifest lists and manifests, in
// format versions 2 and 3. It only renders: values in, bytes out. Equal values give equal bytes, on every machine
// and in every process, because a rendered object has a name that any replica must be able to answer.
//
// All tables are unpartitioned and unsorted, and every snapshot, manifest and entry has sequence number 1: a
// position delete applies to data files of the same sequence number (Iceberg spec, "Scan Planning"), and 0 would
// make Java readers drop the delete file.
package iceberg

// Version of this package's output. It is part of the names of everything rendered, so that a changed encoder
// never answers an old name with other bytes: raise it with every change of the golden files.
const Version = 1

// What all tables have in common.
const (
	sequenceNumber = 1
	specID         = 0
	sortOrderID    = 0
	// lastPartitionID is what a table without partition fields states (Iceberg spec, "Partitioning").
	lastPartitionID = 999
)

// Format versions.
const (
	V2 = 2
	V3 = 3
)

// PathFieldID is the reserved id of file_path in position delete files (Iceberg spec, "Reserved Field IDs").
const PathFieldID int32 = 2147483546

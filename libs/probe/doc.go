// Package probe measures what equality deletes cost the readers of a table, from its metadata alone.
//
// A reader has to look up the rows of a data file in the keys of every equality delete that may apply to the file.
// The unit is one delete key that may have to be held against one data file:
//
//	probe units = Σ over equality delete files of (delete keys × data files that the file may touch)
//
// A delete file may touch a data file of the same partition spec and partition, and one of an unpartitioned spec any
// data file of the table, if the data file's data sequence number is strictly lower (Iceberg spec, "Scan Planning").
// Readers of the Java family skip pairs whose key bounds do not overlap, so every figure comes twice: plain, and
// pruned by the same rules (DeleteFileIndex.canContainEqDeletesForFile of Iceberg Java).
//
// Data files are streamed and none is held. Of delete files, at most Config.MaxDeletes are held at once; a table
// with more is read in several passes. Beside that there is one row for each partition.
package probe

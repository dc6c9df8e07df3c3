// Package physical tests the tools for tables that others write: tables that the Iceberg Java library and Flink's sink
// have filled with upserts, in a REST catalog and on an S3 server that are not ours, measured, judged and drained by
// the built binary, and read back by engines.
package physical

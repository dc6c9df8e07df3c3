// Package datafile reads a few columns of Iceberg data and delete files, by field id, as values that compare as
// Iceberg compares equality delete keys.
//
// A value is turned into bytes that are equal exactly for equal values of the column's type as the table has it now:
// files that were written before a column was promoted (int to long, float to double, a wider decimal, date to
// timestamp) give the same bytes as those written after. Null is a value and equals null (Iceberg spec, "Equality
// Delete Files"); so does NaN, and -0 differs from 0, as in Iceberg Java, which compares by Float.compare. A column that
// a file does not have is its initial default, or null (Iceberg spec, "Column Projection").
//
// Parquet and Avro are read. ORC is fault.ErrUnsupported.
package datafile

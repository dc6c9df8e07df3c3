// Package schema is the table schema: Iceberg types, field ids, the JSON form, and what is legal to add.
package schema

// Kind is an Iceberg type's kind, restricted to what Frazil's dialects use.
type Kind uint8

// The kinds. Each is written in Parquet as Iceberg's spec, Appendix A, demands.
const (
	Boolean     Kind = iota + 1
	Int              // INT32
	Long             // INT64
	Float            // FLOAT
	Double           // DOUBLE
	Decimal          // INT32 up to precision 9, INT64 up to 18, else FIXED_LEN_BYTE_ARRAY of the least length
	Date             // INT32, days since 1970-01-01
	Timestamp        // INT64, microseconds, no zone
	Timestamptz      // INT64, microseconds, UTC
	String           // BYTE_ARRAY, UTF-8
	Binary           // BYTE_ARRAY
	List             // three-level list; Elem is the element
	Struct           // Fields
	Map              // Key and Elem
)

// Type is an Iceberg type.
type Type struct {
	Kind      Kind
	Precision int     // Decimal
	Scale     int     // Decimal
	Elem      *Field  // List: the element; Map: the value
	Key       *Field  // Map: the key, required
	Fields    []Field // Struct
}

// Field is a column or a nested field.
type Field struct {
	ID       int32
	Name     string
	Type     Type
	Required bool
	Doc      string
}

// Schema is an ordered list of columns. ID is its position in the table's append-only list of schemas.
type Schema struct {
	ID     int32
	Fields []Field
}

// Names and reserved ids of the columns that Frazil adds.
const (
	PartitionColumn = "kafka_partition" // int, required, field id 1
	OffsetColumn    = "kafka_offset"    // long, required, field id 2
	TimestampColumn = "kafka_timestamp" // timestamptz, required, field id 3
	RowIDColumn     = "_row_id"         // long, in every file, not in the v2 schema

	PartitionFieldID int32 = 1
	OffsetFieldID    int32 = 2
	TimestampFieldID int32 = 3
	// RowIDFieldID is reserved by the Iceberg spec ("Reserved Field IDs").
	RowIDFieldID int32 = 2147483540
)

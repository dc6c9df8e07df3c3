package readers

import (
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/objectname"
)

// Format is a way in which a table says that rows are deleted. Formats are ordered by what they cost a writer: an
// equality delete is written blindly, a position has to be looked up, a deletion vector has to be merged as well.
type Format int

// The formats, cheapest first.
const (
	Equality Format = iota
	Position
	DeletionVector
)

// Formats answers all formats, cheapest first.
func Formats() []Format { return []Format{Equality, Position, DeletionVector} }

// String is the name in documents and in JSON.
func (f Format) String() string {
	switch f {
	case Equality:
		return "equality"
	case Position:
		return "position"
	case DeletionVector:
		return "deletion-vector"
	}
	return fmt.Sprintf("format(%d)", int(f))
}

// MarshalText writes the name.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the name. Errors: fault.ErrInvalid.
func (f *Format) UnmarshalText(text []byte) error {
	for _, g := range Formats() {
		if g.String() == string(text) {
			*f = g
			return nil
		}
	}
	return fmt.Errorf("delete format %q: %w", text, fault.ErrInvalid)
}

// Long is the name in a sentence.
func (f Format) Long() string {
	switch f {
	case Equality:
		return "equality deletes"
	case Position:
		return "position deletes"
	}
	return "deletion vectors"
}

// Version is the lowest format version of a table that may hold new deletes of the format (Iceberg spec, "Row-level
// Deletes": version 3 writes deletion vectors and no new position delete files).
func (f Format) Version() int {
	if f == DeletionVector {
		return 3
	}
	return 2
}

// Dialect is the gateway's warehouse that renders the format; "" for equality deletes, which the gateway never
// renders.
func (f Format) Dialect() string {
	switch f {
	case Position:
		return objectname.V2
	case DeletionVector:
		return objectname.V3
	}
	return ""
}

// Support is what a reader does with a format.
type Support string

// The kinds of support. Only Yes lets a reader be chosen for; Preview does if the caller allows it.
const (
	Yes     Support = "yes"
	No      Support = "no"
	Partial Support = "partial" // some deletes are skipped
	Preview Support = "preview" // announced, not for production, or unreleased
	Wrong   Support = "wrong"   // deletes are ignored without an error
	Unknown Support = "unknown" // not verified
)

func (s Support) valid() bool {
	switch s {
	case Yes, No, Partial, Preview, Wrong, Unknown:
		return true
	}
	return false
}

// Resolves reports whether a reader with the support returns the right rows.
func (s Support) Resolves(allowPreview bool) bool {
	return s == Yes || s == Preview && allowPreview
}

// reason is why a format cannot be used with the support, as the end of a sentence.
func (s Support) reason() string {
	switch s {
	case No:
		return "does not resolve them"
	case Partial:
		return "resolves only some of them"
	case Preview:
		return "has them as a preview only"
	case Wrong:
		return "ignores them without an error"
	case Unknown:
		return "was not verified with them"
	}
	return "resolves them"
}

// Need is a property that deletes must have for a reader to return the right rows, or any rows.
type Need string

// The needs. docs/READERS-MATRIX.md explains them; frazil lint looks for what violates them.
const (
	SortedPositions  Need = "sorted-positions"   // rows of a position delete file ascend by path and position
	SortedPaths      Need = "sorted-paths"       // rows of a position delete file ascend by path
	PathBounds       Need = "path-bounds"        // equal lower and upper bounds of file_path in the manifest
	ExactCardinality Need = "exact-cardinality"  // record_count of a deletion vector is its cardinality
	PuffinFooter     Need = "puffin-footer"      // the vector lies in a complete Puffin file
	RecordCount      Need = "record-count"       // record_count of delete files is above 0
	OneSpec          Need = "one-spec"           // the partition spec never changed
	OneKey           Need = "one-key"            // all equality deletes have the same columns
	NoGlobalDeletes  Need = "no-global-deletes"  // no equality deletes of an unpartitioned spec beside partitioned data
	HonestSummary    Need = "honest-summary"     // the totals in the snapshot's summary are right
	PartitionInKey   Need = "partition-in-key"   // equality deletes compare the columns that their partition is made of
	NoNullPartitions Need = "no-null-partitions" // no partition value is null
	NoNullKeys       Need = "no-null-keys"       // the columns of equality deletes hold no nulls
	TopLevelKeys     Need = "top-level-keys"     // the columns of equality deletes are in no struct
	SameKeyTypes     Need = "same-key-types"     // the type of no column of equality deletes has changed
)

func (n Need) valid() bool {
	switch n {
	case SortedPositions, SortedPaths, PathBounds, ExactCardinality, PuffinFooter, RecordCount, OneSpec, OneKey, NoGlobalDeletes, HonestSummary,
		PartitionInKey, NoNullPartitions, NoNullKeys, TopLevelKeys, SameKeyTypes:
		return true
	}
	return false
}

// Package layout says which row position an offset has. A layout is the frozen classes of a range of offsets;
// the position of a row is its rank among the row classes of the file's own range.
package layout

// Class is what an offset is. Values are persisted and travel in ScanKeys.
type Class uint8

const (
	// Gap: no record was there when the offset was first seen.
	Gap Class = 0
	// Row: an upsert; the only class with a row in the current view.
	Row Class = 1
	// Delete: removes its key; has an offset and no row.
	Delete Class = 2
	// NonRow: a control record, an aborted record, a heartbeat: never an event.
	NonRow Class = 3
	// Bad: a record that could not be decoded.
	Bad Class = 4
	// Truncate: removes every row below it.
	Truncate Class = 5
)

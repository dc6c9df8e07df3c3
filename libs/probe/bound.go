package probe

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// bound is a limit of a column in a form that orders as the column's type does: first by prefix, then by full. The
// zero bound is none.
type bound struct {
	prefix uint64
	full   []byte // nil for numbers: the prefix is all
	ok     bool
}

func (b bound) compare(c bound) int {
	switch {
	case b.prefix < c.prefix:
		return -1
	case b.prefix > c.prefix:
		return 1
	}
	return bytes.Compare(b.full, c.full)
}

// own answers b with memory of its own.
func (b bound) own() bound {
	if b.full != nil {
		b.full = bytes.Clone(b.full)
	}
	return b
}

func number(v int64) bound { return bound{prefix: uint64(v) ^ 1<<63, ok: true} }

func real(v float64) bound {
	bits := math.Float64bits(v)
	if bits>>63 != 0 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	return bound{prefix: bits, ok: true}
}

func text(b []byte) bound {
	var head [8]byte
	copy(head[:], b)
	return bound{prefix: binary.BigEndian.Uint64(head[:]), full: b, ok: true}
}

// Days promoted to timestamps (Iceberg spec, "Schema Evolution", version 3).
const (
	dayMicros = 86_400_000_000
	dayNanos  = 86_400_000_000_000
)

// boundOf reads a limit in single-value serialisation (Iceberg spec, Appendix D). A file written before a column was
// promoted has the narrower form: the length tells. What does not fit the type is no bound, so the pair may match.
func boundOf(typ string, b []byte) bound {
	if b == nil {
		return bound{}
	}
	base, _, _ := strings.Cut(typ, "(")
	base, _, _ = strings.Cut(base, "[")
	switch base {
	case "boolean":
		if len(b) == 1 {
			return number(int64(b[0]))
		}
	case "int", "long", "date", "time":
		if v, ok := integer(b); ok {
			return number(v)
		}
	case "timestamp", "timestamptz":
		return instant(b, dayMicros)
	case "timestamp_ns", "timestamptz_ns":
		return instant(b, dayNanos)
	case "float", "double":
		switch len(b) {
		case 4:
			return real(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		case 8:
			return real(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case "string", "uuid", "fixed", "binary":
		return text(b)
	case "decimal":
		return decimal(b)
	}
	return bound{}
}

func integer(b []byte) (int64, bool) {
	switch len(b) {
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b))), true
	case 8:
		return int64(binary.LittleEndian.Uint64(b)), true
	}
	return 0, false
}

func instant(b []byte, day int64) bound {
	v, ok := integer(b)
	if !ok {
		return bound{}
	}
	if len(b) == 4 {
		v *= day
	}
	return number(v)
}

// decimal extends the big-endian two's complement to the 16 bytes that hold 38 digits.
func decimal(b []byte) bound {
	if len(b) == 0 || len(b) > 16 {
		return bound{}
	}
	wide := make([]byte, 16)
	if b[0] >= 0x80 {
		for i := range wide {
			wide[i] = 0xff
		}
	}
	copy(wide[16-len(b):], b)
	wide[0] ^= 0x80
	return text(wide)
}

// column is what is known of one key column of one file.
type column struct {
	lower, upper bound
	// containsNull: there may be nulls. allNull: there is nothing else. allValues: there are none.
	containsNull, allNull, allValues bool
}

func (c *column) bounded() bool { return c.lower.ok && c.upper.ok }

// columnOf reads the statistics of a column as Iceberg Java does: what is not stated may be.
func columnOf(f icebergscan.Field, s icebergscan.ColumnStats) column {
	c := column{lower: boundOf(f.Type, s.Lower), upper: boundOf(f.Type, s.Upper)}
	if f.Required {
		c.allValues = true
		return c
	}
	c.containsNull = s.Nulls != 0
	c.allValues = s.Nulls == 0
	c.allNull = s.Nulls != icebergscan.Absent && s.Values != icebergscan.Absent && s.Nulls == s.Values
	return c
}

// mayMatch reports whether a delete with the column d can hit a data file with the column c.
func (c *column) mayMatch(d *column) bool {
	switch {
	case c.containsNull && d.containsNull:
		return true
	case c.allNull && d.allValues, d.allNull && c.allValues:
		return false
	case !c.bounded() || !d.bounded():
		return true
	}
	return c.lower.compare(d.upper) <= 0 && d.lower.compare(c.upper) <= 0
}

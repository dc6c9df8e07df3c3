package datafile

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// kind is a family of table types whose values compare alike.
type kind byte

const (
	kindBool   kind = iota
	kindInt         // int, long, date, time
	kindMicros      // timestamps
	kindNanos
	kindReal
	kindBytes // string, binary, fixed, uuid
	kindDecimal
)

// kindOf answers the family of a table type. Errors: fault.ErrUnsupported for types that cannot be keys.
func kindOf(typ string) (kind, error) {
	base, _, _ := strings.Cut(typ, "(")
	base, _, _ = strings.Cut(base, "[")
	switch base {
	case "boolean":
		return kindBool, nil
	case "int", "long", "date", "time":
		return kindInt, nil
	case "timestamp", "timestamptz":
		return kindMicros, nil
	case "timestamp_ns", "timestamptz_ns":
		return kindNanos, nil
	case "float", "double":
		return kindReal, nil
	case "string", "binary", "fixed", "uuid":
		return kindBytes, nil
	case "decimal":
		return kindDecimal, nil
	}
	return 0, fmt.Errorf("a key column of type %s: %w", typ, fault.ErrUnsupported)
}

// Family answers a name for the table types whose values are encoded alike: types that a column can be promoted to
// without a change of its encoded values have the same. Errors: fault.ErrUnsupported.
func Family(typ string) (string, error) {
	k, err := kindOf(typ)
	if err != nil {
		return "", err
	}
	return [...]string{"bool", "int", "micros", "nanos", "real", "bytes", "decimal"}[k], nil
}

// Tags of encoded values. Every value ends by itself, so values put one after the other are as distinct as lists.
const (
	tagNull = 0
	tagSome = 1
)

func appendNull(to []byte) []byte { return append(to, tagNull) }

func appendInt(to []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(to, tagSome), uint64(v))
}

func appendReal(to []byte, v float64) []byte {
	if v != v {
		v = math.NaN() // one NaN
	}
	return binary.BigEndian.AppendUint64(append(to, tagSome), math.Float64bits(v))
}

func appendBlob(to, v []byte) []byte {
	to = binary.AppendUvarint(append(to, tagSome), uint64(len(v)))
	return append(to, v...)
}

// appendUnscaled takes a big-endian two's complement of any width.
func appendUnscaled(to, v []byte) []byte {
	for len(v) > 1 && (v[0] == 0 && v[1] < 0x80 || v[0] == 0xff && v[1] >= 0x80) {
		v = v[1:]
	}
	if len(v) == 0 {
		v = []byte{0}
	}
	return appendBlob(to, v)
}

func appendUnscaledInt(to []byte, v int64) []byte {
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], uint64(v))
	return appendUnscaled(to, wide[:])
}

// Days promoted to timestamps (Iceberg spec, "Schema Evolution", version 3).
const (
	dayMicros = 86_400_000_000
	dayNanos  = 86_400_000_000_000
)

// appendValue encodes a value that is in Iceberg's units: of Avro files, partition tuples and defaults. days says that
// a date is given for a timestamp.
func appendValue(to []byte, k kind, v icebergscan.Value, days bool) ([]byte, error) {
	switch {
	case v.Kind == icebergscan.Null:
		return appendNull(to), nil
	case v.Kind == icebergscan.Bool && k == kindBool, v.Kind == icebergscan.Int && k == kindInt:
		return appendInt(to, v.Int), nil
	case v.Kind == icebergscan.Int && k == kindMicros:
		if days {
			v.Int *= dayMicros
		}
		return appendInt(to, v.Int), nil
	case v.Kind == icebergscan.Int && k == kindNanos:
		if days {
			v.Int *= dayNanos
		}
		return appendInt(to, v.Int), nil
	case v.Kind == icebergscan.Float && k == kindReal:
		return appendReal(to, v.Num), nil
	case k == kindBytes && (v.Kind == icebergscan.String || v.Kind == icebergscan.Binary):
		return appendBlob(to, v.Bytes), nil
	case k == kindDecimal && (v.Kind == icebergscan.Decimal || v.Kind == icebergscan.Binary):
		return appendUnscaled(to, v.Bytes), nil
	}
	return nil, fmt.Errorf("a value that does not fit its column's type: %w", fault.ErrUnsupported)
}

// appendDefault encodes an initial default (Iceberg spec, Appendix D, "JSON single-value serialization").
func appendDefault(to []byte, typ string, text json.RawMessage) ([]byte, error) {
	if len(text) == 0 || string(text) == "null" {
		return appendNull(to), nil
	}
	k, err := kindOf(typ)
	if err != nil {
		return nil, err
	}
	bad := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("default %s of type %s: %w: %w", text, typ, fault.ErrUnsupported, err)
	}
	var s string
	if text[0] == '"' {
		if err := json.Unmarshal(text, &s); err != nil {
			return bad(err)
		}
	} else {
		s = string(text)
	}
	switch k {
	case kindBool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return bad(err)
		}
		if b {
			return appendInt(to, 1), nil
		}
		return appendInt(to, 0), nil
	case kindReal:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return bad(err)
		}
		return appendReal(to, f), nil
	case kindDecimal:
		return defaultDecimal(to, s, bad)
	case kindBytes:
		b, err := defaultBytes(typ, s)
		if err != nil {
			return bad(err)
		}
		return appendBlob(to, b), nil
	case kindInt, kindMicros, kindNanos:
	}
	v, err := defaultInt(typ, s)
	if err != nil {
		return bad(err)
	}
	return appendInt(to, v), nil
}

func defaultDecimal(to []byte, s string, bad func(error) ([]byte, error)) ([]byte, error) {
	n, ok := new(big.Int).SetString(strings.Replace(s, ".", "", 1), 10)
	if !ok {
		return bad(strconv.ErrSyntax)
	}
	b := n.Bytes()
	if n.Sign() >= 0 {
		return appendUnscaled(to, append([]byte{0}, b...)), nil
	}
	width := uint(len(b) + 1)
	wrapped := new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 8*width))
	return appendUnscaled(to, wrapped.FillBytes(make([]byte, width))), nil
}

func defaultBytes(typ, s string) ([]byte, error) {
	switch typ {
	case "string":
		return []byte(s), nil
	case "uuid":
		return hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	}
	return hex.DecodeString(s)
}

func defaultInt(typ, s string) (int64, error) {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return v, nil
	}
	for _, layout := range []string{time.DateOnly, "15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.RFC3339Nano} {
		at, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		switch {
		case typ == "date":
			return floorDiv(at.Unix(), 86400), nil
		case typ == "time":
			midnight := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
			return at.Sub(midnight).Microseconds(), nil
		case strings.HasSuffix(typ, "_ns"):
			return at.UnixNano(), nil
		}
		return at.UnixMicro(), nil
	}
	return 0, strconv.ErrSyntax
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

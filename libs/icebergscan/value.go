package icebergscan

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ValueKind is the kind of a partition value.
type ValueKind byte

// The kinds. Numbers of all widths are one kind, because a promoted column has both widths in one table.
const (
	Null    ValueKind = iota
	Bool              // Int is 0 or 1
	Int               // int, long, date, time, timestamps
	Float             // Num
	String            // Bytes, UTF-8
	Binary            // Bytes: binary, fixed, uuid
	Decimal           // Bytes: big-endian two's complement, shortest form
)

// Value is one value of a partition tuple.
type Value struct {
	Kind  ValueKind
	Int   int64
	Num   float64
	Bytes []byte
}

// appendKey appends a form of v that is equal exactly for equal values and ends by itself.
func (v Value) appendKey(to []byte) []byte {
	to = append(to, byte(v.Kind))
	switch v.Kind {
	case Null:
	case Bool, Int:
		to = binary.BigEndian.AppendUint64(to, uint64(v.Int))
	case Float:
		to = binary.BigEndian.AppendUint64(to, math.Float64bits(v.Num))
	case String, Binary, Decimal:
		to = binary.AppendUvarint(to, uint64(len(v.Bytes)))
		to = append(to, v.Bytes...)
	}
	return to
}

// shortest drops bytes that only repeat the sign.
func shortest(b []byte) []byte {
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
		b = b[1:]
	}
	return b
}

// clone answers v with memory of its own.
func (v Value) clone() Value {
	if v.Bytes != nil {
		v.Bytes = append([]byte{}, v.Bytes...)
	}
	return v
}

// CloneValues answers the values with memory of their own.
func CloneValues(vs []Value) []Value {
	out := make([]Value, len(vs))
	for i, v := range vs {
		out[i] = v.clone()
	}
	return out
}

// PartitionPath renders a tuple of the spec in the form of Iceberg's paths, field=value/field=value, values escaped.
// The tuple is in ascending order of the field ids, as Entry.Partition. "" for an unpartitioned spec.
func (t *Table) PartitionPath(spec *Spec, tuple []Value) string {
	var b strings.Builder
	for i, f := range spec.ByID() {
		if b.Len() > 0 {
			b.WriteByte('/')
		}
		b.WriteString(url.QueryEscape(f.Name))
		b.WriteByte('=')
		if i >= len(tuple) {
			b.WriteString("null")
			continue
		}
		b.WriteString(url.QueryEscape(t.human(f, tuple[i])))
	}
	return b.String()
}

// human writes a partition value as Iceberg's transforms do (Transform.toHumanString).
func (t *Table) human(f SpecField, v Value) string {
	if v.Kind == Null {
		return "null"
	}
	source := ""
	if field, ok := t.Field(f.SourceID); ok {
		source = field.Type
	}
	transform, _, _ := strings.Cut(f.Transform, "[")
	switch transform {
	case "bucket":
		return strconv.FormatInt(v.Int, 10)
	case "year":
		return fmt.Sprintf("%04d", 1970+v.Int)
	case "month":
		at := time.Date(1970, time.January, 1, 0, 0, 0, 0, time.UTC).AddDate(0, int(v.Int), 0)
		return at.Format("2006-01")
	case "day":
		return date(v.Int)
	case "hour":
		return time.Unix(v.Int*3600, 0).UTC().Format("2006-01-02-15")
	}
	return plain(source, v)
}

func date(days int64) string { return time.Unix(days*86400, 0).UTC().Format(time.DateOnly) }

// plain writes a value of a source type.
func plain(typ string, v Value) string {
	switch v.Kind {
	case Null:
		return "null"
	case Bool:
		return strconv.FormatBool(v.Int != 0)
	case Float:
		return strconv.FormatFloat(v.Num, 'g', -1, 64)
	case String:
		return string(v.Bytes)
	case Decimal:
		return decimal(typ, v.Bytes)
	case Binary:
		if typ == "uuid" && len(v.Bytes) == 16 {
			h := hex.EncodeToString(v.Bytes)
			return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		}
		return base64.StdEncoding.EncodeToString(v.Bytes)
	case Int:
	}
	switch typ {
	case "date":
		return date(v.Int)
	case "time":
		return time.UnixMicro(v.Int).UTC().Format("15:04:05.999999")
	case "timestamp":
		return time.UnixMicro(v.Int).UTC().Format("2006-01-02T15:04:05.999999")
	case "timestamptz":
		return time.UnixMicro(v.Int).UTC().Format("2006-01-02T15:04:05.999999-07:00")
	case "timestamp_ns":
		return time.Unix(0, v.Int).UTC().Format("2006-01-02T15:04:05.999999999")
	case "timestamptz_ns":
		return time.Unix(0, v.Int).UTC().Format("2006-01-02T15:04:05.999999999-07:00")
	}
	return strconv.FormatInt(v.Int, 10)
}

// decimal writes an unscaled value with the scale of a type like decimal(9,2).
func decimal(typ string, unscaled []byte) string {
	n := new(big.Int).SetBytes(unscaled)
	if len(unscaled) > 0 && unscaled[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(unscaled))))
	}
	scale := 0
	if _, s, ok := strings.Cut(typ, ","); ok {
		if v, err := strconv.Atoi(strings.Trim(s, " )")); err == nil && v > 0 {
			scale = v
		}
	}
	if scale == 0 {
		return n.String()
	}
	sign, digits := "", n.String()
	if n.Sign() < 0 {
		sign, digits = "-", digits[1:]
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale+1-len(digits)) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

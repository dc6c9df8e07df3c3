package schema

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"slices"
)

// MaxPrecision is the largest precision of a decimal (Iceberg spec, "Primitive Types").
const MaxPrecision = 38

// fingerprintLen is the length of a fingerprint, base32 characters (50 bits).
const fingerprintLen = 10

// FileSchema is the table schema with _row_id as its last column: what is in every data file.
func FileSchema(s *Schema) *Schema {
	fields := append(slices.Clone(s.Fields), Field{
		ID: RowIDFieldID, Name: RowIDColumn, Type: Type{Kind: Long}, Required: true,
	})
	return &Schema{ID: s.ID, Fields: fields}
}

// Fingerprint is 10 lower-case base32 characters that name a schema's columns: ids, names, types and which are
// required. Two schemas that make the same Parquet schema have the same one, whatever their ID and docs.
func Fingerprint(s *Schema) string {
	h := sha256.New()
	writeFields(h, s.Fields)
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").EncodeToString(h.Sum(nil))[:fingerprintLen]
}

// writeFields feeds a prefix-free form of the fields to h: everything of variable length has its length before it.
func writeFields(h hash.Hash, fields []Field) {
	writeInts(h, len(fields))
	for i := range fields {
		f := &fields[i]
		required := 0
		if f.Required {
			required = 1
		}
		writeInts(h, int(f.ID), required, len(f.Name))
		h.Write([]byte(f.Name))
		writeType(h, &f.Type)
	}
}

func writeType(h hash.Hash, t *Type) {
	writeInts(h, int(t.Kind), t.Precision, t.Scale)
	switch t.Kind {
	case Struct:
		writeFields(h, t.Fields)
	case List:
		writeFields(h, []Field{*t.Elem})
	case Map:
		writeFields(h, []Field{*t.Key, *t.Elem})
	default:
	}
}

func writeInts(h hash.Hash, values ...int) {
	var b [8]byte
	for _, v := range values {
		binary.BigEndian.PutUint64(b[:], uint64(v))
		h.Write(b[:])
	}
}

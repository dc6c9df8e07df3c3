package decode

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

// member is a field of a JSON object.
type member struct {
	name  string
	value []byte
}

// members takes an object apart, in the order of first appearance; of a repeated name the last value counts.
func members(object []byte) ([]member, error) {
	s := jsonScanner{b: object}
	if s.space() != '{' {
		return nil, s.syntax()
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	var out []member
	at := map[string]int{}
	for first := true; ; first = false {
		done, err := s.next('}', first)
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		key := string(name)
		s.space()
		start := s.p
		if err := s.skip(); err != nil {
			return nil, err
		}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, member{name: key})
		}
		out[i].value = s.b[start:s.p]
	}
	if !s.end() {
		return nil, s.syntax()
	}
	return out, nil
}

func lookup(ms []member, name string) []byte {
	for i := range ms {
		if ms[i].name == name {
			return ms[i].value
		}
	}
	return nil
}

// text is the text that a JSON value is, empty if it is none.
func text(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	s := jsonScanner{b: value}
	v, err := s.str()
	if err != nil {
		return ""
	}
	return string(v)
}

// isNull reports whether a field is absent or null.
func isNull(value []byte) bool { return len(value) == 0 || value[0] == 'n' }

// jsonKind is what a value of JSON without a schema looks like; a column collects them as a set.
type jsonKind uint16

const (
	kindInt jsonKind = 1 << iota
	kindBigInt
	kindFraction
	kindSpecial // NaN and the infinities as text
	kindText
	kindNested
	kindBool
)

func kindOf(value []byte) jsonKind {
	switch c := value[0]; {
	case c == '"':
		switch string(value) {
		case `"NaN"`, `"Infinity"`, `"-Infinity"`:
			return kindSpecial
		}
		return kindText
	case c == '{' || c == '[':
		return kindNested
	case c == 't' || c == 'f':
		return kindBool
	case c == 'n':
		return 0
	}
	if bytes.ContainsAny(value, ".eE") {
		return kindFraction
	}
	if _, ok := parseInteger(value, true); ok {
		return kindInt
	}
	return kindBigInt
}

// inference collects the columns of JSON rows without a schema.
type inference struct {
	columns []inferred
	at      map[string]int
}

type inferred struct {
	name  string
	kinds jsonKind
	where string // a record that shows the kinds met last
}

func newInference() *inference { return &inference{at: map[string]int{}} }

// add takes in one row. where names the record in errors.
func (f *inference) add(row []member, where string) error {
	for i := range row {
		m := &row[i]
		at, ok := f.at[m.name]
		if !ok {
			at = len(f.columns)
			f.at[m.name] = at
			f.columns = append(f.columns, inferred{name: m.name})
		}
		c := &f.columns[at]
		kinds := c.kinds | kindOf(m.value)
		if kinds == c.kinds {
			continue
		}
		if _, err := inferredType(kinds); err != nil {
			if _, alone := inferredType(kindOf(m.value)); alone != nil || c.where == "" {
				return fmt.Errorf("column %q in record %s: %w", m.name, where, err)
			}
			return fmt.Errorf("column %q in record %s does not agree with record %s: %w", m.name, where, c.where, err)
		}
		c.kinds, c.where = kinds, where
	}
	return nil
}

// inferredType is the type of a column that held values of these kinds.
func inferredType(k jsonKind) (schema.Type, error) {
	kind := schema.String
	switch {
	case k == kindInt:
		kind = schema.Long
	case k&kindFraction != 0 && k&^(kindInt|kindFraction|kindSpecial) == 0:
		kind = schema.Double
	case k == kindBool:
		kind = schema.Boolean
	case k&kindBigInt != 0:
		return schema.Type{}, fmt.Errorf("integers of more than 64 bits need a schema: %w", fault.ErrInvalid)
	case k&^(kindText|kindNested|kindSpecial) != 0:
		return schema.Type{}, fmt.Errorf("values of several types need a schema: %w", fault.ErrInvalid)
	}
	return schema.Type{Kind: kind}, nil
}

// fields are the columns. Field ids are positions.
func (f *inference) fields() []schema.Field {
	out := make([]schema.Field, len(f.columns))
	for i := range f.columns {
		typ, _ := inferredType(f.columns[i].kinds) // add has checked it
		out[i] = schema.Field{ID: int32(i + 1), Name: f.columns[i].name, Type: typ}
	}
	return out
}

// unknownRow is the answer to a row without a schema that has columns which the table lacks.
func (d *Decoder) unknownRow(value []byte) error {
	row, err := members(value)
	if err == nil && d.spec.Decoding.Envelope == EnvelopeDebezium {
		row, err = members(lookup(row, "after"))
	}
	if err != nil {
		return err
	}
	f := newInference()
	for i := range row {
		if _, known := d.bareRow.byName[row[i].name]; known || isNull(row[i].value) {
			continue
		}
		if err := f.add(row[i:i+1], "at hand"); err != nil {
			return bad("column %q is not in the table, and is no value that a column can be made for", row[i].name)
		}
	}
	return &UnknownColumns{&schema.Schema{Fields: f.fields()}, f.fields()}
}

// primitiveKind is the type of a bare key: plain integers are integers, anything else is text.
func primitiveKind(keys [][]byte) schema.Kind {
	for _, key := range keys {
		k := strings.TrimSpace(string(key))
		digits := strings.TrimPrefix(k, "-")
		if digits == "" || strings.Trim(digits, "0123456789") != "" || (digits[0] == '0' && len(digits) > 1) {
			return schema.String
		}
		if _, ok := parseInteger([]byte(k), true); !ok || k == "-0" {
			return schema.String
		}
	}
	return schema.Long
}

package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"github.com/frazil-io/frazil/libs/fault"
)

// The JSON form of Iceberg spec, Appendix C, "Schemas" and "Data Types".

type jsonSchema struct {
	Type     string      `json:"type"`
	SchemaID int32       `json:"schema-id"`
	Fields   []jsonField `json:"fields"`
}

type jsonField struct {
	ID       int32           `json:"id"`
	Name     string          `json:"name"`
	Required bool            `json:"required"`
	Type     json.RawMessage `json:"type"`
	Doc      string          `json:"doc,omitempty"`
}

type jsonNested struct {
	Type            string          `json:"type"`
	Fields          []jsonField     `json:"fields,omitempty"`
	ElementID       int32           `json:"element-id,omitempty"`
	ElementRequired *bool           `json:"element-required,omitempty"`
	Element         json.RawMessage `json:"element,omitempty"`
	KeyID           int32           `json:"key-id,omitempty"`
	Key             json.RawMessage `json:"key,omitempty"`
	ValueID         int32           `json:"value-id,omitempty"`
	ValueRequired   *bool           `json:"value-required,omitempty"`
	Value           json.RawMessage `json:"value,omitempty"`
}

// maxNesting bounds how deep a schema may nest; deeper text is refused, never recursed into.
const maxNesting = 32

// MarshalJSON is the Iceberg schema JSON. Equal schemas give equal bytes.
func (s *Schema) MarshalJSON() ([]byte, error) {
	fields, err := encodeFields(s.Fields, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(jsonSchema{Type: "struct", SchemaID: s.ID, Fields: fields})
}

// UnmarshalJSON is ParseJSON into s.
func (s *Schema) UnmarshalJSON(text []byte) error {
	parsed, err := ParseJSON(text)
	if err != nil {
		return err
	}
	*s = *parsed
	return nil
}

// ParseJSON reads the Iceberg schema JSON. A type that Frazil does not use is fault.ErrUnsupported, anything
// else that is wrong is fault.ErrInvalid.
func ParseJSON(text []byte) (*Schema, error) {
	var js jsonSchema
	if err := json.Unmarshal(text, &js); err != nil {
		return nil, fmt.Errorf("parse schema: %w: %w", fault.ErrInvalid, err)
	}
	if js.Type != "struct" {
		return nil, fmt.Errorf("parse schema: type is not struct: %w", fault.ErrInvalid)
	}
	fields, err := decodeFields(js.Fields, 0)
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	return &Schema{ID: js.SchemaID, Fields: fields}, nil
}

func encodeFields(fields []Field, depth int) ([]jsonField, error) {
	out := make([]jsonField, len(fields))
	for i := range fields {
		f := &fields[i]
		typ, err := encodeType(&f.Type, depth)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		out[i] = jsonField{ID: f.ID, Name: f.Name, Required: f.Required, Type: typ, Doc: f.Doc}
	}
	return out, nil
}

func encodeType(t *Type, depth int) (json.RawMessage, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d: %w", maxNesting, fault.ErrInvalid)
	}
	switch t.Kind {
	case Struct:
		fields, err := encodeFields(t.Fields, depth+1)
		if err != nil {
			return nil, err
		}
		return json.Marshal(jsonNested{Type: "struct", Fields: fields})
	case List:
		elem, err := encodeType(&t.Elem.Type, depth+1)
		if err != nil {
			return nil, err
		}
		return json.Marshal(jsonNested{Type: "list", ElementID: t.Elem.ID, ElementRequired: &t.Elem.Required, Element: elem})
	case Map:
		key, err := encodeType(&t.Key.Type, depth+1)
		if err != nil {
			return nil, err
		}
		val, err := encodeType(&t.Elem.Type, depth+1)
		if err != nil {
			return nil, err
		}
		return json.Marshal(jsonNested{Type: "map", KeyID: t.Key.ID, Key: key,
			ValueID: t.Elem.ID, ValueRequired: &t.Elem.Required, Value: val})
	default:
	}
	name := t.String()
	if name == "" {
		return nil, fmt.Errorf("kind %d has no Iceberg type: %w", t.Kind, fault.ErrInvalid)
	}
	return json.Marshal(name)
}

// String is the Iceberg name of a primitive type and a readable form of a nested one; empty for an unknown kind.
func (t *Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d, %d)", t.Precision, t.Scale)
	case List:
		return "list<" + t.Elem.Type.String() + ">"
	case Map:
		return "map<" + t.Key.Type.String() + ", " + t.Elem.Type.String() + ">"
	case Struct:
		return "struct"
	default:
		return primitiveName(t.Kind)
	}
}

func primitiveName(k Kind) string {
	switch k {
	case Boolean:
		return "boolean"
	case Int:
		return "int"
	case Long:
		return "long"
	case Float:
		return "float"
	case Double:
		return "double"
	case Date:
		return "date"
	case Timestamp:
		return "timestamp"
	case Timestamptz:
		return "timestamptz"
	case String:
		return "string"
	case Binary:
		return "binary"
	default:
		return ""
	}
}

func decodeFields(in []jsonField, depth int) ([]Field, error) {
	out := make([]Field, len(in))
	for i, jf := range in {
		typ, err := decodeType(jf.Type, depth)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", jf.Name, err)
		}
		out[i] = Field{ID: jf.ID, Name: jf.Name, Required: jf.Required, Type: typ, Doc: jf.Doc}
	}
	return out, nil
}

func decodeType(raw json.RawMessage, depth int) (Type, error) {
	if depth > maxNesting {
		return Type{}, fmt.Errorf("nested deeper than %d: %w", maxNesting, fault.ErrInvalid)
	}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return primitiveType(name)
	}
	var n jsonNested
	if err := json.Unmarshal(raw, &n); err != nil {
		return Type{}, fmt.Errorf("type: %w: %w", fault.ErrInvalid, err)
	}
	switch n.Type {
	case "struct":
		fields, err := decodeFields(n.Fields, depth+1)
		return Type{Kind: Struct, Fields: fields}, err
	case "list":
		elem, err := decodeType(n.Element, depth+1)
		if err != nil {
			return Type{}, err
		}
		return Type{Kind: List, Elem: &Field{ID: n.ElementID, Name: "element", Type: elem, Required: isTrue(n.ElementRequired)}}, nil
	case "map":
		key, err := decodeType(n.Key, depth+1)
		if err != nil {
			return Type{}, err
		}
		val, err := decodeType(n.Value, depth+1)
		if err != nil {
			return Type{}, err
		}
		return Type{Kind: Map, Key: &Field{ID: n.KeyID, Name: "key", Type: key, Required: true},
			Elem: &Field{ID: n.ValueID, Name: "value", Type: val, Required: isTrue(n.ValueRequired)}}, nil
	}
	return Type{}, fmt.Errorf("type %q: %w", n.Type, fault.ErrUnsupported)
}

func isTrue(b *bool) bool { return b != nil && *b }

func primitiveType(name string) (Type, error) {
	for k := Boolean; k <= Binary; k++ {
		if k != Decimal && primitiveName(k) == name {
			return Type{Kind: k}, nil
		}
	}
	m := regexp.MustCompile(`^decimal\((\d{1,2}), *(\d{1,2})\)$`).FindStringSubmatch(name)
	if m == nil {
		return Type{}, fmt.Errorf("type %q: %w", name, fault.ErrUnsupported)
	}
	p, _ := strconv.Atoi(m[1])
	s, _ := strconv.Atoi(m[2])
	if p < 1 || p > MaxPrecision || s > p {
		return Type{}, fmt.Errorf("type %q: precision is 1 to %d and scale at most that: %w", name, MaxPrecision, fault.ErrInvalid)
	}
	return Type{Kind: Decimal, Precision: p, Scale: s}, nil
}

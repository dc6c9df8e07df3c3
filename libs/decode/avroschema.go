package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/registry"
)

// parseAvro reads an Avro schema (Avro specification, "Schema Declaration") with the attributes that Kafka Connect's
// converters add. Named types of the references are known to it. Errors: fault.ErrInvalid, fault.ErrUnsupported.
func parseAvro(s registry.Schema) (*writerType, error) {
	if s.Type != "" && s.Type != "AVRO" {
		return nil, fmt.Errorf("schema %d is of type %q, not Avro: %w", s.ID, s.Type, fault.ErrUnsupported)
	}
	p := avroParser{named: map[string]*writerType{}}
	for _, ref := range s.References {
		if _, err := p.parseText(ref.Text); err != nil {
			return nil, fmt.Errorf("parse reference %q of schema %d: %w", ref.Name, s.ID, err)
		}
	}
	w, err := p.parseText(s.Text)
	if err != nil {
		return nil, fmt.Errorf("parse schema %d: %w", s.ID, err)
	}
	return w, nil
}

type avroParser struct{ named map[string]*writerType }

func (p *avroParser) parseText(text string) (*writerType, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", fault.ErrInvalid)
	}
	return p.parse(v, "", 0)
}

func (p *avroParser) parse(v any, namespace string, depth int) (*writerType, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d: %w", maxDepth, fault.ErrInvalid)
	}
	switch v := v.(type) {
	case string:
		return p.byName(v, namespace)
	case []any:
		u := &writerType{phys: pUnion}
		for _, b := range v {
			w, err := p.parse(b, namespace, depth+1)
			if err != nil {
				return nil, err
			}
			u.branches = append(u.branches, w)
		}
		if len(u.branches) == 0 {
			return nil, fmt.Errorf("an empty union: %w", fault.ErrInvalid)
		}
		return u, nil
	case map[string]any:
		return p.parseObject(v, namespace, depth)
	}
	return nil, fmt.Errorf("neither a name, a union nor a type: %w", fault.ErrInvalid)
}

func avroPrimitive(name string) (phys, bool) {
	switch name {
	case "null":
		return pNull, true
	case "boolean":
		return pBool, true
	case "int":
		return pInt, true
	case "long":
		return pLong, true
	case "float":
		return pFloat, true
	case "double":
		return pDouble, true
	case "string":
		return pString, true
	case "bytes":
		return pBytes, true
	}
	return 0, false
}

func (p *avroParser) byName(name, namespace string) (*writerType, error) {
	if ph, ok := avroPrimitive(name); ok {
		return &writerType{phys: ph}, nil
	}
	for _, full := range []string{qualified(name, namespace), name} {
		if w, ok := p.named[full]; ok {
			return w, nil
		}
	}
	return nil, fmt.Errorf("unknown type %q: %w", name, fault.ErrInvalid)
}

func qualified(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

func (p *avroParser) parseObject(o map[string]any, namespace string, depth int) (*writerType, error) {
	typ, ok := o["type"].(string)
	if !ok {
		return p.parse(o["type"], namespace, depth+1)
	}
	w := &writerType{}
	var err error
	switch typ {
	case "record", "error", "enum", "fixed":
		err = p.parseNamed(w, typ, o, namespace, depth)
	case "array":
		w.phys = pArray
		w.elem, err = p.parse(o["items"], namespace, depth+1)
	case "map":
		w.phys = pMap
		w.elem, err = p.parse(o["values"], namespace, depth+1)
	default:
		inner, nameErr := p.byName(typ, namespace)
		if nameErr != nil {
			return nil, nameErr
		}
		if inner.phys == pRecord || inner.phys == pEnum || inner.phys == pFixed {
			return inner, nil
		}
		*w = *inner
	}
	if err != nil {
		return nil, err
	}
	return w, connectAttributes(w, o)
}

func (p *avroParser) parseNamed(w *writerType, typ string, o map[string]any, namespace string, depth int) error {
	name, _ := o["name"].(string)
	if name == "" {
		return fmt.Errorf("a %s without a name: %w", typ, fault.ErrInvalid)
	}
	if ns, ok := o["namespace"].(string); ok && !strings.Contains(name, ".") {
		namespace = ns
	}
	full := qualified(name, namespace)
	if i := strings.LastIndexByte(full, '.'); i >= 0 {
		namespace = full[:i]
	}
	p.named[full] = w
	switch typ {
	case "enum":
		w.phys = pEnum
		symbols, _ := o["symbols"].([]any)
		for _, s := range symbols {
			text, _ := s.(string)
			w.symbols = append(w.symbols, text)
		}
		return nil
	case "fixed":
		w.phys = pFixed
		size, err := integer(o["size"])
		if err != nil || size < 0 {
			return fmt.Errorf("fixed %q: bad size: %w", name, fault.ErrInvalid)
		}
		w.size = size
		return nil
	}
	w.phys = pRecord
	w.name = full // so that the envelopes of other converters are known, too; connect.name replaces it
	fields, ok := o["fields"].([]any)
	if !ok {
		return fmt.Errorf("record %q without fields: %w", name, fault.ErrInvalid)
	}
	for _, f := range fields {
		fo, _ := f.(map[string]any)
		fieldName, _ := fo["name"].(string)
		ft, err := p.parse(fo["type"], namespace, depth+1)
		if err != nil {
			return fmt.Errorf("field %q: %w", fieldName, err)
		}
		w.fields = append(w.fields, writerField{fieldName, ft})
	}
	return nil
}

// connectAttributes reads what Kafka Connect's converters leave of a Connect schema (Confluent AvroData).
func connectAttributes(w *writerType, o map[string]any) error {
	if name, ok := o["connect.name"].(string); ok {
		w.name = name
	}
	w.logical, _ = o["logicalType"].(string)
	if w.phys != pBytes && w.phys != pFixed {
		return nil
	}
	params, _ := o["connect.parameters"].(map[string]any)
	var err error
	if w.scale, err = firstInteger(o["scale"], params["scale"]); err != nil {
		return fmt.Errorf("decimal scale: %w", err)
	}
	if w.prec, err = firstInteger(params["connect.decimal.precision"], o["precision"]); err != nil {
		return fmt.Errorf("decimal precision: %w", err)
	}
	if w.prec == confluentUnknownPrecision && params["connect.decimal.precision"] == nil {
		w.prec = 0
	}
	return nil
}

// firstInteger is the first value that is there, as an integer; 0 if none is.
func firstInteger(values ...any) (int, error) {
	for _, v := range values {
		if v != nil {
			return integer(v)
		}
	}
	return 0, nil
}

// integer reads a small integer that may be quoted, as Connect's parameters are.
func integer(v any) (int, error) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("not an integer: %w", fault.ErrInvalid)
	}
	return int(n), nil
}

// connectSchema is an embedded schema of Kafka Connect's JsonConverter (apache/kafka JsonSchema).
type connectSchema struct {
	Type       string                     `json:"type"`
	Optional   bool                       `json:"optional"`
	Name       string                     `json:"name"`
	Field      string                     `json:"field"`
	Fields     []*connectSchema           `json:"fields"`
	Items      *connectSchema             `json:"items"`
	Keys       *connectSchema             `json:"keys"`
	Values     *connectSchema             `json:"values"`
	Parameters map[string]json.RawMessage `json:"parameters"`
}

// parseConnect reads an embedded schema. Errors: fault.ErrInvalid.
func parseConnect(text []byte) (*writerType, error) {
	var cs connectSchema
	if err := json.Unmarshal(text, &cs); err != nil {
		return nil, fmt.Errorf("the embedded schema is not a Kafka Connect schema: %w", fault.ErrInvalid)
	}
	return cs.writer(0)
}

func connectPrimitive(name string) (phys, bool) {
	switch name {
	case "boolean":
		return pBool, true
	case "int8", "int16", "int32":
		return pInt, true
	case "int64":
		return pLong, true
	case "float", "float32":
		return pFloat, true
	case "double", "float64":
		return pDouble, true
	case "string":
		return pString, true
	case "bytes":
		return pBytes, true
	}
	return 0, false
}

func (cs *connectSchema) writer(depth int) (*writerType, error) {
	if cs == nil || depth > maxDepth {
		return nil, fmt.Errorf("the embedded schema lacks a part, or nests deeper than %d: %w", maxDepth, fault.ErrInvalid)
	}
	w := &writerType{name: cs.Name}
	var err error
	switch cs.Type {
	case "struct":
		w.phys = pRecord
		for _, f := range cs.Fields {
			ft, err := f.writer(depth + 1)
			if err != nil {
				return nil, err
			}
			w.fields = append(w.fields, writerField{f.Field, ft})
		}
	case "array":
		w.phys = pArray
		w.elem, err = cs.Items.writer(depth + 1)
	case "map":
		w.phys = pMap
		if w.key, err = cs.Keys.writer(depth + 1); err == nil {
			w.elem, err = cs.Values.writer(depth + 1)
		}
	default:
		ph, ok := connectPrimitive(cs.Type)
		if !ok {
			return nil, fmt.Errorf("the embedded schema has the unknown type %q: %w", cs.Type, fault.ErrInvalid)
		}
		w.phys = ph
		err = cs.decimal(w)
	}
	if err != nil {
		return nil, err
	}
	if cs.Optional {
		return optional(w), nil
	}
	return w, nil
}

func (cs *connectSchema) decimal(w *writerType) error {
	for key, dst := range map[string]*int{"scale": &w.scale, "connect.decimal.precision": &w.prec} {
		raw, ok := cs.Parameters[key]
		if !ok || w.phys != pBytes {
			continue
		}
		n, err := strconv.ParseInt(string(bytes.Trim(raw, `"`)), 10, 32)
		if err != nil {
			return fmt.Errorf("the embedded schema's parameter %q is not an integer: %w", key, fault.ErrInvalid)
		}
		*dst = int(n)
	}
	return nil
}

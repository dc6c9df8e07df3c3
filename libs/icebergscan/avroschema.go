package icebergscan

import (
	"encoding/json"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
)

// kind is an Avro type, as far as its encoding goes.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindVarint // int and long
	kindFloat
	kindDouble
	kindBytes // bytes and string
	kindFixed
	kindRecord
	kindArray
	kindMap
	kindUnion
)

// node is one type of an Avro schema. Named types are shared by pointer; they cannot contain themselves.
type node struct {
	kind    kind
	text    bool   // kindBytes: a string
	logical string // decimal, uuid, date ...
	size    int    // kindFixed
	fields  []avroField
	item    *node   // kindArray, kindMap
	of      []*node // kindUnion
	open    bool    // a record whose fields are still being parsed
}

type avroField struct {
	name string
	id   int32 // -1 = none
	node *node
}

// The text of a schema comes from outside: nesting is bounded so that neither parsing nor skipping can exhaust the
// stack.
const maxDepth = 64

func parseAvroSchema(text []byte) (*node, error) {
	p := avroParser{named: map[string]*node{}}
	n, err := p.parse(text, 0)
	if err != nil {
		return nil, fmt.Errorf("avro schema: %w", err)
	}
	return n, nil
}

type avroParser struct{ named map[string]*node }

func (p *avroParser) parse(text json.RawMessage, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d: %w", maxDepth, fault.ErrCorrupt)
	}
	switch first(text) {
	case '"':
		var name string
		if err := json.Unmarshal(text, &name); err != nil {
			return nil, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
		}
		return p.byName(name)
	case '[':
		var branches []json.RawMessage
		if err := json.Unmarshal(text, &branches); err != nil {
			return nil, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
		}
		n := &node{kind: kindUnion}
		for _, b := range branches {
			child, err := p.parse(b, depth+1)
			if err != nil {
				return nil, err
			}
			n.of = append(n.of, child)
		}
		return n, nil
	}
	return p.object(text, depth)
}

func first(text []byte) byte {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

func (p *avroParser) byName(name string) (*node, error) {
	switch name {
	case "null":
		return &node{kind: kindNull}, nil
	case "boolean":
		return &node{kind: kindBool}, nil
	case "int", "long":
		return &node{kind: kindVarint}, nil
	case "float":
		return &node{kind: kindFloat}, nil
	case "double":
		return &node{kind: kindDouble}, nil
	case "bytes":
		return &node{kind: kindBytes}, nil
	case "string":
		return &node{kind: kindBytes, text: true}, nil
	}
	n, ok := p.named[name]
	if !ok || n.open {
		return nil, fmt.Errorf("type %q is unknown or contains itself: %w", name, fault.ErrCorrupt)
	}
	return n, nil
}

// avroObject is a schema in object form.
type avroObject struct {
	Type      json.RawMessage `json:"type"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Logical   string          `json:"logicalType"`
	Size      int             `json:"size"`
	Items     json.RawMessage `json:"items"`
	Values    json.RawMessage `json:"values"`
	Fields    []struct {
		Name    string          `json:"name"`
		FieldID *int32          `json:"field-id"`
		Type    json.RawMessage `json:"type"`
	} `json:"fields"`
}

func (p *avroParser) object(text json.RawMessage, depth int) (*node, error) {
	var o avroObject
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	var typ string
	if err := json.Unmarshal(o.Type, &typ); err != nil {
		return p.parse(o.Type, depth+1) // {"type": {...}}
	}
	switch typ {
	case "record":
		return p.record(&o, depth)
	case "array", "map":
		items, k := o.Items, kindArray
		if typ == "map" {
			items, k = o.Values, kindMap
		}
		item, err := p.parse(items, depth+1)
		if err != nil {
			return nil, err
		}
		return &node{kind: k, item: item, logical: o.Logical}, nil
	case "fixed":
		if o.Size < 0 {
			return nil, fmt.Errorf("fixed of %d bytes: %w", o.Size, fault.ErrCorrupt)
		}
		n := &node{kind: kindFixed, size: o.Size, logical: o.Logical}
		p.name(&o, n)
		return n, nil
	case "enum":
		n := &node{kind: kindVarint}
		p.name(&o, n)
		return n, nil
	}
	n, err := p.byName(typ)
	if err != nil || o.Logical == "" {
		return n, err
	}
	with := *n
	with.logical = o.Logical
	return &with, nil
}

func (p *avroParser) record(o *avroObject, depth int) (*node, error) {
	n := &node{kind: kindRecord, open: true}
	p.name(o, n)
	for _, f := range o.Fields {
		child, err := p.parse(f.Type, depth+1)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		id := int32(-1)
		if f.FieldID != nil {
			id = *f.FieldID
		}
		n.fields = append(n.fields, avroField{name: f.Name, id: id, node: child})
	}
	n.open = false
	return n, nil
}

func (p *avroParser) name(o *avroObject, n *node) {
	if o.Name == "" {
		return
	}
	p.named[o.Name] = n
	if o.Namespace != "" {
		p.named[o.Namespace+"."+o.Name] = n
	}
}

package decode

import (
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

// dest is where a node's values go.
type dest uint8

const (
	toNothing dest = iota // the value is checked for its syntax and dropped
	toLeaf                // a column of the batch
	toKey                 // a field of the canonical key
)

// node is one step of a program: how one type of a writer schema is read and where its values go. A program is a
// tree of nodes; both the Avro and the JSON reader walk it.
type node struct {
	phys   phys
	conv   conv
	dest   dest
	kind   schema.Kind // of the column or the key field
	store  column.Kind
	label  string // the column, for reasons
	listed bool   // inside a list or a map

	// Avro: how the union around the type is written.
	branches int // 0: there is none
	null     int // branch that is null; -1: none
	union    []*node
	size     int // pFixed: bytes. A VariableScaleDecimal: 1 if the value comes before the scale
	symbols  [][]byte

	// Columns. def is the definition level of a present value; rep the repetition level of a list's elements.
	leaf, leaves int
	def, rep     uint8
	optional     bool

	// Decimals.
	scale, prec int // of the column
	wireScale   int // of the writer

	key int // toKey: index of the key field

	row    bool // pRecord: the row itself
	rowKey int  // a column of the row that is a key field: its index there + 1; if the value lacks it the key gives it

	fields  []fieldNode // pRecord
	byName  map[string]int
	missing []*node // columns that the writer lacks
	keyNode *node   // pMap
	elem    *node   // pArray, pMap
}

// fieldNode is a field of a record.
type fieldNode struct {
	name   string
	quoted []byte // the name as a JSON string, where it needs no escape; else nil
	node   *node
}

// compiler makes programs. Skipped records are kept by type, since they may refer to themselves.
type compiler struct{ skipped map[*writerType]*node }

func newCompiler() *compiler { return &compiler{skipped: map[*writerType]*node{}} }

// place is where a table field lies: its first leaf and the levels of what encloses it.
type place struct {
	leaf     int
	def, rep uint8
	label    string
}

func leafCount(f *schema.Field) int {
	n := 0
	switch f.Type.Kind {
	case schema.Struct:
		for i := range f.Type.Fields {
			n += leafCount(&f.Type.Fields[i])
		}
	case schema.List:
		n = leafCount(f.Type.Elem)
	case schema.Map:
		n = leafCount(f.Type.Key) + leafCount(f.Type.Elem)
	default:
		n = 1
	}
	return n
}

// column compiles a writer's type onto a table field, which must hold it (schema.Extend has said so).
func (c *compiler) column(w *writerType, f *schema.Field, at place) (*node, error) {
	n := &node{dest: toLeaf, kind: f.Type.Kind, label: at.label, listed: at.rep > 0, optional: !f.Required,
		leaf: at.leaf, leaves: leafCount(f), def: at.def, rep: at.rep}
	if n.optional {
		n.def++
	}
	w = n.unwrap(w)
	m, primitive, err := meaningOf(w)
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", at.label, err)
	}
	if primitive {
		if f.Doc != m.doc || !schema.Holds(&f.Type, &m.typ) {
			return nil, fmt.Errorf("column %q is %s %s in the table and %s %s in the record: %w",
				at.label, &f.Type, f.Doc, &m.typ, m.doc, fault.ErrInvalid)
		}
		n.primitive(w, m, f.Type)
		return n, nil
	}
	n.phys = w.phys
	inner := place{leaf: at.leaf, def: n.def, rep: at.rep, label: at.label}
	switch {
	case w.phys == pRecord && f.Type.Kind == schema.Struct:
		return n, c.record(n, w, f.Type.Fields, inner)
	case w.phys == pArray && f.Type.Kind == schema.List:
		inner.def, inner.rep = inner.def+1, inner.rep+1
		n.rep = inner.rep
		n.elem, err = c.column(w.elem, f.Type.Elem, inner)
		return n, err
	case w.phys == pMap && f.Type.Kind == schema.Map:
		inner.def, inner.rep = inner.def+1, inner.rep+1
		n.rep = inner.rep
		key := w.key
		if key == nil {
			key = &writerType{phys: pString}
		}
		if n.keyNode, err = c.column(key, f.Type.Key, inner); err != nil {
			return nil, err
		}
		inner.leaf += n.keyNode.leaves
		n.elem, err = c.column(w.elem, f.Type.Elem, inner)
		return n, err
	}
	return nil, fmt.Errorf("column %q is %s in the table and of another shape in the record: %w", at.label, &f.Type, fault.ErrInvalid)
}

// unwrap takes the optional's union away and notes how Avro writes it.
func (n *node) unwrap(w *writerType) *writerType {
	inner, null := w.strip()
	n.null = null
	if inner != w {
		n.branches = len(w.branches)
	}
	return inner
}

// primitive fills in how a primitive value is read, changed and stored as typ.
func (n *node) primitive(w *writerType, m meaning, typ schema.Type) {
	n.phys, n.conv, n.kind = w.phys, m.conv, typ.Kind
	n.store, _ = column.Storage(typ)
	n.scale, n.prec, n.wireScale = typ.Scale, typ.Precision, w.scale
	n.size = w.size
	if m.conv == convVarDecimal && w.fields[0].name == "value" {
		n.size = 1
	}
	for _, s := range w.symbols {
		n.symbols = append(n.symbols, []byte(s))
	}
}

// record compiles a record's fields onto table fields by name.
func (c *compiler) record(n *node, w *writerType, table []schema.Field, at place) error {
	n.phys = pRecord
	leaf := at.leaf
	places := make([]place, len(table))
	for i := range table {
		places[i] = at
		places[i].leaf, places[i].label = leaf, table[i].Name
		if at.label != "" {
			places[i].label = at.label + "." + table[i].Name
		}
		leaf += leafCount(&table[i])
	}
	used := make([]bool, len(table))
	for i := range w.fields {
		wf := &w.fields[i]
		t := slices.IndexFunc(table, func(f schema.Field) bool { return f.Name == wf.name })
		if t < 0 || used[t] {
			return fmt.Errorf("column %q is twice in the record's schema, or not in the table's: %w", wf.name, fault.ErrInvalid)
		}
		used[t] = true
		fn, err := c.column(wf.typ, &table[t], places[t])
		if err != nil {
			return err
		}
		n.addField(wf.name, fn)
	}
	for i := range table {
		if !used[i] {
			n.missing = append(n.missing, nullNode(&table[i], places[i]))
		}
	}
	return nil
}

// nullNode stands for a column without a value.
func nullNode(f *schema.Field, at place) *node {
	n := &node{dest: toLeaf, label: at.label, leaf: at.leaf, leaves: leafCount(f), def: at.def, optional: !f.Required}
	if n.optional {
		n.def++
	}
	return n
}

func (n *node) addField(name string, f *node) {
	if n.byName == nil {
		n.byName = map[string]int{}
	}
	n.byName[name] = len(n.fields)
	n.fields = append(n.fields, fieldNode{name: name, quoted: quoteName(name), node: f})
}

// quoteName is the name as a JSON string if that needs no escape; nil otherwise.
func quoteName(name string) []byte {
	for _, c := range []byte(name) {
		if c < 0x20 || c == '"' || c == '\\' {
			return nil
		}
	}
	return []byte(`"` + name + `"`)
}

// skip compiles a type whose values are read and dropped.
func (c *compiler) skip(w *writerType) *node {
	if n, ok := c.skipped[w]; ok {
		return n
	}
	n := &node{dest: toNothing}
	c.skipped[w] = n
	inner := n.unwrap(w)
	n.phys, n.size = inner.phys, inner.size
	for _, s := range inner.symbols {
		n.symbols = append(n.symbols, []byte(s))
	}
	switch inner.phys {
	case pUnion:
		for _, b := range inner.branches {
			n.union = append(n.union, c.skip(b))
		}
	case pArray, pMap:
		n.elem = c.skip(inner.elem)
	case pRecord:
		for i := range inner.fields {
			n.addField(inner.fields[i].name, c.skip(inner.fields[i].typ))
		}
	default:
	}
	return n
}

// keyField compiles a type onto field i of the canonical key. Records, arrays, maps and unions have no identity.
func (c *compiler) keyField(w *writerType, i int, name string) (*node, error) {
	n := &node{dest: toKey, key: i, label: name, optional: true}
	w = n.unwrap(w)
	m, primitive, err := meaningOf(w)
	if err != nil || !primitive {
		return nil, fmt.Errorf("key field %q is not a plain value: %w", name, fault.ErrInvalid)
	}
	n.primitive(w, m, m.typ)
	return n, nil
}

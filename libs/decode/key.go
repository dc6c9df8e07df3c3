package decode

import (
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

// maxKeyFields bounds the fields of a key.
const maxKeyFields = 64

// keyProgram reads the keys of one writer schema.
type keyProgram struct {
	d       *Decoder
	w       *writerType
	hash    *node            // onto the canonical key
	columns map[uint64]*node // onto columns of the row, by the set of key fields that are wanted
	single  bool             // a bare value, not a record
	err     error            // why keys of this schema cannot be read
}

// keyProgramOf compiles a key's writer type; what is wrong with it is in err.
func (d *Decoder) keyProgramOf(w *writerType) *keyProgram {
	p := &keyProgram{d: d, columns: map[uint64]*node{}}
	p.w, _ = w.strip()
	p.hash, p.err = p.compileHash(w)
	if p.err != nil {
		p.err = asBad(p.err)
	}
	return p
}

func (p *keyProgram) compileHash(w *writerType) (*node, error) {
	c := newCompiler()
	if p.single = p.w.phys != pRecord || p.w.name == variableScaleDecimal; p.single {
		if !p.d.primitiveKey() {
			return nil, errKeyShape
		}
		n, err := p.field(c, w, 0, PrimitiveKeyField)
		if err == nil {
			n.optional = false
		}
		return n, err
	}
	if len(p.w.fields) != len(p.d.keyIndex) {
		return nil, errKeyShape
	}
	n := &node{phys: pRecord, dest: toKey, label: PrimitiveKeyField}
	n.unwrap(w)
	for i := range p.w.fields {
		f := &p.w.fields[i]
		at, ok := p.d.keyIndex[f.name]
		if !ok {
			return nil, errKeyShape
		}
		fn, err := p.field(c, f.typ, at, f.name)
		if err != nil {
			return nil, err
		}
		n.addField(f.name, fn)
	}
	return n, nil
}

// field compiles a key field, whose type must be one that its column holds: with another type the same key would
// have another identity.
func (p *keyProgram) field(c *compiler, w *writerType, i int, name string) (*node, error) {
	n, err := c.keyField(w, i, name)
	if err != nil {
		return nil, err
	}
	if _, err := p.column(c, w, name); err != nil {
		return nil, fmt.Errorf("the key's field %q: %w", name, err)
	}
	return n, nil
}

// columnsFor is the program that stores the wanted key fields in their columns.
func (p *keyProgram) columnsFor(wanted uint64) (*node, error) {
	if n, ok := p.columns[wanted]; ok {
		return n, nil
	}
	c := newCompiler()
	if p.single {
		n, err := p.column(c, p.w, PrimitiveKeyField)
		if err != nil {
			return nil, err
		}
		n.branches, n.null = p.hash.branches, p.hash.null
		p.columns[wanted] = n
		return n, nil
	}
	n := &node{phys: pRecord, dest: toLeaf, branches: p.hash.branches, null: p.hash.null}
	for i := range p.w.fields {
		f := &p.w.fields[i]
		if wanted&(1<<p.d.keyIndex[f.name]) == 0 {
			n.addField(f.name, c.skip(f.typ))
			continue
		}
		fn, err := p.column(c, f.typ, f.name)
		if err != nil {
			return nil, err
		}
		n.addField(f.name, fn)
	}
	p.columns[wanted] = n
	return n, nil
}

func (p *keyProgram) column(c *compiler, w *writerType, name string) (*node, error) {
	f, at, ok := p.d.tableColumn(name)
	if !ok {
		return nil, fmt.Errorf("key field %q is no column of the table: %w", name, fault.ErrInvalid)
	}
	return c.column(w, f, at)
}

// primitiveKey reports whether the table's key may be a bare value.
func (d *Decoder) primitiveKey() bool {
	return len(d.spec.Decoding.KeyFields) == 1 && d.spec.Decoding.KeyFields[0] == PrimitiveKeyField
}

// tableColumn finds a column of the value or the key, and where it lies.
func (d *Decoder) tableColumn(name string) (*schema.Field, place, bool) {
	at := place{leaf: metadataLeaves}
	for i := range d.columns {
		f := &d.columns[i]
		if f.Name == name {
			at.label = name
			return f, at, true
		}
		at.leaf += leafCount(f)
	}
	return nil, at, false
}

// bareType is how a column is read from JSON without a schema.
func bareType(f *schema.Field) (*writerType, error) {
	phys := map[schema.Kind]phys{schema.Boolean: pBool, schema.Int: pInt, schema.Long: pLong, schema.Float: pFloat,
		schema.Double: pDouble, schema.String: pText}[f.Type.Kind]
	if phys == 0 || f.Doc != "" {
		return nil, fmt.Errorf("column %q is %s %s, which JSON without a schema cannot give: %w", f.Name, &f.Type, f.Doc, fault.ErrInvalid)
	}
	return &writerType{phys: phys}, nil
}

// bareKey compiles the programs of keys that are JSON without a schema: objects, and bare values.
func (d *Decoder) bareKey() (object, primitive *keyProgram, err error) {
	w := &writerType{phys: pRecord}
	for _, name := range d.spec.Decoding.KeyFields {
		f, _, ok := d.tableColumn(name)
		if !ok {
			return nil, nil, fmt.Errorf("key field %q is no column of the table: %w", name, fault.ErrInvalid)
		}
		ft, err := bareType(f)
		if err != nil {
			return nil, nil, err
		}
		if ft.phys == pText {
			ft.phys = pString
		}
		w.fields = append(w.fields, writerField{name, optional(ft)})
	}
	object = d.keyProgramOf(w)
	if object.err != nil || !d.primitiveKey() {
		return object, nil, object.err
	}
	primitive = d.keyProgramOf(w.fields[0].typ)
	return object, primitive, primitive.err
}

package decode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/schema"
)

// rowProgram reads the values of one writer schema.
type rowProgram struct {
	row    *node  // the row
	env    []step // Avro: the envelope's fields in order; nil where the value is the row
	nonRow bool   // heartbeats and the like: never an event
	err    error  // why values of this schema cannot be read
}

// step is a field of an Avro envelope.
type step struct {
	role role
	node *node
}

type role uint8

const (
	roleSkip role = iota
	roleAfter
	roleOp
)

// value reads a value. lacking are the key fields whose columns the row did not fill.
func (d *Decoder) value(ctx context.Context, value []byte, dst *column.Batch) (class layout.Class, lacking uint64, err error) {
	switch d.spec.Decoding.ValueFormat {
	case FormatAvro:
		class, err = d.avroValue(ctx, value)
		return class, d.avro.lacking, err
	default:
		d.json.start(value)
		d.json.lacking = 0
		class, err = d.jsonValue()
		if isBad(err) {
			dst.Rollback()
			d.json.start(value)
			d.json.careful, d.json.lacking = true, 0
			class, err = d.jsonValue()
		}
		if err == nil && class == layout.Row && d.json.unknown {
			err = d.unknownRow(value)
		}
		return class, d.json.lacking, err
	}
}

// classOf is what an envelope says.
func (e *envelope) classOf() (layout.Class, error) {
	switch e.op {
	case 'c', 'r', 'u':
		if !e.after {
			return 0, bad("an upsert without a row (field after)")
		}
		return layout.Row, nil
	case 'd':
		return layout.Delete, nil
	case 't':
		return layout.Truncate, nil
	case 'm':
		return layout.NonRow, nil
	case 0:
		if e.others == 0 && !e.after {
			return layout.NonRow, nil // a heartbeat has nothing but times
		}
		return 0, errNoEnvelope
	}
	return 0, bad("an operation that is not known")
}

func (d *Decoder) jsonValue() (layout.Class, error) {
	r := &d.json
	if d.spec.Decoding.ValueFormat == FormatJSON {
		r.bare = true
		class, err := d.jsonRow(d.bareRow)
		if err == nil && !r.end() {
			err = r.syntax()
		}
		return class, err
	}
	w, err := r.openWrapper(d.valueRaw.text)
	if err != nil {
		return 0, err
	}
	p := d.connectRow(w.schema, r)
	if p.err != nil {
		return 0, p.err
	}
	class := layout.NonRow
	if p.nonRow {
		err = r.skip()
	} else {
		class, err = d.jsonRow(p.row)
	}
	if err == nil {
		err = r.closeWrapper(w)
	}
	if err == nil && !r.end() {
		err = r.syntax()
	}
	return class, err
}

// jsonRow reads the row, or the envelope around it.
func (d *Decoder) jsonRow(row *node) (layout.Class, error) {
	r := &d.json
	if d.spec.Decoding.Envelope == EnvelopeDebezium {
		e, err := r.envelope(row)
		if err != nil {
			return 0, err
		}
		if e.null {
			return layout.Delete, nil
		}
		return e.classOf()
	}
	switch r.space() {
	case 'n':
		return layout.Delete, r.literal("null")
	case '{':
		return layout.Row, r.value(row, 0)
	}
	if err := r.skip(); err != nil {
		return 0, err
	}
	return 0, bad("the value is not an object")
}

// connectRow is the program of an embedded schema.
func (d *Decoder) connectRow(text []byte, r *jsonReader) *rowProgram {
	c := &d.rows
	switch {
	case text == nil && r.space() == 'n': // a tombstone in disguise: no row will be read
		return &rowProgram{row: &node{phys: pRecord, dest: toLeaf}}
	case text == nil:
		return &rowProgram{err: bad("the record has no embedded schema")}
	case c.have && &text[0] == &d.valueRaw.text[0]:
		return c.last
	}
	p, ok := c.byText[string(text)]
	if !ok {
		if len(c.byText) >= maxPrograms {
			clear(c.byText)
		}
		p = d.compileConnect(text)
		c.byText[string(text)] = p
	}
	d.valueRaw.note(text)
	c.last, c.have = p, true
	return p
}

func (d *Decoder) compileConnect(text []byte) *rowProgram {
	w, err := parseConnect(text)
	if err != nil {
		return &rowProgram{err: asBad(err)}
	}
	return d.compileRow(w)
}

// avroValue reads a value in the Confluent wire format.
func (d *Decoder) avroValue(ctx context.Context, value []byte) (layout.Class, error) {
	id, err := schemaID(value)
	if err != nil {
		return 0, err
	}
	if !d.rows.have || d.rows.lastID != id {
		if err := d.loadRow(ctx, id); err != nil {
			return 0, err
		}
	}
	p := d.rows.last
	if p.err != nil || p.nonRow {
		return layout.NonRow, p.err
	}
	r := &d.avro
	r.b, r.p, r.depth, r.zeros, r.lacking = value, wirePrefix, 0, 0, 0
	class := layout.Row
	if p.env == nil {
		err = r.value(p.row, 0)
	} else {
		class, err = r.envelope(p.env)
	}
	if err == nil && r.p != len(r.b) {
		err = bad("%d bytes after the record", len(r.b)-r.p)
	}
	return class, err
}

// wirePrefix is the length of 0x00 and the schema id.
const wirePrefix = 5

func schemaID(b []byte) (int32, error) {
	if len(b) < wirePrefix || b[0] != 0 {
		return 0, bad("not in the schema registry's wire format (0x00 and a schema id), which the topic's format is")
	}
	return int32(binary.BigEndian.Uint32(b[1:])), nil
}

func (r *avroReader) envelope(env []step) (layout.Class, error) {
	var e envelope
	for i := range env {
		s := &env[i]
		switch s.role {
		case roleAfter:
			before := r.p
			if err := r.value(s.node, 0); err != nil {
				return 0, err
			}
			e.after = !s.node.wasNull(r.b[before:r.p])
		case roleOp:
			op, err := r.opText(s.node)
			if err != nil {
				return 0, err
			}
			e.op = opCode(op)
		default:
			if err := r.value(s.node, 0); err != nil {
				return 0, err
			}
		}
	}
	if e.op == 0 {
		return 0, errNoEnvelope
	}
	return e.classOf()
}

// wasNull reports whether the bytes that a value took are those of a null.
func (n *node) wasNull(taken []byte) bool {
	return n.branches > 0 && n.null >= 0 && len(taken) == 1 && int(taken[0]) == 2*n.null
}

// opText reads the operation: text, or an optional text.
func (r *avroReader) opText(n *node) ([]byte, error) {
	if n.branches > 0 {
		branch, ok := r.long()
		if !ok || branch < 0 || branch >= int64(n.branches) {
			return nil, errAvroShort()
		}
		if int(branch) == n.null {
			return nil, bad("an envelope without an operation")
		}
	}
	op, ok := r.bytes()
	if !ok {
		return nil, errAvroShort()
	}
	return op, nil
}

// loadRow makes the program of schema id the last one. Only the registry's passing faults are errors.
func (d *Decoder) loadRow(ctx context.Context, id int32) error {
	p, ok := d.rows.byID[id]
	if !ok {
		w, err := d.writer(ctx, id)
		switch {
		case err == nil:
			p = d.compileRow(w)
		case lasting(err):
			p = &rowProgram{err: asBad(err)}
		default:
			return err
		}
		if len(d.rows.byID) >= maxPrograms {
			clear(d.rows.byID)
		}
		d.rows.byID[id] = p
	}
	d.rows.last, d.rows.lastID, d.rows.have = p, id, true
	return nil
}

// lasting reports whether an error about a schema will be the same tomorrow.
func lasting(err error) bool { return errors.Is(err, fault.ErrInvalid) }

// writer asks the registry for a schema. One that the registry does not know, or that is not Avro, is
// fault.ErrInvalid.
func (d *Decoder) writer(ctx context.Context, id int32) (*writerType, error) {
	s, err := d.reg.ByID(ctx, id)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, bad("schema %d is not in the registry", id)
	}
	if err != nil {
		return nil, fmt.Errorf("look up schema %d: %w", id, err)
	}
	w, err := parseAvro(s)
	if errors.Is(err, fault.ErrUnsupported) {
		return nil, bad("schema %d is not Avro", id)
	}
	return w, err
}

// compileRow compiles a value's writer schema.
func (d *Decoder) compileRow(w *writerType) *rowProgram {
	p, err := d.compileRowOf(w)
	if err != nil {
		return &rowProgram{err: asBad(err)}
	}
	return p
}

func (d *Decoder) compileRowOf(w *writerType) (*rowProgram, error) {
	outer, _ := w.strip()
	if notATable(outer.name) != "" {
		return &rowProgram{nonRow: true}, nil
	}
	if outer.phys != pRecord {
		return nil, bad("the value is not a record")
	}
	if d.spec.Decoding.Envelope == EnvelopeUpsert {
		row, err := d.rowNode(w)
		return &rowProgram{row: row}, err
	}
	after, op := outer.field("after"), outer.field("op")
	if after == nil || op == nil || outer != w {
		return nil, errNoEnvelope
	}
	row, err := d.rowNode(after)
	if err != nil {
		return nil, err
	}
	p := &rowProgram{row: row}
	c := newCompiler()
	for i := range outer.fields {
		f := &outer.fields[i]
		s := step{node: c.skip(f.typ)}
		switch f.name {
		case "after":
			s = step{roleAfter, row}
		case "op":
			if s.role = roleOp; s.node.phys != pString {
				return nil, errNoEnvelope
			}
		}
		p.env = append(p.env, s)
	}
	return p, nil
}

// lacked answers those of a writer's columns that the table's schema would have to grow for.
func (d *Decoder) lacked(fields []schema.Field) (out []schema.Field) {
	for i := range fields {
		_, grows, err := schema.Extend([]*schema.Schema{d.table}, &schema.Schema{Fields: fields[i : i+1]})
		if grows && err == nil {
			out = append(out, fields[i])
		}
	}
	return out
}

// rowNode compiles a row's writer type onto the table's columns.
func (d *Decoder) rowNode(w *writerType) (*node, error) {
	inner, _ := w.strip()
	if inner.phys != pRecord {
		return nil, bad("the row is not a record")
	}
	fields, err := columnsOf(inner)
	if err != nil {
		return nil, err
	}
	writer := &schema.Schema{Fields: fields}
	_, grows, err := schema.Extend([]*schema.Schema{d.table}, writer)
	if err != nil {
		return nil, err
	}
	if grows {
		return nil, &UnknownColumns{writer, d.lacked(fields)}
	}
	n := &node{dest: toLeaf, row: true, optional: true, leaves: 0}
	n.unwrap(w)
	if err := newCompiler().record(n, inner, d.columns, place{leaf: metadataLeaves}); err != nil {
		return nil, err
	}
	d.markKeys(n)
	return n, nil
}

// markKeys notes which columns of a row the key can give.
func (d *Decoder) markKeys(row *node) {
	all := slices.Clone(row.missing)
	for i := range row.fields {
		all = append(all, row.fields[i].node)
	}
	for _, n := range all {
		if i, ok := d.keyIndex[n.label]; ok {
			n.rowKey = i + 1
		}
	}
}

// bareRowNode compiles the row of JSON without a schema: the table's columns, all of them.
func (d *Decoder) bareRowNode() (*node, error) {
	n := &node{phys: pRecord, dest: toLeaf, row: true, optional: true}
	c := newCompiler()
	at := place{leaf: metadataLeaves}
	for i := range d.columns {
		f := &d.columns[i]
		w, err := bareType(f)
		if err != nil {
			return nil, err
		}
		at.label = f.Name
		fn, err := c.column(w, f, at)
		if err != nil {
			return nil, err
		}
		n.addField(f.Name, fn)
		at.leaf += fn.leaves
	}
	d.markKeys(n)
	return n, nil
}

// notATable is why records with this schema name are no rows; empty for every other name.
func notATable(name string) string {
	switch {
	case strings.HasSuffix(name, "io.debezium.connector.common.Heartbeat"):
		return "a heartbeat topic"
	case name == "io.debezium.connector.common.TransactionMetadataValue":
		return "a transaction metadata topic"
	case strings.HasPrefix(name, "io.debezium.connector.") && strings.HasSuffix(name, ".SchemaChangeValue"):
		return "a schema change topic"
	case name == "io.debezium.connector.common.Notification":
		return "a notification topic"
	case strings.HasPrefix(name, "io.debezium.connector.") && strings.HasSuffix(name, ".MessageValue"):
		return "a topic of logical messages (op m)"
	}
	return ""
}

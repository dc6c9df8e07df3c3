package decode

import (
	"context"

	"github.com/frazil-io/frazil/libs/schema"
)

// readKey reads a key: into the canonical key if wanted is empty, else the wanted fields into their columns.
func (d *Decoder) readKey(ctx context.Context, key []byte, wanted uint64) error {
	if d.spec.Decoding.KeyFormat == FormatAvro {
		return d.readAvroKey(ctx, key, wanted)
	}
	r := &d.jsonKey
	r.start(key)
	r.careful = wanted != 0 // what was stored in columns could not be taken back for a second pass
	err := d.readJSONKey(wanted)
	if wanted == 0 && isBad(err) {
		d.encoder.Reset()
		r.start(key)
		r.careful = true
		err = d.readJSONKey(wanted)
	}
	return err
}

// node is the program for what is wanted.
func (p *keyProgram) node(wanted uint64) (*node, error) {
	if p.err != nil {
		return nil, p.err
	}
	if wanted == 0 {
		return p.hash, nil
	}
	n, err := p.columnsFor(wanted)
	if err != nil {
		return nil, asBad(err)
	}
	return n, nil
}

func (d *Decoder) readAvroKey(ctx context.Context, key []byte, wanted uint64) error {
	id, err := schemaID(key)
	if err != nil {
		return err
	}
	if !d.keys.have || d.keys.lastID != id {
		if err := d.loadKey(ctx, id); err != nil {
			return err
		}
	}
	n, err := d.keys.last.node(wanted)
	if err != nil {
		return err
	}
	r := &d.avroKey
	r.b, r.p, r.depth, r.zeros = key, wirePrefix, 0, 0
	if err := r.value(n, 0); err != nil {
		return err
	}
	if r.p != len(r.b) {
		return bad("%d bytes after the key", len(r.b)-r.p)
	}
	return nil
}

func (d *Decoder) loadKey(ctx context.Context, id int32) error {
	p, ok := d.keys.byID[id]
	if !ok {
		w, err := d.writer(ctx, id)
		switch {
		case err == nil:
			p = d.keyProgramOf(w)
		case lasting(err):
			p = &keyProgram{err: asBad(err)}
		default:
			return err
		}
		if len(d.keys.byID) >= maxPrograms {
			clear(d.keys.byID)
		}
		d.keys.byID[id] = p
	}
	d.keys.last, d.keys.lastID, d.keys.have = p, id, true
	return nil
}

func (d *Decoder) readJSONKey(wanted uint64) error {
	r := &d.jsonKey
	if d.spec.Decoding.KeyFormat == FormatJSON {
		return d.readBareKey(wanted)
	}
	w, err := r.openWrapper(d.keyRaw.text)
	if err != nil {
		return err
	}
	if w.schema == nil {
		return errNoKey
	}
	n, err := d.connectKey(w.schema).node(wanted)
	if err != nil {
		return err
	}
	if err := r.value(n, 0); err != nil {
		return err
	}
	if err := r.closeWrapper(w); err != nil {
		return err
	}
	return d.endKey()
}

func (d *Decoder) endKey() error {
	if !d.jsonKey.end() {
		return bad("the key is not valid JSON")
	}
	return nil
}

// connectKey is the program of an embedded key schema.
func (d *Decoder) connectKey(text []byte) *keyProgram {
	c := &d.keys
	if c.have && &text[0] == &d.keyRaw.text[0] {
		return c.last
	}
	p, ok := c.byText[string(text)]
	if !ok {
		if len(c.byText) >= maxPrograms {
			clear(c.byText)
		}
		w, err := parseConnect(text)
		if err != nil {
			p = &keyProgram{err: asBad(err)}
		} else {
			p = d.keyProgramOf(w)
		}
		c.byText[string(text)] = p
	}
	d.keyRaw.note(text)
	c.last, c.have = p, true
	return p
}

// readBareKey reads a key that is JSON without a schema, or text that is no JSON at all.
func (d *Decoder) readBareKey(wanted uint64) error {
	r := &d.jsonKey
	c := r.space()
	p := d.bareObject
	if c != '{' {
		if p = d.barePrimitive; p == nil {
			return errKeyShape
		}
	}
	n, err := p.node(wanted)
	if err != nil {
		return err
	}
	if p == d.barePrimitive && n.kind == schema.String {
		text, err := r.bareText(c)
		if err != nil {
			return err
		}
		return r.putText(n, text, 0)
	}
	if err := r.value(n, 0); err != nil {
		return err
	}
	return d.endKey()
}

// bareText is a text key: a whole JSON text is what it stands for, anything else is the text itself.
func (r *jsonReader) bareText(c byte) ([]byte, error) {
	if c == '"' {
		if text, err := r.str(); err == nil && r.end() {
			return text, nil
		}
	}
	if !validText(r.b) {
		return nil, bad("a key that is not UTF-8")
	}
	return r.b, nil
}

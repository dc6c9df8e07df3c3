package decode

import "bytes"

// wrapper is where the parts of {"schema": …, "payload": …} lie (apache/kafka JsonConverter, schemas.enable=true).
type wrapper struct {
	schema []byte // the schema's bytes; nil if it is null
	end    int    // careful, or the payload came first: where the object ends; else 0
}

// openWrapper moves to the payload. known is the schema of the last record: where the same bytes follow they need no
// look. closeWrapper reads what is left after the payload.
func (r *jsonReader) openWrapper(known []byte) (wrapper, error) {
	var w wrapper
	if r.space() != '{' {
		return w, r.notWrapped()
	}
	if err := r.enter(); err != nil {
		return w, err
	}
	haveSchema, payload := false, -1
	for first := true; ; first = false {
		done, err := r.next('}', first)
		if err != nil {
			return w, err
		}
		if done {
			break
		}
		name, err := r.name()
		if err != nil {
			return w, err
		}
		switch string(name) {
		case "schema":
			haveSchema = true
			w.schema, err = r.schemaText(known)
		case "payload":
			r.space()
			payload = r.p
			if haveSchema && !r.careful {
				return w, nil
			}
			err = r.skip()
		default:
			return w, r.notWrapped()
		}
		if err != nil {
			return w, err
		}
	}
	if !haveSchema || payload < 0 {
		return w, r.notWrapped()
	}
	w.end, r.p = r.p, payload
	return w, nil
}

func (r *jsonReader) notWrapped() error {
	return bad("the record is not {schema, payload}, which the topic's format is")
}

// schemaText answers the bytes of the schema.
func (r *jsonReader) schemaText(known []byte) ([]byte, error) {
	r.space()
	if len(known) > 0 && bytes.HasPrefix(r.b[r.p:], known) {
		r.p += len(known)
		return known, nil
	}
	start := r.p
	if err := r.skip(); err != nil {
		return nil, err
	}
	if text := r.b[start:r.p]; string(text) != "null" {
		return text, nil
	}
	return nil, nil
}

// closeWrapper reads what follows the payload.
func (r *jsonReader) closeWrapper(w wrapper) error {
	if w.end > 0 {
		r.p = w.end
		return nil
	}
	for {
		done, err := r.next('}', false)
		if done || err != nil {
			return err
		}
		name, err := r.name()
		if err != nil {
			return err
		}
		if string(name) == "schema" || string(name) == "payload" {
			return errRepeated
		}
		return r.notWrapped()
	}
}

// envelope is what a reader found of a Debezium envelope.
type envelope struct {
	op     byte // lower case; 0: there is none
	after  bool // there is a row, and it was read
	others int  // fields that are neither op nor after nor a time
	null   bool // the whole value is null
}

// envelope reads a Debezium envelope and its row into the columns.
func (r *jsonReader) envelope(row *node) (envelope, error) {
	var e envelope
	c := r.space()
	if c == 'n' {
		e.null = true
		return e, r.literal("null")
	}
	if c != '{' {
		return e, errNoEnvelope
	}
	if err := r.enter(); err != nil {
		return e, err
	}
	op, after := -1, -1
	for first := true; ; first = false {
		done, err := r.next('}', first)
		if err != nil {
			return e, err
		}
		if done {
			break
		}
		name, err := r.name()
		if err != nil {
			return e, err
		}
		r.space()
		switch string(name) {
		case "op":
			if op >= 0 && !r.careful {
				return e, errRepeated
			}
			op = r.p
			err = r.skip()
		case "after":
			seen := after >= 0
			after = r.p
			switch {
			case r.careful:
				err = r.skip()
			case seen:
				err = errRepeated
			default:
				err = r.after(&e, row)
			}
		case "ts_ms", "ts_us", "ts_ns":
			err = r.skip()
		default:
			e.others++
			err = r.skip()
		}
		if err != nil {
			return e, err
		}
	}
	end := r.p
	if r.careful && after >= 0 {
		r.p = after
		if err := r.after(&e, row); err != nil {
			return e, err
		}
	}
	if op >= 0 {
		r.p = op
		if err := r.op(&e); err != nil {
			return e, err
		}
	}
	r.p = end
	return e, nil
}

func (r *jsonReader) after(e *envelope, row *node) error {
	if r.space() == 'n' {
		return r.literal("null")
	}
	e.after = true
	return r.value(row, 0)
}

func (r *jsonReader) op(e *envelope) error {
	switch r.space() {
	case 'n':
		return nil
	case '"':
		text, err := r.str()
		if err == nil {
			e.op = opCode(text)
		}
		return err
	}
	return bad("the operation is not text")
}

// opCode is an operation in lower case; an unknown one is '?'. Debezium, Envelope.Operation.forCode.
func opCode(text []byte) byte {
	if len(text) != 1 {
		return '?'
	}
	return text[0] | 0x20
}

// errNoEnvelope: not what a Debezium topic holds.
var errNoEnvelope = bad("the record is no Debezium envelope, which the topic's format is")

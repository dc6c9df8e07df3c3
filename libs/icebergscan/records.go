package icebergscan

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/frazil-io/frazil/libs/fault"
)

// Records reads some fields of every record of an Avro data or delete file (Iceberg spec, Appendix A), in the file's
// order. Each path is the field ids from the top-level column down, structs only. The values come in the order of the
// paths: Null for a null and for a null struct above it. They are lent until the next record. An error is yielded once
// and ends the stream: fault.ErrCorrupt; fault.ErrUnsupported for a codec, a file without field ids, or a path through
// a list or a map; or what r answers. found is told before the first record about each path, in no order: whether the
// file has it, and the logical type.
func Records(r io.Reader, paths [][]int32, found func(path int, has bool, logical string)) iter.Seq2[[]Value, error] {
	return func(yield func([]Value, error) bool) {
		in, err := openOCF(r)
		if err != nil {
			yield(nil, err)
			return
		}
		defer in.close()
		rec := records{out: make([]Value, len(paths))}
		if err := rec.plan(in.schema, paths, found); err != nil {
			yield(nil, err)
			return
		}
		for {
			block, count, err := in.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			rec.d.c = cursor{buf: block}
			for ; count > 0; count-- {
				clear(rec.out)
				rec.read(in.schema, rec.root)
				if rec.d.c.err != nil {
					yield(nil, rec.d.c.err)
					return
				}
				if !yield(rec.out, nil) {
					return
				}
			}
		}
	}
}

// step says what to do with a record type: for each of its fields, where its value goes or what to do inside.
type step struct {
	to     []int // place of the field's value; -1 = not wanted
	inside []*step
}

type records struct {
	d    decoder // for its cursor
	root *step
	out  []Value
}

func (r *records) plan(root *node, paths [][]int32, found func(int, bool, string)) error {
	if root.kind != kindRecord {
		return fmt.Errorf("avro file of no records: %w", fault.ErrCorrupt)
	}
	ids := false
	for i := range root.fields {
		ids = ids || root.fields[i].id >= 0
	}
	if !ids {
		return fmt.Errorf("avro file without field ids: %w", fault.ErrUnsupported)
	}
	r.root = newStep(root)
	for at, path := range paths {
		field, err := r.root.want(root, path, at)
		if err != nil {
			return err
		}
		if found != nil {
			found(at, field != nil, logicalOf(field))
		}
	}
	return nil
}

func newStep(n *node) *step {
	s := &step{to: make([]int, len(n.fields)), inside: make([]*step, len(n.fields))}
	for i := range s.to {
		s.to[i] = -1
	}
	return s
}

func (s *step) want(n *node, path []int32, at int) (*node, error) {
	for i := range n.fields {
		if n.fields[i].id != path[0] {
			continue
		}
		if len(path) == 1 {
			s.to[i] = at
			return n.fields[i].node, nil
		}
		inner := structOf(n.fields[i].node)
		if inner == nil {
			return nil, fmt.Errorf("field %d lies in a list or a map: %w", path[len(path)-1], fault.ErrUnsupported)
		}
		if s.inside[i] == nil {
			s.inside[i] = newStep(inner)
		}
		return s.inside[i].want(inner, path[1:], at)
	}
	return nil, nil
}

// structOf answers the record that a type is, or that it optionally is; nil if it is none.
func structOf(n *node) *node {
	if n.kind == kindRecord {
		return n
	}
	if n.kind == kindUnion {
		for _, b := range n.of {
			if b.kind == kindRecord {
				return b
			}
		}
	}
	return nil
}

func (r *records) read(n *node, s *step) {
	c := &r.d.c
	for i := range n.fields {
		f := n.fields[i].node
		switch {
		case s.to[i] >= 0:
			r.out[s.to[i]] = r.d.typed(f)
		case s.inside[i] != nil:
			if b := c.branch(f); b != nil && b.kind == kindRecord {
				r.read(b, s.inside[i])
			} else if b != nil {
				c.skip(b)
			}
		default:
			c.skip(f)
		}
	}
}

// typed reads a value in the units that Iceberg has: microseconds, unless the type says otherwise.
func (d *decoder) typed(n *node) Value {
	v := d.value(n)
	if v.Kind != Int {
		return v
	}
	switch logicalOf(n) {
	case "timestamp-millis", "local-timestamp-millis", "time-millis":
		v.Int *= 1000
	}
	return v
}

// logicalOf answers the logical type of a field, or of what it optionally is; "" if it has none.
func logicalOf(n *node) string {
	if n == nil || n.kind != kindUnion {
		if n == nil {
			return ""
		}
		return n.logical
	}
	for _, b := range n.of {
		if b.kind != kindNull {
			return b.logical
		}
	}
	return ""
}

package icebergscan

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/frazil-io/frazil/libs/fault"
)

// cursor walks over the bytes of one Avro block. The first error sticks; after it every read answers zero.
type cursor struct {
	buf []byte
	pos int
	err error
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%s at byte %d of a block of %d: %w", what, c.pos, len(c.buf), fault.ErrCorrupt)
	}
	c.pos = len(c.buf)
}

// varint reads an int or a long.
func (c *cursor) varint() int64 {
	v, n := binary.Uvarint(c.buf[c.pos:])
	if n <= 0 {
		c.fail("no varint")
		return 0
	}
	c.pos += n
	return int64(v>>1) ^ -int64(v&1)
}

// take answers the next n bytes, lent by the block.
func (c *cursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.buf)-c.pos) {
		c.fail("value longer than its block")
		return nil
	}
	out := c.buf[c.pos : c.pos+int(n) : c.pos+int(n)]
	c.pos += int(n)
	return out
}

func (c *cursor) bytes() []byte { return c.take(c.varint()) }

func (c *cursor) bool() bool {
	b := c.take(1)
	return len(b) == 1 && b[0] != 0
}

func (c *cursor) float() float64 {
	b := c.take(4)
	if b == nil {
		return 0
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
}

func (c *cursor) double() float64 {
	b := c.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// branch resolves a union to what is there; other types are themselves. nil after an error.
func (c *cursor) branch(n *node) *node {
	for n.kind == kindUnion {
		i := c.varint()
		if i < 0 || i >= int64(len(n.of)) {
			c.fail("no such branch of a union")
			return nil
		}
		n = n.of[i]
	}
	return n
}

// blockCount reads the head of a run of items of an array or a map; 0 = the end. A negative count is followed by the
// run's size in bytes (Avro spec, "Arrays").
func (c *cursor) blockCount() int64 {
	n := c.varint()
	if n < 0 {
		c.varint()
		n = -n
	}
	if n < 0 || n > int64(len(c.buf)) && c.err == nil {
		// Items of no bytes are legal Avro and never in a manifest; a count beyond the block is a bomb.
		c.fail("more items than bytes")
		return 0
	}
	if c.err != nil {
		return 0
	}
	return n
}

// skip passes over one value.
func (c *cursor) skip(n *node) {
	n = c.branch(n)
	if n == nil {
		return
	}
	switch n.kind {
	case kindNull, kindUnion:
	case kindBool:
		c.take(1)
	case kindVarint:
		c.varint()
	case kindFloat:
		c.take(4)
	case kindDouble:
		c.take(8)
	case kindBytes:
		c.bytes()
	case kindFixed:
		c.take(int64(n.size))
	case kindRecord:
		for i := range n.fields {
			c.skip(n.fields[i].node)
		}
	case kindArray, kindMap:
		c.skipItems(n)
	}
}

func (c *cursor) skipItems(n *node) {
	for {
		count := c.varint()
		if count == 0 || c.err != nil {
			return
		}
		if count < 0 {
			c.take(c.varint()) // the run states its size
			continue
		}
		if count > int64(len(c.buf)) {
			c.fail("more items than bytes")
			return
		}
		for ; count > 0 && c.err == nil; count-- {
			if n.kind == kindMap {
				c.bytes()
			}
			c.skip(n.item)
		}
	}
}

// long reads an optional int or long; ok is false for null.
func (c *cursor) long(n *node) (v int64, ok bool) {
	n = c.branch(n)
	switch {
	case n == nil || n.kind == kindNull:
		return 0, false
	case n.kind != kindVarint:
		c.fail("not a number")
		return 0, false
	}
	return c.varint(), true
}

// blob reads optional bytes, a string or fixed, lent by the block; nil for null and never nil for empty.
func (c *cursor) blob(n *node) []byte {
	n = c.branch(n)
	switch {
	case n == nil || n.kind == kindNull:
		return nil
	case n.kind == kindBytes:
		return c.bytes()
	case n.kind == kindFixed:
		return c.take(int64(n.size))
	}
	c.fail("not a string")
	return nil
}

// flag reads an optional boolean: 0 or 1, -1 for null.
func (c *cursor) flag(n *node) int64 {
	n = c.branch(n)
	switch {
	case n == nil || n.kind == kindNull:
		return -1
	case n.kind != kindBool:
		c.fail("not a boolean")
		return -1
	case c.bool():
		return 1
	}
	return 0
}

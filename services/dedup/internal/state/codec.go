package state

import (
	"encoding/binary"
	"math"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/sealed"
)

// Limits of what is read back, so that a damaged length cannot ask for memory without end.
const (
	maxText  = 1 << 28
	maxItems = 1 << 24
)

// writer appends fields to a frame. Numbers are unsigned varints; texts have their length before them.
type writer struct{ b []byte }

func newWriter(m sealed.Magic, size int) *writer { return &writer{b: sealed.Begin(m, version, size)} }

func (w *writer) uint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }

// signed is a number of at least -1.
func (w *writer) signed(v int64) { w.uint(uint64(v + 1)) }

func (w *writer) offset(o kafkapos.Offset) { w.signed(int64(o)) }

func (w *writer) rng(r kafkapos.Range) { w.offset(r.Start); w.offset(r.End) }

func (w *writer) text(s string) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) bytes(s []byte) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) fixed(s []byte) { w.b = append(w.b, s...) }

func (w *writer) texts(list []string) {
	w.uint(uint64(len(list)))
	for _, s := range list {
		w.text(s)
	}
}

func (w *writer) seal() []byte { return sealed.End(w.b) }

// reader takes the fields off again; errors stick to it.
type reader struct{ *sealed.Reader }

func openReader(m sealed.Magic, b []byte) (reader, error) {
	body, err := sealed.Open(m, version, b)
	if err != nil {
		return reader{}, err
	}
	return reader{sealed.NewReader(body)}, nil
}

func (r reader) uint() uint64 { return r.Uvarint(math.MaxUint64) }

func (r reader) int() int { return int(r.Uvarint(math.MaxInt32)) }

func (r reader) signed() int64 { return int64(r.Uvarint(math.MaxInt64)) - 1 }

func (r reader) offset() kafkapos.Offset { return kafkapos.Offset(r.signed()) }

func (r reader) rng() kafkapos.Range {
	return kafkapos.Range{Start: r.offset(), End: r.offset()}
}

func (r reader) text() string { return string(r.Bytes(int(r.Uvarint(maxText)))) }

// copied is a text as bytes that do not alias what is read.
func (r reader) copied() []byte { return append([]byte{}, r.Bytes(int(r.Uvarint(maxText)))...) }

// items is the length of a list. Every item has at least one byte, which bounds it.
func (r reader) items() int {
	n := int(r.Uvarint(maxItems))
	if n > r.Len() {
		r.Fail("list of %d items in %d bytes", n, r.Len())
		return 0
	}
	return n
}

func (r reader) texts() []string {
	var out []string
	for range r.items() {
		out = append(out, r.text())
	}
	return out
}

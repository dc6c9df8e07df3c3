package recordbatch

import (
	"encoding/binary"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// maxNames bounds the header names that a decoder remembers, so that each is one string and not one per record.
const maxNames = 1024

// Decoder decodes the records of one batch after another and owns the buffers that they alias. It is not safe for
// concurrent use.
type Decoder struct {
	inflate inflater
	record  kafkalog.Record
	headers []kafkalog.Header
	names   map[string]string
}

// NewDecoder makes a decoder that refuses batches of more than maxBatch bytes uncompressed.
func NewDecoder(maxBatch int) *Decoder {
	return &Decoder{inflate: inflater{limit: maxBatch}, names: map[string]string{}}
}

// Records visits the records of a batch in ascending offset order; a record is valid until visit returns. The error of
// visit ends the decoding and is returned as it is; the decoder's own are of kind fault.ErrCorrupt, or
// fault.ErrUnsupported for an unknown compression and for a batch above the limit. The batch's checksum is the
// caller's business (Verify).
func (d *Decoder) Records(b *Batch, visit func(*kafkalog.Record) error) error {
	body, err := d.inflate.inflate(b.codec, b.raw[headerSize:])
	if err != nil {
		return fmt.Errorf("decompress record batch at %d: %w", b.Base, err)
	}
	next := b.Base
	for i := range b.Count {
		rest, ok := d.decode(b, body)
		if !ok || d.record.Offset < next || d.record.Offset > b.Last {
			return fmt.Errorf("decode record %d of %d in batch at %d: %w", i, b.Count, b.Base, fault.ErrCorrupt)
		}
		body, next = rest, d.record.Offset+1
		if err := visit(&d.record); err != nil {
			return err
		}
	}
	if len(body) != 0 {
		return fmt.Errorf("%d bytes after the last record of batch at %d: %w", len(body), b.Base, fault.ErrCorrupt)
	}
	return nil
}

// decode reads the first record of p into d.record.
func (d *Decoder) decode(b *Batch, p []byte) (rest []byte, ok bool) {
	c := cursor{p: p}
	length := c.varint()
	if c.bad || length < 0 || length > int64(len(c.p)) {
		return nil, false
	}
	rest = c.p[length:]
	c.p = c.p[:length:length]
	c.take(1) // attributes: unused in this format
	timeDelta, offsetDelta := c.varint(), c.varint()
	d.record.Offset = b.Base + kafkapos.Offset(offsetDelta)
	d.record.TimestampMs = b.firstTime + timeDelta
	if b.appendTime {
		d.record.TimestampMs = b.maxTime
	}
	d.record.Key, d.record.Value = c.bytes(), c.bytes()
	n := c.varint()
	if n < 0 || n > int64(len(c.p)) {
		return nil, false
	}
	d.headers = d.headers[:0]
	for range n {
		name := c.bytes()
		d.headers = append(d.headers, kafkalog.Header{Name: d.name(name), Value: c.bytes()})
		if c.bad || name == nil {
			return nil, false
		}
	}
	d.record.Headers = d.headers
	return rest, !c.bad && len(c.p) == 0
}

// name makes a string of b, the same one for the same bytes while the names seen are few.
func (d *Decoder) name(b []byte) string {
	if s, known := d.names[string(b)]; known {
		return s
	}
	s := string(b)
	if len(d.names) < maxNames {
		d.names[s] = s
	}
	return s
}

// cursor takes fields off the front of p; bad is set, and stays set, when one does not fit.
type cursor struct {
	p   []byte
	bad bool
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.p)
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.p = c.p[n:]
	return v
}

func (c *cursor) take(n int64) []byte {
	if n < 0 || n > int64(len(c.p)) {
		c.bad = true
		return nil
	}
	taken := c.p[:n:n]
	c.p = c.p[n:]
	return taken
}

// bytes takes a length and as many bytes; the length -1 is null.
func (c *cursor) bytes() []byte {
	n := c.varint()
	if n == -1 || c.bad {
		return nil
	}
	return c.take(n)
}

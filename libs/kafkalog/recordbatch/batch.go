// Package recordbatch reads Kafka's record batches (magic 2) as they come from a broker: headers first, records only
// when asked for, without an allocation per record.
//
// Source: Apache Kafka, "Message Format" (docs/implementation/message-format), clients' DefaultRecordBatch.
package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Positions of the fields of a batch, in bytes from its start.
const (
	atLength      = 8
	atEpoch       = 12
	atMagic       = 16
	atCRC         = 17
	atAttributes  = 21
	atLastDelta   = 23
	atFirstTime   = 27
	atMaxTime     = 35
	atProducerID  = 43
	atRecordCount = 57
	headerSize    = 61

	lengthPrefix = 12 // base offset and length: what the length does not count
)

// Bits of the attributes.
const (
	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// Batch is the header of one record batch; it aliases the bytes it was read from.
type Batch struct {
	// Base is the offset of the first record that the batch ever had, and Last the offset of the last one. The
	// cleaner keeps both when it removes records: a batch covers [Base, Last] whatever is left in it.
	Base, Last    kafkapos.Offset
	LeaderEpoch   kafkapos.LeaderEpoch
	ProducerID    int64 // -1 outside transactions and idempotent producers
	Transactional bool
	Control       bool
	Count         int // records that are left

	codec      uint16
	appendTime bool // the broker's clock stamped the batch: every record has maxTime
	firstTime  int64
	maxTime    int64
	raw        []byte // the whole batch
}

// Range is the offsets that the batch covers.
func (b *Batch) Range() kafkapos.Range { return kafkapos.Range{Start: b.Base, End: b.Last + 1} }

// Dense reports whether every offset that the batch covers has its record.
func (b *Batch) Dense() bool { return int64(b.Count) == int64(b.Last-b.Base)+1 }

// Size is the length of the batch in bytes, as it came.
func (b *Batch) Size() int64 { return int64(len(b.raw)) }

// Next reads the header of the first batch in p. ok is false, with no error, if p holds no whole batch: the last batch
// of a fetch is normally cut off. An error is of kind fault.ErrCorrupt, or fault.ErrUnsupported for message formats
// older than Kafka 0.11.
func Next(p []byte) (b Batch, rest []byte, ok bool, err error) {
	if len(p) < lengthPrefix {
		return Batch{}, nil, false, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(p[atLength:])))
	if length < 0 {
		return Batch{}, nil, false, fmt.Errorf("record batch of %d bytes: %w", length, fault.ErrCorrupt)
	}
	if int64(len(p)-lengthPrefix) < length {
		return Batch{}, nil, false, nil
	}
	raw := p[: lengthPrefix+length : lengthPrefix+length]
	if len(raw) > atMagic && raw[atMagic] != 2 {
		return Batch{}, nil, false, fmt.Errorf("record batch with magic %d: %w", raw[atMagic], fault.ErrUnsupported)
	}
	if len(raw) < headerSize {
		return Batch{}, nil, false, fmt.Errorf("record batch of %d bytes: %w", len(raw), fault.ErrCorrupt)
	}
	attributes := binary.BigEndian.Uint16(raw[atAttributes:])
	b = Batch{
		Base:          kafkapos.Offset(binary.BigEndian.Uint64(raw)),
		LeaderEpoch:   kafkapos.LeaderEpoch(binary.BigEndian.Uint32(raw[atEpoch:])),
		ProducerID:    int64(binary.BigEndian.Uint64(raw[atProducerID:])),
		Transactional: attributes&attrTransactional != 0,
		Control:       attributes&attrControl != 0,
		Count:         int(int32(binary.BigEndian.Uint32(raw[atRecordCount:]))),
		codec:         attributes & attrCodec,
		appendTime:    attributes&attrAppendTime != 0,
		firstTime:     int64(binary.BigEndian.Uint64(raw[atFirstTime:])),
		maxTime:       int64(binary.BigEndian.Uint64(raw[atMaxTime:])),
		raw:           raw,
	}
	lastDelta := int32(binary.BigEndian.Uint32(raw[atLastDelta:]))
	b.Last = b.Base + kafkapos.Offset(lastDelta)
	if b.Base < 0 || lastDelta < 0 || b.Last < b.Base || b.Count < 0 || int64(b.Count) > int64(lastDelta)+1 {
		return Batch{}, nil, false, fmt.Errorf("record batch at %d with %d records and last offset delta %d: %w", b.Base, b.Count, lastDelta, fault.ErrCorrupt)
	}
	return b, p[len(raw):], true, nil
}

// Verify checks the batch's CRC-32C, which covers everything from the attributes on. The error is of kind
// fault.ErrCorrupt.
func (b *Batch) Verify() error {
	want := binary.BigEndian.Uint32(b.raw[atCRC:])
	// MakeTable answers the same table, made once, for every call with this polynomial.
	if got := crc32.Checksum(b.raw[atAttributes:], crc32.MakeTable(crc32.Castagnoli)); got != want {
		return fmt.Errorf("record batch at %d: checksum %08x, want %08x: %w", b.Base, got, want, fault.ErrCorrupt)
	}
	return nil
}

package build

import (
	"context"
	"errors"
	"fmt"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/services/materializer/internal/stats"
)

// holdStep is how many records are decoded between two looks at the memory that their rows take.
const holdStep = 128

// encodeFactor is what a row group takes while it is encoded, as a multiple of its batch: the batch itself, the
// pages, and what decoding and compression need meanwhile.
const encodeFactor = 3

// Builder makes row groups and key projections. Safe for concurrent use.
type Builder struct {
	reader   kafkalog.Reader
	registry registry.Registry // nil = none
	memory   *Memory
	counters *stats.Counters
}

// NewBuilder makes a builder. reg may be nil.
func NewBuilder(reader kafkalog.Reader, reg registry.Registry, memory *Memory, counters *stats.Counters) *Builder {
	return &Builder{reader: reader, registry: reg, memory: memory, counters: counters}
}

// RowGroup encodes the rows of rng. A range without rows gives the zero row group.
//
// Errors: fault.ErrRetired (the log no longer holds the range), fault.ErrUnavailable, fault.ErrDenied,
// fault.ErrCorrupt of the log, *decode.UnknownColumns, and those of Hold.Grow.
func (b *Builder) RowGroup(ctx context.Context, t *Table, p kafkapos.Partition, rng kafkapos.Range) (parquetio.RowGroup, error) {
	dec, err := t.decoder(p, b.registry)
	if err != nil {
		return parquetio.RowGroup{}, err
	}
	g := b.group(t)
	defer g.close()
	_, err = b.read(ctx, t, p, rng, kafkalog.Visitor{Record: func(rec *kafkalog.Record) error {
		_, err := b.decode(ctx, dec, rec, g.batch)
		if err != nil {
			return err
		}
		return g.grown()
	}})
	if err != nil {
		return parquetio.RowGroup{}, err
	}
	return g.encode()
}

// read counts what a read fetches.
func (b *Builder) read(ctx context.Context, t *Table, p kafkapos.Partition, rng kafkapos.Range, v kafkalog.Visitor) (kafkalog.Result, error) {
	res, err := b.reader.Read(ctx, t.Topic, p, rng, v)
	b.counters.FetchedBytes.Add(res.Bytes)
	return res, err
}

// decoded is what a record is, and why it is bad.
type decoded struct {
	decode.Event
	reason string // for class Bad
}

// decode tells the class Bad, which is an answer, from errors that decide nothing.
func (b *Builder) decode(ctx context.Context, dec *decode.Decoder, rec *kafkalog.Record, dst *column.Batch) (decoded, error) {
	ev, err := dec.Decode(ctx, rec, dst)
	if err == nil {
		return decoded{Event: ev}, nil
	}
	var bad *decode.BadRecord
	if errors.As(err, &bad) {
		return decoded{ev, bad.Reason}, nil
	}
	return decoded{}, fmt.Errorf("decode offset %d: %w", rec.Offset, err)
}

// group is one row group that is being made.
type group struct {
	t        *Table
	batch    *column.Batch
	hold     *Hold
	counters *stats.Counters
	seen     int
}

func (b *Builder) group(t *Table) *group {
	return &group{t: t, batch: column.NewBatch(t.File), hold: b.memory.Hold(), counters: b.counters}
}

// grown accounts for the memory of the rows, every few records.
func (g *group) grown() error {
	g.seen++
	if g.seen%holdStep != 0 {
		return nil
	}
	return g.hold.Grow(encodeFactor * batchBytes(g.batch))
}

// encode encodes the rows and empties the batch.
func (g *group) encode() (parquetio.RowGroup, error) {
	if err := g.hold.Grow(encodeFactor * batchBytes(g.batch)); err != nil {
		return parquetio.RowGroup{}, err
	}
	rg, err := g.t.Encoder.Encode(g.batch)
	g.batch.Reset()
	if err != nil {
		return parquetio.RowGroup{}, err
	}
	if rg.Rows > 0 {
		g.counters.EncodedRowGroups.Add(1)
		g.counters.EncodedRows.Add(rg.Rows)
	}
	return rg, nil
}

func (g *group) close() { g.hold.Release() }

// unknownColumns explains a schema that the table lacks as a refusal.
func unknownColumns(p kafkapos.Partition, err error) error {
	var unknown *decode.UnknownColumns
	if errors.As(err, &unknown) {
		return fmt.Errorf("partition %d: %w; the table's schema must be extended first: %w", p, err, fault.ErrInvalid)
	}
	return err
}

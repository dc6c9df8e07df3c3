package build

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/schema"
)

// lookFurther is by how much more is looked at when the newest offsets hold no value (aborted transactions, a cleaned
// log, deletes).
const lookFurther = 16

// Discovery is how a topic is read, and how large its records are.
type Discovery struct {
	Decoding decode.Decoding
	Writers  []*schema.Schema
	// BytesPerOffset is the mean over the offsets looked at of key and value, or of what the numbers of their rows take
	// decoded if that is more: at least 1; 0 when there is no record.
	BytesPerOffset int64
}

// Discover samples the newest offsets of the ranges and finds how the topic is encoded. Errors: those of
// decode.Discover and of reading.
func (b *Builder) Discover(ctx context.Context, topic kafkalog.Topic, ranges map[kafkapos.Partition]kafkapos.Range) (Discovery, error) {
	s := sampler{b: b, topic: topic}
	window := kafkapos.Offset(max(1, decode.MaxSamples/max(1, len(ranges))))
	for more := true; more && !s.valued; window *= lookFurther {
		more = false
		s.offsets, s.bytes, s.records = 0, 0, 0
		// Tombstones say how keys are written, but must not take the place of what has columns.
		s.valuedOnly = len(s.samples) > 0
		s.samples = nil
		for _, p := range slices.Sorted(maps.Keys(ranges)) {
			rng := ranges[p]
			if from := rng.End - window; from > rng.Start {
				rng.Start = from
				more = true
			}
			if err := s.look(ctx, p, rng); err != nil {
				return Discovery{}, err
			}
		}
	}
	d, err := decode.Discover(ctx, topic.Name, s.samples, b.registry)
	if err != nil {
		return Discovery{}, err
	}
	out := Discovery{Decoding: d.Decoding, Writers: d.Writers}
	if len(s.samples) > 0 {
		out.BytesPerOffset = max(1, max(s.bytes, s.records*rowBytes(d.Writers))/max(1, s.offsets))
	}
	return out, nil
}

// leafBytes is what a number takes in a batch, with its definition level.
const leafBytes = 8 + 1

// rowBytes is what the numbers of a row take in a batch; texts are no longer there than in the record.
func rowBytes(writers []*schema.Schema) int64 {
	leaves := 0
	for _, w := range writers {
		leaves = max(leaves, len(column.NewBatch(w).Leaves))
	}
	return leafBytes * int64(leaves)
}

// sampler collects samples.
type sampler struct {
	b              *Builder
	topic          kafkalog.Topic
	samples        []decode.Sample
	offsets, bytes int64
	records        int64
	valued         bool // one of the samples has a value
	valuedOnly     bool // others are left out
}

func (s *sampler) look(ctx context.Context, p kafkapos.Partition, rng kafkapos.Range) error {
	if rng.Empty() {
		return nil
	}
	res, err := s.b.reader.Read(ctx, s.topic, p, rng, kafkalog.Visitor{Record: func(rec *kafkalog.Record) error {
		s.bytes += int64(len(rec.Key) + len(rec.Value))
		s.records++
		sample := decode.Sample{Partition: p, Offset: rec.Offset, Key: rec.Key, Value: rec.Value}
		if len(s.samples) == decode.MaxSamples || s.valuedOnly && !sample.HasValue() {
			return nil
		}
		s.valued = s.valued || sample.HasValue()
		sample.Key, sample.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		s.samples = append(s.samples, sample)
		return nil
	}})
	s.b.counters.FetchedBytes.Add(res.Bytes)
	if err != nil {
		return fmt.Errorf("sample partition %d: %w", p, err)
	}
	s.offsets += rng.Len()
	return nil
}

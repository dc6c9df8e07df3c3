package build

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/schema"
)

// lookFurther is by how much more is looked at when the newest offsets hold no record (aborted transactions, a
// cleaned log).
const lookFurther = 16

// Discovery is how a topic is read, and how large its records are.
type Discovery struct {
	Decoding       decode.Decoding
	Writers        []*schema.Schema
	BytesPerOffset int64 // mean of key and value over the offsets looked at, at least 1; 0 when there is no record
}

// Discover samples the newest offsets of the ranges and finds how the topic is encoded. Errors: those of
// decode.Discover and of reading.
func (b *Builder) Discover(ctx context.Context, topic kafkalog.Topic, ranges map[kafkapos.Partition]kafkapos.Range) (Discovery, error) {
	s := sampler{b: b, topic: topic}
	window := kafkapos.Offset(max(1, decode.MaxSamples/max(1, len(ranges))))
	for more := true; more && len(s.samples) == 0; window *= lookFurther {
		more = false
		s.offsets, s.bytes = 0, 0
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
		out.BytesPerOffset = max(1, s.bytes/max(1, s.offsets))
	}
	return out, nil
}

// sampler collects samples.
type sampler struct {
	b              *Builder
	topic          kafkalog.Topic
	samples        []decode.Sample
	offsets, bytes int64
}

func (s *sampler) look(ctx context.Context, p kafkapos.Partition, rng kafkapos.Range) error {
	if rng.Empty() {
		return nil
	}
	res, err := s.b.reader.Read(ctx, s.topic, p, rng, kafkalog.Visitor{Record: func(rec *kafkalog.Record) error {
		s.bytes += int64(len(rec.Key) + len(rec.Value))
		if len(s.samples) < decode.MaxSamples {
			s.samples = append(s.samples, decode.Sample{
				Partition: p, Offset: rec.Offset, Key: bytes.Clone(rec.Key), Value: bytes.Clone(rec.Value),
			})
		}
		return nil
	}})
	s.b.counters.FetchedBytes.Add(res.Bytes)
	if err != nil {
		return fmt.Errorf("sample partition %d: %w", p, err)
	}
	s.offsets += rng.Len()
	return nil
}

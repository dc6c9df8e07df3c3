package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/franz"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/registry/httpregistry"
	"github.com/frazil-io/frazil/libs/schema"
)

// The parts of the way from Kafka to cached row groups and marks, each measured alone.

// shopSeed makes the same events for the topic and for the parts that need none.
const shopSeed = 11

// blockEvents are the events of one row group, as the product chooses for records of this size.
func blockEvents(f format) int {
	if f == formatAvro {
		return 1 << 16
	}
	return 1 << 14
}

// chunkLog2 is how the product cuts logs of records of this size.
func chunkLog2(f format) int {
	if f == formatAvro {
		return 19
	}
	return 18
}

// consume reads the topic as any consumer does.
func consume(ctx context.Context, r *role) (measured, error) {
	return r.measure(func(m *measured) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(r.Broker),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.Topic: {0: kgo.NewOffset().At(0)}}))
		if err != nil {
			return err
		}
		defer client.Close()
		for m.Events < int64(r.Events) {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return err
			}
			fetches.EachRecord(func(rec *kgo.Record) {
				m.Events++
				m.Bytes += int64(len(rec.Key) + len(rec.Value))
			})
		}
		return nil
	})
}

// fetch reads the topic through the door, chunk by chunk from the end as the walk does.
func fetch(ctx context.Context, r *role) (measured, error) {
	return r.measure(func(m *measured) error {
		cfg := franz.Default()
		cfg.Brokers, cfg.ClientID = []string{r.Broker}, "frazil-bench"
		client, err := franz.New(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer client.Close()
		topic, err := client.Topic(ctx, r.Topic)
		if err != nil {
			return err
		}
		visit := kafkalog.Visitor{Record: func(rec *kafkalog.Record) error {
			m.Events++
			m.Bytes += int64(len(rec.Key) + len(rec.Value))
			return nil
		}}
		for end := kafkapos.Offset(r.Events); end > 0; {
			rng := kafkapos.Range{Start: layout.Chunk(end-1, chunkLog2(r.Format)).Start, End: end}
			if _, err := client.Read(ctx, topic, 0, rng, visit); err != nil {
				return err
			}
			end = rng.Start
		}
		return nil
	})
}

// sample is made-up records in memory, and how they are decoded.
type sample struct {
	records []kafkalog.Record
	schema  *schema.Schema // of the file
	decoder *decode.Decoder
}

// newSample makes the first n events of the shop. close ends the registry that the decoder asks.
func newSample(ctx context.Context, f format, n int) (s *sample, closing func(), err error) {
	s = &sample{records: make([]kafkalog.Record, n)}
	var samples []decode.Sample
	source := newShop(shopSeed)
	for i := range s.records {
		e := source.next()
		rec := kafkalog.Record{Offset: kafkapos.Offset(i), TimestampMs: e.at / 1000, Key: f.appendKey(nil, &e)}
		if !e.tombstone {
			rec.Value = f.appendValue(nil, &e)
		}
		s.records[i] = rec
		if len(samples) < decode.MaxSamples {
			samples = append(samples, decode.Sample{Offset: rec.Offset, TimestampMs: rec.TimestampMs, Key: rec.Key, Value: rec.Value})
		}
	}
	const topic = "sample"
	server := httptest.NewServer(registryOf(topic))
	cfg := httpregistry.Default()
	cfg.URL = server.URL
	registry, err := httpregistry.New(cfg, nil)
	if err == nil {
		err = s.prepare(ctx, topic, samples, registry)
	}
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return s, server.Close, nil
}

func (s *sample) prepare(ctx context.Context, topic string, samples []decode.Sample, registry *httpregistry.Client) error {
	found, err := decode.Discover(ctx, topic, samples, registry)
	if err != nil {
		return err
	}
	var list []*schema.Schema
	for _, w := range found.Writers {
		next, changed, err := schema.Extend(list, w)
		if err != nil {
			return err
		}
		if changed {
			list = append(list, next)
		}
	}
	if len(list) == 0 {
		return errors.New("the events have no schema")
	}
	s.schema = schema.FileSchema(list[len(list)-1])
	s.decoder, err = decode.NewDecoder(decode.Spec{Schema: s.schema, Decoding: found.Decoding, HashKey: [16]byte{1}}, registry)
	return err
}

// decodeAlone decodes records that lie in memory, block by block.
func decodeAlone(ctx context.Context, r *role) (measured, error) {
	block := blockEvents(r.Format)
	s, closing, err := newSample(ctx, r.Format, 4*block)
	if err != nil {
		return measured{}, err
	}
	defer closing()
	batch := column.NewBatch(s.schema)
	return r.measure(func(m *measured) error {
		for at := 0; m.Events < int64(r.Events); at++ {
			if at%block == 0 {
				batch.Reset()
			}
			rec := &s.records[at%len(s.records)]
			if _, err := s.decoder.Decode(ctx, rec, batch); err != nil {
				return err
			}
			m.Events++
			m.Bytes += int64(len(rec.Key) + len(rec.Value))
		}
		return nil
	})
}

// encodeAlone encodes blocks of decoded rows. Events are those that the rows came from.
func encodeAlone(ctx context.Context, r *role) (measured, error) {
	block := blockEvents(r.Format)
	s, closing, err := newSample(ctx, r.Format, 4*block)
	if err != nil {
		return measured{}, err
	}
	defer closing()
	var batches []*column.Batch
	for at := range s.records {
		if at%block == 0 {
			batches = append(batches, column.NewBatch(s.schema))
		}
		if _, err := s.decoder.Decode(ctx, &s.records[at], batches[len(batches)-1]); err != nil {
			return measured{}, err
		}
	}
	encoder, err := parquetio.NewEncoder(s.schema)
	if err != nil {
		return measured{}, err
	}
	return r.measure(func(m *measured) error {
		for i := 0; m.Events < int64(r.Events); i++ {
			rg, err := encoder.Encode(batches[i%len(batches)])
			if err != nil {
				return err
			}
			m.Events += int64(block)
			m.Bytes += rg.SizeBytes
		}
		return nil
	})
}

// await asks until it is told yes, or ctx ends.
func await(ctx context.Context, what string, every time.Duration, ready func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-ticker.C:
		}
	}
}

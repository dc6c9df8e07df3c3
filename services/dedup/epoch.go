package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
	"github.com/frazil-io/frazil/libs/schema"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/publish"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// current answers a topic's record and its version in the store. It makes a state epoch where there is none, or
// where the one that is there must not be continued.
func (s *Service) current(ctx context.Context, in *sighting) (*state.Record, chainstore.Version, error) {
	rec, version, err := s.store.Record(ctx, in.topic.ID)
	if errors.Is(err, fault.ErrNotFound) {
		return s.begin(ctx, in, nil, 0)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the record of topic %s: %w", in.topic.Name, err)
	}
	info, _, err := s.store.Epoch(ctx, rec.Epoch)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return nil, 0, err
	}
	if err == nil && info.Replaced == "" && in.known > rec.Version {
		reason := fmt.Sprintf("the state was rolled back: version %d was published, %d is the newest here", in.known, rec.Version)
		if err := s.replace(ctx, rec.Epoch, reason); err != nil {
			return nil, 0, err
		}
		return s.begin(ctx, in, rec, version)
	}
	if err != nil || info.Replaced != "" {
		return s.begin(ctx, in, rec, version)
	}
	if rec.Table != in.table {
		return nil, 0, fmt.Errorf("topic %s is table %s; it cannot become %s without a new state epoch: %w",
			in.topic.Name, rec.Table, in.table, fault.ErrInvalid)
	}
	return rec, version, nil
}

// replace gives a state epoch up for good: whatever happens next, it is never continued.
func (s *Service) replace(ctx context.Context, epoch, reason string) error {
	for {
		info, version, err := s.store.Epoch(ctx, epoch)
		if err != nil {
			return err
		}
		if info.Replaced != "" {
			return nil
		}
		info.Replaced = reason
		_, err = s.deps.Store.CompareAndSet(ctx, state.EpochKey(epoch), version, info.Bytes())
		if errors.Is(err, fault.ErrConflict) {
			continue
		}
		if err != nil {
			return fmt.Errorf("give up state epoch %s: %w", epoch, err)
		}
		s.deps.Log.Warn("state epoch given up", "table", info.Table, "topic", info.Topic.Name, "state_epoch", epoch, "reason", reason)
		return nil
	}
}

// begin makes a new state epoch. old is the record that it replaces, at the given version of the store; nil for none.
func (s *Service) begin(ctx context.Context, in *sighting, old *state.Record, version chainstore.Version) (*state.Record, chainstore.Version, error) {
	found, err := s.discover(ctx, in)
	if err != nil {
		return nil, 0, err
	}
	rec, err := s.newRecord(in, found)
	if err != nil {
		return nil, 0, err
	}
	// Versions never go back, whatever became of the state: they are in metadata locations.
	rec.Version = in.known + 1
	if old != nil {
		rec.Version = max(rec.Version, old.Version+1)
	}
	if err := s.supersede(ctx, in); err != nil {
		return nil, 0, err
	}
	info := state.EpochInfo{Topic: rec.Topic, Table: rec.Table}
	if _, err := s.deps.Store.CompareAndSet(ctx, state.EpochKey(rec.Epoch), 0, info.Bytes()); err != nil {
		return nil, 0, fmt.Errorf("make state epoch %s: %w", rec.Epoch, err)
	}
	if err := s.store.SetRecord(ctx, version, rec); err != nil {
		if errors.Is(err, fault.ErrConflict) {
			return s.store.Record(ctx, in.topic.ID) // somebody else has made one
		}
		return nil, 0, fmt.Errorf("make the record of topic %s: %w", in.topic.Name, err)
	}
	s.deps.Log.Info("state epoch made", "table", rec.Table, "topic", rec.Topic.Name, "state_epoch", rec.Epoch)
	return rec, version + 1, nil
}

// supersede gives up the state of an earlier incarnation of the topic, and notes which one is the present.
func (s *Service) supersede(ctx context.Context, in *sighting) error {
	key := state.TopicKey(in.topic.ClusterID, in.topic.Name)
	for {
		was, version, err := s.deps.Store.Get(ctx, key)
		if err != nil && !errors.Is(err, fault.ErrNotFound) {
			return fmt.Errorf("look up topic %s: %w", in.topic.Name, err)
		}
		if id, bad := kafkapos.ParseTopicID(was); err == nil && bad == nil && id != in.topic.ID {
			if err := s.giveUp(ctx, id, "the topic was created anew"); err != nil {
				return err
			}
		} else if err == nil && bad == nil {
			return nil
		}
		_, err = s.deps.Store.CompareAndSet(ctx, key, version, in.topic.ID[:])
		if err == nil || !errors.Is(err, fault.ErrConflict) {
			return err
		}
	}
}

func (s *Service) giveUp(ctx context.Context, id kafkapos.TopicID, reason string) error {
	rec, _, err := s.store.Record(ctx, id)
	if errors.Is(err, fault.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.table(id).unsettle()
	return s.replace(ctx, rec.Epoch, reason)
}

// discover asks how the topic's records are encoded.
func (s *Service) discover(ctx context.Context, in *sighting) (*materializerv1.DiscoverSchemaResponse, error) {
	req := &materializerv1.DiscoverSchemaRequest{Topic: wireTopic(in.topic), Ranges: map[int32]*typesv1.OffsetRange{}}
	for p, l := range in.logs {
		if !l.offline {
			req.Ranges[int32(p)] = &typesv1.OffsetRange{Start: int64(l.start), End: int64(l.end)}
		}
	}
	resp, err := s.deps.Materializer.DiscoverSchema(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("find the schema of topic %s: %w", in.topic.Name, rpc.Error(err))
	}
	return resp, nil
}

// newRecord is the first version of a state epoch: identity, keys and everything that is pinned.
func (s *Service) newRecord(in *sighting, found *materializerv1.DiscoverSchemaResponse) (*state.Record, error) {
	if len(found.GetWriterSchemasJson()) == 0 {
		return nil, fmt.Errorf("topic %s has no record and no registered schema to take columns from: %w", in.topic.Name, fault.ErrUnavailable)
	}
	now := s.deps.Clock().UnixMilli()
	rec := &state.Record{
		Topic: in.topic, Table: in.table, Partitions: int32(len(in.logs)), CreatedMs: now, UpdatedMs: now,
		Decoding: state.Decoding{
			KeyFormat: found.GetDecoding().GetKeyFormat(), ValueFormat: found.GetDecoding().GetValueFormat(),
			Envelope: found.GetDecoding().GetEnvelope(), KeyFields: slices.Clone(found.GetDecoding().GetKeyFields()),
		},
	}
	var err error
	if rec.Schemas, err = pinSchemas(found.GetWriterSchemasJson()); err != nil {
		return nil, fmt.Errorf("schema of topic %s: %w", in.topic.Name, err)
	}
	var random [42]byte
	if _, err := io.ReadFull(s.deps.Random, random[:]); err != nil {
		return nil, fmt.Errorf("read random bytes: %w: %w", err, fault.ErrUnavailable)
	}
	copy(rec.CheckKey[:], random[:16])
	copy(rec.HashKey[:], random[16:32])
	rec.Epoch = objectname.Word(random[32:], objectname.EpochLen)
	rec.ChunkLog2, rec.BlockLog2 = s.sizes(in.topic.Name, found.GetBytesPerOffset())
	return rec, nil
}

// pinSchemas makes the table's list of schemas from the writers' schemas, oldest first.
func pinSchemas(writers [][]byte) ([][]byte, error) {
	var list []*schema.Schema
	var out [][]byte
	for _, raw := range writers {
		w, err := schema.ParseJSON(raw)
		if err != nil {
			return nil, err
		}
		next, changed, err := schema.Extend(list, w)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		text, err := next.MarshalJSON()
		if err != nil {
			return nil, err
		}
		list, out = append(list, next), append(out, text)
	}
	return out, nil
}

const (
	// blocksPerChunk is how many blocks a chunk aims at.
	blocksPerChunk = 8
	// largestBlock and largestChunk are log2 of the most offsets that are chosen unasked: the batch of a row group and
	// the events of a chunk are in memory as a whole.
	largestBlock, largestChunk = 16, 19
)

// sizes chooses log2 of chunk and block, 0 and 0 while nothing is known: the topic has no record yet.
func (s *Service) sizes(topic string, bytesPerOffset int64) (chunkLog2, blockLog2 int) {
	t := s.cfg.Tables[topic]
	if bytesPerOffset <= 0 {
		if t.ChunkLog2 == 0 || t.BlockLog2 == 0 {
			return 0, 0
		}
		return t.ChunkLog2, t.BlockLog2
	}
	chunkLog2 = clamp(bits.Len64(uint64(blocksPerChunk*s.cfg.BlockBytes/bytesPerOffset))-1, 14, largestChunk)
	blockLog2 = clamp((bits.Len64(uint64(s.cfg.BlockBytes/bytesPerOffset))-1)&^1, 10, largestBlock)
	if t.ChunkLog2 != 0 {
		chunkLog2 = t.ChunkLog2
	}
	if t.BlockLog2 != 0 {
		blockLog2 = t.BlockLog2
	}
	return max(chunkLog2, minChunkLog2), min(blockLog2, chunkLog2&^1)
}

func clamp(v, low, high int) int { return max(low, min(v, high)) }

// size pins the chunk and block sizes of a table whose topic had no record when its state epoch was made.
func (s *Service) size(ctx context.Context, in *sighting, rec *state.Record, version chainstore.Version) (*state.Record, chainstore.Version, error) {
	found, err := s.discover(ctx, in)
	if err != nil {
		return nil, 0, err
	}
	next := rec.Clone()
	if next.ChunkLog2, next.BlockLog2 = s.sizes(rec.Topic.Name, max(1, found.GetBytesPerOffset())); next.ChunkLog2 == 0 {
		return nil, 0, fmt.Errorf("size the chunks of topic %s: %w", rec.Topic.Name, fault.ErrUnavailable)
	}
	err = publish.Replace(ctx, s.store, rec, version, next, s.deps.Clock())
	if errors.Is(err, fault.ErrConflict) {
		return s.store.Record(ctx, in.topic.ID)
	}
	return next, version + 1, err
}

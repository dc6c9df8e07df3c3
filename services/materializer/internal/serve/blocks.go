// Package serve keeps encoded row groups, and assembles data files from them.
package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/frazil-io/frazil/libs/blobcache"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/lru"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/shared"
	"github.com/frazil-io/frazil/services/materializer/internal/build"
	"github.com/frazil-io/frazil/services/materializer/internal/stats"
)

// Recorded is what was recorded of a row group before its first byte was served.
type Recorded struct {
	Range     kafkapos.Range
	Rows      int64
	SizeBytes int64
	TailBytes int64
	CRC       uint32
}

// blockKey names an encoded row group. The CRC in it makes the name one of content: an edition that has other
// bytes has another key, and bytes that nobody recorded are never found.
type blockKey string

func keyOf(t *build.Table, p kafkapos.Partition, rng kafkapos.Range, crc uint32) blockKey {
	return blockKey(fmt.Sprintf("%s/%s/%d/%d-%d/%s/%s/%08x", t.Epoch, t.View, p, rng.Start, rng.End, t.FileSchema, t.EncodingID, crc))
}

// Block is one encoded row group, ready to be read. Its owner calls Close once.
type Block struct {
	io.ReaderAt
	Meta  *parquetio.Meta
	Close func()
}

// Blocks finds encoded row groups, on disk or by encoding them. Safe for concurrent use.
type Blocks struct {
	cache    *blobcache.Cache
	builder  *build.Builder
	memory   *build.Memory
	builds   *shared.Group[blockKey, *built]
	metas    *lru.Cache[blockKey, *parquetio.Meta]
	counters *stats.Counters
	logger   *slog.Logger
}

// built is an encoded row group in memory, shared by all who waited for it.
type built struct {
	pages []byte
	meta  *parquetio.Meta
}

// NewBlocks makes an empty set over a cache. limits bound the builds and those who wait for them; metas is how
// many row groups' metadata is kept in memory.
func NewBlocks(cache *blobcache.Cache, builder *build.Builder, memory *build.Memory, limits shared.Limits, metas int, counters *stats.Counters, logger *slog.Logger) *Blocks {
	return &Blocks{
		cache: cache, builder: builder, memory: memory, builds: shared.New[blockKey, *built](limits),
		metas: lru.New[blockKey, *parquetio.Meta](int64(max(1, metas))), counters: counters, logger: logger,
	}
}

// Close ends all builds and waits for them.
func (b *Blocks) Close() { b.builds.Close() }

// Building is how many row groups are being made now.
func (b *Blocks) Building() int64 { return int64(b.builds.Running()) }

// Waiting is how many requests wait for a row group now.
func (b *Blocks) Waiting() int64 { return int64(b.builds.Waiting()) }

// Store keeps a row group that was encoded by a scan. A full disk costs time later and is no error.
func (b *Blocks) Store(ctx context.Context, t *build.Table, p kafkapos.Partition, rng kafkapos.Range, rg parquetio.RowGroup) {
	if rg.Rows > 0 {
		b.store(ctx, keyOf(t, p, rng, rg.CRC), rg.Meta, rg.Pages)
	}
}

func (b *Blocks) store(ctx context.Context, key blockKey, meta *parquetio.Meta, pages []byte) {
	b.metas.Add(key, meta, 1)
	m, err := meta.MarshalBinary()
	if err == nil {
		err = b.cache.Put(string(key), m, pages)
	}
	if err != nil {
		b.counters.CacheFailures.Add(1)
		b.logger.WarnContext(ctx, "row group is not kept on disk", "block", string(key), "err", err)
	}
}

// wanted is one row group of a file.
type wanted struct {
	table     *build.Table
	partition kafkapos.Partition
	Recorded
	key blockKey
}

// Start makes sure that w is encoded or being encoded. It does not wait.
func (b *Blocks) Start(ctx context.Context, w *wanted) {
	if blob := b.find(ctx, w); blob != nil {
		blob.Close()
		return
	}
	b.builds.Start(ctx, w.key, b.build(w))
}

// Get answers w's block, encoding it if it must. Errors: those of build.Builder.RowGroup; fault.ErrCorrupt: the log
// does not give the recorded bytes; fault.ErrUnavailable: too many wait; the end of ctx, after which the work goes on.
func (b *Blocks) Get(ctx context.Context, w *wanted) (*Block, error) {
	if blob := b.find(ctx, w); blob != nil {
		if meta := b.meta(ctx, w, blob); meta != nil {
			b.counters.CacheHits.Add(1)
			return &Block{ReaderAt: blob, Meta: meta, Close: blob.Close}, nil
		}
		blob.Close()
	}
	b.counters.CacheMisses.Add(1)
	made, err := b.builds.Do(ctx, w.key, b.build(w))
	if err != nil {
		return nil, err
	}
	// From the disk, if it took them: pages in memory are accounted for as long as they are served.
	if blob := b.find(ctx, w); blob != nil {
		return &Block{ReaderAt: blob, Meta: made.meta, Close: blob.Close}, nil
	}
	hold := b.memory.Hold()
	if err := hold.Grow(int64(len(made.pages))); err != nil {
		return nil, err
	}
	return &Block{ReaderAt: bytes.NewReader(made.pages), Meta: made.meta, Close: hold.Release}, nil
}

// Meta answers w's metadata alone, from memory where it can.
func (b *Blocks) Meta(ctx context.Context, w *wanted) (*parquetio.Meta, error) {
	if m, ok := b.metas.Get(w.key); ok {
		return m, nil
	}
	block, err := b.Get(ctx, w)
	if err != nil {
		return nil, err
	}
	block.Close()
	return block.Meta, nil
}

// find looks on the disk. Damage is a miss.
func (b *Blocks) find(ctx context.Context, w *wanted) *blobcache.Blob {
	blob, err := b.cache.Get(string(w.key))
	switch {
	case err == nil && blob.Size() == w.SizeBytes:
		return blob
	case err == nil:
		blob.Close()
	case !errors.Is(err, fault.ErrNotFound):
		b.counters.CacheFailures.Add(1)
		b.logger.WarnContext(ctx, "cached row group cannot be read", "block", string(w.key), "err", err)
	}
	return nil
}

// meta answers the metadata of a blob; nil if it is not what was recorded.
func (b *Blocks) meta(ctx context.Context, w *wanted, blob *blobcache.Blob) *parquetio.Meta {
	if m, ok := b.metas.Get(w.key); ok {
		return m
	}
	m, err := parquetio.UnmarshalMeta(blob.Meta())
	if err == nil && (m.Rows() != w.Rows || m.SizeBytes() != w.SizeBytes || m.TailBytes != w.TailBytes) {
		err = fmt.Errorf("metadata of another row group: %w", fault.ErrCorrupt)
	}
	if err != nil {
		b.counters.CacheFailures.Add(1)
		b.logger.WarnContext(ctx, "cached row group cannot be read", "block", string(w.key), "err", err)
		return nil
	}
	b.metas.Add(w.key, m, 1)
	return m
}

// build encodes w and compares it with what was recorded. fault.ErrRetired: it is another one now. The log was cut off, as
// by an unclean election, which the next load of the table finds out; nothing else is known to do that.
func (b *Blocks) build(w *wanted) func(context.Context) (*built, error) {
	return func(ctx context.Context) (*built, error) {
		rg, err := b.builder.RowGroup(ctx, w.table, w.partition, w.Range)
		if err != nil {
			return nil, fmt.Errorf("encode row group %s of partition %d: %w", w.Range, w.partition, err)
		}
		if rg.Rows != w.Rows || rg.SizeBytes != w.SizeBytes || rg.CRC != w.CRC || rg.TailBytes != w.TailBytes {
			err := fmt.Errorf("row group %s of partition %d is not what was recorded: %d rows, %d bytes, CRC %08x; recorded %d, %d, %08x: %w:"+
				" load the table again", w.Range, w.partition, rg.Rows, rg.SizeBytes, rg.CRC, w.Rows, w.SizeBytes, w.CRC, fault.ErrRetired)
			b.logger.WarnContext(ctx, "a published row group cannot be made again", "block", string(w.key), "err", err)
			return nil, err
		}
		b.store(ctx, w.key, rg.Meta, rg.Pages)
		return &built{rg.Pages, rg.Meta}, nil
	}
}

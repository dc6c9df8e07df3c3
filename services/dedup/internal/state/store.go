package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/lru"
	"github.com/frazil-io/frazil/libs/marks"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// Store reads and writes state by its meaning. What it answers is shared with other callers: nobody may change
// it. Safe for concurrent use.
type Store struct {
	chainstore.Store
	cache *lru.Cache[string, any]
}

// NewStore wraps a store, with a cache of immutable values of about cacheBytes.
func NewStore(s chainstore.Store, cacheBytes int64) *Store {
	return &Store{Store: s, cache: lru.New[string, any](cacheBytes)}
}

// CacheBytes is about what cached values take in memory now.
func (s *Store) CacheBytes() int64 { _, n := s.cache.Size(); return n }

// PutBlob implements chainstore.Store. A name says what its bytes are, so that others under it are damaged, left by a
// process that died before it had published them: they are replaced. fault.ErrCorrupt: they come again.
func (s *Store) PutBlob(ctx context.Context, name string, value []byte) error {
	err := s.Store.PutBlob(ctx, name, value)
	if !errors.Is(err, fault.ErrConflict) {
		return err
	}
	if err := s.Store.DeleteBlob(ctx, name); err != nil {
		return err
	}
	if err = s.Store.PutBlob(ctx, name, value); errors.Is(err, fault.ErrConflict) {
		return corrupt("replace damaged blob %s: %v", name, err)
	}
	return err
}

// Log is one log of a state epoch.
type Log struct {
	Epoch     string
	Partition kafkapos.Partition
}

// Record answers a topic's record and its version in the store. fault.ErrNotFound: there is none.
func (s *Store) Record(ctx context.Context, id kafkapos.TopicID) (*Record, chainstore.Version, error) {
	b, v, err := s.Get(ctx, RecordKey(id))
	if err != nil {
		return nil, 0, err
	}
	r, err := ParseRecord(b)
	return r, v, err
}

// SetRecord replaces a topic's record. fault.ErrConflict: it is not at version old.
func (s *Store) SetRecord(ctx context.Context, old chainstore.Version, r *Record) error {
	_, err := s.CompareAndSet(ctx, RecordKey(r.Topic.ID), old, r.Bytes())
	return err
}

// Epoch answers what is known of a state epoch. fault.ErrNotFound: there never was one.
func (s *Store) Epoch(ctx context.Context, epoch string) (*EpochInfo, chainstore.Version, error) {
	b, v, err := s.Get(ctx, EpochKey(epoch))
	if errors.Is(err, fault.ErrNotFound) {
		return nil, 0, fmt.Errorf("state epoch %s: %w", epoch, fault.ErrNotFound)
	}
	if err != nil {
		return nil, 0, err
	}
	e, err := ParseEpoch(b)
	return e, v, err
}

// Head answers a log's head and its version in the store. fault.ErrNotFound: there is none.
func (s *Store) Head(ctx context.Context, log Log) (*Head, chainstore.Version, error) {
	b, v, err := s.Get(ctx, HeadKey(log.Epoch, log.Partition))
	if err != nil {
		return nil, 0, err
	}
	h, err := ParseHead(b)
	if errors.Is(err, fault.ErrCorrupt) {
		err = fmt.Errorf("head of partition %d: %v: %w", log.Partition, err, ErrLost) //nolint:errorlint // ErrLost is of that kind
	}
	return h, v, err
}

// SetHead replaces a log's head. fault.ErrConflict: it is not at version old.
func (s *Store) SetHead(ctx context.Context, log Log, old chainstore.Version, h *Head) error {
	_, err := s.CompareAndSet(ctx, HeadKey(log.Epoch, log.Partition), old, h.Bytes())
	return err
}

// View is a log as a reader found it: nothing in it changes.
type View struct {
	Log     Log
	Head    *Head
	Version chainstore.Version
	Root    *Root
}

// View loads a log. fault.ErrNotFound: it has no head.
func (s *Store) View(ctx context.Context, log Log) (*View, error) {
	for {
		h, v, err := s.Head(ctx, log)
		if err != nil {
			return nil, err
		}
		root, err := s.root(ctx, log, h.Directory)
		if err == nil {
			return &View{Log: log, Head: h, Version: v, Root: root}, nil
		}
		// The directory may have been collected because the head moved on meanwhile.
		if _, now, again := s.Head(ctx, log); again != nil || now == v {
			return nil, missing(err)
		}
	}
}

func (s *Store) root(ctx context.Context, log Log, suffix string) (*Root, error) {
	if suffix == "" {
		return &Root{}, nil
	}
	return cached(ctx, s, LogBlob(RootKind, log.Epoch, log.Partition, suffix), ParseRoot)
}

// Page answers a page of a directory; one that does not exist has no chunks.
func (s *Store) Page(ctx context.Context, log Log, root *Root, number int64) (*Page, error) {
	i, ok := root.page(number)
	if !ok {
		return &Page{}, nil
	}
	p, err := cached(ctx, s, LogBlob(PageKind, log.Epoch, log.Partition, root.Pages[i].Blob), ParsePage)
	return p, missing(err)
}

// Chunk answers what is published of a chunk, nil if nothing is.
func (s *Store) Chunk(ctx context.Context, v *View, number int64) (*Chunk, error) {
	p, err := s.Page(ctx, v.Log, v.Root, number/PageChunks)
	if err != nil {
		return nil, err
	}
	return p.Find(number), nil
}

// Layout answers the layout of a chunk, joined from its pieces.
func (s *Store) Layout(ctx context.Context, log Log, c *Chunk) (*layout.Layout, error) {
	key := "joined/" + LogPrefix(LayoutKind, log.Epoch, log.Partition) + strings.Join(c.Layouts, "+")
	if l, ok := hit[layout.Layout](s, key); ok {
		return l, nil
	}
	var out *layout.Layout
	cost := int64(0)
	for _, suffix := range c.Layouts {
		piece, size, err := blob(ctx, s, LogBlob(LayoutKind, log.Epoch, log.Partition, suffix), layout.Parse)
		if err != nil {
			return nil, missing(err)
		}
		cost += int64(size)
		if out == nil {
			out = piece
		} else if out, err = out.Extend(piece); err != nil {
			return nil, corrupt("join the layout of chunk %d: %v", c.Number, err)
		}
	}
	if out == nil || out.Range() != c.Known {
		return nil, corrupt("the layout of chunk %d is not over %s", c.Number, c.Known)
	}
	s.cache.Add(key, out, 2*cost+64)
	return out, nil
}

// Segment answers a segment.
func (s *Store) Segment(ctx context.Context, log Log, suffix string) (*marks.Segment, error) {
	seg, err := cached(ctx, s, LogBlob(SegmentKind, log.Epoch, log.Partition, suffix), marks.ParseSegment)
	return seg, missing(err)
}

// Group answers folded marks.
func (s *Store) Group(ctx context.Context, log Log, suffix string) (*marks.Group, error) {
	g, err := cached(ctx, s, LogBlob(FoldKind, log.Epoch, log.Partition, suffix), marks.ParseGroup)
	return g, missing(err)
}

// Chain answers all that is published about a chunk's marks in one view.
func (s *Store) Chain(ctx context.Context, v *View, c *Chunk, view int) (marks.Chain, error) {
	l, err := s.Layout(ctx, v.Log, c)
	if err != nil {
		return marks.Chain{}, err
	}
	out := marks.Chain{Layout: l, Rows: RowsOf(view)}
	names := slices.Clone(c.Segments)
	for _, r := range v.Root.Recent {
		names = append(names, r.Blob)
	}
	for _, name := range names {
		seg, err := s.Segment(ctx, v.Log, name)
		if err != nil {
			return marks.Chain{}, err
		}
		if part := seg.Chunk(l.ChunkStart()); part != nil {
			out.Parts = append(out.Parts, part)
		}
	}
	for _, g := range c.Groups {
		if g.View != view {
			continue
		}
		group, err := s.Group(ctx, v.Log, g.Blob)
		if err != nil {
			return marks.Chain{}, err
		}
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

// RowGroups answers what was recorded of a chunk's row groups.
func (s *Store) RowGroups(ctx context.Context, log Log, suffix string) ([]*typesv1.RowGroup, error) {
	if suffix == "" {
		return nil, nil
	}
	g, err := cached(ctx, s, LogBlob(RowGroupKind, log.Epoch, log.Partition, suffix), parseRowGroups)
	if err != nil {
		return nil, missing(err)
	}
	return *g, nil
}

// RowGroupBlobs answers the suffixes of everything that was recorded of files of a log that end at end, by name.
func (s *Store) RowGroupBlobs(ctx context.Context, log Log, end kafkapos.Offset) ([]string, error) {
	prefix := LogPrefix(RowGroupKind, log.Epoch, log.Partition)
	names, err := s.ListBlobs(ctx, prefix+RowGroupsOf(end))
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], prefix)
	}
	return names, err
}

func parseRowGroups(b []byte) (*[]*typesv1.RowGroup, error) {
	g, err := ParseRowGroups(b)
	return &g, err
}

// Snapshot answers a snapshot of a state epoch.
func (s *Store) Snapshot(ctx context.Context, epoch, suffix string) (*Snapshot, error) {
	return cached(ctx, s, SnapshotBlob(epoch, suffix), ParseSnapshot)
}

// ManifestGroup answers a manifest group. fault.ErrNotFound: it is not there, or no longer.
func (s *Store) ManifestGroup(ctx context.Context, epoch, name string) (*dedupv1.GetManifestGroupResponse, error) {
	return cached(ctx, s, GroupBlob(epoch, name), func(b []byte) (*dedupv1.GetManifestGroupResponse, error) {
		_, g, err := ParseManifestGroup(b)
		return g, err
	})
}

// PutLog stores an immutable value of a log and answers its suffix.
func (s *Store) PutLog(ctx context.Context, kind string, log Log, planned chainstore.Version, content []byte) (string, error) {
	suffix := Suffix(uint64(planned), content)
	return suffix, s.PutBlob(ctx, LogBlob(kind, log.Epoch, log.Partition, suffix), content)
}

// hit answers a cached value. The kind of a value follows from its name.
func hit[V any](s *Store, name string) (*V, bool) {
	kept, ok := s.cache.Get(name)
	if !ok {
		return nil, false
	}
	v, ok := kept.(*V)
	return v, ok
}

func cached[V any](ctx context.Context, s *Store, name string, parse func([]byte) (*V, error)) (*V, error) {
	if v, ok := hit[V](s, name); ok {
		return v, nil
	}
	v, size, err := blob(ctx, s, name, parse)
	if err != nil {
		return nil, err
	}
	s.cache.Add(name, v, int64(2*size+64))
	return v, nil
}

// blob reads a blob. One that does not verify is as good as none: fault.ErrNotFound.
func blob[V any](ctx context.Context, s *Store, name string, parse func([]byte) (*V, error)) (v *V, size int, err error) {
	b, err := s.GetBlob(ctx, name)
	if err == nil {
		v, err = parse(b)
	}
	switch {
	case errors.Is(err, fault.ErrCorrupt):
		return nil, 0, fmt.Errorf("blob %s is damaged: %v: %w", name, err, fault.ErrNotFound) //nolint:errorlint // no longer that kind
	case err != nil:
		return nil, 0, fmt.Errorf("blob %s: %w", name, err)
	}
	return v, len(b), nil
}

// missing makes of a thing that a published directory names and the store lacks what it is: ErrLost. It is never taken
// for "there is nothing". Whoever was held up for long over an old directory may find its things collected.
func missing(err error) error {
	if errors.Is(err, fault.ErrNotFound) {
		return fmt.Errorf("the state names what the store lacks: %v: %w", err, ErrLost) //nolint:errorlint // it is not that kind
	}
	return err
}

func (d *Root) page(number int64) (int, bool) {
	return slices.BinarySearchFunc(d.Pages, number, func(p PageRef, n int64) int { return int(min(max(p.Number-n, -1), 1)) })
}

// SetPage names a page in place of the one of its number.
func (d *Root) SetPage(ref PageRef) {
	if i, ok := d.page(ref.Number); ok {
		d.Pages[i] = ref
	} else {
		d.Pages = slices.Insert(d.Pages, i, ref)
	}
}

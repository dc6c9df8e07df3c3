package advance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/supersede"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// maxPieces is the number of pieces of an open chunk's layout above which they are joined.
const maxPieces = 8

// draft collects the changes to one version of a log. What it writes before the commit is named by that version:
// a draft that loses leaves only names that no head holds.
type draft struct {
	store *state.Store
	spec  *Spec
	view  *state.View
	head  state.Head
	root  *state.Root
	dirty map[int64]*state.Chunk // by number
	puts  []blob                 // not written yet
}

// blob is an immutable value that a draft adds to the store.
type blob struct {
	name  string
	value []byte
}

// putsAtOnce is how many blobs of a draft are written side by side: they share the syncs of a disk and the way to a
// server.
const putsAtOnce = 16

func newDraft(store *state.Store, s *Spec, v *state.View) *draft {
	return &draft{
		store: store, spec: s, view: v, head: *v.Head, root: v.Root.Clone(),
		dirty: map[int64]*state.Chunk{},
	}
}

func (d *draft) addRun(ref state.RunRef) {
	i, _ := slices.BinarySearchFunc(d.root.Runs, ref, func(a, b state.RunRef) int { return cmp.Compare(a.Range.Start, b.Range.Start) })
	d.root.Runs = slices.Insert(d.root.Runs, i, ref)
}

// chunk answers a chunk that may be changed; nil if nothing is published of it.
func (d *draft) chunk(ctx context.Context, number int64) (*state.Chunk, error) {
	if c, ok := d.dirty[number]; ok {
		return c, nil
	}
	c, err := d.store.Chunk(ctx, d.view, number)
	if c == nil || err != nil {
		return nil, err
	}
	c = c.Clone()
	d.dirty[number] = c
	return c, nil
}

// put names a blob that flush writes.
func (d *draft) put(kind string, content []byte) (suffix string) {
	suffix = state.Suffix(uint64(d.view.Version), content)
	d.later(kind, suffix, content)
	return suffix
}

func (d *draft) later(kind, suffix string, content []byte) {
	d.puts = append(d.puts, blob{state.LogBlob(kind, d.spec.Log.Epoch, d.spec.Log.Partition, suffix), content})
}

// flush writes what was put. It comes before everything that may read it.
func (d *draft) flush(ctx context.Context) error {
	puts := d.puts
	d.puts = nil
	var writers sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, min(putsAtOnce, len(puts)))
	for w := range errs {
		writers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(puts) && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = d.store.PutBlob(ctx, puts[i].name, puts[i].value)
			}
		})
	}
	writers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// layout answers the layout of a chunk of the draft.
func (d *draft) layout(ctx context.Context, c *state.Chunk) (*layout.Layout, error) {
	if err := d.flush(ctx); err != nil {
		return nil, err
	}
	return d.store.Layout(ctx, d.spec.Log, c)
}

// addScan adds a scanned range to its chunks: its layouts and its row groups.
func (d *draft) addScan(ctx context.Context, res *scan.Result) error {
	below := make([]bool, len(res.Layouts))
	for i, l := range res.Layouts {
		var err error
		if below[i], err = d.addLayout(ctx, l); err != nil {
			return err
		}
	}
	for i, l := range res.Layouts {
		c := d.dirty[d.spec.number(l.ChunkStart())]
		if below[i] {
			if err := d.recount(ctx, c); err != nil {
				return err
			}
		}
		if err := d.joinLayout(ctx, c); err != nil {
			return err
		}
		if err := d.record(ctx, c, res); err != nil {
			return err
		}
	}
	return nil
}

// addLayout adds what is known of a part of one chunk. below: the chunk has grown downwards.
func (d *draft) addLayout(ctx context.Context, l *layout.Layout) (below bool, err error) {
	rng := l.Range()
	number := d.spec.number(rng.Start)
	c, err := d.chunk(ctx, number)
	if err != nil {
		return false, err
	}
	piece, err := d.putLayout(l)
	if err != nil {
		return false, err
	}
	switch {
	case c == nil:
		c = &state.Chunk{Number: number, Known: rng, Layouts: []string{piece}, SchemaID: d.spec.SchemaID, Edition: 1}
		d.dirty[number] = c
	case c.Known.End == rng.Start:
		c.Known.End = rng.End
		c.Layouts = append(c.Layouts, piece)
	case c.Known.Start == rng.End:
		c.Known.Start = rng.Start
		c.Layouts = append([]string{piece}, c.Layouts...)
		below = true
	default:
		return false, fmt.Errorf("range %s does not continue chunk %d, known %s", rng, number, c.Known)
	}
	c.Rows += l.Rows(rng)
	return below, nil
}

func (d *draft) putLayout(l *layout.Layout) (string, error) {
	b, err := l.Bytes()
	if err != nil {
		return "", err
	}
	return d.put(state.LayoutKind, b), nil
}

// joinLayout makes one piece of a layout with many, or of a closed chunk's.
func (d *draft) joinLayout(ctx context.Context, c *state.Chunk) error {
	closed := c.Known.End == d.spec.chunk(c.Known.Start).End
	if len(c.Layouts) == 1 || !closed && len(c.Layouts) <= maxPieces {
		return nil
	}
	l, err := d.layout(ctx, c)
	if err != nil {
		return err
	}
	name, err := d.putLayout(l)
	if err != nil {
		return err
	}
	c.Layouts = []string{name}
	return nil
}

// recount counts the marks of a chunk whose positions have changed, because its layout grew downwards.
func (d *draft) recount(ctx context.Context, c *state.Chunk) error {
	if err := d.flush(ctx); err != nil {
		return err
	}
	for view := range state.Views {
		chain, err := d.store.Chain(ctx, d.view, c, view)
		if err != nil {
			return err
		}
		if c.Ledgers[view], err = marks.NewLedger(chain, d.spec.CutEnds); err != nil {
			return err
		}
	}
	return nil
}

// record keeps what the file of the chunk names of the old and the new row groups. Some of the new ones may be of other
// chunks.
func (d *draft) record(ctx context.Context, c *state.Chunk, res *scan.Result) error {
	have, err := d.store.RowGroups(ctx, d.spec.Log, c.RowGroups)
	if err != nil {
		return err
	}
	if c.Encoding != res.Encoding || c.FileSchema != res.FileSchema {
		have = nil // other bytes: they are encoded again, under another name
	}
	all := slices.Concat(res.Of(d.spec.chunk(c.Known.Start)), have)
	found, missing := pick(layout.RowGroups(file(c.Known, d.head.Start), d.spec.BlockLog2), all)
	c.Encoding, c.FileSchema, c.BaseBytes = res.Encoding, res.FileSchema, res.BaseBytes
	c.Complete = len(missing) == 0
	c.FileBytes = scan.FileSize(c.BaseBytes, found)
	b, err := state.RowGroupsBytes(found)
	if err != nil {
		return err
	}
	c.RowGroups = state.RowGroupsSuffix(c.Known.End, uint64(d.view.Version), b)
	d.later(state.RowGroupKind, c.RowGroups, b)
	return nil
}

// addMarks publishes marks as one segment, or, when they are all of walked chunks, as one for each: their own.
func (d *draft) addMarks(ctx context.Context, ms []supersede.Mark, own bool) error {
	if len(ms) == 0 {
		return nil
	}
	seg, err := marks.NewSegment(slices.Clone(ms), d.spec.ChunkLog2)
	if err != nil {
		return err
	}
	parts := seg.Chunks()
	for _, part := range parts {
		if err := d.count(ctx, part); err != nil {
			return err
		}
	}
	if !own {
		name, err := d.putSegment(seg)
		d.root.Recent = append(d.root.Recent, state.SegmentRef{Blob: name, Marks: seg.Marks()})
		return err
	}
	for _, part := range parts {
		if len(parts) > 1 {
			if seg, err = marks.NewSegment(slices.Collect(part.All()), d.spec.ChunkLog2); err != nil {
				return err
			}
		}
		name, err := d.putSegment(seg)
		if err != nil {
			return err
		}
		c := d.dirty[d.spec.number(part.Range().Start)]
		c.Segments = append(c.Segments, name)
	}
	return nil
}

func (d *draft) putSegment(seg *marks.Segment) (string, error) {
	b, err := seg.Bytes()
	if err != nil {
		return "", err
	}
	return d.put(state.SegmentKind, b), nil
}

// count adds the marks of a new segment in one chunk to the chunk's counters.
func (d *draft) count(ctx context.Context, part *marks.Chunk) error {
	number := d.spec.number(part.Range().Start)
	c, err := d.chunk(ctx, number)
	if err != nil {
		return err
	}
	if c == nil {
		return fmt.Errorf("marks in chunk %d, of which nothing is published", number)
	}
	l, err := d.layout(ctx, c)
	if err != nil {
		return err
	}
	for view := range state.Views {
		if c.Ledgers[view], err = c.Ledgers[view].Extend(l, state.RowsOf(view), part, d.spec.CutEnds); err != nil {
			return err
		}
	}
	return nil
}

// commit writes the pages and the directory, then the head. fault.ErrConflict: the head has moved on.
func (d *draft) commit(ctx context.Context) error {
	pages := map[int64]*state.Page{}
	for _, number := range slices.Sorted(maps.Keys(d.dirty)) {
		at := number / state.PageChunks
		page, ok := pages[at]
		if !ok {
			var err error
			if page, err = d.store.Page(ctx, d.spec.Log, d.view.Root, at); err != nil {
				return err
			}
		}
		pages[at] = page.With(d.dirty[number])
	}
	for _, at := range slices.Sorted(maps.Keys(pages)) {
		d.root.SetPage(state.PageRef{Number: at, Blob: d.put(state.PageKind, pages[at].Bytes())})
	}
	d.head.Directory = d.put(state.RootKind, d.root.Bytes())
	if err := d.flush(ctx); err != nil {
		return err
	}
	return d.store.SetHead(ctx, d.spec.Log, d.view.Version, &d.head)
}

// extent is the chunks that the log's directory reaches over.
func (d *draft) extent() int64 {
	rng := kafkapos.Range{Start: d.head.Frontier, End: d.head.End}
	return rng.Len()>>d.spec.ChunkLog2 + 1
}

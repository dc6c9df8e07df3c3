package dedup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/posdelete"
	"github.com/frazil-io/frazil/libs/schema"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// newLazyWorld is a world whose table is lazy, with chunks of 16 offsets.
func newLazyWorld(t *testing.T, partitions int) *world {
	t.Helper()
	w := newWorld(t, partitions)
	w.plan(PlanLazy)
	w.restart()
	return w
}

func (w *world) plan(plan string) { w.cfg.OnBadRecord, w.cfg.Plan = BadRecordSkip, plan }

// entries answers the entries of a snapshot by partition, ascending.
func (w *world) entries(st *dedupv1.TableState, snap *dedupv1.Snapshot) [][]*dedupv1.ManifestEntry {
	w.t.Helper()
	out := make([][]*dedupv1.ManifestEntry, len(w.topic.logs))
	for _, ref := range snap.GetGroups() {
		g, err := w.GetManifestGroup(w.t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: ref.GetName()})
		if err != nil {
			w.t.Fatal(err)
		}
		rooms := false
		for _, e := range g.GetEntries() {
			out[e.GetPartition()] = append(out[e.GetPartition()], e)
			rooms = rooms || isRoom(e)
		}
		if rooms != ref.GetRooms() {
			w.t.Fatalf("group %s has rooms %v, the snapshot says %v", ref.GetName(), rooms, ref.GetRooms())
		}
	}
	return out
}

func isRoom(e *dedupv1.ManifestEntry) bool { return e.GetDeletes().GetRoomPositions() > 0 }

// readEntry answers the live offsets of a data file as a reader of v2 finds them, room or not.
func (w *world) readEntry(st *dedupv1.TableState, e *dedupv1.ManifestEntry) ([]kafkapos.Offset, error) {
	if !isRoom(e) {
		return w.file(st, e)
	}
	obj, err := objectname.Parse(e.GetDataKey())
	if err != nil {
		return nil, err
	}
	d := obj.(objectname.DataFile)
	dead, err := w.roomDeletes(d, e.GetDeletes())
	if err != nil {
		return nil, err
	}
	desc, err := w.DescribeDataFile(w.t.Context(), &dedupv1.DescribeDataFileRequest{ObjectKey: e.GetDataKey()})
	if err != nil {
		return nil, err
	}
	rows := w.rows(d)
	if err := w.checkRoom(d, e, desc.GetRowGroups(), rows); err != nil {
		return nil, err
	}
	var live []kafkapos.Offset
	for i, off := range rows {
		if !dead.Contains(uint32(i)) {
			live = append(live, off)
		}
	}
	if len(live)+int(dead.GetCardinality()) != len(rows) {
		return nil, fmt.Errorf("%d rows, %d deleted, %d live", len(rows), dead.GetCardinality(), len(live))
	}
	return live, nil
}

// rows answers the offsets of the rows in a file.
func (w *world) rows(d objectname.DataFile) []kafkapos.Offset {
	var out []kafkapos.Offset
	for off := d.Range.Start; off < d.Range.End; off++ {
		if w.topic.logs[d.Partition][off].class == layout.Row {
			out = append(out, off)
		}
	}
	return out
}

func (w *world) checkRoom(d objectname.DataFile, e *dedupv1.ManifestEntry, groups []*typesv1.RowGroup, rows []kafkapos.Offset) error {
	size, total, at := int64(12), int64(0), kafkapos.Offset(0)
	for _, g := range groups {
		rng := kafkapos.Range{Start: kafkapos.Offset(g.GetRange().GetStart()), End: kafkapos.Offset(g.GetRange().GetEnd())}
		w.topic.mu.Lock()
		want := w.topic.rowGroup(d.Partition, rng)
		w.topic.mu.Unlock()
		if g.GetRows() != want.GetRows() || g.GetCrc() != want.GetCrc() || rng.Start < at || g.GetRows() == 0 {
			return fmt.Errorf("row group %v after %d, want %v", g, at, want)
		}
		at = rng.End
		size += g.GetSizeBytes() + g.GetTailBytes()
		total += g.GetRows()
	}
	if total != int64(len(rows)) || size > d.Size || d.Size != e.GetFileSizeBytes() {
		return fmt.Errorf("row groups of %d rows and %d bytes; %d rows are there, %d bytes were stated", total, size, len(rows), d.Size)
	}
	if e.GetRows() != d.Range.Len() || e.GetRows() < total || !slices.Equal(e.GetSplitOffsets(), []int64{4}) {
		return fmt.Errorf("entry %v of %d rows", e, total)
	}
	for _, c := range e.GetColumns() {
		if c.GetFieldId() == schema.OffsetFieldID && (binary.LittleEndian.Uint64(c.Lower) != uint64(d.Range.Start) || binary.LittleEndian.Uint64(c.Upper) != uint64(d.Range.End-1)) {
			return fmt.Errorf("bounds %v", c)
		}
	}
	return nil
}

// roomDeletes reads the padded delete file of a room.
func (w *world) roomDeletes(d objectname.DataFile, e *dedupv1.DeleteEntry) (*roaring.Bitmap, error) {
	key := objectname.Deletes{Data: d, Dialect: objectname.V2, E: kafkapos.Offset(e.GetE())}.Key()
	b, err := w.object(key)
	if err != nil {
		return nil, err
	}
	path := "s3://" + w.cfg.Bucket + "/" + d.Key()
	if n, err := posdelete.Length(e.GetRoomPositions(), len(path)); err != nil || n != int64(len(b)) {
		return nil, fmt.Errorf("position delete file of %d bytes, its entry promises %d (%v)", len(b), n, err)
	}
	return readPositions(b, path)
}

func readPositions(b []byte, path string) (*roaring.Bitmap, error) {
	type row struct {
		Path string `parquet:"file_path"`
		Pos  int64  `parquet:"pos"`
	}
	f, err := parquetgo.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	out := roaring.New()
	if f.NumRows() == 0 {
		return out, nil
	}
	rd := parquetgo.NewGenericReader[row](f)
	defer func() { _ = rd.Close() }()
	buf := make([]row, 64)
	for {
		n, err := rd.Read(buf)
		for _, r := range buf[:n] {
			if r.Path != path {
				return nil, fmt.Errorf("path %s", r.Path)
			}
			out.Add(uint32(r.Pos))
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// checkLazy reads a snapshot whole, its files in a random order, and compares it with the fold at its cut. What Kafka
// has lost is a clear error.
func (w *world) checkLazy(st *dedupv1.TableState, snap *dedupv1.Snapshot, r *rand.Rand) {
	w.t.Helper()
	for p, list := range w.entries(st, snap) {
		cut := snap.GetCut()[p]
		var got []kafkapos.Offset
		lost := false
		for _, i := range r.Perm(len(list)) {
			live, err := w.readEntry(st, list[i])
			if errors.Is(err, fault.ErrRetired) && list[i].GetStart() < int64(w.topic.starts[p]) {
				lost = true
				continue
			}
			if err != nil {
				w.t.Fatalf("partition %d of cut %v, file [%d,%d): %v", p, snap.GetCut(), list[i].GetStart(), list[i].GetEnd(), err)
			}
			got = append(got, live...)
		}
		slices.Sort(got)
		want := fold(w.topic.logs[p], kafkapos.Offset(cut.GetStart()), kafkapos.Offset(cut.GetEnd()))
		if lost {
			continue
		}
		if !slices.Equal(got, want) {
			w.t.Fatalf("partition %d [%d,%d): rows %v, want %v", p, cut.GetStart(), cut.GetEnd(), got, want)
		}
	}
}

// offsetsScanned answers, for one partition, the lowest offset that was projected, and how many were projected twice.
func (f *fakeTopic) offsetsScanned(p int) (lowest kafkapos.Offset, count, twice int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lowest = kafkapos.Offset(len(f.logs[p]))
	for off, n := range f.scanned[p] {
		lowest, count = min(lowest, off), count+1
		if n > 1 {
			twice++
		}
	}
	return lowest, count, twice
}

func TestALazyTableAnswersBeforeAnythingIsRead(t *testing.T) {
	w := newLazyWorld(t, 2)
	r := rand.New(rand.NewPCG(1, 1))
	w.topic.append(0, random(r, 75)...)
	w.topic.append(1, random(r, 10)...)
	req := w.request()
	at := time.Unix(1_600_000_000, 0)
	for p := range req.GetLogs() {
		req.Logs[p].Times = []*dedupv1.TimeMark{
			{TimestampMillis: at.UnixMilli(), Offset: 40}, {TimestampMillis: at.Add(time.Hour).UnixMilli(), Offset: 70},
		}
	}
	resp, err := w.Advance(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	st := resp.GetState()
	for p := range w.topic.logs {
		if _, n, _ := w.topic.offsetsScanned(p); n != 0 {
			t.Fatalf("%d offsets of partition %d were read", n, p)
		}
	}
	if st.GetPlan() != PlanLazy || last(st).GetCut()[0].GetEnd() != 75 {
		t.Fatalf("state %v", st)
	}
	all := w.entries(st, last(st))
	if len(all[0]) != 5 || len(all[1]) != 1 {
		t.Fatalf("%d and %d files", len(all[0]), len(all[1]))
	}
	// [0,16) and [16,32) lie below 40, [32,48) and [48,64) below 70 only, nothing is known of [64,75).
	uppers := []int64{at.UnixMilli() - 1, at.UnixMilli() - 1, at.Add(time.Hour).UnixMilli() - 1, at.Add(time.Hour).UnixMilli() - 1, -1}
	for i, e := range all[0] {
		c := e.GetColumns()[2]
		upper := int64(-1)
		if c.Upper != nil {
			upper = int64(binary.LittleEndian.Uint64(c.Upper)) / 1000
		}
		if !isRoom(e) || c.GetFieldId() != schema.TimestampFieldID || c.Lower != nil || upper != uppers[i] {
			t.Errorf("file %d: %v, timestamps up to %d", i, e, upper)
		}
		if e.GetDeletes().GetE() != 75 {
			t.Errorf("delete file at %d, want the cut's end", e.GetDeletes().GetE())
		}
	}
	w.checkLazy(st, last(st), r)
}

// Nothing is known of a log of which nothing was read but how far it reached: a sighting that is late does not make
// another one of it, and a log that no longer reaches as far is another one.
func TestALateSightingOfWhatNobodyRead(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.topic.append(0, put(1, 2, 3)...)
	early := w.request()
	w.topic.append(0, put(4)...)
	old := w.advance()
	resp, err := w.Advance(t.Context(), early)
	if err != nil {
		t.Fatal(err)
	}
	if st := resp.GetState(); st.GetStateEpoch() != old.GetStateEpoch() || last(st).GetId() != last(old).GetId() {
		t.Fatalf("a late sighting changed the state: %v", st)
	}
	w.topic.logs[0] = w.topic.logs[0][:3]
	if st := w.advance(); st.GetStateEpoch() == old.GetStateEpoch() {
		t.Fatal("a log that was cut off is taken for the same")
	}
}

// A reader of new files reads nothing old; a reader of old ones reads what lies between, once.
func TestReadingWalksDownToTheFileAndNoFurther(t *testing.T) {
	w := newLazyWorld(t, 1)
	r := rand.New(rand.NewPCG(2, 2))
	w.topic.append(0, random(r, 100)...)
	st := w.advance()
	list, want := w.entries(st, last(st))[0], kafkapos.Offset(100)
	for _, i := range []int{6, 5, 2, 4, 0} { // of 7 chunks of 16
		if _, err := w.readEntry(st, list[i]); err != nil {
			t.Fatal(err)
		}
		low, n, twice := w.topic.offsetsScanned(0)
		want = min(want, kafkapos.Offset(list[i].GetStart()))
		if low != want || n != 100-int(want) || twice != 0 {
			t.Fatalf("after file %d: read down to %d, %d offsets, %d of them twice; want down to %d", i, low, n, twice, want)
		}
	}
	w.restart() // nothing published is read again
	w.checkLazy(st, last(st), r)
	if _, n, twice := w.topic.offsetsScanned(0); n != 100 || twice > 16 { // the end is read to see that the log is the same
		t.Fatalf("after a restart %d offsets, %d of them twice", n, twice)
	}
}

// A lazy table that was read down to its start shows what an eager one shows, by the same names and counts.
func TestLazyBecomesWhatEagerIs(t *testing.T) {
	for seed := range uint64(20) {
		lazy, eager := newLazyWorld(t, 1), newWorld(t, 1)
		eager.plan(PlanEager)
		eager.restart()
		lazy.cfg.PublishOffsets = 1 << (seed % 8) // however many chunks are published at a time
		lazy.restart()
		r := rand.New(rand.NewPCG(seed, 3))
		for range 4 {
			more := random(r, 1+r.IntN(40))
			lazy.topic.append(0, more...)
			eager.topic.append(0, more...)
			a, b := lazy.advance(), eager.advance()
			if list := lazy.entries(a, last(a))[0]; r.IntN(2) == 0 && len(list) > 0 {
				if _, err := lazy.readEntry(a, list[r.IntN(len(list))]); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			eager.check(b, last(b))
		}
		st := lazy.advance()
		lazy.checkLazy(st, last(st), r)
		st = lazy.advance()
		want := eager.advance()
		if last(st).GetId() == 0 || describe(lazy, st) != describe(eager, want) {
			t.Fatalf("seed %d: lazy shows\n%s\neager\n%s", seed, describe(lazy, st), describe(eager, want))
		}
		lazy.check(st, last(st))
	}
}

// Positions count from a file's first row: when the walk reaches below what increments have published of a chunk, they
// move, and the counts per 65 536 of them, from which a vector's length follows, with them.
func TestCountsMoveWhenAChunkGrowsDownwards(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.size(18, 14)
	w.restart()
	keys := make([]int, 70_000)
	for i := range keys {
		keys[i] = i
	}
	w.topic.append(0, put(keys...)...)
	w.advance()
	w.topic.append(0, put(keys[:1000]...)...)
	w.advance()
	w.topic.append(0, put(keys[:500]...)...)
	st := w.advance()
	w.checkLazy(st, last(st), rand.New(rand.NewPCG(7, 7)))
	w.topic.append(0, put(1)...)
	st = w.advance()
	// 0 to 999 are superseded, 70 000 to 70 499, and 71 001 by the last one.
	if e := w.entries(st, last(st))[0][0]; isRoom(e) || !slices.Equal(e.GetDeletes().GetContainerCardinalities(), []uint32{1000, 501}) {
		t.Fatalf("entry %v", e)
	}
	w.check(st, last(st))
}

func describe(w *world, st *dedupv1.TableState) string {
	out := ""
	for _, e := range w.entries(st, last(st))[0] {
		d := e.GetDeletes()
		out += fmt.Sprintf("[%d,%d) %d rows %d bytes %v, %d at %d room %d\n", e.GetStart(), e.GetEnd(), e.GetRows(), e.GetFileSizeBytes(),
			e.GetSplitOffsets(), d.GetCardinality(), d.GetE(), d.GetRoomPositions())
	}
	return out
}

// TestLazyHistories runs random programs: loads, readers of any file of any kept snapshot in any order, increments, kills,
// lost runs, moved log starts, folds, collections, changes of the plan. Every snapshot is the fold at its cut.
func TestLazyHistories(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { lazyHistory(t, seed) })
	}
}

func lazyHistory(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 11))
	w := newLazyWorld(t, 1+r.IntN(3))
	block := 2 * (1 + r.IntN(2))
	w.size(block+r.IntN(3), block)
	w.cfg.Fold.MinMarks, w.cfg.Fold.Every, w.cfg.PublishOffsets = 1, 0, 1<<(seed%8)
	w.restart()
	for p := range w.topic.logs {
		w.topic.append(p, random(r, r.IntN(90))...)
	}
	w.topic.append(0, put(1)...)
	st := w.advance()
	for range 40 {
		p := r.IntN(len(w.topic.logs))
		switch x := r.Float64(); {
		case x < .35:
			w.topic.append(p, random(r, 1+r.IntN(12))...)
			st = w.advance()
		case x < .65:
			snap := st.GetSnapshots()[r.IntN(len(st.GetSnapshots()))]
			w.readOne(st, snap, r)
		case x < .72:
			w.restart()
		case x < .77:
			w.loseRun(r)
		case x < .82:
			w.topic.starts[p] = max(w.topic.starts[p], start(len(w.topic.logs[p]), r))
			st = w.advance()
		case x < .88:
			w.foldAll()
		case x < .92:
			if err := w.garbage.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		case x < .94:
			w.crashWhileReading(st, r)
		default:
			w.checkLazy(st, last(st), r)
			st = w.advance()
		}
	}
	for _, snap := range st.GetSnapshots() {
		w.checkLazy(st, snap, r)
	}
	st = w.advance()
	w.check(st, last(st)) // nothing is a room any more, and both dialects say the same
	w.plan(PlanEager)
	w.restart()
	st = w.advance()
	w.check(st, last(st))
}

// readOne reads one file of a snapshot and compares it with the fold.
func (w *world) readOne(st *dedupv1.TableState, snap *dedupv1.Snapshot, r *rand.Rand) {
	w.t.Helper()
	p := r.IntN(len(w.topic.logs))
	list := w.entries(st, snap)[p]
	if len(list) == 0 {
		return
	}
	e := list[r.IntN(len(list))]
	got, err := w.readEntry(st, e)
	if errors.Is(err, fault.ErrRetired) && e.GetStart() < int64(w.topic.starts[p]) {
		return
	}
	if err != nil {
		w.t.Fatalf("partition %d of cut %v, file [%d,%d): %v", p, snap.GetCut(), e.GetStart(), e.GetEnd(), err)
	}
	cut := snap.GetCut()[p]
	var want []kafkapos.Offset
	for _, off := range fold(w.topic.logs[p], kafkapos.Offset(cut.GetStart()), kafkapos.Offset(cut.GetEnd())) {
		if int64(off) >= e.GetStart() && int64(off) < e.GetEnd() {
			want = append(want, off)
		}
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("partition %d of cut %v, file [%d,%d): rows %v, want %v", p, snap.GetCut(), e.GetStart(), e.GetEnd(), got, want)
	}
}

// crashWhileReading ends the process at some scan of a walk.
func (w *world) crashWhileReading(st *dedupv1.TableState, r *rand.Rand) {
	w.t.Helper()
	n := r.IntN(4)
	gone := fmt.Errorf("the materializer is away: %w", fault.ErrUnavailable)
	w.topic.mu.Lock()
	w.topic.fail = func(kafkapos.Partition, kafkapos.Range) error {
		if n--; n < 0 {
			return gone
		}
		return nil
	}
	w.topic.mu.Unlock()
	for _, list := range w.entries(st, last(st)) {
		for _, e := range list {
			if _, err := w.readEntry(st, e); err != nil && !errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, fault.ErrRetired) {
				w.t.Fatal(err)
			}
		}
	}
	w.restart()
	w.topic.mu.Lock()
	w.topic.fail = nil
	w.topic.mu.Unlock()
}

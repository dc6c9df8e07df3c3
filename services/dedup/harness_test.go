package dedup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/posdelete"
	"github.com/frazil-io/frazil/libs/puffin"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// world is a topic, a store, a disk, and the service over them, which can be ended and started again.
type world struct {
	t     *testing.T
	topic *fakeTopic
	store chainstore.Store
	disk  *fsys.Mem
	cfg   Config
	clock *sync.Mutex // of now, while the service works by itself
	now   time.Time
	id    byte // of the topic
	seed  uint64
	known uint64
	inf   bool // infinite retention
	stop  func()
	*Service
}

func newWorld(t *testing.T, partitions int) *world {
	t.Helper()
	w := &world{
		t: t, topic: newFakeTopic(partitions), store: memstore.New(), disk: fsys.NewMem(), cfg: Default(),
		clock: &sync.Mutex{}, now: time.Unix(1_700_000_000, 0), id: 1, seed: 1,
	}
	w.cfg.RunDir, w.cfg.Parallel, w.cfg.ChunksPerGroup, w.cfg.PublishOffsets = "runs", 2, 4, 1 // a chunk at a time
	w.size(4, 2)
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) size(chunkLog2, blockLog2 int) {
	w.cfg.Tables = map[string]TableConfig{"orders": {ChunkLog2: chunkLog2, BlockLog2: blockLog2}}
}

// start starts a service over what is there.
func (w *world) start() {
	w.t.Helper()
	w.seed++
	s, err := New(w.cfg, Deps{
		Store: w.store, FS: w.disk, Materializer: w.topic, Clock: w.time,
		Random: chacha(w.seed), Log: slog.New(slog.DiscardHandler), Meter: noop.Meter{},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	w.Service = s
	w.stop = func() {
		cancel()
		<-done
	}
}

func (w *world) time() time.Time {
	w.clock.Lock()
	defer w.clock.Unlock()
	return w.now
}

// sleep moves the clock on.
func (w *world) sleep(d time.Duration) {
	w.clock.Lock()
	defer w.clock.Unlock()
	w.now = w.now.Add(d)
}

// restart ends the service as a killed process would and starts another one.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.disk.Crash()
	w.start()
}

func chacha(seed uint64) io.Reader {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	return rand.NewChaCha8(key)
}

func (w *world) topicRef() *typesv1.TopicRef {
	return &typesv1.TopicRef{ClusterId: "cluster", TopicId: bytes.Repeat([]byte{w.id}, 16), Topic: "orders"}
}

func (w *world) request() *dedupv1.AdvanceRequest {
	w.topic.mu.Lock()
	defer w.topic.mu.Unlock()
	req := &dedupv1.AdvanceRequest{
		Topic: w.topicRef(), Table: "orders", WaitMillis: 60_000, KnownVersion: w.known, FiniteRetention: !w.inf,
	}
	for p := range w.topic.logs {
		req.Logs = append(req.Logs, &dedupv1.LogState{
			Partition: int32(p), LogStartOffset: int64(w.topic.starts[p]), End: int64(len(w.topic.logs[p])), LeaderEpoch: w.topic.epochs[p],
		})
	}
	return req
}

// advance brings the table up to date and expects that it is.
func (w *world) advance() *dedupv1.TableState {
	w.t.Helper()
	w.sleep(time.Second)
	resp, err := w.Advance(w.t.Context(), w.request())
	if err != nil {
		w.t.Fatalf("advance: %v", err)
	}
	if resp.GetStaleSinceMillis() != 0 {
		w.t.Fatalf("stale: %s", resp.GetStaleReason())
	}
	w.known = resp.GetState().GetVersion()
	return resp.GetState()
}

func last(st *dedupv1.TableState) *dedupv1.Snapshot {
	return st.GetSnapshots()[len(st.GetSnapshots())-1]
}

// check reads a snapshot through the service as an engine would, and compares it with the fold at its cut.
func (w *world) check(st *dedupv1.TableState, snap *dedupv1.Snapshot) {
	w.t.Helper()
	got, err := w.read(st, snap)
	if err != nil {
		w.t.Fatalf("read snapshot %v of %v, log starts %v: %v", snap.GetCut(), last(st).GetCut(), w.topic.starts, err)
	}
	for p, c := range snap.GetCut() {
		want := fold(w.topic.logs[p], kafkapos.Offset(c.GetStart()), kafkapos.Offset(c.GetEnd()))
		if !slices.Equal(got[p], want) {
			w.t.Fatalf("partition %d [%d,%d): rows %v, want %v", p, c.GetStart(), c.GetEnd(), got[p], want)
		}
	}
}

// read answers the live offsets of a snapshot by partition.
func (w *world) read(st *dedupv1.TableState, snap *dedupv1.Snapshot) ([][]kafkapos.Offset, error) {
	out := make([][]kafkapos.Offset, len(w.topic.logs))
	for _, ref := range snap.GetGroups() {
		g, err := w.GetManifestGroup(w.t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: ref.GetName()})
		if err != nil {
			return nil, err
		}
		files, rows, deleteFiles, deleted := int64(0), int64(0), int64(0), int64(0)
		for _, e := range g.GetEntries() {
			live, err := w.readEntry(st, e)
			if err != nil {
				return nil, fmt.Errorf("file [%d,%d) of partition %d: %w", e.GetStart(), e.GetEnd(), e.GetPartition(), err)
			}
			out[e.GetPartition()] = append(out[e.GetPartition()], live...)
			files, rows, deleted = files+1, rows+e.GetRows(), deleted+e.GetDeletes().GetCardinality()
			if e.GetDeletes() != nil {
				deleteFiles++
			}
		}
		if ref.GetDataFiles() != files || ref.GetRows() != rows || ref.GetDeleteFiles() != deleteFiles || ref.GetDeletedRows() != deleted {
			return nil, fmt.Errorf("group says %v, has %d %d %d %d", ref, files, rows, deleteFiles, deleted)
		}
	}
	return out, nil
}

// file answers the live offsets of a data file.
func (w *world) file(st *dedupv1.TableState, e *dedupv1.ManifestEntry) ([]kafkapos.Offset, error) {
	obj, err := objectname.Parse(e.GetDataKey())
	if err != nil {
		return nil, err
	}
	d := obj.(objectname.DataFile)
	if !d.Verify([16]byte(st.GetCheckKey())) || d.Size != e.GetFileSizeBytes() || int64(d.Range.Start) != e.GetStart() || int64(d.Range.End) != e.GetEnd() {
		return nil, fmt.Errorf("name %s does not say what its entry says", e.GetDataKey())
	}
	desc, err := w.DescribeDataFile(w.t.Context(), &dedupv1.DescribeDataFileRequest{ObjectKey: e.GetDataKey()})
	if err != nil {
		return nil, err
	}
	var offsets []kafkapos.Offset
	for off := d.Range.Start; off < d.Range.End; off++ {
		if w.topic.logs[d.Partition][off].class == layout.Row {
			offsets = append(offsets, off)
		}
	}
	if err := w.checkGroups(d, e, desc.GetRowGroups(), len(offsets)); err != nil {
		return nil, err
	}
	if e.GetDeletes() == nil {
		return offsets, nil
	}
	dead, err := w.deleted(d, e.GetDeletes())
	if err != nil {
		return nil, err
	}
	var live []kafkapos.Offset
	for i, off := range offsets {
		if !dead.Contains(uint32(i)) {
			live = append(live, off)
		}
	}
	if len(live)+int(dead.GetCardinality()) != len(offsets) || len(live) == 0 {
		return nil, fmt.Errorf("%d rows, %d deleted, %d live", len(offsets), dead.GetCardinality(), len(live))
	}
	return live, nil
}

func (w *world) checkGroups(d objectname.DataFile, e *dedupv1.ManifestEntry, groups []*typesv1.RowGroup, rows int) error {
	size, total, at := int64(12), int64(0), int64(4)
	var splits []int64
	for _, g := range groups {
		w.topic.mu.Lock()
		want := w.topic.rowGroup(d.Partition, kafkapos.Range{Start: kafkapos.Offset(g.GetRange().GetStart()), End: kafkapos.Offset(g.GetRange().GetEnd())})
		w.topic.mu.Unlock()
		if g.GetRows() != want.GetRows() || g.GetCrc() != want.GetCrc() {
			return fmt.Errorf("row group %v, want %v", g, want)
		}
		splits = append(splits, at)
		at += g.GetSizeBytes()
		size += g.GetSizeBytes() + g.GetTailBytes()
		total += g.GetRows()
	}
	if size != d.Size || total != e.GetRows() || rows != int(total) || !slices.Equal(splits, e.GetSplitOffsets()) {
		return fmt.Errorf("row groups of %d bytes, %d rows, %v; the entry says %v; %d rows are there", size, total, splits, e, rows)
	}
	if len(e.GetColumns()) != 1 || e.GetColumns()[0].GetValueCount() != total {
		return fmt.Errorf("columns %v", e.GetColumns())
	}
	return nil
}

// deleted reads a delete file in both dialects and answers its positions.
func (w *world) deleted(d objectname.DataFile, e *dedupv1.DeleteEntry) (*roaring.Bitmap, error) {
	path := len("s3://" + w.cfg.Bucket + "/" + d.Key())
	v3, err := w.object(objectname.Deletes{Data: d, Dialect: objectname.V3, E: kafkapos.Offset(e.GetE())}.Key())
	if err != nil {
		return nil, err
	}
	shape, err := puffin.Length(e.GetContainerCardinalities(), path)
	if err != nil || shape.FileSize != int64(len(v3)) || shape.Cardinality != e.GetCardinality() {
		return nil, fmt.Errorf("vector of %d bytes, its entry promises %v (%v)", len(v3), shape, err)
	}
	positions := roaring.New()
	// Puffin magic, then length, vector magic, number of bitmaps, key.
	if _, err := positions.ReadFrom(bytes.NewReader(v3[4+4+4+8+4:])); err != nil {
		return nil, err
	}
	v2, err := w.object(objectname.Deletes{Data: d, Dialect: objectname.V2, E: kafkapos.Offset(e.GetE())}.Key())
	if err != nil {
		return nil, err
	}
	if n, err := posdelete.Length(e.GetCardinality(), path); err != nil || n != int64(len(v2)) {
		return nil, fmt.Errorf("position delete file of %d bytes, its entry promises %d (%v)", len(v2), n, err)
	}
	if int64(positions.GetCardinality()) != e.GetCardinality() {
		return nil, fmt.Errorf("%d positions, want %d", positions.GetCardinality(), e.GetCardinality())
	}
	return positions, nil
}

func (w *world) object(key string) ([]byte, error) {
	s := &deleteStream{ctx: w.t.Context()}
	err := w.ReadDeletes(&dedupv1.ReadDeletesRequest{ObjectKey: key, Length: 1 << 40}, s)
	if err == nil && fmt.Sprint(len(s.data)) != s.size {
		return nil, fmt.Errorf("%d bytes, the header says %s", len(s.data), s.size)
	}
	return s.data, err
}

type deleteStream struct {
	grpc.ServerStream
	ctx  context.Context
	size string
	data []byte
}

func (s *deleteStream) Context() context.Context { return s.ctx }
func (s *deleteStream) SetHeader(md metadata.MD) error {
	s.size = md.Get("frazil-object-size")[0]
	return nil
}
func (s *deleteStream) SendHeader(metadata.MD) error { return nil }
func (s *deleteStream) Send(m *dedupv1.ReadDeletesResponse) error {
	s.data = append(s.data, m.GetData()...)
	return nil
}

// keys answers the data keys of a snapshot, and the snapshots that added them.
func (w *world) keys(st *dedupv1.TableState, snap *dedupv1.Snapshot) map[string]int64 {
	w.t.Helper()
	out := map[string]int64{}
	for _, ref := range snap.GetGroups() {
		g, err := w.GetManifestGroup(w.t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: ref.GetName()})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range g.GetEntries() {
			out[e.GetDataKey()] = e.GetAddedSnapshotId()
		}
	}
	return out
}

func put(keys ...int) []event {
	var out []event
	for _, k := range keys {
		out = append(out, event{layout.Row, k})
	}
	return out
}

func random(r *rand.Rand, n int) []event {
	var out []event
	for range n {
		e := event{layout.Row, r.IntN(6)}
		switch x := r.Float64(); {
		case x < .2:
			e.class = layout.Delete
		case x < .25:
			e.class = layout.Gap
		case x < .3:
			e.class = layout.NonRow
		}
		out = append(out, e)
	}
	return out
}

func sortedKeys(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want one that is %v", err, kind)
	}
}

// loseRun removes or damages a run file.
func (w *world) loseRun(r *rand.Rand) {
	w.t.Helper()
	w.restart()
	dirs := map[string][]fsys.Info{}
	for p := range w.topic.logs {
		rec, _, err := w.Service.store.Record(w.t.Context(), kafkapos.TopicID(bytes.Repeat([]byte{w.id}, 16)))
		if err != nil {
			w.t.Fatal(err)
		}
		dir := fmt.Sprintf("runs/%s-%d", rec.Epoch, p)
		if infos, err := w.disk.List(dir); err == nil {
			dirs[dir] = infos
		}
	}
	for dir, infos := range dirs {
		for _, i := range infos {
			switch x := r.IntN(4); {
			case x == 0:
				if err := w.disk.Remove(dir + "/" + i.Name); err != nil {
					w.t.Fatal(err)
				}
			case x == 1 && i.Size > 0: // a process that ended while it merged runs may leave an empty file
				w.disk.Corrupt(dir+"/"+i.Name, r.Int64N(i.Size))
			}
		}
	}
}

// start is a log start that retention could move to in a log with that end.
func start(end int, r *rand.Rand) kafkapos.Offset { return kafkapos.Offset(r.IntN(end+1) / 2) }

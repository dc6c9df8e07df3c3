package materializer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/memlog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/objectname"
	frpc "github.com/frazil-io/frazil/libs/rpc"
	"github.com/frazil-io/frazil/libs/schema"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/materializer"
)

const (
	topicName = "orders"
	epoch     = "abcdefghij234567"
	blockLog2 = 10
)

// dedup answers what was recorded in it.
type dedup struct {
	dedupv1.DedupServiceClient
	mu    sync.Mutex
	files map[string]*dedupv1.DescribeDataFileResponse
	asked int
	err   error
}

func (d *dedup) DescribeDataFile(_ context.Context, req *dedupv1.DescribeDataFileRequest, _ ...grpc.CallOption) (*dedupv1.DescribeDataFileResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.err != nil {
		return nil, d.err
	}
	f := d.files[req.GetObjectKey()]
	if f == nil {
		return nil, fmt.Errorf("describe: %w", fault.ErrNotFound)
	}
	return f, nil
}

// gate is a reader whose reads can be held up, and are counted.
type gate struct {
	kafkalog.Reader
	mu   sync.Mutex
	shut chan struct{} // reads wait for it to be closed; nil = open
	seen chan struct{} // one message per read that came
}

func (g *gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := make(chan struct{})
	g.shut = shut
	return func() {
		g.mu.Lock()
		g.shut = nil
		g.mu.Unlock()
		close(shut)
	}
}

func (g *gate) Read(ctx context.Context, t kafkalog.Topic, p kafkapos.Partition, rng kafkapos.Range, v kafkalog.Visitor) (kafkalog.Result, error) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		g.seen <- struct{}{}
		select {
		case <-shut:
		case <-ctx.Done():
			return kafkalog.Result{}, context.Cause(ctx)
		}
	}
	return g.Reader.Read(ctx, t, p, rng, v)
}

// world is a topic and what is around a materializer.
type world struct {
	t       *testing.T
	kafka   *memlog.Cluster
	topic   kafkalog.Topic
	reader  *gate
	dedup   *dedup
	disk    *fsys.Mem
	cfg     materializer.Config
	service *materializer.Service
	client  materializerv1.MaterializerServiceClient
}

func newWorld(t *testing.T, change ...func(*materializer.Config)) *world {
	t.Helper()
	w := &world{t: t, kafka: memlog.New("cluster"), dedup: &dedup{files: map[string]*dedupv1.DescribeDataFileResponse{}}, disk: fsys.NewMem()}
	var err error
	if w.topic, err = w.kafka.CreateTopic(topicName, 2); err != nil {
		t.Fatal(err)
	}
	w.reader = &gate{Reader: w.kafka, seen: make(chan struct{}, 100)}
	w.cfg = materializer.Default()
	w.cfg.CacheDir = "/cache"
	for _, f := range change {
		f(&w.cfg)
	}
	w.start()
	return w
}

// start runs a materializer on what is there; an earlier one goes on until the test ends.
func (w *world) start() {
	w.t.Helper()
	s, err := materializer.New(w.cfg, materializer.Deps{
		Metadata: w.kafka, Reader: w.reader, Dedup: w.dedup, Files: w.disk,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Meter: noop.NewMeterProvider().Meter("test"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
	<-s.Ready()
	pipe := frpc.NewPipe()
	srv := grpc.NewServer(frpc.ServerOptions()...)
	materializerv1.RegisterMaterializerServiceServer(srv, s)
	wg.Go(func() { _ = srv.Serve(pipe.Listener()) })
	cc, err := pipe.Dial("materializer")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cc.Close()
		srv.Stop()
		cancel()
		wg.Wait()
	})
	w.service, w.client = s, materializerv1.NewMaterializerServiceClient(cc)
}

// upsert is a record of key k at version v; del is its tombstone.
func upsert(k, v int) kafkalog.Record {
	return kafkalog.Record{
		TimestampMs: int64(1_700_000_000_000 + v), Key: fmt.Appendf(nil, `{"id":%d}`, k),
		Value: fmt.Appendf(nil, `{"id":%d,"name":"name of %d at %d","amount":%d.5}`, k, k, v, v%97),
	}
}

func del(k int) kafkalog.Record {
	return kafkalog.Record{TimestampMs: 1_700_000_000_000, Key: fmt.Appendf(nil, `{"id":%d}`, k)}
}

func (w *world) append(recs ...kafkalog.Record) {
	w.t.Helper()
	if _, err := w.kafka.Append(topicName, 0, recs...); err != nil {
		w.t.Fatal(err)
	}
}

// fill appends n events over 300 keys, every ninth a delete.
func (w *world) fill(n int) {
	w.t.Helper()
	recs := make([]kafkalog.Record, 0, n)
	for i := range n {
		if i%9 == 8 {
			recs = append(recs, del(i*7%300))
		} else {
			recs = append(recs, upsert(i*7%300, i))
		}
	}
	w.append(recs...)
}

func (w *world) spec() *typesv1.TableSpec {
	field := func(id int32, name string, k schema.Kind, required bool) schema.Field {
		return schema.Field{ID: id, Name: name, Type: schema.Type{Kind: k}, Required: required}
	}
	text, err := (&schema.Schema{Fields: []schema.Field{
		field(schema.PartitionFieldID, schema.PartitionColumn, schema.Int, true),
		field(schema.OffsetFieldID, schema.OffsetColumn, schema.Long, true),
		field(schema.TimestampFieldID, schema.TimestampColumn, schema.Timestamptz, true),
		field(4, "id", schema.Long, false), field(5, "name", schema.String, false), field(6, "amount", schema.Double, false),
	}}).MarshalJSON()
	if err != nil {
		w.t.Fatal(err)
	}
	return &typesv1.TableSpec{
		Topic:      &typesv1.TopicRef{ClusterId: "cluster", TopicId: w.topic.ID[:], Topic: topicName},
		StateEpoch: epoch, HashKey: []byte("0123456789abcdef"), SchemaJson: text, View: objectname.Current,
		Decoding: &typesv1.Decoding{
			KeyFormat: decode.FormatJSON, ValueFormat: decode.FormatJSON, Envelope: decode.EnvelopeUpsert, KeyFields: []string{"id"},
		},
	}
}

// scanned is a whole ScanKeys stream.
type scanned struct {
	header  *materializerv1.ScanHeader
	classes map[int64]layout.Class
	hashes  map[int64]string
	nonrows []kafkapos.Range
	bad     map[int64]string
	groups  []*typesv1.RowGroup
	trailer *materializerv1.ScanTrailer
	batches int
}

func (w *world) scan(rng kafkapos.Range, groups ...kafkapos.Range) (*scanned, error) {
	w.t.Helper()
	req := &materializerv1.ScanKeysRequest{Table: w.spec(), Partition: 0, Start: int64(rng.Start), End: int64(rng.End)}
	for _, g := range groups {
		req.RowGroups = append(req.RowGroups, &typesv1.OffsetRange{Start: int64(g.Start), End: int64(g.End)})
	}
	stream, err := w.client.ScanKeys(w.t.Context(), req)
	if err != nil {
		return nil, err
	}
	out := &scanned{classes: map[int64]layout.Class{}, hashes: map[int64]string{}, bad: map[int64]string{}}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		switch p := m.GetPart().(type) {
		case *materializerv1.ScanKeysResponse_Header:
			out.header = p.Header
		case *materializerv1.ScanKeysResponse_Keys:
			out.keys(w.t, p.Keys)
		case *materializerv1.ScanKeysResponse_Bad:
			out.bad[p.Bad.GetOffset()] = p.Bad.GetReason()
		case *materializerv1.ScanKeysResponse_RowGroup:
			out.groups = append(out.groups, p.RowGroup)
		case *materializerv1.ScanKeysResponse_Trailer:
			out.trailer = p.Trailer
		}
	}
}

func (s *scanned) keys(t *testing.T, k *materializerv1.KeyBatch) {
	t.Helper()
	s.batches++
	off, at := k.GetBaseOffset(), 0
	for i, c := range k.GetClasses() {
		d, n := uvarint(k.GetOffsets()[at:])
		at += n
		off += d
		s.classes[off] = layout.Class(c)
		s.hashes[off] = string(k.GetKeyHashes()[i*10 : i*10+10])
	}
	if at != len(k.GetOffsets()) || len(k.GetKeyHashes()) != 10*len(k.GetClasses()) {
		t.Errorf("batch of %d events has %d bytes of offsets, %d read, and %d of hashes", len(k.GetClasses()), len(k.GetOffsets()), at, len(k.GetKeyHashes()))
	}
	for _, r := range k.GetNonrows() {
		s.nonrows = append(s.nonrows, kafkapos.Range{Start: kafkapos.Offset(r.GetStart()), End: kafkapos.Offset(r.GetEnd())})
	}
}

func uvarint(b []byte) (int64, int) {
	v, shift := int64(0), 0
	for i, c := range b {
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			return v, i + 1
		}
		shift += 7
	}
	return 0, 0
}

// publish scans a range, records its row groups and answers the object key of its data file.
func (w *world) publish(rng kafkapos.Range) string {
	w.t.Helper()
	s, err := w.scan(rng, layout.RowGroups(rng, blockLog2)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.record(rng, s)
}

func (w *world) record(rng kafkapos.Range, s *scanned) string {
	size := s.header.GetFileBaseBytes()
	resp := &dedupv1.DescribeDataFileResponse{Table: w.spec()}
	for _, g := range s.groups {
		if g.GetRows() > 0 {
			size += g.GetSizeBytes() + g.GetTailBytes()
			resp.RowGroups = append(resp.RowGroups, g)
		}
	}
	key := objectname.DataFile{
		Table: objectname.Table{Name: topicName, Epoch: epoch}, View: objectname.Current, Range: rng, Edition: 1, BlockLog2: blockLog2,
		FileSchema: s.header.GetFileSchema(), Encoding: s.header.GetEncodingId(), Size: size,
	}.Signed([16]byte{1}).Key()
	w.dedup.mu.Lock()
	w.dedup.files[key] = resp
	w.dedup.mu.Unlock()
	return key
}

func sizeOf(t *testing.T, key string) int64 {
	t.Helper()
	obj, err := objectname.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := obj.(objectname.DataFile)
	return d.Size
}

func (w *world) read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	stream, err := w.client.ReadData(ctx, &materializerv1.ReadDataRequest{ObjectKey: key, Offset: off, Length: n}, frpc.BulkCallOption())
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return out.Bytes(), nil
		}
		if err != nil {
			return out.Bytes(), err
		}
		out.Write(m.GetData())
	}
}

func (w *world) readAll(key string) []byte {
	w.t.Helper()
	b, err := w.read(w.t.Context(), key, 0, sizeOf(w.t, key))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func name(k, v int) string { return "name of " + strconv.Itoa(k) + " at " + strconv.Itoa(v) }

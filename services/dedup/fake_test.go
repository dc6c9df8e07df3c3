package dedup

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/schema"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// event is one offset of a fake log: layout.Row, Delete, NonRow, Bad, Truncate or Gap of a key.
type event struct {
	class layout.Class
	key   int
}

// fakeTopic is a topic, and a materializer that reads it. Bytes of row groups are a function of their rows and the encoding.
type fakeTopic struct {
	mu     sync.Mutex
	logs   [][]event
	starts []kafkapos.Offset
	epochs []int32
	// elected are the leaders that elect has made, per partition.
	elected  [][]elected
	encoding string
	// fail, if set, is asked before every scan.
	fail func(p kafkapos.Partition, rng kafkapos.Range) error
	// scan, if set, is called before every scan, without the lock.
	scan func(rng kafkapos.Range)
	// scanned counts, per partition and offset, how often its key was projected for the first time or again.
	scanned []map[kafkapos.Offset]int
	noData  bool // DiscoverSchema finds nothing
}

func newFakeTopic(partitions int) *fakeTopic {
	f := &fakeTopic{
		logs: make([][]event, partitions), starts: make([]kafkapos.Offset, partitions), epochs: make([]int32, partitions),
		elected: make([][]elected, partitions), encoding: "encodinga2",
	}
	f.resetScanned()
	return f
}

func (f *fakeTopic) resetScanned() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scanned = nil
	for range f.logs {
		f.scanned = append(f.scanned, map[kafkapos.Offset]int{})
	}
}

func (f *fakeTopic) append(p int, events ...event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[p] = append(f.logs[p], events...)
}

// addPartition makes a partition more.
func (f *fakeTopic) addPartition(events ...event) {
	f.logs, f.starts, f.epochs, f.elected = append(f.logs, events), append(f.starts, 0), append(f.epochs, 0), append(f.elected, nil)
	f.scanned = append(f.scanned, map[kafkapos.Offset]int{})
}

// elected is the leader that wrote the offsets from start on.
type elected struct {
	epoch int32
	start kafkapos.Offset
}

// elect makes another leader, whose log ends at end: what lies above is cut off.
func (f *fakeTopic) elect(p int, end kafkapos.Offset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[p] = slices.Clone(f.logs[p][:end])
	f.epochs[p]++
	f.elected[p] = append(f.elected[p], elected{f.epochs[p], end})
}

// writer answers the leader epoch under which an offset was written, -1 below the first.
func (f *fakeTopic) writer(p kafkapos.Partition, off kafkapos.Offset) int32 {
	if off < 0 {
		return -1
	}
	epoch := int32(0)
	for _, e := range f.elected[p] {
		if off >= e.start {
			epoch = e.epoch
		}
	}
	return epoch
}

// DiscoverSchema implements materializerv1.MaterializerServiceClient.
func (f *fakeTopic) DiscoverSchema(context.Context, *materializerv1.DiscoverSchemaRequest, ...grpc.CallOption) (*materializerv1.DiscoverSchemaResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &materializerv1.DiscoverSchemaResponse{Decoding: &typesv1.Decoding{
		KeyFormat: "json", ValueFormat: "json", Envelope: "upsert", KeyFields: []string{"id"},
	}}
	if f.noData {
		return resp, nil
	}
	writer := &schema.Schema{Fields: []schema.Field{{ID: 1, Name: "id", Type: schema.Type{Kind: schema.Long}}}}
	raw, err := writer.MarshalJSON()
	if err != nil {
		return nil, err
	}
	resp.WriterSchemasJson = [][]byte{raw}
	for _, l := range f.logs {
		if len(l) > 0 {
			resp.BytesPerOffset = 100
		}
	}
	return resp, nil
}

// ReadData implements materializerv1.MaterializerServiceClient.
func (f *fakeTopic) ReadData(context.Context, *materializerv1.ReadDataRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[materializerv1.ReadDataResponse], error) {
	return nil, fault.ErrUnsupported
}

// ScanKeys implements materializerv1.MaterializerServiceClient.
func (f *fakeTopic) ScanKeys(
	_ context.Context, req *materializerv1.ScanKeysRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[materializerv1.ScanKeysResponse], error) {
	if f.scan != nil {
		f.scan(kafkapos.Range{Start: kafkapos.Offset(req.GetStart()), End: kafkapos.Offset(req.GetEnd())})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, rng := kafkapos.Partition(req.GetPartition()), kafkapos.Range{Start: kafkapos.Offset(req.GetStart()), End: kafkapos.Offset(req.GetEnd())}
	if f.fail != nil {
		if err := f.fail(p, rng); err != nil {
			return nil, err
		}
	}
	low := rng.Start
	for _, g := range req.GetRowGroups() {
		low = min(low, kafkapos.Offset(g.GetStart()))
	}
	if !rng.Empty() && low < f.starts[p] || int(rng.End) > len(f.logs[p]) {
		return nil, fmt.Errorf("range %s of a log [%d,%d): %w", rng, f.starts[p], len(f.logs[p]), fault.ErrRetired)
	}
	s := &fakeStream{}
	s.add(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Header{Header: &materializerv1.ScanHeader{
		EncodingId: f.encoding, FileSchema: "schemaaaa2", FileBaseBytes: 12,
	}}})
	f.project(s, p, rng)
	for _, g := range req.GetRowGroups() {
		s.add(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_RowGroup{
			RowGroup: f.rowGroup(p, kafkapos.Range{Start: kafkapos.Offset(g.GetStart()), End: kafkapos.Offset(g.GetEnd())}),
		}})
	}
	s.add(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Trailer{Trailer: &materializerv1.ScanTrailer{
		Position: int64(rng.End), LogStartOffset: int64(f.starts[p]), LeaderEpoch: f.writer(p, rng.End-1),
	}}})
	return s, nil
}

// project adds the key batches of a range, three events each.
func (f *fakeTopic) project(s *fakeStream, p kafkapos.Partition, rng kafkapos.Range) {
	b := &materializerv1.KeyBatch{BaseOffset: int64(rng.Start)}
	at := rng.Start
	send := func() {
		s.add(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Keys{Keys: b}})
		b = &materializerv1.KeyBatch{BaseOffset: int64(at)}
	}
	for off := rng.Start; off < rng.End; off++ {
		f.scanned[p][off]++
		e := f.logs[p][off]
		switch e.class {
		case layout.Gap:
			continue
		case layout.NonRow:
			b.Nonrows = append(b.Nonrows, &typesv1.OffsetRange{Start: int64(off), End: int64(off) + 1})
			continue
		case layout.Bad:
			s.add(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Bad{
				Bad: &materializerv1.BadRecord{Offset: int64(off), Reason: "value is no JSON"},
			}})
		}
		b.Offsets = binary.AppendUvarint(b.Offsets, uint64(off-at))
		b.Classes = append(b.Classes, byte(e.class))
		b.KeyHashes = append(b.KeyHashes, hashOf(e)...)
		at = off
		if len(b.Classes) == 3 {
			send()
		}
	}
	send()
}

// hashOf is a key hash: of the key for events that have one, else zeros.
func hashOf(e event) []byte {
	h := make([]byte, 10)
	if e.class == layout.Row || e.class == layout.Delete {
		binary.BigEndian.PutUint64(h, uint64(e.key)*0x9e3779b97f4a7c15)
		h[9] = byte(e.key)
	}
	return h
}

// rowGroup is what is recorded of a row group: everything follows from its rows.
func (f *fakeTopic) rowGroup(p kafkapos.Partition, rng kafkapos.Range) *typesv1.RowGroup {
	var pages []byte
	low, high := int64(-1), int64(-1)
	rows := int64(0)
	for off := rng.Start; off < rng.End; off++ {
		if e := f.logs[p][off]; e.class == layout.Row {
			pages = fmt.Appendf(pages, "%d=%d;", off, e.key)
			rows++
			if low < 0 {
				low = int64(off)
			}
			high = int64(off)
		}
	}
	g := &typesv1.RowGroup{
		Range: &typesv1.OffsetRange{Start: int64(rng.Start), End: int64(rng.End)}, Rows: rows,
		SizeBytes: int64(len(pages)), Crc: crc32.ChecksumIEEE(append(pages, f.encoding...)),
	}
	if rows > 0 {
		g.TailBytes = 7
		g.Columns = []*typesv1.ColumnBounds{{
			FieldId: schema.OffsetFieldID, ValueCount: rows,
			Lower: binary.LittleEndian.AppendUint64(nil, uint64(low)), Upper: binary.LittleEndian.AppendUint64(nil, uint64(high)),
		}}
	}
	return g
}

// fakeStream plays messages back.
type fakeStream struct {
	grpc.ClientStream
	parts []*materializerv1.ScanKeysResponse
}

func (s *fakeStream) add(m *materializerv1.ScanKeysResponse) { s.parts = append(s.parts, m) }

// Recv implements grpc.ServerStreamingClient.
func (s *fakeStream) Recv() (*materializerv1.ScanKeysResponse, error) {
	if len(s.parts) == 0 {
		return nil, io.EOF
	}
	m := s.parts[0]
	s.parts = s.parts[1:]
	return m, nil
}

// fold is the oracle: the dullest forward fold there is.
func fold(log []event, start, end kafkapos.Offset) []kafkapos.Offset {
	at := map[int]kafkapos.Offset{}
	for off := start; off < end; off++ {
		switch e := log[off]; e.class {
		case layout.Row:
			at[e.key] = off
		case layout.Delete:
			delete(at, e.key)
		}
	}
	var live []kafkapos.Offset
	for _, off := range at {
		live = append(live, off)
	}
	slices.Sort(live)
	return live
}

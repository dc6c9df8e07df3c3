package rpc

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/parquetio"
	frpc "github.com/frazil-io/frazil/libs/rpc"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/materializer/internal/build"
	"github.com/frazil-io/frazil/services/materializer/internal/serve"
)

// Parts is what a Server stands on.
type Parts struct {
	Metadata kafkalog.Metadata
	Builder  *build.Builder
	Blocks   *serve.Blocks
	Files    *serve.Files
	Scans    *Slots
}

// Server implements the generated service. Safe for concurrent use.
type Server struct {
	materializerv1.UnimplementedMaterializerServiceServer
	parts  Parts
	pieces *frpc.Pool // of data files
}

// NewServer makes a server of its parts.
func NewServer(parts Parts) *Server { return &Server{parts: parts, pieces: frpc.NewPool()} }

// DiscoverSchema implements the service.
func (s *Server) DiscoverSchema(ctx context.Context, req *materializerv1.DiscoverSchemaRequest) (*materializerv1.DiscoverSchemaResponse, error) {
	d, err := s.discover(ctx, req)
	if err != nil {
		return nil, frpc.Status(err)
	}
	out := &materializerv1.DiscoverSchemaResponse{Decoding: wireDecoding(d.Decoding), BytesPerOffset: d.BytesPerOffset}
	for _, w := range d.Writers {
		text, err := w.MarshalJSON()
		if err != nil {
			return nil, frpc.Status(fmt.Errorf("write schema: %w", err))
		}
		out.WriterSchemasJson = append(out.WriterSchemasJson, text)
	}
	return out, nil
}

func (s *Server) discover(ctx context.Context, req *materializerv1.DiscoverSchemaRequest) (build.Discovery, error) {
	ref, err := topicOf(req.GetTopic())
	if err != nil {
		return build.Discovery{}, err
	}
	topic, err := s.parts.Metadata.Topic(ctx, ref.Name)
	if err != nil {
		return build.Discovery{}, err
	}
	if topic.ID != ref.ID {
		return build.Discovery{}, fmt.Errorf("topic %s is another incarnation: %w", ref.Name, fault.ErrRetired)
	}
	ranges := map[kafkapos.Partition]kafkapos.Range{}
	for p, r := range req.GetRanges() {
		ranges[kafkapos.Partition(p)] = rangeOf(r)
	}
	release, err := s.parts.Scans.Acquire(ctx)
	if err != nil {
		return build.Discovery{}, err
	}
	defer release()
	return s.parts.Builder.Discover(ctx, topic, ranges)
}

// ScanKeys implements the service.
func (s *Server) ScanKeys(req *materializerv1.ScanKeysRequest, stream grpc.ServerStreamingServer[materializerv1.ScanKeysResponse]) error {
	return frpc.Status(s.scan(req, stream))
}

func (s *Server) scan(req *materializerv1.ScanKeysRequest, stream grpc.ServerStreamingServer[materializerv1.ScanKeysResponse]) error {
	ctx := stream.Context()
	spec, err := specOf(req.GetTable())
	if err != nil {
		return err
	}
	table, err := build.Compile(spec)
	if err != nil {
		return err
	}
	r := build.Request{
		Table: table, Partition: kafkapos.Partition(req.GetPartition()),
		Range: kafkapos.Range{Start: kafkapos.Offset(req.GetStart()), End: kafkapos.Offset(req.GetEnd())},
	}
	for _, g := range req.GetRowGroups() {
		r.Groups = append(r.Groups, rangeOf(g))
	}
	release, err := s.parts.Scans.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := stream.Send(header(table)); err != nil {
		return err
	}
	sink := &scanSink{blocks: s.parts.Blocks, req: &r, stream: stream}
	res, err := s.parts.Builder.Scan(ctx, r, sink)
	if err != nil {
		return fmt.Errorf("scan %s of %s/%d: %w", r.Range, table.Topic.Name, r.Partition, err)
	}
	return sink.finish(res)
}

func header(t *build.Table) *materializerv1.ScanKeysResponse {
	return &materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Header{Header: &materializerv1.ScanHeader{
		EncodingId: t.EncodingID, FileSchema: t.FileSchema, FileBaseBytes: t.Encoder.FileBase(),
	}}}
}

// scanSink streams a pass. What is said of row groups is small and waits for the last key batch.
type scanSink struct {
	blocks *serve.Blocks
	req    *build.Request
	stream grpc.ServerStreamingServer[materializerv1.ScanKeysResponse]
	groups []*typesv1.RowGroup
}

// Keys implements build.Sink. The batch is copied: a message may be read after Send has returned.
func (s *scanSink) Keys(k *build.Keys) error {
	out := &materializerv1.KeyBatch{
		BaseOffset: int64(k.Base), Offsets: slices.Clone(k.Offsets), Classes: slices.Clone(k.Classes), KeyHashes: slices.Clone(k.KeyHashes),
	}
	for _, r := range k.NonRows {
		out.Nonrows = append(out.Nonrows, wireRange(r))
	}
	return s.stream.Send(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Keys{Keys: out}})
}

// Bad implements build.Sink.
func (s *scanSink) Bad(off kafkapos.Offset, reason string) error {
	return s.stream.Send(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Bad{
		Bad: &materializerv1.BadRecord{Offset: int64(off), Reason: reason},
	}})
}

// RowGroup implements build.Sink.
func (s *scanSink) RowGroup(i int, rg parquetio.RowGroup) error {
	rng := s.req.Groups[i]
	s.blocks.Store(s.stream.Context(), s.req.Table, s.req.Partition, rng, rg)
	s.groups = append(s.groups, wireRowGroup(rng, rg))
	return nil
}

func (s *scanSink) finish(res build.Result) error {
	for _, g := range s.groups {
		if err := s.stream.Send(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_RowGroup{RowGroup: g}}); err != nil {
			return err
		}
	}
	return s.stream.Send(&materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Trailer{
		Trailer: &materializerv1.ScanTrailer{
			Position: int64(s.req.Range.End), LogStartOffset: int64(res.LogStart), LeaderEpoch: int32(res.LeaderEpoch),
			Events: res.Events, Bytes: res.Bytes,
		},
	}})
}

// ReadData implements the service.
func (s *Server) ReadData(req *materializerv1.ReadDataRequest, stream grpc.ServerStreamingServer[materializerv1.ReadDataResponse]) error {
	to := sender{stream: stream, pool: s.pieces}
	return frpc.Status(s.parts.Files.Read(stream.Context(), req.GetObjectKey(), req.GetOffset(), req.GetLength(), to))
}

// sender sends pieces in pooled memory, which goes back to the pool when the transport is done with it.
type sender struct {
	stream grpc.ServerStream
	pool   mem.BufferPool
}

// Send implements serve.Sender.
func (s sender) Send(n int, fill func([]byte) error) error {
	buf := s.pool.Get(n)
	if err := fill((*buf)[:n]); err != nil {
		s.pool.Put(buf)
		return err
	}
	*buf = (*buf)[:n]
	return s.stream.SendMsg(frpc.NewFrame(mem.NewBuffer(buf, s.pool)))
}

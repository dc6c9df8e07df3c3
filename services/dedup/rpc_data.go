package dedup

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/render"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// pieceBytes is about the length of one message of a bulk stream.
const pieceBytes = 256 << 10

// sizeHeader is the gRPC header with the length of the whole object.
const sizeHeader = "frazil-object-size"

// DescribeDataFile implements dedupv1.DedupServiceServer.
func (s *Service) DescribeDataFile(ctx context.Context, req *dedupv1.DescribeDataFileRequest) (*dedupv1.DescribeDataFileResponse, error) {
	obj, err := objectname.Parse(req.GetObjectKey())
	if err != nil {
		return nil, err
	}
	d, ok := obj.(objectname.DataFile)
	if !ok {
		return nil, fmt.Errorf("%w: not a data file", fault.ErrNotFound)
	}
	rec, err := s.resolve(ctx, d.Table.Epoch)
	if err != nil {
		return nil, err
	}
	if err := render.Issued(rec, d); err != nil {
		return nil, err
	}
	var groups []*typesv1.RowGroup
	var schemaID int32
	err = s.whole(ctx, rec, func() (err error) {
		groups, schemaID, err = s.describe(ctx, rec, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	if int(schemaID) >= len(rec.Schemas) {
		return nil, fmt.Errorf("schema %d of %d: %w", schemaID, len(rec.Schemas), fault.ErrCorrupt)
	}
	return &dedupv1.DescribeDataFileResponse{Table: tableSpec(rec, schemaID), RowGroups: groups}, nil
}

// ReadDeletes implements dedupv1.DedupServiceServer.
func (s *Service) ReadDeletes(req *dedupv1.ReadDeletesRequest, stream grpc.ServerStreamingServer[dedupv1.ReadDeletesResponse]) error {
	off, n := req.GetOffset(), req.GetLength()
	if off < 0 || n < 0 {
		return fmt.Errorf("read %d bytes at %d: %w", n, off, fault.ErrInvalid)
	}
	rec, d, err := s.issuedDeletes(stream.Context(), req.GetObjectKey())
	if err != nil {
		return err
	}
	if n == 0 && d.Dialect == objectname.V2 && render.IsRoom(d.Data) {
		size, err := s.roomDeletesSize(stream.Context(), rec, d)
		if err != nil {
			return err
		}
		if err := stream.SetHeader(metadata.Pairs(sizeHeader, strconv.FormatInt(size, 10))); err != nil {
			return err
		}
		return stream.SendHeader(nil)
	}
	object, err := s.deleteObject(stream.Context(), rec, d)
	if err != nil {
		return err
	}
	off = min(off, object.Size())
	n = min(n, object.Size()-off)
	if err := stream.SetHeader(metadata.Pairs(sizeHeader, strconv.FormatInt(object.Size(), 10))); err != nil {
		return err
	}
	if n == 0 {
		return stream.SendHeader(nil)
	}
	w := &pieces{stream: stream}
	if err := object.WriteRange(w, off, n); err != nil {
		return err
	}
	return w.flush()
}

// issuedDeletes answers what the key of a delete file names, and the record of its table.
func (s *Service) issuedDeletes(ctx context.Context, key string) (*state.Record, objectname.Deletes, error) {
	obj, err := objectname.Parse(key)
	if err != nil {
		return nil, objectname.Deletes{}, err
	}
	d, ok := obj.(objectname.Deletes)
	if !ok {
		return nil, objectname.Deletes{}, fmt.Errorf("%w: not a delete file", fault.ErrNotFound)
	}
	rec, err := s.resolve(ctx, d.Data.Table.Epoch)
	if err != nil {
		return nil, objectname.Deletes{}, err
	}
	return rec, d, render.Issued(rec, d.Data)
}

// deleteObject answers the delete file of an issued name; of a room, when it was walked down to.
func (s *Service) deleteObject(ctx context.Context, rec *state.Record, d objectname.Deletes) (out render.Object, err error) {
	err = s.whole(ctx, rec, func() (err error) {
		if render.IsRoom(d.Data) && d.Dialect == objectname.V2 {
			if err := s.passed(ctx, rec, d.Data); err != nil {
				return err
			}
		}
		out, err = s.deletes.Deletes(ctx, rec, d)
		return err
	})
	return out, err
}

// pieces sends what is written to it in messages of a fair length.
type pieces struct {
	stream grpc.ServerStreamingServer[dedupv1.ReadDeletesResponse]
	buf    []byte
}

// Write implements io.Writer.
func (p *pieces) Write(b []byte) (int, error) {
	p.buf = append(p.buf, b...)
	if len(p.buf) >= pieceBytes {
		return len(b), p.flush()
	}
	return len(b), nil
}

// flush sends what is left. The message owns its bytes: the codec does not copy them.
func (p *pieces) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	err := p.stream.Send(&dedupv1.ReadDeletesResponse{Data: p.buf})
	p.buf = nil
	return err
}

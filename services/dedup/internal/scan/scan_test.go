package scan

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// played is a materializer that plays a stream.
type played struct {
	materializerv1.MaterializerServiceClient
	grpc.ClientStream
	parts []*materializerv1.ScanKeysResponse
}

func (p *played) ScanKeys(context.Context, *materializerv1.ScanKeysRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[materializerv1.ScanKeysResponse], error) {
	return p, nil
}

func (p *played) Recv() (*materializerv1.ScanKeysResponse, error) {
	if len(p.parts) == 0 {
		return nil, io.EOF
	}
	m := p.parts[0]
	p.parts = p.parts[1:]
	return m, nil
}

func header() *materializerv1.ScanKeysResponse {
	return &materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Header{Header: &materializerv1.ScanHeader{EncodingId: "e"}}}
}

func trailer(at int64) *materializerv1.ScanKeysResponse {
	return &materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Trailer{Trailer: &materializerv1.ScanTrailer{Position: at}}}
}

func keys(base int64, offsets []byte, classes ...byte) *materializerv1.ScanKeysResponse {
	return &materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Keys{Keys: &materializerv1.KeyBatch{
		BaseOffset: base, Offsets: offsets, Classes: classes, KeyHashes: make([]byte, 10*len(classes)),
	}}}
}

func group(start, end int64) *materializerv1.ScanKeysResponse {
	return &materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_RowGroup{
		RowGroup: &typesv1.RowGroup{Range: &typesv1.OffsetRange{Start: start, End: end}},
	}}
}

func bad(off int64) *materializerv1.ScanKeysResponse {
	return &materializerv1.ScanKeysResponse{Part: &materializerv1.ScanKeysResponse_Bad{Bad: &materializerv1.BadRecord{Offset: off, Reason: "no JSON"}}}
}

func request() Request {
	return Request{
		Range: kafkapos.Range{Start: 16, End: 24}, ChunkLog2: 4, RowGroups: []kafkapos.Range{{Start: 16, End: 20}, {Start: 20, End: 24}},
	}
}

func TestRead(t *testing.T) {
	res, err := Read(t.Context(), &played{parts: []*materializerv1.ScanKeysResponse{
		header(), keys(16, []byte{0, 1, 2}, 1, 2, 1), keys(19, []byte{3}, 1), group(16, 20), group(20, 24), trailer(24),
	}}, request())
	if err != nil {
		t.Fatal(err)
	}
	var offsets []kafkapos.Offset
	for _, e := range res.Events {
		offsets = append(offsets, e.Offset)
	}
	if len(offsets) != 4 || offsets[1] != 17 || offsets[2] != 19 || offsets[3] != 22 || res.Scanned != 4 || len(res.RowGroups) != 2 {
		t.Fatalf("events %v of %+v", offsets, res)
	}
	for off, want := range map[kafkapos.Offset]layout.Class{16: layout.Row, 17: layout.Delete, 18: layout.Gap, 22: layout.Row} {
		if got, ok := res.Layouts[0].Class(off); got != want || !ok {
			t.Errorf("offset %d is %d, want %d", off, got, want)
		}
	}
}

func TestBrokenStreams(t *testing.T) {
	both := []*materializerv1.ScanKeysResponse{group(16, 20), group(20, 24)}
	for name, c := range map[string]struct {
		parts []*materializerv1.ScanKeysResponse
		kind  error
	}{
		"ends early":                    {append([]*materializerv1.ScanKeysResponse{header()}, both...), fault.ErrUnavailable},
		"no header":                     {append(append([]*materializerv1.ScanKeysResponse{}, both...), trailer(24)), fault.ErrUnavailable},
		"another end":                   {append(append([]*materializerv1.ScanKeysResponse{header()}, both...), trailer(23)), fault.ErrCorrupt},
		"goes on after the trailer":     {append(append([]*materializerv1.ScanKeysResponse{header()}, both...), trailer(24), keys(16, nil)), fault.ErrCorrupt},
		"lacks a row group":             {[]*materializerv1.ScanKeysResponse{header(), group(16, 20), trailer(24)}, fault.ErrCorrupt},
		"another row group":             {[]*materializerv1.ScanKeysResponse{header(), group(16, 21), group(20, 24), trailer(24)}, fault.ErrCorrupt},
		"a row group too many":          {append(append([]*materializerv1.ScanKeysResponse{header()}, both...), group(24, 28), trailer(24)), fault.ErrCorrupt},
		"an offset twice":               {[]*materializerv1.ScanKeysResponse{header(), keys(16, []byte{0, 0}, 1, 1)}, fault.ErrCorrupt},
		"an offset of the batch before": {[]*materializerv1.ScanKeysResponse{header(), keys(16, []byte{3}, 1), keys(16, []byte{2}, 1)}, fault.ErrCorrupt},
		"an offset beyond the end":      {[]*materializerv1.ScanKeysResponse{header(), keys(16, []byte{8}, 1)}, fault.ErrCorrupt},
		"an offset below the start":     {[]*materializerv1.ScanKeysResponse{header(), keys(10, []byte{0}, 1)}, fault.ErrCorrupt},
		"a huge delta":                  {[]*materializerv1.ScanKeysResponse{header(), keys(16, binary.AppendUvarint(nil, 1<<63), 1)}, fault.ErrCorrupt},
		"half a varint":                 {[]*materializerv1.ScanKeysResponse{header(), keys(16, []byte{0x80}, 1)}, fault.ErrCorrupt},
		"offsets left over":             {[]*materializerv1.ScanKeysResponse{header(), keys(16, []byte{0, 1}, 1)}, fault.ErrCorrupt},
		"an unknown class":              {[]*materializerv1.ScanKeysResponse{header(), keys(16, []byte{0}, 9)}, fault.ErrCorrupt},
		"a gap as an event":             {[]*materializerv1.ScanKeysResponse{header(), keys(16, []byte{0}, 0)}, fault.ErrCorrupt},
		"nothing in a piece":            {[]*materializerv1.ScanKeysResponse{header(), {}}, fault.ErrCorrupt},
		"hashes that do not fit": {[]*materializerv1.ScanKeysResponse{header(), {Part: &materializerv1.ScanKeysResponse_Keys{
			Keys: &materializerv1.KeyBatch{BaseOffset: 16, Offsets: []byte{0}, Classes: []byte{1}, KeyHashes: make([]byte, 9)},
		}}}, fault.ErrCorrupt},
	} {
		if _, err := Read(t.Context(), &played{parts: c.parts}, request()); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want one that is %v", name, err, c.kind)
		}
	}
}

func TestTheFirstBadRecordStops(t *testing.T) {
	parts := func() *played {
		return &played{parts: []*materializerv1.ScanKeysResponse{
			header(), bad(18), keys(16, []byte{0, 2, 2}, 1, 4, 4), bad(20), group(16, 20), group(20, 24), trailer(24),
		}}
	}
	_, err := Read(t.Context(), parts(), request())
	var stop *Blocked
	if !errors.As(err, &stop) || stop.Offset != 18 || stop.Reason != "no JSON" || !errors.Is(err, fault.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	req := request()
	req.Skip = true
	res, err := Read(t.Context(), parts(), req)
	if err != nil || len(res.Events) != 1 || res.Scanned != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
}

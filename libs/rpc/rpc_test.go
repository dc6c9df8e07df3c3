package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

// server answers what the test tells it to.
type server struct {
	materializerv1.UnimplementedMaterializerServiceServer
	discover func(ctx context.Context) error
	read     func(req *materializerv1.ReadDataRequest, s grpc.ServerStream) error
}

func (s *server) DiscoverSchema(ctx context.Context, _ *materializerv1.DiscoverSchemaRequest) (*materializerv1.DiscoverSchemaResponse, error) {
	if err := s.discover(ctx); err != nil {
		return nil, err
	}
	return &materializerv1.DiscoverSchemaResponse{BytesPerOffset: 7}, nil
}

func (s *server) ReadData(req *materializerv1.ReadDataRequest, stream grpc.ServerStreamingServer[materializerv1.ReadDataResponse]) error {
	return s.read(req, stream)
}

func start(t testing.TB, srv *server) materializerv1.MaterializerServiceClient {
	t.Helper()
	p := rpc.NewPipe()
	g := grpc.NewServer(append(rpc.ServerOptions(), p.ServerOptions()...)...)
	materializerv1.RegisterMaterializerServiceServer(g, srv)
	done := make(chan error, 1)
	go func() { done <- g.Serve(p.Listener()) }()
	cc, err := p.Dial("materializer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return materializerv1.NewMaterializerServiceClient(cc)
}

func TestKindsCrossTheWire(t *testing.T) {
	kinds := map[error]codes.Code{
		fault.ErrNotFound:        codes.NotFound,
		fault.ErrInvalid:         codes.InvalidArgument,
		fault.ErrUnauthenticated: codes.Unauthenticated,
		fault.ErrDenied:          codes.PermissionDenied,
		fault.ErrRetired:         codes.FailedPrecondition,
		fault.ErrConflict:        codes.Aborted,
		fault.ErrUnavailable:     codes.Unavailable,
		fault.ErrUnsupported:     codes.Unimplemented,
		fault.ErrCorrupt:         codes.DataLoss,
	}
	srv := &server{}
	client := start(t, srv)
	for kind, code := range kinds {
		want := fmt.Errorf("scan orders [3,9): %w", kind)
		if got := rpc.Code(want); got != code {
			t.Errorf("%v: code %v, want %v", kind, got, code)
		}
		srv.discover = func(context.Context) error { return want }
		srv.read = func(*materializerv1.ReadDataRequest, grpc.ServerStream) error { return want }
		_, unary := client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{})
		stream, err := client.ReadData(t.Context(), &materializerv1.ReadDataRequest{}, rpc.BulkCallOption())
		if err != nil {
			t.Fatal(err)
		}
		_, streamed := stream.Recv()
		for name, err := range map[string]error{"unary": unary, "stream": streamed} {
			for other := range kinds {
				if errors.Is(err, other) != (other == kind) { //nolint:errorlint // identity of the sentinel
					t.Errorf("%s %v: errors.Is(%v) = %v", name, kind, other, errors.Is(err, other))
				}
			}
			if err == nil || err.Error() != want.Error() {
				t.Errorf("%s: text %q, want %q", name, err, want)
			}
		}
	}
}

func TestContextEnds(t *testing.T) {
	srv := &server{}
	client := start(t, srv)

	// The caller's own end is the caller's own error.
	ctx, cancel := context.WithCancel(t.Context())
	srv.discover = func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }
	_, err := client.DiscoverSchema(ctx, &materializerv1.DiscoverSchemaRequest{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("cancelled by the caller: %v", err)
	}

	// A server that was cancelled by itself is unavailable.
	for _, own := range []error{context.Canceled, context.DeadlineExceeded} {
		srv.discover = func(context.Context) error { return fmt.Errorf("walk: %w", own) }
		_, err = client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{})
		if !errors.Is(err, fault.ErrUnavailable) || errors.Is(err, own) {
			t.Errorf("the server's own %v: %v", own, err)
		}
	}

	// An error without a kind counts as unavailable, and so does a status without one.
	for _, plain := range []error{io.ErrUnexpectedEOF, status.Error(codes.ResourceExhausted, "full")} {
		srv.discover = func(context.Context) error { return plain }
		_, err = client.DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{})
		if !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("%v: %v", plain, err)
		}
	}
	if err := rpc.Error(status.Error(codes.DeadlineExceeded, "late")); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("deadline: %v", err)
	}
}

// A service that is away is unavailable, and nobody learns where it was.
func TestAServiceThatIsAwayIsNotGivenAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cc, err := grpc.NewClient(address, append(rpc.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cc.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = materializerv1.NewMaterializerServiceClient(cc).DiscoverSchema(t.Context(), &materializerv1.DiscoverSchemaRequest{})
	if !errors.Is(err, fault.ErrUnavailable) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}
}

func TestBulkStream(t *testing.T) {
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(i * 31)
	}
	srv := &server{read: func(req *materializerv1.ReadDataRequest, s grpc.ServerStream) error {
		if req.GetObjectKey() != "k" || req.GetOffset() != 5 || req.GetLength() != int64(len(want)) {
			return fmt.Errorf("request arrived as %v: %w", req, fault.ErrInvalid)
		}
		// Both ways to send: the message, and pooled memory.
		if err := s.SendMsg(&materializerv1.ReadDataResponse{Data: want[:1<<20]}); err != nil {
			return err
		}
		return s.SendMsg(rpc.NewFrame(mem.SliceBuffer(want[1<<20:2<<20]), mem.SliceBuffer(want[2<<20:])))
	}}
	client := start(t, srv)
	open := func() grpc.ServerStreamingClient[materializerv1.ReadDataResponse] {
		s, err := client.ReadData(t.Context(), &materializerv1.ReadDataRequest{ObjectKey: "k", Offset: 5, Length: int64(len(want))}, rpc.BulkCallOption())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	var byMessage bytes.Buffer
	for s := open(); ; {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		byMessage.Write(m.GetData())
	}
	if !bytes.Equal(byMessage.Bytes(), want) {
		t.Error("bytes by message differ")
	}

	var byFrame bytes.Buffer
	var f rpc.Frame
	for s := open(); ; {
		err := s.RecvMsg(&f)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteTo(&byFrame); err != nil {
			t.Fatal(err)
		}
	}
	f.Free()
	if !bytes.Equal(byFrame.Bytes(), want) {
		t.Error("bytes by frame differ")
	}
}

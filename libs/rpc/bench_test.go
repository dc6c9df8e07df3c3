package rpc_test

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/frazil-io/frazil/libs/rpc"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

// BenchmarkBulkStream moves 64 MiB in pieces of 1 MiB through the in-memory pipe.
func BenchmarkBulkStream(b *testing.B) {
	const pieces = 64
	pool := rpc.NewPool()
	srv := &server{read: func(_ *materializerv1.ReadDataRequest, s grpc.ServerStream) error {
		for range pieces {
			if err := s.SendMsg(rpc.NewFrame(mem.NewBuffer(pool.Get(1<<20), pool))); err != nil {
				return err
			}
		}
		return nil
	}}
	client := start(b, srv)
	b.SetBytes(pieces << 20)
	b.ReportAllocs()
	for b.Loop() {
		stream, err := client.ReadData(b.Context(), &materializerv1.ReadDataRequest{}, rpc.BulkCallOption())
		if err != nil {
			b.Fatal(err)
		}
		var f rpc.Frame
		for {
			err := stream.RecvMsg(&f)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if _, err := f.WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
			f.Free()
		}
	}
}

package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryServer applies Status to the error of every unary handler.
func UnaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	resp, err := h(ctx, req)
	return resp, Status(err)
}

// StreamServer applies Status to the error of every stream handler.
func StreamServer(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	return Status(h(srv, ss))
}

// UnaryClient applies Error to the outcome of every unary call.
func UnaryClient(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return errorFor(ctx, invoke(ctx, method, req, reply, cc, opts...))
}

// StreamClient applies Error to the outcome of every operation of a stream.
func StreamClient(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, errorFor(ctx, err)
	}
	return &clientStream{ClientStream: s, ctx: ctx}, nil
}

// clientStream belongs to one call; it keeps the call's context because the stream's own one is cancelled when
// the stream ends.
type clientStream struct {
	grpc.ClientStream
	ctx context.Context //nolint:containedctx // lives as long as the call
}

func (s *clientStream) SendMsg(m any) error { return errorFor(s.ctx, s.ClientStream.SendMsg(m)) }

func (s *clientStream) RecvMsg(m any) error { return errorFor(s.ctx, s.ClientStream.RecvMsg(m)) }

func (s *clientStream) CloseSend() error { return errorFor(s.ctx, s.ClientStream.CloseSend()) }

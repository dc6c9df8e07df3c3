package rpc

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// pipeBuffer is the room of one direction of an in-memory connection, bytes.
const pipeBuffer = 1 << 20

// Pipe is an in-memory listener and the way to dial it: what services of one process meet over.
type Pipe struct {
	listener *bufconn.Listener
}

// NewPipe makes a pipe that nobody serves yet. Dialling it waits until somebody does.
func NewPipe() *Pipe { return &Pipe{listener: bufconn.Listen(pipeBuffer)} }

// Listener is the server's end: hand it to grpc.Server.Serve, which closes it.
func (p *Pipe) Listener() net.Listener { return p.listener }

// ServerOptions are what a server that is served over a pipe should have beside those of every server. A write to
// memory costs no system call, so the buffers that save them only cost copies: without them the bytes of a bulk
// stream take a third less processor time.
func (p *Pipe) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ReadBufferSize(0), grpc.WriteBufferSize(0)}
}

// Dial makes a client connection. The name is what errors and spans call the peer. Options come after
// DialOptions. The caller closes it.
func (p *Pipe) Dial(name string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	all := append(DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithReadBufferSize(0), grpc.WithWriteBufferSize(0), // see ServerOptions
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.listener.DialContext(ctx) }),
	)
	cc, err := grpc.NewClient("passthrough:///"+name, append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s in process: %w", name, err)
	}
	return cc, nil
}

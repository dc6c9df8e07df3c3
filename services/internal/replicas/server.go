package replicas

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// answered is the trailer of an error that the service itself has answered. Without it an error came from between:
// nobody was there, or it was not let in.
const answered = "frazil-answered"

// ServerOptions make a server say which errors are its service's own. They go after all that may refuse a call.
func ServerOptions() []grpc.ServerOption {
	mark := func() metadata.MD { return metadata.Pairs(answered, "1") }
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			resp, err := h(ctx, req)
			if err != nil && ctx.Err() == nil {
				_ = grpc.SetTrailer(ctx, mark()) // it fails only when the call is over
			}
			return resp, err
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			err := h(srv, ss)
			if err != nil && ss.Context().Err() == nil {
				ss.SetTrailer(mark())
			}
			return err
		}),
	}
}

// RegisterHealth makes a server answer the probes of a Set. serves is why it should get no new calls, nil if it may.
func RegisterHealth(r grpc.ServiceRegistrar, serves func() error) {
	grpc_health_v1.RegisterHealthServer(r, health{serves: serves})
}

type health struct {
	grpc_health_v1.UnimplementedHealthServer
	serves func() error
}

// Check implements grpc_health_v1.HealthServer.
func (h health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	status := grpc_health_v1.HealthCheckResponse_SERVING
	if h.serves() != nil {
		status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: status}, nil
}

package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

type nobody struct {
	catalogv1.UnimplementedCatalogServiceServer
	materializerv1.UnimplementedMaterializerServiceServer
}

func (nobody) ListNamespaces(context.Context, *catalogv1.ListNamespacesRequest) (*catalogv1.ListNamespacesResponse, error) {
	return &catalogv1.ListNamespacesResponse{Namespaces: []string{"kafka"}}, nil
}

// Who is not of this installation gets nothing, over unary calls and streams alike.
func TestOnlyTheClusterIsServed(t *testing.T) {
	at := func(offset time.Duration) func() time.Time {
		return func() time.Time { return time.Unix(1_800_000_000, 0).Add(offset) }
	}
	ours := &cluster{secret: config.NewSecret(secret32), configHash: "h", now: at(0)}
	server := grpc.NewServer(append(rpc.ServerOptions(), ours.serverOptions()...)...)
	catalogv1.RegisterCatalogServiceServer(server, nobody{})
	materializerv1.RegisterMaterializerServiceServer(server, nobody{})
	pipe := rpc.NewPipe()
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipe.Listener()) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	for name, c := range map[string]struct {
		opts []grpc.DialOption
		want error
	}{
		"ours":                 {ours.dialOptions(), nil},
		"a clock a minute off": {(&cluster{ours.secret, "h", at(time.Minute)}).dialOptions(), nil},
		"no credentials":       {nil, fault.ErrUnauthenticated},
		"another secret":       {(&cluster{config.NewSecret("x" + secret32), "h", at(0)}).dialOptions(), fault.ErrUnauthenticated},
		"no secret":            {(&cluster{configHash: "h", now: at(0)}).dialOptions(), fault.ErrUnauthenticated},
		"an old proof":         {(&cluster{ours.secret, "h", at(-time.Hour)}).dialOptions(), fault.ErrUnauthenticated},
		"another config":       {(&cluster{ours.secret, "other", at(0)}).dialOptions(), fault.ErrUnavailable},
	} {
		conn, err := pipe.Dial("catalog", c.opts...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = catalogv1.NewCatalogServiceClient(conn).ListNamespaces(t.Context(), &catalogv1.ListNamespacesRequest{})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		stream, err := materializerv1.NewMaterializerServiceClient(conn).ReadData(t.Context(), &materializerv1.ReadDataRequest{}, rpc.BulkCallOption())
		if err != nil {
			t.Fatal(err)
		}
		want := c.want
		if want == nil {
			want = fault.ErrUnsupported
		}
		if _, err := stream.Recv(); !errors.Is(err, want) {
			t.Errorf("%s: stream %v, want %v", name, err, want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAProofIsForOneMethod(t *testing.T) {
	c := &cluster{secret: config.NewSecret(secret32), now: time.Now}
	if c.proof("/a", "1") == c.proof("/b", "1") || c.proof("/a", "1") == c.proof("/a", "2") {
		t.Error("a proof can be used for another call")
	}
}

package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// behaviour of a replica in a test.
type behaviour int

const (
	serves   behaviour = iota // answers with an error that names it
	gone                      // its port is closed
	hangs                     // takes calls and never answers
	refuses                   // the service itself answers that it is unavailable
	drains                    // serves, and says that it is leaving
	breaks                    // streams: one message, then the connection is gone
	fallsOff                  // streams: opens, and the connection is gone before the first message
)

// world is where connections lead to.
type world struct {
	mu      sync.Mutex
	hosts   []string
	lookErr error
	open    map[string]bool
	does    map[string]behaviour
	calls   []string // addresses that calls reached, in order
}

func newWorld(hosts ...string) *world {
	return &world{hosts: hosts, open: map[string]bool{}, does: map[string]behaviour{}}
}

type conn struct {
	w       *world
	address string
}

type reached string

func (r reached) Error() string { return string(r) }

func (c *conn) behaviour(call bool) behaviour {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if call {
		c.w.calls = append(c.w.calls, c.address)
	}
	return c.w.does[c.address]
}

func (c *conn) Invoke(ctx context.Context, method string, _, reply any, opts ...grpc.CallOption) error {
	probe := strings.Contains(method, "grpc.health")
	switch b := c.behaviour(!probe); {
	case b == gone:
		return fmt.Errorf("nobody listens: %w", fault.ErrUnavailable)
	case b == hangs:
		<-ctx.Done()
		return ctx.Err()
	case probe:
		status := grpc_health_v1.HealthCheckResponse_SERVING
		if b == drains {
			status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		reply.(*grpc_health_v1.HealthCheckResponse).Status = status
		return nil
	case b == refuses:
		for _, o := range opts {
			if t, ok := o.(grpc.TrailerCallOption); ok {
				*t.TrailerAddr = metadata.Pairs(answered, "1")
			}
		}
		return fmt.Errorf("%s has no time: %w", c.address, fault.ErrUnavailable)
	}
	return reached(c.address)
}

func (c *conn) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	b := c.behaviour(true)
	if b == gone {
		return nil, fmt.Errorf("nobody listens: %w", fault.ErrUnavailable)
	}
	return &fakeStream{ctx: ctx, c: c, b: b}, nil
}

type fakeStream struct {
	grpc.ClientStream
	ctx  context.Context
	c    *conn
	b    behaviour
	sent int
}

func (s *fakeStream) SendMsg(any) error            { return nil }
func (s *fakeStream) CloseSend() error             { return nil }
func (s *fakeStream) Header() (metadata.MD, error) { return nil, s.RecvMsg(nil) }

func (s *fakeStream) Trailer() metadata.MD {
	if s.b == refuses {
		return metadata.Pairs(answered, "1")
	}
	return nil
}

func (s *fakeStream) RecvMsg(m any) error {
	switch {
	case s.b == hangs:
		<-s.ctx.Done()
		return s.ctx.Err()
	case s.b == refuses, s.b == fallsOff, s.b == breaks && s.sent > 0:
		return fmt.Errorf("%s: %w", s.c.address, fault.ErrUnavailable)
	case s.sent > 0:
		return io.EOF
	}
	s.sent++
	if resp, ok := m.(*materializerv1.ReadDataResponse); ok {
		resp.Data = []byte(s.c.address)
	}
	return nil
}

func (c *conn) Close() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if !c.w.open[c.address] {
		return errors.New("closed twice")
	}
	delete(c.w.open, c.address)
	return nil
}

func (w *world) deps() Deps {
	return Deps{
		Dial: func(address string) (Conn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.open[address] = true
			return &conn{w, address}, nil
		},
		Lookup: func(context.Context, string) ([]string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return append([]string(nil), w.hosts...), w.lookErr
		},
		Place: PlaceOf,
		Log:   slog.New(slog.DiscardHandler),
	}
}

func (w *world) set(err error, hosts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts, w.lookErr = hosts, err
}

// make gives replicas a behaviour.
func (w *world) make(b behaviour, addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addresses {
		w.does[a] = b
	}
}

// reached answers the addresses that were called since the last time.
func (w *world) reached() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.calls
	w.calls = nil
	return out
}

func config(target string) Config {
	return Config{
		Service: "dedup", Target: target, Every: time.Second,
		ProbeEvery: DefaultProbeEvery, ProbeTimeout: DefaultProbeTimeout, Patience: DefaultPatience,
	}
}

// running starts a set in a synctest bubble; stop ends it and checks that nothing is left.
func running(t *testing.T, w *world, target string) (s *Set, stop func()) {
	t.Helper()
	s, err := New(config(target), w.deps())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	synctest.Wait()
	return s, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(w.open) != 0 {
			t.Errorf("left open: %v", w.open)
		}
	}
}

func key(start int64) string {
	return objectname.DataFile{
		Table: objectname.Table{Name: "orders", Epoch: "abcdefghijklmnop"}, View: objectname.Current, Partition: 2,
		Range: kafkapos.Range{Start: kafkapos.Offset(start), End: kafkapos.Offset(start + 5)}, BlockLog2: 12,
		FileSchema: "aaaaaaaaaa", Encoding: "bbbbbbbbbb", Size: 1,
	}.Signed([16]byte{}).Key()
}

// read answers the replica that served a stream.
func read(t *testing.T, s *Set, start int64) string {
	t.Helper()
	stream, err := materializerv1.NewMaterializerServiceClient(s).ReadData(t.Context(), &materializerv1.ReadDataRequest{ObjectKey: key(start)})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("end: %v", err)
	}
	return string(resp.GetData())
}

// scan sends a scan.
func scan(t *testing.T, s *Set, start int64) {
	t.Helper()
	_, err := materializerv1.NewMaterializerServiceClient(s).ScanKeys(t.Context(), &materializerv1.ScanKeysRequest{
		Table: &typesv1.TableSpec{StateEpoch: "abcdefghijklmnop", View: "current"}, Partition: 2, Start: start,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// table asks for a table by its epoch and answers the error: that of a replica that serves names it.
func table(ctx context.Context, s *Set, epoch string) error {
	_, err := dedupv1.NewDedupServiceClient(s).GetTable(ctx, &dedupv1.GetTableRequest{StateEpoch: epoch})
	return err
}

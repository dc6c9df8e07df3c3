package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/internal/replicas"
)

// net is where connections lead to: every call is an error that names the address.
type world struct {
	mu      sync.Mutex
	hosts   []string
	lookErr error
	open    map[string]bool
}

type conn struct {
	w       *world
	address string
}

type reached string

func (r reached) Error() string { return string(r) }

func (c *conn) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return reached(c.address)
}

func (c *conn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, reached(c.address)
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

func (w *world) deps() replicas.Deps {
	return replicas.Deps{
		Dial: func(address string) (replicas.Conn, error) {
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
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func (w *world) set(err error, hosts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts, w.lookErr = hosts, err
}

func key(start int64) string {
	return objectname.DataFile{
		Table: objectname.Table{Name: "orders", Epoch: "abcdefghijklmnop"}, View: objectname.Current, Partition: 2,
		Range: kafkapos.Range{Start: kafkapos.Offset(start), End: kafkapos.Offset(start + 5)}, BlockLog2: 12,
		FileSchema: "aaaaaaaaaa", Encoding: "bbbbbbbbbb", Size: 1,
	}.Signed([16]byte{}).Key()
}

func read(t *testing.T, s *replicas.Set, start int64) string {
	t.Helper()
	_, err := s.ReadData(t.Context(), &materializerv1.ReadDataRequest{ObjectKey: key(start)})
	var at reached
	if !errors.As(err, &at) {
		t.Fatalf("read: %v", err)
	}
	return string(at)
}

func scan(t *testing.T, s *replicas.Set, start int64) string {
	t.Helper()
	_, err := s.ScanKeys(t.Context(), &materializerv1.ScanKeysRequest{
		Table: &typesv1.TableSpec{StateEpoch: "abcdefghijklmnop", View: "current"}, Partition: 2, Start: start,
	})
	var at reached
	if !errors.As(err, &at) {
		t.Fatalf("scan: %v", err)
	}
	return string(at)
}

func TestScansAndReadsMeetAndAReplicaTakesOnlyItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{open: map[string]bool{}, hosts: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}}
		s, err := replicas.New(replicas.Config{Target: "dns:///m:7071", Every: time.Second}, w.deps())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()

		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		before := map[int64]string{}
		share := map[string]int{}
		for range 500 {
			chunkLog2 := 14 + r.IntN(9)
			fileStart := r.Int64N(1<<40) >> chunkLog2 << chunkLog2
			increment := fileStart + r.Int64N(1<<chunkLog2)
			at := read(t, s, fileStart)
			if got := scan(t, s, increment); got != at {
				t.Fatalf("seed %d: file at %d is read from %s, the scan of %d goes to %s", seed, fileStart, at, increment, got)
			}
			before[fileStart] = at
			share[at]++
		}
		for a, n := range share {
			if n < 80 {
				t.Errorf("%s got %d of 500", a, n)
			}
		}

		w.set(nil, "10.0.0.3", "10.0.0.1")
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		for start, at := range before {
			now := read(t, s, start)
			if at != "10.0.0.2:7071" && now != at || now == "10.0.0.2:7071" {
				t.Errorf("the region of %d moved from %s to %s", start, at, now)
			}
		}
		if len(w.open) != 2 {
			t.Errorf("open connections: %v", w.open)
		}

		w.set(errors.New("no such host"))
		<-time.After(2 * time.Second)
		synctest.Wait()
		if len(w.open) != 2 {
			t.Errorf("a failed look-up changed the set: %v", w.open)
		}

		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(w.open) != 0 {
			t.Errorf("left open: %v", w.open)
		}
		if _, err := s.ReadData(t.Context(), &materializerv1.ReadDataRequest{ObjectKey: key(0)}); !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("an empty set: %v", err)
		}
	})
}

func TestAListAndWhatIsNoDataFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{open: map[string]bool{}}
		s, err := replicas.New(replicas.Config{Target: "a:1, b:2,a:1", Every: time.Second}, w.deps())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()
		if fmt.Sprint(w.open) != "map[a:1:true b:2:true]" {
			t.Errorf("connections %v", w.open)
		}
		if _, err := s.ReadData(t.Context(), &materializerv1.ReadDataRequest{ObjectKey: "x"}); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if _, err := replicas.New(replicas.Config{Target: "nowhere", Every: time.Second}, replicas.Deps{}); err == nil {
		t.Error("an address without a port is accepted")
	}
}

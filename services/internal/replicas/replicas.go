// Package replicas is a materializer client over all materializers that live. Calls about the same part of a log go to
// the same replica, so that what a scan has encoded is found again by those who read it.
package replicas

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

// Conn is a client connection that its owner closes.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// Config says where the replicas are.
type Config struct {
	// Target is host:port, a comma-separated list of them, or dns:///host:port, whose addresses are looked up
	// every Every.
	Target string
	Every  time.Duration
}

// Deps are the world. All are required.
type Deps struct {
	// Dial makes a connection to host:port; it does not wait for it.
	Dial func(address string) (Conn, error)
	// Lookup answers the addresses of a host name.
	Lookup func(ctx context.Context, host string) ([]string, error)
	Log    *slog.Logger
}

// Set is the live set. It implements the generated client. Two sets that differ cause double work, never a wrong
// byte. Safe for concurrent use.
type Set struct {
	cfg   Config
	deps  Deps
	ready chan struct{}

	mu       sync.RWMutex
	replicas []replica // by address
}

type replica struct {
	address string
	conn    Conn
	client  materializerv1.MaterializerServiceClient
}

var _ materializerv1.MaterializerServiceClient = (*Set)(nil)

const dnsPrefix = "dns:///"

// New checks the target. The set is empty until Run.
func New(cfg Config, deps Deps) (*Set, error) {
	for _, address := range Addresses(cfg.Target) {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("services.materializer: %w", err)
		}
	}
	if cfg.Every <= 0 {
		return nil, errors.New("services.resolve_every must be positive")
	}
	return &Set{cfg: cfg, deps: deps, ready: make(chan struct{})}, nil
}

// Addresses are the host:port of a target, names not looked up.
func Addresses(target string) []string {
	var out []string
	for _, a := range strings.Split(strings.TrimPrefix(target, dnsPrefix), ",") {
		out = append(out, strings.TrimSpace(a))
	}
	return out
}

// Name implements lifecycle.Part.
func (s *Set) Name() string { return "materializer replicas" }

// Ready is closed after the first look; a set that found nobody is ready too, and its calls are unavailable.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// Run keeps the set up to date until ctx ends and closes the connections. It may be called once.
func (s *Set) Run(ctx context.Context) error {
	defer s.update(nil)
	s.look(ctx)
	close(s.ready)
	if !strings.HasPrefix(s.cfg.Target, dnsPrefix) {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.look(ctx)
		}
	}
}

// look finds the addresses. When a name cannot be looked up the set stays as it is.
func (s *Set) look(ctx context.Context) {
	addresses := Addresses(s.cfg.Target)
	if strings.HasPrefix(s.cfg.Target, dnsPrefix) {
		host, port, err := net.SplitHostPort(addresses[0])
		if err != nil {
			s.deps.Log.Error("materializer address", "err", err)
			return
		}
		found, err := s.deps.Lookup(ctx, host)
		if err != nil {
			s.deps.Log.Warn("materializers cannot be looked up", "err", err)
			return
		}
		addresses = addresses[:0]
		for _, ip := range found {
			addresses = append(addresses, net.JoinHostPort(ip, port))
		}
	}
	s.update(addresses)
}

// update makes the set exactly the addresses; connections that stay are kept.
func (s *Set) update(addresses []string) {
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make([]replica, 0, len(addresses))
	for _, a := range addresses {
		i := slices.IndexFunc(s.replicas, func(r replica) bool { return r.address == a })
		if i >= 0 {
			next = append(next, s.replicas[i])
			continue
		}
		conn, err := s.deps.Dial(a)
		if err != nil {
			s.deps.Log.Error("materializer cannot be dialled", "err", err)
			continue
		}
		next = append(next, replica{a, conn, materializerv1.NewMaterializerServiceClient(conn)})
	}
	for _, old := range s.replicas {
		if slices.ContainsFunc(next, func(r replica) bool { return r.address == old.address }) {
			continue
		}
		if err := old.conn.Close(); err != nil {
			s.deps.Log.Warn("materializer connection was not closed", "err", err)
		}
	}
	if len(next) != len(s.replicas) {
		s.deps.Log.Info("materializers", "replicas", len(next))
	}
	s.replicas = next
}

// regionLog2 is the log2 of the largest chunk. Neither the name of a file nor a scan says how large its chunk is, but
// both lie in one aligned region of this size, whatever the chunk is.
const regionLog2 = 22

// place is what a call is about.
func place(stateEpoch, view string, p kafkapos.Partition, start kafkapos.Offset) string {
	return stateEpoch + "/" + view + "/" + strconv.Itoa(int(p)) + "/" + strconv.FormatInt(int64(start>>regionLog2), 10)
}

// choose is rendezvous hashing: a replica that joins or leaves takes only its share along.
func (s *Set) choose(place string) (materializerv1.MaterializerServiceClient, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var best materializerv1.MaterializerServiceClient
	var top uint64
	for _, r := range s.replicas {
		sum := sha256.Sum256([]byte(r.address + "\x00" + place))
		if score := binary.BigEndian.Uint64(sum[:8]); best == nil || score > top {
			best, top = r.client, score
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no materializer is there: %w", fault.ErrUnavailable)
	}
	return best, nil
}

// DiscoverSchema asks one replica; questions about one topic go to one.
func (s *Set) DiscoverSchema(ctx context.Context, in *materializerv1.DiscoverSchemaRequest, opts ...grpc.CallOption) (*materializerv1.DiscoverSchemaResponse, error) {
	c, err := s.choose(string(in.GetTopic().GetTopicId()))
	if err != nil {
		return nil, err
	}
	return c.DiscoverSchema(ctx, in, opts...)
}

// ScanKeys asks the replica that will serve what it encodes.
func (s *Set) ScanKeys(ctx context.Context, in *materializerv1.ScanKeysRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[materializerv1.ScanKeysResponse], error) {
	spec := in.GetTable()
	c, err := s.choose(place(spec.GetStateEpoch(), spec.GetView(), kafkapos.Partition(in.GetPartition()), kafkapos.Offset(in.GetStart())))
	if err != nil {
		return nil, err
	}
	return c.ScanKeys(ctx, in, opts...)
}

// ReadData asks the replica of the file's region. fault.ErrNotFound: not the name of a data file.
func (s *Set) ReadData(ctx context.Context, in *materializerv1.ReadDataRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[materializerv1.ReadDataResponse], error) {
	obj, err := objectname.Parse(in.GetObjectKey())
	if err != nil {
		return nil, err
	}
	d, ok := obj.(objectname.DataFile)
	if !ok {
		return nil, fmt.Errorf("read data: not the name of a data file: %w", fault.ErrNotFound)
	}
	c, err := s.choose(place(d.Table.Epoch, d.View, d.Partition, d.Range.Start))
	if err != nil {
		return nil, err
	}
	return c.ReadData(ctx, in, opts...)
}

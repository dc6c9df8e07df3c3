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
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Conn is a client connection that its owner closes.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// Config says where the replicas are.
type Config struct {
	// Service is the name of the service in logs and errors; services.<name> is its key.
	Service string
	// Target is host:port, a comma-separated list of them, or dns:///host:port, whose addresses are looked up every
	// Every.
	Target string
	Every  time.Duration
	// ProbeEvery is how often each replica is asked whether it serves, and ProbeTimeout what it may take to answer.
	ProbeEvery, ProbeTimeout time.Duration
	// Patience is how long a call goes on looking for a replica that answers.
	Patience time.Duration
}

// Defaults of Config.
const (
	DefaultProbeEvery   = time.Second
	DefaultProbeTimeout = 2 * time.Second
	DefaultPatience     = 5 * time.Second
)

// Deps are the world. All are required.
type Deps struct {
	// Dial makes a connection to host:port; it does not wait for it.
	Dial func(address string) (Conn, error)
	// Lookup answers the addresses of a host name.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Place answers what a request is about: requests about the same go to the same replica.
	Place func(req any) string
	Log   *slog.Logger
}

// Set is the live set, and a connection to all of it. Safe for concurrent use.
type Set struct {
	cfg   Config
	deps  Deps
	ready chan struct{}

	mu       sync.RWMutex
	replicas []*replica // by address
	probes   sync.WaitGroup
}

var _ grpc.ClientConnInterface = (*Set)(nil)

const dnsPrefix = "dns:///"

// New checks the target. The set is empty until Run.
func New(cfg Config, deps Deps) (*Set, error) {
	for _, address := range Addresses(cfg.Target) {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("services.%s: %w", cfg.Service, err)
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
func (s *Set) Name() string { return s.cfg.Service + " replicas" }

// Ready is closed after the first look; a set that found nobody is ready too, and its calls are unavailable.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// Run keeps the set up to date until ctx ends and closes the connections. It may be called once.
func (s *Set) Run(ctx context.Context) error {
	defer func() {
		s.update(ctx, nil)
		s.probes.Wait()
	}()
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
			s.deps.Log.Error("replica address", "service", s.cfg.Service, "err", err)
			return
		}
		found, err := s.deps.Lookup(ctx, host)
		if err != nil {
			s.deps.Log.Warn("replicas cannot be looked up", "service", s.cfg.Service, "err", err)
			return
		}
		addresses = addresses[:0]
		for _, ip := range found {
			addresses = append(addresses, net.JoinHostPort(ip, port))
		}
	}
	s.update(ctx, addresses)
}

// update makes the set exactly the addresses; connections that stay are kept. ctx ends the probes of new replicas.
func (s *Set) update(ctx context.Context, addresses []string) {
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make([]*replica, 0, len(addresses))
	for _, a := range addresses {
		if i := slices.IndexFunc(s.replicas, func(r *replica) bool { return r.address == a }); i >= 0 {
			next = append(next, s.replicas[i])
			continue
		}
		conn, err := s.deps.Dial(a)
		if err != nil {
			s.deps.Log.Error("replica cannot be dialled", "service", s.cfg.Service, "err", err)
			continue
		}
		r := newReplica(a, conn)
		next = append(next, r)
		probing, stop := context.WithCancel(ctx)
		r.stop = stop
		s.probes.Go(func() { s.probe(probing, r) })
	}
	for _, old := range s.replicas {
		if slices.Contains(next, old) {
			continue
		}
		old.stop()
		if err := old.conn.Close(); err != nil {
			s.deps.Log.Warn("replica connection was not closed", "service", s.cfg.Service, "err", err)
		}
	}
	if len(next) != len(s.replicas) {
		s.deps.Log.Info("replicas", "service", s.cfg.Service, "replicas", len(next))
	}
	s.replicas = next
}

// order answers all replicas in the order in which a call about place should try them. It is rendezvous hashing: a
// replica that joins or leaves takes only its share along. Those that are not up come last.
func (s *Set) order(place string) []*replica {
	s.mu.RLock()
	defer s.mu.RUnlock()
	type scored struct {
		*replica
		state state
		score uint64
	}
	all := make([]scored, 0, len(s.replicas))
	for _, r := range s.replicas {
		sum := sha256.Sum256([]byte(r.address + "\x00" + place))
		all = append(all, scored{r, r.current(), binary.BigEndian.Uint64(sum[:8])})
	}
	slices.SortFunc(all, func(a, b scored) int {
		switch {
		case a.state != b.state:
			return int(a.state) - int(b.state)
		case a.score > b.score:
			return -1
		}
		return 1
	})
	out := make([]*replica, len(all))
	for i, a := range all {
		out[i] = a.replica
	}
	return out
}

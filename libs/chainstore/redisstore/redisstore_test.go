package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/chainstoretest"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore/redistest"
	"github.com/frazil-io/frazil/libs/fault"
)

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg, slog.New(slog.DiscardHandler), noop.NewMeterProvider().Meter(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func at(addresses ...string) Config {
	c := Default()
	c.Addresses = addresses
	return c
}

// fake is a store in a Redis that is a library. It says nothing of itself, so it is declared fit.
func fake(t *testing.T) (*Store, *miniredis.Miniredis) {
	t.Helper()
	m := miniredis.RunT(t)
	s := open(t, at(m.Addr()))
	s.fitness.set(nil, Report{Masters: 1, AppendOnly: true})
	return s, m
}

func TestConformance(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		chainstoretest.Run(t, chainstoretest.Suite{
			Open: func(t *testing.T) chainstore.Store { s, _ := fake(t); return s },
		})
	})
	t.Run("faulty", func(t *testing.T) {
		chainstoretest.Run(t, chainstoretest.Suite{
			Open: func(t *testing.T) chainstore.Store { s, _ := fake(t); return chainstoretest.NewFaulty(s) },
		})
	})
	t.Run("server", func(t *testing.T) {
		server := redistest.Start(t)
		conform(t, at(server.Addr), func() { server.Kill(); server.Start() })
	})
	t.Run("cluster", func(t *testing.T) {
		servers := redistest.Cluster(t, 3)
		cfg := at(servers[0].Addr, servers[1].Addr)
		cfg.Cluster = true
		conform(t, cfg, nil)
	})
}

// conform runs the suite on a server that the tests share: each store has a prefix of its own.
func conform(t *testing.T, cfg Config, crash func()) {
	t.Helper()
	var number atomic.Int64
	suite := chainstoretest.Suite{Open: func(t *testing.T) chainstore.Store {
		own := cfg
		own.Prefix = fmt.Sprintf("test%d:", number.Add(1))
		return open(t, own)
	}}
	if crash != nil {
		suite.Reopen = func(t *testing.T, s chainstore.Store) chainstore.Store {
			crash()
			own := cfg
			own.Prefix = s.(*Store).keys.prefix
			return open(t, own)
		}
	}
	chainstoretest.Run(t, suite)
}

func set(t *testing.T, s *Store, key string, old chainstore.Version, value string) {
	t.Helper()
	if _, err := s.CompareAndSet(t.Context(), key, old, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// mentions checks an error that a caller sees: its kind, what it says, and that it tells no address.
func mentions(t *testing.T, err, kind error, text, address string) {
	t.Helper()
	_, port, _ := strings.Cut(address, ":")
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), port) {
		t.Errorf("got %v, want %v with %q and without an address", err, kind, text)
	}
}

func TestARedisThatEvictsIsRefused(t *testing.T) {
	server := redistest.Start(t, "maxmemory-policy allkeys-lru")
	s := open(t, at(server.Addr))
	_, err := s.CompareAndSet(t.Context(), "a", 0, nil)
	mentions(t, err, fault.ErrUnavailable, "noeviction", server.Addr)
	mentions(t, s.Verify(t.Context()), fault.ErrInvalid, "allkeys-lru", server.Addr)
	if n, err := server.Client.DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
	if err := server.Client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, s, "a", 0, "now")
	// It may change under way.
	if err := server.Client.ConfigSet(t.Context(), "maxmemory-policy", "volatile-ttl").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context()); err == nil {
		t.Fatal("not noticed")
	}
	_, _, err = s.Get(t.Context(), "a")
	mentions(t, err, fault.ErrUnavailable, "volatile-ttl", server.Addr)
}

func TestAFullRedisSaysWhatToDo(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, at(server.Addr))
	set(t, s, "a", 0, "before")
	if err := s.PutBlob(t.Context(), "b", make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	limit := func(to string) {
		t.Helper()
		if err := server.Client.ConfigSet(t.Context(), "maxmemory", to).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("3mb")
	_, err := s.CompareAndSet(t.Context(), "a", 1, []byte("after"))
	mentions(t, err, fault.ErrUnavailable, "raise its maxmemory", server.Addr)
	mentions(t, s.PutBlob(t.Context(), "c", nil), fault.ErrUnavailable, "raise its maxmemory", server.Addr)
	mentions(t, s.PutBlob(t.Context(), "large", make([]byte, pieceSize+1)), fault.ErrUnavailable, "raise its maxmemory", server.Addr)
	if b, v, err := s.Get(t.Context(), "a"); string(b) != "before" || v != 1 || err != nil {
		t.Fatalf("%q at %d, %v", b, v, err)
	}
	if err := s.DeleteBlob(t.Context(), "b"); err != nil {
		t.Fatalf("what would help is refused: %v", err)
	}
	limit("64mb")
	set(t, s, "a", 1, "after")
	if err := s.Verify(t.Context()); err != nil || s.Report().LimitBytes != 64<<20 || s.Report().UsedBytes < 512<<10 {
		t.Fatalf("%+v, %v", s.Report(), err)
	}
}

func TestAwayAndBack(t *testing.T) {
	server := redistest.Start(t)
	cfg := at(server.Addr)
	cfg.Timeout = 300 * time.Millisecond
	s := open(t, cfg)
	set(t, s, "head/e/0", 0, "one")
	server.Kill()
	_, _, err := s.Get(t.Context(), "head/e/0")
	mentions(t, err, fault.ErrUnavailable, "redis does not answer", server.Addr)
	_, err = s.CompareAndSet(t.Context(), "head/e/0", 1, nil)
	mentions(t, err, fault.ErrUnavailable, "redis does not answer", server.Addr)
	_, err = s.List(t.Context(), "head/")
	mentions(t, err, fault.ErrUnavailable, "redis does not answer", server.Addr)
	mentions(t, s.Verify(t.Context()), fault.ErrUnavailable, "redis does not answer", server.Addr)
	server.Start()
	if b, v, err := s.Get(t.Context(), "head/e/0"); string(b) != "one" || v != 1 || err != nil {
		t.Fatalf("%q at %d, %v", b, v, err)
	}
	set(t, s, "head/e/0", 1, "two")
	server.Pause()
	_, _, err = s.Get(t.Context(), "head/e/0")
	server.Continue()
	mentions(t, err, fault.ErrUnavailable, "in time", server.Addr)
	set(t, s, "head/e/0", 2, "three")
}

func TestAFailoverOfSentinelsIsFollowed(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	if err := replica.Client.SlaveOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	sentinel := redistest.Sentinel(t, "state", master)
	cfg := at(sentinel.Addr)
	cfg.SentinelMaster = "state"
	s := open(t, cfg)
	set(t, s, "record/t", 0, "one")
	replica.Until("has the value", func() error {
		n, err := master.Client.Wait(t.Context(), 1, time.Second).Result()
		if err == nil && n < 1 {
			err = errors.New("not replicated")
		}
		return err
	})
	sentinel.Until("knows the replica", func() error {
		got, err := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr}).Replicas(t.Context(), "state").Result()
		if err == nil && len(got) == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	master.Kill()
	replica.Until("took over", func() error {
		_, err := s.CompareAndSet(t.Context(), "record/t", 1, []byte("two"))
		if errors.Is(err, fault.ErrConflict) {
			return nil // an answer was lost
		}
		return err
	})
	if b, v, err := s.Get(t.Context(), "record/t"); string(b) != "two" || v != 2 || err != nil {
		t.Fatalf("%q at %d, %v", b, v, err)
	}
}

// A server that was set back to an earlier image, as a failover to a replica that lagged does, shows what it showed
// then, under the versions of then: the proof is the version.
func TestARollbackShowsInTheVersions(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, at(server.Addr))
	for v := range chainstore.Version(5) {
		set(t, s, "record/t", v, fmt.Sprint(v))
	}
	image := server.Dump()
	set(t, s, "record/t", 5, "acknowledged, then lost")
	if err := s.PutBlob(t.Context(), "root/e/0/6-x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	server.Load(image)
	if b, v, err := s.Get(t.Context(), "record/t"); string(b) != "4" || v != 5 || err != nil {
		t.Fatalf("%q at %d, %v", b, v, err)
	}
	if _, err := s.GetBlob(t.Context(), "root/e/0/6-x"); !errors.Is(err, fault.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := s.CompareAndSet(t.Context(), "record/t", 6, nil); !errors.Is(err, fault.ErrConflict) {
		t.Fatalf("a writer of the lost version is not refused: %v", err)
	}
	server.Load(nil)
	if _, _, err := s.Get(t.Context(), "record/t"); !errors.Is(err, fault.ErrNotFound) {
		t.Fatal(err)
	}
	// Nothing that a process remembers of an emptied server is relied on.
	set(t, s, "record/t", 0, "anew")
	if keys, err := s.List(t.Context(), "record/"); len(keys) != 1 || err != nil {
		t.Fatalf("%q, %v", keys, err)
	}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/diskstore"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore"
	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
)

// Kinds of state.
const (
	// StateEmbedded is a store in data_dir, for exactly one process of dedup.
	StateEmbedded = "embedded"
	// StateRedis is shared by all processes of dedup.
	StateRedis = "redis"
)

// StateConfig is where dedup keeps what it has published.
type StateConfig struct {
	// Kind is embedded or redis. Default embedded.
	Kind  string      `yaml:"kind"`
	Redis RedisConfig `yaml:"redis"`
}

// RedisConfig says how to reach Redis: one server, a master behind Sentinels, or a Cluster.
type RedisConfig struct {
	// Addresses are host:port: of the one server, of the Sentinels, or of some nodes of the Cluster. Default
	// 127.0.0.1:6379.
	Addresses []string `yaml:"addresses"`
	// Username and Password of the data nodes; an empty username is Redis' default user.
	Username string        `yaml:"username"`
	Password config.Secret `yaml:"password"`
	// DB is the number of the database. Default 0.
	DB  int       `yaml:"db"`
	TLS TLSConfig `yaml:"tls"`
	// SentinelMaster is the name of the master that the Sentinels watch. Default empty: the addresses are no Sentinels.
	SentinelMaster   string        `yaml:"sentinel_master"`
	SentinelUsername string        `yaml:"sentinel_username"`
	SentinelPassword config.Secret `yaml:"sentinel_password"`
	// Cluster: the addresses are nodes of a Redis Cluster.
	Cluster bool `yaml:"cluster"`
	// Prefix is before every key. Default frazil:
	Prefix string `yaml:"prefix"`
	// Timeout bounds dialling, and each reading and writing. Default 3s.
	Timeout time.Duration `yaml:"timeout"`
	// Connections to each node at most. Default 32.
	Connections int `yaml:"connections"`
}

func defaultState() StateConfig {
	d := redisstore.Default()
	return StateConfig{Kind: StateEmbedded, Redis: RedisConfig{
		Addresses: d.Addresses, Prefix: d.Prefix, Timeout: d.Timeout, Connections: d.Connections,
	}}
}

func (c Config) redis() redisstore.Config {
	r := c.State.Redis
	return redisstore.Config{
		Addresses: r.Addresses, Username: r.Username, Password: r.Password.Reveal(), DB: r.DB,
		TLS:            redisstore.TLS(r.TLS),
		SentinelMaster: r.SentinelMaster, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal(),
		Cluster: r.Cluster, Prefix: r.Prefix, Timeout: r.Timeout, Connections: r.Connections,
	}
}

func (c Config) validateState() (warnings []error, err error) {
	switch c.State.Kind {
	case StateEmbedded:
		return nil, nil
	case StateRedis:
		return c.redis().Validate()
	}
	return nil, fmt.Errorf("state.kind %q: embedded or redis", c.State.Kind)
}

// How often Redis is asked about itself: until it has answered, and then.
const (
	redisRetry = time.Second
	redisEvery = 15 * time.Second
)

// state opens the store of dedup, which is closed at the end, or answers the one that the caller has opened.
func (a *assembly) state(ctx context.Context, log *slog.Logger) (chainstore.Store, error) {
	if a.given.Store != nil {
		return a.given.Store, nil
	}
	if a.cfg.State.Kind == StateEmbedded {
		makeRoom(fsys.OS(), a.cfg.DataDir, a.cfg.dir("cache"), log)
		store, err := diskstore.Open(a.cfg.dir("state"), log)
		if err != nil {
			return nil, unopened(a.cfg.dir("state"), err)
		}
		a.closers = append(a.closers, store.Close)
		return store, nil
	}
	redisstore.LogTo(log)
	store, err := redisstore.Open(a.cfg.redis(), log, a.tel.Meters.Meter(instrumentation))
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, store.Close)
	// One that must not be used ends the process; one that does not answer yet is waited for.
	if err := store.Verify(ctx); errors.Is(err, fault.ErrInvalid) {
		return nil, fmt.Errorf("state.redis: %w", err)
	}
	a.add(
		a.ready.until("redis", redisRetry, a.log, store.Verify),
		newPart("watch redis", func(ctx context.Context, ready func()) error {
			ready()
			a.watchRedis(ctx, store)
			return nil
		}),
	)
	return store, nil
}

// unopened says what is wrong with embedded state, and what to do.
func unopened(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held"):
		return fmt.Errorf("%s is in use: one process at a time may use a data directory; end the other one, or set another data_dir: %w", dir, err)
	case errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the state in %s is damaged: move that directory away and start again; every table is then built anew from Kafka"+
			" under a new state epoch, and running queries must plan again: %w", dir, err)
	}
	return fmt.Errorf("open the state in %s: %w", dir, err)
}

// watchRedis keeps asking Redis about itself: how full it is goes to the metrics, and a policy that was changed to
// evict keys makes the process not ready.
func (a *assembly) watchRedis(ctx context.Context, store *redisstore.Store) {
	tick := time.NewTicker(redisEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := store.Verify(ctx)
		if err != nil && !errors.Is(err, fault.ErrInvalid) {
			continue // it is away: the calls say so
		}
		if news := a.ready.set("redis policy", err); news && err != nil {
			a.log.Error("redis must not be used", "err", err)
		}
	}
}

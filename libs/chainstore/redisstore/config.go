package redisstore

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/frazil-io/frazil/libs/clienttls"
	"github.com/frazil-io/frazil/libs/fault"
)

// Config says how to reach Redis and what belongs to us in it.
type Config struct {
	// Addresses are host:port: of the one server, of the Sentinels, or of some nodes of the Cluster.
	Addresses []string
	// Username and Password of the data nodes. An empty username is Redis' default user.
	Username, Password string
	// DB is the number of the database. A Cluster has only 0.
	DB  int
	TLS TLS
	// SentinelMaster is the name of the master that the Sentinels watch; empty without Sentinels.
	SentinelMaster string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword string
	// Cluster: the addresses are nodes of a Redis Cluster.
	Cluster bool
	// Prefix is before every key, so that installations can share a Redis.
	Prefix string
	// Timeout bounds the dialling, and each reading and writing of a connection.
	Timeout time.Duration
	// Connections is how many are open to each node at most.
	Connections int
}

// TLS is the encryption of the connections.
type TLS = clienttls.TLS

// maxPrefix is the longest prefix, bytes.
const maxPrefix = 64

// Default is the configuration of one server on this machine.
func Default() Config {
	return Config{Addresses: []string{"127.0.0.1:6379"}, Prefix: "frazil:", Timeout: 3 * time.Second, Connections: 32}
}

// Validate reports what makes the configuration unusable, and what is usable but unsafe.
func (c Config) Validate() (warnings []error, err error) {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("redis: "+format+": %w", append(args, fault.ErrInvalid)...))
		}
	}
	bad(len(c.Addresses) == 0, "no address is given")
	for _, a := range c.Addresses {
		_, _, splitErr := net.SplitHostPort(a)
		bad(splitErr != nil, "address %q is not host:port", a)
	}
	bad(len(c.Addresses) > 1 && c.SentinelMaster == "" && !c.Cluster, "several addresses need sentinel_master or cluster")
	bad(c.Cluster && c.SentinelMaster != "", "cluster and sentinel_master exclude each other")
	bad(c.Cluster && c.DB != 0, "a cluster has only db 0")
	bad(c.DB < 0, "db %d is negative", c.DB)
	bad(c.Username != "" && c.Password == "", "a username needs a password")
	bad(c.SentinelMaster == "" && c.SentinelUsername+c.SentinelPassword != "", "credentials of Sentinels need sentinel_master")
	bad(strings.ContainsAny(c.Prefix, "{}") || !printable(c.Prefix), "prefix %q may hold neither braces nor spaces", c.Prefix)
	bad(len(c.Prefix) > maxPrefix, "prefix of %d characters, at most %d", len(c.Prefix), maxPrefix)
	bad(c.Timeout <= 0, "timeout must be positive")
	bad(c.Connections < 1, "connections must be at least 1")
	bad((c.TLS.CertFile == "") != (c.TLS.KeyFile == ""), "a client certificate needs its key, and a key its certificate")
	bad(!c.TLS.Enabled && c.TLS != (TLS{}), "TLS is configured but not enabled")
	if c.TLS.InsecureSkipVerify {
		warnings = append(warnings, errors.New("redis: server certificates are not verified"))
	}
	if c.Password != "" && !c.TLS.Enabled {
		warnings = append(warnings, errors.New("redis: the password is sent without TLS"))
	}
	return warnings, errors.Join(errs...)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// options is the configuration in the client's terms.
func (c Config) options() (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{
		Addrs: c.Addresses, DB: c.DB, Username: c.Username, Password: c.Password, ClientName: "frazil",
		MasterName: c.SentinelMaster, SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword,
		IsClusterMode: c.Cluster, DialTimeout: c.Timeout, ReadTimeout: c.Timeout, WriteTimeout: c.Timeout,
		PoolTimeout: c.Timeout, PoolSize: c.Connections, ContextTimeoutEnabled: true,
		// A lost answer of a compare-and-set says nothing about its outcome: sent again it would conflict with
		// itself. What may be repeated is repeated here, not in the client.
		MaxRetries: -1, DialerRetries: 1,
	}
	if c.TLS.Enabled {
		cfg, err := c.TLS.Client()
		if err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		o.TLSConfig = cfg
	}
	return o, nil
}

// Package franz is the door to a real Kafka cluster: kafkalog.Metadata and kafkalog.Reader over franz-go. Ranges are
// read with fetch requests of its own and the batch decoder of package recordbatch, since no client library has an
// end offset or tells what a control record, an aborted record and an absent one are.
package franz

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/frazil-io/frazil/libs/clienttls"
	"github.com/frazil-io/frazil/libs/fault"
)

// Config says how to reach the cluster.
type Config struct {
	// Brokers are addresses, host:port, to begin with; the others are learnt from them.
	Brokers []string
	TLS     TLS
	SASL    SASL
	// ClientID names the client in the brokers' logs, metrics and quotas.
	ClientID string
	// RackID lets partitions be read from a replica in the same rack; empty reads from leaders.
	RackID string
	// RequestTimeout bounds one metadata or offsets request.
	RequestTimeout time.Duration
	// FetchTimeout bounds one fetch of records. Tiered storage can make the first one slow.
	FetchTimeout time.Duration
	// RetryFor is how long a read goes on trying without progress before it answers fault.ErrUnavailable.
	RetryFor time.Duration
	// FetchBytes is the most that one fetch asks for, in bytes. A single larger batch still comes whole.
	FetchBytes int
	// MaxBatchBytes is the largest batch that is decoded, in bytes after decompression.
	MaxBatchBytes int
}

// TLS is the encryption of the connections.
type TLS = clienttls.TLS

// SASL is the authentication of the client.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or empty for none.
	Mechanism string
	Username  string
	// Password is the user's password; under OAUTHBEARER it is the token, and Username is not used.
	Password Secret
}

// Secret is a text that is not printed.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Default is the configuration of a cluster without security, without brokers.
func Default() Config {
	return Config{
		ClientID:       "frazil",
		RequestTimeout: 5 * time.Second,
		FetchTimeout:   30 * time.Second,
		RetryFor:       20 * time.Second,
		FetchBytes:     8 << 20,
		MaxBatchBytes:  256 << 20,
	}
}

// Validate reports what makes the configuration unusable, and what is usable but unsafe.
func (c Config) Validate() (warnings []error, err error) {
	switch {
	case len(c.Brokers) == 0:
		return nil, fmt.Errorf("kafka: no broker is named: %w", fault.ErrInvalid)
	case c.RequestTimeout <= 0 || c.FetchTimeout <= 0 || c.RetryFor <= 0:
		return nil, fmt.Errorf("kafka: timeouts must be positive: %w", fault.ErrInvalid)
	case c.FetchBytes < minFetchBytes || c.MaxBatchBytes < minFetchBytes:
		return nil, fmt.Errorf("kafka: fetches and batches must be allowed %d bytes: %w", minFetchBytes, fault.ErrInvalid)
	case (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return nil, fmt.Errorf("kafka: a client certificate needs its key, and a key its certificate: %w", fault.ErrInvalid)
	case !c.TLS.Enabled && c.TLS != (TLS{}):
		return nil, fmt.Errorf("kafka: TLS is configured but not enabled: %w", fault.ErrInvalid)
	}
	if _, err := c.SASL.mechanism(); err != nil {
		return nil, err
	}
	if c.TLS.InsecureSkipVerify {
		warnings = append(warnings, fmt.Errorf("kafka: broker certificates are not verified"))
	}
	if c.SASL.Mechanism != "" && !c.TLS.Enabled {
		warnings = append(warnings, fmt.Errorf("kafka: credentials are sent without TLS"))
	}
	return warnings, nil
}

// mechanism is nil without authentication.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	user, password := s.Username, string(s.Password)
	switch s.Mechanism {
	case "":
		if user != "" || password != "" {
			return nil, fmt.Errorf("kafka: credentials need a SASL mechanism: %w", fault.ErrInvalid)
		}
		return nil, nil
	case "OAUTHBEARER":
		if password == "" {
			return nil, fmt.Errorf("kafka: OAUTHBEARER needs a token: %w", fault.ErrInvalid)
		}
		return oauth.Auth{Token: password}.AsMechanism(), nil
	}
	if user == "" || password == "" {
		return nil, fmt.Errorf("kafka: SASL needs a user name and a password: %w", fault.ErrInvalid)
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("kafka: SASL mechanism %q is not known: %w", s.Mechanism, fault.ErrInvalid)
}

// options is the configuration in kgo's terms.
func (c Config) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.DialTimeout(c.RequestTimeout),
		kgo.RequestRetries(2),
		kgo.RetryTimeout(c.RequestTimeout),
		// Above what a broker answers to a fetch: one batch can be larger than what was asked for.
		kgo.BrokerMaxReadBytes(int32(min(2*int64(c.MaxBatchBytes), 1<<30))),
		kgo.FetchMaxBytes(int32(c.FetchBytes)), // fetches say it themselves, but a client is refused whose default may not be read
		kgo.SoftwareNameAndVersion("frazil", "v1"),
	}
	if c.TLS.Enabled {
		cfg, err := c.TLS.Client()
		if err != nil {
			return nil, fmt.Errorf("kafka: %w", err)
		}
		opts = append(opts, kgo.DialTLSConfig(cfg))
	}
	mechanism, err := c.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

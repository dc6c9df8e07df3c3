package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/telemetry"
	"github.com/frazil-io/frazil/services/catalog"
	"github.com/frazil-io/frazil/services/dedup"
	"github.com/frazil-io/frazil/services/edge"
	"github.com/frazil-io/frazil/services/materializer"
)

// Config is the one file. Every service of an installation gets the same one; what a service does not need it
// ignores. docs/CONFIG.md explains each key.
type Config struct {
	// DataDir holds the state of dedup, the cache of the materializer and the edge's signing key. Default
	// ./frazil-data.
	DataDir string `yaml:"data_dir"`

	Kafka    KafkaConfig    `yaml:"kafka"`
	Registry RegistryConfig `yaml:"registry"`

	REST        edge.RESTConfig        `yaml:"rest"`
	S3          edge.S3Config          `yaml:"s3"`
	Auth        edge.AuthConfig        `yaml:"auth"`
	Credentials edge.CredentialsConfig `yaml:"credentials"`
	Shutdown    edge.ShutdownConfig    `yaml:"shutdown"`

	// Namespace holds all tables. Default kafka.
	Namespace string                  `yaml:"namespace"`
	Topics    catalog.TopicsConfig    `yaml:"topics"`
	Freshness catalog.FreshnessConfig `yaml:"freshness"`
	// Tables by topic.
	Tables map[string]TableConfig `yaml:"tables"`

	// OnBadRecord says what a record that cannot be decoded does to its table: fail stops it at the last good
	// snapshot, skip makes no row of it. Default fail.
	OnBadRecord string `yaml:"on_bad_record"`
	// Plan says when a table's history is read: eager reads all of it before the first snapshot, lazy publishes at once
	// and reads as far down as queries go. Default eager.
	Plan string `yaml:"plan"`
	// Room is the size that data files of lazy tables declare while nobody has read them. Default 1GiB.
	Room config.Size `yaml:"lazy_room"`
	// RetentionMarginPercent is how far, in percent of the log and by at most one block, a table starts above
	// Kafka's log start where retention moves that. Default 10.
	RetentionMarginPercent int `yaml:"retention_margin_percent"`

	// State is where dedup keeps what it has published.
	State  StateConfig  `yaml:"state"`
	Cache  CacheConfig  `yaml:"cache"`
	Memory MemoryConfig `yaml:"memory"`
	Dedup  DedupConfig  `yaml:"dedup"`
	// Slots bound the materializer's work that goes on at once, and in each service the requests that wait, by kind.
	// Defaults: cores, cores, 1024.
	Slots materializer.SlotsConfig `yaml:"slots"`
	// BuildTimeout ends the making of one row group. Default 5m.
	BuildTimeout time.Duration   `yaml:"build_timeout"`
	Snapshots    SnapshotsConfig `yaml:"snapshots"`

	Services  ServicesConfig   `yaml:"services"`
	Cluster   ClusterConfig    `yaml:"cluster"`
	Health    HealthConfig     `yaml:"health"`
	Telemetry telemetry.Config `yaml:"telemetry"`
}

// KafkaConfig says how to reach the cluster.
type KafkaConfig struct {
	// Brokers are host:port to begin with; the others are learnt from them.
	Brokers []string `yaml:"brokers"`
	// ClientID names us in the brokers' logs and quotas. Default frazil.
	ClientID string `yaml:"client_id"`
	// Rack lets partitions be read from a replica in the same rack. Default empty: from leaders.
	Rack string     `yaml:"rack"`
	TLS  TLSConfig  `yaml:"tls"`
	SASL SASLConfig `yaml:"sasl"`
}

// TLSConfig is the encryption of the connections to Kafka.
type TLSConfig struct {
	Enabled bool `yaml:"enabled"`
	// CAFile, CertFile and KeyFile are PEM files: whom to trust (default: the system's), and our own certificate
	// for brokers that ask for one.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that a broker's certificate must have. Default: the host in its address.
	ServerName string `yaml:"server_name"`
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
}

// SASLConfig is the authentication to Kafka.
type SASLConfig struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Default empty: none.
	Mechanism string        `yaml:"mechanism"`
	Username  string        `yaml:"username"`
	Password  config.Secret `yaml:"password"`
}

// RegistryConfig is a Confluent-compatible schema registry.
type RegistryConfig struct {
	// URL is the base of the API with any path prefix. Default empty: there is no registry.
	URL      string        `yaml:"url"`
	Username string        `yaml:"username"`
	Password config.Secret `yaml:"password"`
	// Token is sent as a bearer token; it excludes Username.
	Token config.Secret `yaml:"token"`
}

// TableConfig is about one topic. All keys are optional.
type TableConfig struct {
	Catalog catalog.TableConfig `yaml:",inline"`
	Dedup   dedup.TableConfig   `yaml:",inline"`
}

// CacheConfig bounds what is kept to save time.
type CacheConfig struct {
	// MaxBytes of encoded blocks on the materializer's disk. Default 10GiB.
	MaxBytes config.Size `yaml:"max_bytes"`
	// OpenFiles of that cache that stay open. Default 64.
	OpenFiles int `yaml:"open_files"`
	// MetadataMaxBytes of rendered metadata in the catalog's memory. Default 128MiB.
	MetadataMaxBytes config.Size `yaml:"metadata_max_bytes"`
}

// MemoryConfig bounds memory.
type MemoryConfig struct {
	// MaxBytes of the buffers of each service. Default 512MiB.
	MaxBytes config.Size `yaml:"max_bytes"`
}

// DedupConfig tunes the work of dedup.
type DedupConfig struct {
	// Parallel is how many logs advance at once, over all tables. Default: the number of cores.
	Parallel int `yaml:"parallel"`
	// PublishOffsets: chunks that are smaller are read and published several at a time, those of so many offsets at most.
	// Default 16384.
	PublishOffsets int `yaml:"publish_offsets"`
	// OpenRuns is how many run files stay open. Default 256.
	OpenRuns int `yaml:"open_runs"`
	// BadRecordRetry is how long a record that stopped its log is not read again. Default 30s.
	BadRecordRetry time.Duration `yaml:"bad_record_retry"`
	// CollectEvery is how often state that nothing names is looked for. Default 1m.
	CollectEvery time.Duration `yaml:"collect_every"`
	// Fold says when marks that no kept snapshot tells apart are folded.
	Fold dedup.FoldConfig `yaml:"fold"`
}

// SnapshotsConfig says how long the past can be read.
type SnapshotsConfig struct {
	// Retention of a snapshot. Default 1h.
	Retention time.Duration `yaml:"retention"`
	// Dense is the age up to which every snapshot is kept; of the older ones one per Every. Defaults 10m and 1m.
	Dense time.Duration `yaml:"dense"`
	Every time.Duration `yaml:"every"`
	// Listed is how many snapshots the metadata lists. Default 100.
	Listed int `yaml:"listed"`
}

// ServicesConfig is where the services of split mode find each other. Unused by target all.
type ServicesConfig struct {
	// Catalog, Materializer and Dedup are each host:port, a comma-separated list of them, or dns:///host:port, whose
	// addresses are looked up again and again: the replicas. Several of Dedup need state.kind: redis. Defaults
	// 127.0.0.1:7070, :7071 and :7072.
	Catalog      string `yaml:"catalog"`
	Materializer string `yaml:"materializer"`
	Dedup        string `yaml:"dedup"`
	// Listen has the address of each service's own gRPC listener.
	Listen ListenConfig `yaml:"listen"`
	// ResolveEvery is how often dns:/// names are looked up. Default 5s.
	ResolveEvery time.Duration `yaml:"resolve_every"`
}

// of is where a service is.
func (s ServicesConfig) of(target Target) string {
	switch target {
	case TargetCatalog:
		return s.Catalog
	case TargetMaterializer:
		return s.Materializer
	default:
		return s.Dedup
	}
}

// ListenConfig is the gRPC listeners of split mode, host:port.
type ListenConfig struct {
	Catalog      string `yaml:"catalog"`
	Materializer string `yaml:"materializer"`
	Dedup        string `yaml:"dedup"`
}

// ClusterConfig is what services of one installation share.
type ClusterConfig struct {
	// Secret proves that a call between services comes from this installation, at least 32 characters. Required
	// when a gRPC listener or a service's address is not loopback. It does not travel; the calls themselves are
	// not encrypted.
	Secret config.Secret `yaml:"secret"`
}

const defaultHealthListen = "127.0.0.1:7079"

// HealthConfig is the listener for /livez, /readyz and /metrics.
type HealthConfig struct {
	// Listen is host:port. Default empty: 127.0.0.1:7079 in split mode, none with target all, whose REST port answers
	// /livez and /readyz, and /metrics when it is loopback.
	Listen string `yaml:"listen"`
}

// Default answers a configuration that needs only brokers.
func Default() Config {
	e, c, m, d := edge.Default(), catalog.Default(), materializer.Default(), dedup.Default()
	e.S3.Listen = "127.0.0.1:9000"
	return Config{
		DataDir: "frazil-data",
		Kafka:   KafkaConfig{ClientID: "frazil"},
		REST:    e.REST, S3: e.S3, Auth: e.Auth, Credentials: e.Credentials, Shutdown: e.Shutdown,
		Namespace: c.Namespace, Topics: c.Topics, Freshness: c.Freshness,
		Cache: CacheConfig{
			MaxBytes: m.Cache.MaxBytes, OpenFiles: m.Cache.OpenFiles,
			MetadataMaxBytes: config.Size(c.Cache.MetadataMaxBytes),
		},
		State:  defaultState(),
		Memory: MemoryConfig{MaxBytes: m.Memory.MaxBytes},
		Slots:  m.Slots, BuildTimeout: m.BuildTimeout,
		OnBadRecord: d.OnBadRecord, RetentionMarginPercent: d.RetentionMarginPercent,
		Plan: d.Plan, Room: config.Size(d.RoomBytes),
		Dedup: DedupConfig{
			Parallel: d.Parallel, PublishOffsets: d.PublishOffsets, OpenRuns: d.OpenRuns, BadRecordRetry: d.BadRecordRetry, CollectEvery: d.CollectEvery,
			Fold: d.Fold,
		},
		Snapshots: SnapshotsConfig{
			Retention: d.Snapshots.Retention, Dense: d.Snapshots.Dense, Every: d.Snapshots.Every, Listed: d.Snapshots.Listed,
		},
		Services: ServicesConfig{
			Catalog: "127.0.0.1:7070", Materializer: "127.0.0.1:7071", Dedup: "127.0.0.1:7072",
			Listen:       ListenConfig{Catalog: "127.0.0.1:7070", Materializer: "127.0.0.1:7071", Dedup: "127.0.0.1:7072"},
			ResolveEvery: 5 * time.Second,
		},
		Telemetry: telemetry.Default(),
	}
}

// minSecret is the least length of the cluster secret, characters.
const minSecret = 32

// Validate reports what makes the configuration unusable for a target, joined, and what is merely unwise. Messages
// name the key.
func (c Config) Validate(target Target) (warnings []error, err error) {
	var errs []error
	add := func(w []error, err error) {
		warnings = append(warnings, w...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	if target.runs(TargetEdge) {
		add(c.edge().Validate())
	}
	if target.runs(TargetCatalog) {
		own := c.catalog()
		add(own.Validate())
	}
	if target.runs(TargetDedup) {
		add(c.dedup().Validate())
		add(c.validateState())
	}
	if target.runs(TargetMaterializer) {
		add(nil, c.materializer().Validate())
	}
	if target.runs(TargetCatalog) || target.runs(TargetMaterializer) {
		if len(c.Kafka.Brokers) == 0 {
			add(nil, errors.New("kafka.brokers is empty: name at least one broker (--brokers HOST:PORT)"))
		} else {
			add(nil, checkAddresses("kafka.brokers", c.Kafka.Brokers))
			add(c.kafka().Validate())
		}
		if c.Registry.URL != "" {
			add(nil, c.registry().Validate())
		}
	}
	if target == TargetAll || target == TargetEdge || target == TargetDedup || target == TargetMaterializer {
		if c.DataDir == "" {
			add(nil, errors.New("data_dir is empty"))
		}
	}
	add(nil, c.Telemetry.Validate())
	add(nil, c.validateBounds())
	if target != TargetAll {
		add(nil, c.validateSplit(target))
	}
	return warnings, errors.Join(errs...)
}

func (c Config) validateBounds() error {
	switch {
	case c.Cache.MaxBytes < 64<<20:
		return errors.New("cache.max_bytes is below 64MiB")
	case c.Memory.MaxBytes < 64<<20:
		return errors.New("memory.max_bytes is below 64MiB")
	case c.Snapshots.Retention < time.Minute:
		return errors.New("snapshots.retention is below 1m: a running query would lose its snapshot")
	}
	return nil
}

func (c Config) validateSplit(target Target) error {
	var errs []error
	for name, address := range c.splitAddresses(target) {
		if address == "" {
			errs = append(errs, fmt.Errorf("%s is empty", name))
			continue
		}
		// A listener may leave out the host; what else is wrong with it, opening it says.
		if listens := strings.HasPrefix(name, "services.listen."); !listens {
			if err := checkAddresses(name, addressesOf(address)); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if c.Cluster.Secret.Empty() && !loopback(address) {
			errs = append(errs, fmt.Errorf("%s is not loopback: cluster.secret is required", name))
		}
	}
	if n := len(c.Cluster.Secret.Reveal()); n > 0 && n < minSecret {
		errs = append(errs, fmt.Errorf("cluster.secret has %d characters, at least %d are needed", n, minSecret))
	}
	if c.Services.ResolveEvery <= 0 {
		errs = append(errs, errors.New("services.resolve_every must be positive"))
	}
	return errors.Join(errs...)
}

// splitAddresses are the gRPC addresses that a target uses, by key.
func (c Config) splitAddresses(target Target) map[string]string {
	s := c.Services
	switch target {
	case TargetEdge:
		return map[string]string{"services.catalog": s.Catalog, "services.dedup": s.Dedup, "services.materializer": s.Materializer}
	case TargetCatalog:
		return map[string]string{"services.dedup": s.Dedup, "services.listen.catalog": s.Listen.Catalog}
	case TargetMaterializer:
		return map[string]string{"services.dedup": s.Dedup, "services.listen.materializer": s.Listen.Materializer}
	case TargetDedup:
		return map[string]string{"services.materializer": s.Materializer, "services.listen.dedup": s.Listen.Dedup}
	default: // everything is in one process
		return nil
	}
}

// checkAddresses wants each to be host:port: a client would only find out at every try that there is no such place.
func checkAddresses(key string, addresses []string) error {
	var errs []error
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
			errs = append(errs, fmt.Errorf("%s: %q is no address: write host:port, as in localhost:9092", key, address))
		}
	}
	return errors.Join(errs...)
}

// loopback says whether every address of a target, "host:port", a list of them or dns:///host:port, is loopback.
func loopback(target string) bool {
	for _, address := range addressesOf(target) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return false
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// shared is what must be equal on all services for them to speak of the same tables: everything but where a process
// listens, keeps its files, finds its peers, and how much it may use.
func (c Config) shared() Config {
	s := Config{Namespace: c.Namespace, Topics: c.Topics, Freshness: c.Freshness, Tables: c.Tables, Snapshots: c.Snapshots,
		OnBadRecord: c.OnBadRecord, RetentionMarginPercent: c.RetentionMarginPercent, Plan: c.Plan, Room: c.Room}
	s.S3.Bucket = c.S3.Bucket
	return s
}

// Hash is the fingerprint of the shared part; it travels in every call between services.
func (c Config) Hash() (string, error) { return config.Hash(c.shared()) }

// dir is a directory below DataDir.
func (c Config) dir(name string) string { return filepath.Join(c.DataDir, name) }

package catalog

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkaname"
)

// Config is what the catalog can be told.
type Config struct {
	// Namespace holds all tables. Default "kafka". One level, characters [A-Za-z0-9_-].
	Namespace string `yaml:"namespace"`
	// Bucket of all locations. Default "frazil".
	Bucket string       `yaml:"bucket"`
	Topics TopicsConfig `yaml:"topics"`
	// Tables by topic. A topic that is named here is a table even if its name looks like one of Kafka's own.
	Tables    map[string]TableConfig `yaml:"tables"`
	Freshness FreshnessConfig        `yaml:"freshness"`
	Cache     CacheConfig            `yaml:"cache"`
	// Lazy says which tables are published before their history is read. It has no key of its own: dedup's plan does.
	Lazy Lazy `yaml:"-"`
	// ListedSnapshots is how many snapshots metadata lists beside the tagged ones. Default 100.
	ListedSnapshots int `yaml:"listed_snapshots"`
	// Waiting is how many requests may wait: for a table, for an object that is rendered, for a broker to answer; each
	// kind for itself. Default 1024.
	Waiting int `yaml:"waiting"`
}

// TopicsConfig chooses topics by glob (* ? [a-z]).
type TopicsConfig struct {
	// Include: a topic must match one. Empty = all.
	Include []string `yaml:"include"`
	// Exclude: a topic may match none.
	Exclude []string `yaml:"exclude"`
}

// TableConfig is about one topic.
type TableConfig struct {
	// Name of the table. Default: the topic in lower case, other characters as underscores.
	Name string `yaml:"name"`
	// Exclude leaves the topic out.
	Exclude bool `yaml:"exclude"`
	// CleanupPolicy declares the topic's cleanup.policy where the broker does not let us read it: "delete".
	CleanupPolicy string `yaml:"cleanup_policy"`
}

// FreshnessConfig is how closely tables follow their topics.
type FreshnessConfig struct {
	// OffsetsTTL is how long observed ends count as the present. Default 200 ms.
	OffsetsTTL time.Duration `yaml:"offsets_ttl"`
	// TopicsTTL is how long the list of topics counts as the present; a name that is not in it is looked up
	// anew. Default 1 s.
	TopicsTTL time.Duration `yaml:"topics_ttl"`
	// ConfigTTL is how long a topic's configuration counts as the present. Default 30 s.
	ConfigTTL time.Duration `yaml:"config_ttl"`
	// KafkaTimeout bounds one look at a topic. Default 5 s.
	KafkaTimeout time.Duration `yaml:"kafka_timeout"`
	// MinCutInterval is the least time between two cuts of a table of up to 50 partitions; it grows with them.
	// Default 250 ms.
	MinCutInterval time.Duration `yaml:"min_cut_interval"`
	// LoadWait is how long loadTable waits for the first snapshot of a table. Default 20 s: clients give up at 30.
	LoadWait time.Duration `yaml:"load_wait"`
	// AdvanceWait is how long loadTable waits for a newer snapshot before it serves the last one. Default 5 s.
	AdvanceWait time.Duration `yaml:"advance_wait"`
	// BackgroundInterval is how often recently loaded tables are brought up to date unasked. Default 1 s.
	BackgroundInterval time.Duration `yaml:"background_interval"`
	// BackgroundFor is how long after its last load a table is. Default 10 min.
	BackgroundFor time.Duration `yaml:"background_for"`
}

// CacheConfig bounds memory.
type CacheConfig struct {
	// MetadataMaxBytes bounds the rendered objects and table states in memory. Default 128 MiB.
	MetadataMaxBytes int64 `yaml:"metadata_max_bytes"`
}

// minCacheBytes is the least cache that still holds a table's state and what is rendered from it.
const minCacheBytes = 1 << 20

// Default is the configuration of a process that is told nothing.
func Default() Config {
	return Config{
		Namespace: "kafka",
		Bucket:    "frazil",
		Freshness: FreshnessConfig{
			OffsetsTTL: 200 * time.Millisecond, TopicsTTL: time.Second, ConfigTTL: 30 * time.Second,
			KafkaTimeout: 5 * time.Second, MinCutInterval: 250 * time.Millisecond,
			LoadWait: 20 * time.Second, AdvanceWait: 5 * time.Second,
			BackgroundInterval: time.Second, BackgroundFor: 10 * time.Minute,
		},
		Cache:           CacheConfig{MetadataMaxBytes: 128 << 20},
		ListedSnapshots: 100,
		Waiting:         1024,
	}
}

// Validate checks the configuration. Errors are fault.ErrInvalid and name the key.
func (c *Config) Validate() (warnings []error, err error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, fault.ErrInvalid)...))
	}
	if !isNamespace(c.Namespace) {
		bad("namespace %q must be one level of [A-Za-z0-9_-]", c.Namespace)
	}
	if c.Bucket == "" || strings.ContainsAny(c.Bucket, "/ ") {
		bad("bucket %q is no bucket name", c.Bucket)
	}
	if c.Cache.MetadataMaxBytes < minCacheBytes {
		bad("cache.metadata_max_bytes must be at least %d", minCacheBytes)
	}
	if c.ListedSnapshots < 1 {
		bad("listed_snapshots must be at least 1")
	}
	if c.Waiting < 1 {
		bad("slots.waiting must be at least 1")
	}
	for _, g := range slices.Concat(c.Topics.Include, c.Topics.Exclude) {
		if _, err := path.Match(g, ""); err != nil {
			bad("topics: %q is no glob", g)
		}
	}
	for name, d := range c.Freshness.durations() {
		if d <= 0 {
			bad("freshness.%s must be positive", name)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(c.Tables)) {
		t := c.Tables[topic]
		if t.Name != "" && !kafkaname.ValidTable(t.Name) {
			bad("tables.%s.name %q must be of [a-z0-9_]", topic, t.Name)
		}
		if t.CleanupPolicy != "" && t.CleanupPolicy != "delete" {
			bad("tables.%s.cleanup_policy can only be declared as delete, not %q", topic, t.CleanupPolicy)
		}
	}
	errs = append(errs, c.clashes()...)
	if c.Freshness.LoadWait > 25*time.Second || c.Freshness.AdvanceWait > 25*time.Second {
		warnings = append(warnings, errors.New("freshness: a wait above 25s outlasts the 30s after which most clients give up"))
	}
	return warnings, errors.Join(errs...)
}

// clashes are the collisions among the topics that are named in the configuration. Others are found when topics are
// listed.
func (c *Config) clashes() []error {
	var named []kafkaname.Named
	for topic, t := range c.Tables {
		if !t.Exclude && c.Topics.match(topic) {
			named = append(named, kafkaname.Named{Topic: topic, Table: c.tableName(topic)})
		}
	}
	return kafkaname.NewListing(named).Clashes()
}

// tableName is the name of a topic's table.
func (c *Config) tableName(topic string) string {
	if name := c.Tables[topic].Name; name != "" {
		return name
	}
	return kafkaname.Table(topic)
}

func (f *FreshnessConfig) durations() map[string]time.Duration {
	return map[string]time.Duration{
		"offsets_ttl": f.OffsetsTTL, "topics_ttl": f.TopicsTTL, "config_ttl": f.ConfigTTL,
		"kafka_timeout": f.KafkaTimeout, "min_cut_interval": f.MinCutInterval, "load_wait": f.LoadWait,
		"advance_wait": f.AdvanceWait, "background_interval": f.BackgroundInterval, "background_for": f.BackgroundFor,
	}
}

func isNamespace(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// partitionsPerInterval: a table's least time between cuts is MinCutInterval for each started 50 partitions, so
// that the work of a cut stays a bounded share of a core.
const partitionsPerInterval = 50

func (f *FreshnessConfig) cutInterval(partitions int) time.Duration {
	return f.MinCutInterval * time.Duration(1+max(0, partitions-1)/partitionsPerInterval)
}

package app

import (
	"github.com/frazil-io/frazil/libs/kafkalog/franz"
	"github.com/frazil-io/frazil/libs/registry/httpregistry"
	"github.com/frazil-io/frazil/services/catalog"
	"github.com/frazil-io/frazil/services/dedup"
	"github.com/frazil-io/frazil/services/edge"
	"github.com/frazil-io/frazil/services/internal/replicas"
	"github.com/frazil-io/frazil/services/materializer"
)

// The one configuration in the words of each package.

func (c Config) edge() edge.Config {
	return edge.Config{REST: c.REST, S3: c.S3, Auth: c.Auth, Credentials: c.Credentials, Shutdown: c.Shutdown}
}

func (c Config) catalog() catalog.Config {
	own := catalog.Default()
	own.Namespace, own.Bucket, own.Topics, own.Freshness = c.Namespace, c.S3.Bucket, c.Topics, c.Freshness
	own.Cache.MetadataMaxBytes = int64(c.Cache.MetadataMaxBytes)
	own.ListedSnapshots, own.Waiting = c.Snapshots.Listed, c.Slots.Waiting
	own.Tables = make(map[string]catalog.TableConfig, len(c.Tables))
	own.Lazy = catalog.Lazy{All: c.Plan == dedup.PlanLazy, Except: map[string]bool{}}
	for topic, t := range c.Tables {
		own.Tables[topic] = t.Catalog
		if t.Dedup.Plan != "" && t.Dedup.Plan != c.Plan {
			own.Lazy.Except[topic] = true
		}
	}
	return own
}

func (c Config) materializer() materializer.Config {
	own := materializer.Default()
	own.CacheDir = c.dir("cache")
	own.Cache.MaxBytes, own.Memory.MaxBytes, own.Hold = c.Cache.MaxBytes, c.Memory.MaxBytes, c.S3.Hold
	own.Cache.OpenFiles = c.Cache.OpenFiles
	own.Slots, own.BuildTimeout = c.Slots, c.BuildTimeout
	return own
}

func (c Config) dedup() dedup.Config {
	own := dedup.Default()
	own.RunDir, own.Bucket = c.dir("runs"), c.S3.Bucket
	own.OnBadRecord, own.RetentionMarginPercent = c.OnBadRecord, c.RetentionMarginPercent
	own.Plan, own.RoomBytes = c.Plan, int64(c.Room)
	own.Snapshots = dedup.SnapshotsConfig{
		Retention: c.Snapshots.Retention, Dense: c.Snapshots.Dense, Every: c.Snapshots.Every, Listed: c.Snapshots.Listed,
	}
	own.Parallel, own.OpenRuns, own.Waiting = c.Dedup.Parallel, c.Dedup.OpenRuns, c.Slots.Waiting
	own.PublishOffsets = c.Dedup.PublishOffsets
	own.BadRecordRetry, own.CollectEvery = c.Dedup.BadRecordRetry, c.Dedup.CollectEvery
	own.Fold = c.Dedup.Fold
	own.StateCacheBytes, own.DeleteCacheBytes = int64(c.Memory.MaxBytes)/4, int64(c.Memory.MaxBytes)/8
	own.RunFilterBytes = int64(c.Memory.MaxBytes) / 8
	own.BlockBytes = blockBytes(int64(c.Memory.MaxBytes), c.Slots.Work+c.Slots.Scan)
	own.Tables = make(map[string]dedup.TableConfig, len(c.Tables))
	for topic, t := range c.Tables {
		own.Tables[topic] = t.Dedup
	}
	return own
}

// blockBytes is what a block aims at: a row group is in memory as a whole while it is made, in every slot one, and takes
// up to three times its records there. More than the largest pays no more: see docs/BENCHMARKS.md.
func blockBytes(memory int64, slots int) int64 {
	const least, largest = 8 << 20, 32 << 20
	return max(least, min(memory/int64(2*max(1, slots)), largest))
}

func (c Config) kafka() franz.Config {
	own := franz.Default()
	own.Brokers, own.ClientID, own.RackID = c.Kafka.Brokers, c.Kafka.ClientID, c.Kafka.Rack
	own.TLS = franz.TLS(c.Kafka.TLS)
	s := c.Kafka.SASL
	own.SASL = franz.SASL{Mechanism: s.Mechanism, Username: s.Username, Password: franz.Secret(s.Password.Reveal())}
	boundFetches(&own, int64(c.Memory.MaxBytes))
	return own
}

func (c Config) registry() httpregistry.Config {
	own := httpregistry.Default()
	own.URL, own.Username = c.Registry.URL, c.Registry.Username
	own.Password, own.Token = c.Registry.Password.Reveal(), c.Registry.Token.Reveal()
	return own
}

// addressesOf are the host:port of a gRPC target.
func addressesOf(target string) []string { return replicas.Addresses(target) }

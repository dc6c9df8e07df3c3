// Package dedup is the service that owns which events are superseded: layouts, key runs, the chain of marks, cuts
// and the record of every table. It renders delete files and never talks to Kafka.
package dedup

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
)

// What to do with records that cannot be decoded.
const (
	// BadRecordFail stops the partition before the record.
	BadRecordFail = "fail"
	// BadRecordSkip makes no row of it and goes on.
	BadRecordSkip = "skip"
)

// When a table's first walk is done.
const (
	// PlanEager walks all logs before the first snapshot is published.
	PlanEager = "eager"
	// PlanLazy publishes at once, and walks as far down as somebody reads.
	PlanLazy = "lazy"
)

// Bounds of the room of a file that nobody has read, bytes.
const minRoom, maxRoom = 1 << 20, 1 << 40

// Bounds of chunk and block sizes, log2 of offsets.
const (
	minChunkLog2, maxChunkLog2 = 2, 22
	minBlockLog2, maxBlockLog2 = 2, 18
)

// Config is what the service can be told.
type Config struct {
	// RunDir is the directory of the key runs. Required.
	RunDir string `yaml:"run_dir"`
	// Bucket of all locations: delete files name their data file by its full path. Default "frazil".
	Bucket string `yaml:"bucket"`
	// OnBadRecord is "fail" or "skip". Default "fail".
	OnBadRecord string `yaml:"on_bad_record"`
	// Plan is "eager" or "lazy". Default "eager".
	Plan string `yaml:"plan"`
	// RoomBytes is the size that data files of lazy tables declare while nobody has read them. A file that needs more
	// is answered 404 once, and has its exact size in the next snapshot. Default 1 GiB.
	RoomBytes int64 `yaml:"lazy_room"`
	// Tables by topic. All keys are optional.
	Tables    map[string]TableConfig `yaml:"tables"`
	Snapshots SnapshotsConfig        `yaml:"snapshots"`
	// RetentionMarginPercent is how far, in percent of the log, the start of a table runs ahead of the log start
	// where retention moves it; at most one block. Default 10.
	RetentionMarginPercent int `yaml:"retention_margin_percent"`
	// ChunksPerGroup is how many chunks form one manifest. Default 256.
	ChunksPerGroup int `yaml:"chunks_per_group"`
	// Parallel is how many ranges of logs are read and published at once, over all tables; first walks have as many
	// of their own; and how many delete files are composed at once. Default: the number of cores.
	Parallel int `yaml:"parallel"`
	// PublishOffsets: smaller chunks are read and published several at a time, those of a range of at most so many
	// offsets; their files have about BlockBytes together at most. Default 16384.
	PublishOffsets int `yaml:"publish_offsets"`
	// Waiting is how many callers may wait for a table. Default 1024.
	Waiting int `yaml:"waiting"`
	// OpenRuns is how many run files stay open between uses. Default 256.
	OpenRuns int `yaml:"open_runs"`
	// StateCacheBytes, DeleteCacheBytes and RunFilterBytes bound what is kept in memory of the state, of composed delete
	// sets and of the filters of runs, which are 0.7 bytes per key. Defaults 128 MiB, 64 MiB and 64 MiB.
	StateCacheBytes  int64 `yaml:"state_cache_bytes"`
	DeleteCacheBytes int64 `yaml:"delete_cache_bytes"`
	RunFilterBytes   int64 `yaml:"run_filter_bytes"`
	// BlockBytes is what a block aims at, bytes of records; it holds between a quarter of that and all. A chunk aims at
	// eight times as much. Default 32 MiB.
	BlockBytes int64 `yaml:"block_bytes"`
	// BadRecordRetry is how long a record that stopped its partition is not read again. Default 30 s.
	BadRecordRetry time.Duration `yaml:"bad_record_retry"`
	// CollectEvery is how often state that nothing names is looked for. Default 1 min.
	CollectEvery time.Duration `yaml:"collect_every"`
	Fold         FoldConfig    `yaml:"fold"`
}

// FoldConfig says when marks that no kept snapshot tells apart are folded.
type FoldConfig struct {
	// Every is how often tables that were loaded are looked at; 0: never. Default 1 min.
	Every time.Duration `yaml:"every"`
	// MinMarks is how many marks of a chunk can be folded before it is written anew. Default 256.
	MinMarks int `yaml:"min_marks"`
	// MaxMarks is about how many marks are read and published at a time. Default 262144.
	MaxMarks int `yaml:"max_marks"`
}

// TableConfig is about one topic. What it says about sizes counts when the table's state is made.
type TableConfig struct {
	// ChunkLog2 is log2 of the offsets of a chunk, 2 to 22. Default: about eight times BlockBytes of records, 14 to 19.
	ChunkLog2 int `yaml:"chunk_log2"`
	// BlockLog2 is log2 of the offsets of a block, even, 2 to 18, at most ChunkLog2. Default: at most BlockBytes of
	// records, 10 to 16.
	BlockLog2 int `yaml:"block_log2"`
	// OnBadRecord of this topic.
	OnBadRecord string `yaml:"on_bad_record"`
	// Plan of this topic. It may be changed at any time.
	Plan string `yaml:"plan"`
}

// SnapshotsConfig says how long the past can be read.
type SnapshotsConfig struct {
	// Retention is how long a snapshot is kept. Default 1 h.
	Retention time.Duration `yaml:"retention"`
	// Dense is the age up to which all are kept. Default 10 min.
	Dense time.Duration `yaml:"dense"`
	// Every: of the older ones, one per interval is kept. Default 1 min.
	Every time.Duration `yaml:"every"`
	// Listed is how many are listed beside the tagged ones. Default 100.
	Listed int `yaml:"listed"`
}

// Default is the configuration without a run directory.
func Default() Config {
	return Config{
		Bucket: "frazil", OnBadRecord: BadRecordFail, Plan: PlanEager, RoomBytes: 1 << 30,
		Snapshots:              SnapshotsConfig{Retention: time.Hour, Dense: 10 * time.Minute, Every: time.Minute, Listed: 100},
		RetentionMarginPercent: 10, ChunksPerGroup: 256, Parallel: runtime.GOMAXPROCS(0), PublishOffsets: 1 << 14, Waiting: 1024, OpenRuns: 256,
		StateCacheBytes: 128 << 20, DeleteCacheBytes: 64 << 20, RunFilterBytes: 64 << 20, BlockBytes: 32 << 20, BadRecordRetry: 30 * time.Second, CollectEvery: time.Minute,
		Fold: FoldConfig{Every: time.Minute, MinMarks: 256, MaxMarks: 1 << 18},
	}
}

// Validate reports every mistake. fault.ErrInvalid: the service cannot run with this.
func (c Config) Validate() (warnings []error, err error) {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, fault.ErrInvalid)...))
		}
	}
	bad(c.RunDir == "", "run_dir is not set")
	bad(c.Bucket == "", "bucket is empty")
	bad(!isPolicy(c.OnBadRecord), "on_bad_record %q: fail or skip", c.OnBadRecord)
	bad(!isPlan(c.Plan), "plan %q: eager or lazy", c.Plan)
	bad(c.Plan == PlanLazy && c.OnBadRecord == BadRecordFail,
		"plan: lazy needs on_bad_record: skip: a snapshot that is published before its records are read cannot be stopped by one of them")
	bad(c.RoomBytes < minRoom || c.RoomBytes > maxRoom, "lazy_room: %d bytes, it must be 1MiB to 1TiB", c.RoomBytes)
	s := c.Snapshots
	bad(s.Retention <= 0 || s.Dense < 0 || s.Every <= 0 || s.Listed < 1, "snapshots: retention, every and listed must be above 0")
	bad(c.RetentionMarginPercent < 0 || c.RetentionMarginPercent > 100, "retention_margin_percent %d: 0 to 100", c.RetentionMarginPercent)
	bad(c.ChunksPerGroup < 1 || c.Parallel < 1 || c.Waiting < 1 || c.OpenRuns < 1, "chunks_per_group, parallel, waiting and open_runs must be above 0")
	bad(c.PublishOffsets < 1, "publish_offsets must be above 0")
	bad(c.StateCacheBytes < 0 || c.DeleteCacheBytes < 0 || c.RunFilterBytes < 0,
		"state_cache_bytes, delete_cache_bytes and run_filter_bytes must not be negative")
	bad(c.BlockBytes < 1, "block_bytes must be above 0")
	bad(c.CollectEvery <= 0, "collect_every must be above 0")
	bad(c.Fold.Every < 0 || c.Fold.MinMarks < 1 || c.Fold.MaxMarks < 1, "fold: every must not be negative, min_marks and max_marks must be above 0")
	for topic, t := range c.Tables {
		bad(t.ChunkLog2 != 0 && (t.ChunkLog2 < minChunkLog2 || t.ChunkLog2 > maxChunkLog2),
			"tables.%s.chunk_log2 %d: %d to %d", topic, t.ChunkLog2, minChunkLog2, maxChunkLog2)
		bad(t.BlockLog2 != 0 && (t.BlockLog2 < minBlockLog2 || t.BlockLog2 > maxBlockLog2 || t.BlockLog2%2 != 0),
			"tables.%s.block_log2 %d: even, %d to %d", topic, t.BlockLog2, minBlockLog2, maxBlockLog2)
		bad(t.ChunkLog2 != 0 && t.BlockLog2 > t.ChunkLog2, "tables.%s: a block of 2^%d in a chunk of 2^%d", topic, t.BlockLog2, t.ChunkLog2)
		bad(t.Plan != "" && !isPlan(t.Plan), "tables.%s.plan %q: eager or lazy", topic, t.Plan)
		bad(c.lazy(topic) && !c.skips(topic) && (t.Plan != "" || t.OnBadRecord != ""),
			"tables.%s has plan lazy, which needs tables.%s.on_bad_record: skip", topic, topic)
		bad(t.OnBadRecord != "" && !isPolicy(t.OnBadRecord), "tables.%s.on_bad_record %q: fail or skip", topic, t.OnBadRecord)
	}
	return nil, errors.Join(errs...)
}

func isPolicy(s string) bool { return s == BadRecordFail || s == BadRecordSkip }

// skips reports whether undecodable records of a topic are skipped.
func (c Config) skips(topic string) bool {
	if p := c.Tables[topic].OnBadRecord; p != "" {
		return p == BadRecordSkip
	}
	return c.OnBadRecord == BadRecordSkip
}

func isPlan(s string) bool { return s == PlanEager || s == PlanLazy }

// plan answers when the first walk of a topic's table is done.
func (c Config) plan(topic string) string {
	if p := c.Tables[topic].Plan; p != "" {
		return p
	}
	return c.Plan
}

func (c Config) lazy(topic string) bool { return c.plan(topic) == PlanLazy }

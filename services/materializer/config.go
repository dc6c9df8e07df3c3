package materializer

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/frazil-io/frazil/libs/config"
)

// Config is what a materializer can be told.
type Config struct {
	// CacheDir holds the block cache. It is made if it is not there and belongs to one process. Losing it loses
	// only time.
	CacheDir string `yaml:"-"`
	// Cache bounds the block cache.
	Cache CacheConfig `yaml:"cache"`
	// Memory bounds the row groups that are being made.
	Memory MemoryConfig `yaml:"memory"`
	// Hold is how long a read waits for row groups that are still being made, before it answers that the reader
	// should come back. Default 25 s: below the 30 s after which several clients give up.
	Hold time.Duration `yaml:"hold"`
	// BuildTimeout ends the making of one row group. Default 5 min.
	BuildTimeout time.Duration `yaml:"build_timeout"`
	// Slots bound work that goes on at once.
	Slots SlotsConfig `yaml:"slots"`
}

// CacheConfig bounds the block cache.
type CacheConfig struct {
	// MaxBytes of row groups on disk. Default 10 GiB. 0 keeps none.
	MaxBytes config.Size `yaml:"max_bytes"`
	// OpenFiles is how many files of the cache stay open. Default 64.
	OpenFiles int `yaml:"open_files"`
}

// MemoryConfig bounds memory.
type MemoryConfig struct {
	// MaxBytes that row groups being made may take together. Default 512 MiB, at least 16 MiB.
	MaxBytes config.Size `yaml:"max_bytes"`
}

// SlotsConfig bounds work that goes on at once.
type SlotsConfig struct {
	// Work is how many row groups are made at once for reads. Default: the number of cores.
	Work int `yaml:"work"`
	// Scan is how many scans go on at once. They have slots of their own: a read may wait for a scan, so reads
	// must not keep it from its turn. Default: the number of cores.
	Scan int `yaml:"scan"`
	// Waiting is how many requests of each kind may wait. Default 1024.
	Waiting int `yaml:"waiting"`
}

const leastMemory = 16 << 20

// Default answers the defaults. CacheDir is empty.
func Default() Config {
	cores := runtime.GOMAXPROCS(0)
	return Config{
		Cache:        CacheConfig{MaxBytes: 10 << 30, OpenFiles: 64},
		Memory:       MemoryConfig{MaxBytes: 512 << 20},
		Hold:         25 * time.Second,
		BuildTimeout: 5 * time.Minute,
		Slots:        SlotsConfig{Work: cores, Scan: cores, Waiting: 1024},
	}
}

// Validate says what is wrong and what to change.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.CacheDir != "", "the materializer has no directory for its block cache")
	check(c.Cache.MaxBytes >= 0, "cache.max_bytes is negative")
	check(c.Cache.OpenFiles >= 0, "cache.open_files is negative")
	check(c.Memory.MaxBytes >= leastMemory, "memory.max_bytes is below %d", leastMemory)
	check(c.Hold > 0, "hold is not positive")
	check(c.BuildTimeout > 0, "build_timeout is not positive")
	check(c.Slots.Work > 0, "slots.work is not positive")
	check(c.Slots.Scan > 0, "slots.scan is not positive")
	check(c.Slots.Waiting > 0, "slots.waiting is not positive")
	return errors.Join(errs...)
}

package app

import (
	"os"
	"runtime/debug"

	"github.com/frazil-io/frazil/libs/kafkalog/franz"
)

// limitMemory tells the garbage collector how much the services may hold, so that it works harder near the bound
// instead of letting garbage double it. The operator's GOMEMLIMIT goes before.
func limitMemory(target Target, perService int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	services := int64(1)
	if target == TargetAll {
		services = 4
	}
	debug.SetMemoryLimit(collectorLimit(services*perService, programBytes()))
}

// collectorLimit is what is left of a process's bytes for what the collector counts: not the pages of the program
// itself, which are in memory too. It is at least half.
func collectorLimit(process, program int64) int64 { return process - min(program, process/2) }

// programBytes is the size of the running program's file, 0 if it is not known. No more of it can be in memory.
func programBytes() int64 {
	path, err := os.Executable()
	if err != nil {
		return 0
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Of a service's memory, a scan holds up to three fetches at a time, and one batch decompressed.
const (
	fetchShare = 32
	batchShare = 2
)

// boundFetches fits fetches and batches into a service's bytes.
func boundFetches(c *franz.Config, perService int64) {
	c.FetchBytes = int(min(int64(c.FetchBytes), perService/fetchShare))
	c.MaxBatchBytes = int(min(int64(c.MaxBatchBytes), perService/batchShare))
}

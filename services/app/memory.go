package app

import (
	"fmt"
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
// itself, which are in memory too. It is at least a third.
func collectorLimit(process, program int64) int64 { return max(process-program, process/3) }

// programBytes is about how much of the running program's file is in memory, 0 if that is not known: what is there now
// and an eighth for what is not used yet, or the size of the file where the system does not tell.
func programBytes() int64 {
	path, err := os.Executable()
	if err != nil {
		return 0
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if raw, err := os.ReadFile("/proc/self/statm"); err == nil {
		return min(info.Size(), mappedBytes(string(raw))*9/8)
	}
	return info.Size()
}

// mappedBytes reads the resident bytes that are mapped from files: the third field of statm, in pages (proc(5)).
func mappedBytes(statm string) int64 {
	var size, resident, shared int64
	if _, err := fmt.Sscan(statm, &size, &resident, &shared); err != nil {
		return 0
	}
	return shared * int64(os.Getpagesize())
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

package app

import (
	"os"
	"runtime/debug"
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
	debug.SetMemoryLimit(services * perService)
}

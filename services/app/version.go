package app

import (
	"runtime"
	"runtime/debug"
)

var buildVersion string //nolint:gochecknoglobals // set by the linker, read once

// Version is what this binary calls itself: the tag or commit that it was built from.
func Version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// versionLine is what `frazil version` prints.
func versionLine() string {
	return "frazil " + Version() + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

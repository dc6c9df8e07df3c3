package harness

import (
	"os"
	"testing"
)

// ScaleVariable says how much the integration tests start: "off", "smoke" (the default: an in-process broker, DuckDB and
// PyIceberg) or "full" (an Apache Kafka broker, and more engines).
const ScaleVariable = "FRAZIL_INTEGRATION"

// The scales.
const (
	Off   = "off"
	Smoke = "smoke"
	Full  = "full"
)

// Scale is what ScaleVariable asks for; the test is skipped if it asks for nothing.
func Scale(t testing.TB) string {
	t.Helper()
	switch scale := os.Getenv(ScaleVariable); scale {
	case "", Smoke:
		return Smoke
	case Full:
		return Full
	case Off:
		t.Skipf("SKIPPED: %s=%s", ScaleVariable, scale)
	default:
		t.Skipf("SKIPPED: %s=%s is for other tests", ScaleVariable, scale)
	}
	return Off
}

// NeedFull skips the test unless the full set is asked for.
func NeedFull(t testing.TB, why string) {
	t.Helper()
	if Scale(t) != Full {
		t.Skipf("SKIPPED: %s=%s is needed: %s", ScaleVariable, Full, why)
	}
}

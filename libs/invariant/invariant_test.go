package invariant_test

import (
	"testing"

	"github.com/frazil-io/frazil/libs/invariant"
)

func TestCheckPanicsOnlyInInvariantBuilds(t *testing.T) {
	panicked := func(ok bool) (p bool) {
		defer func() { p = recover() != nil }()
		invariant.Check(ok, "%d", 1)
		return false
	}
	if panicked(true) {
		t.Error("a statement that holds panicked")
	}
	if panicked(false) != invariant.Enabled {
		t.Errorf("a broken statement: panicked %v, enabled %v", !invariant.Enabled, invariant.Enabled)
	}
}

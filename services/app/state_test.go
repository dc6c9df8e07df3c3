package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore/diskstore"
)

// TestStateThatCannotBeOpened: the error says what is wrong, and what to do about that.
func TestStateThatCannotBeOpened(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string)
		want string
	}{
		"damaged": {func(t *testing.T, dir string) {
			overManifests(t, dir, func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) })
		}, "is damaged: move that directory away"},
		"robbed": {func(t *testing.T, dir string) { overManifests(t, dir, os.Remove) }, "is damaged: move that directory away"},
		"in use": {func(t *testing.T, dir string) {
			s, err := diskstore.Open(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
		}, "is in use: one process at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &assembly{cfg: Default(), target: TargetDedup}
			a.cfg.DataDir = t.TempDir()
			s, err := diskstore.Open(a.cfg.dir("state"), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			c.harm(t, a.cfg.dir("state"))
			_, err = a.state(t.Context(), slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), a.cfg.dir("state")) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
		})
	}
}

func overManifests(t *testing.T, dir string, harm func(path string) error) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("manifests %v, %v", found, err)
	}
	for _, p := range found {
		if err := harm(p); err != nil {
			t.Fatal(err)
		}
	}
}

package diskstore

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/chainstoretest"
	"github.com/frazil-io/frazil/libs/fault"
)

// crashing is a store on a disk that forgets what was not synced.
type crashing struct {
	*Store
	disk *vfs.MemFS
}

func openOn(t *testing.T, disk *vfs.MemFS) *crashing {
	t.Helper()
	s, err := open("state", &pebble.Options{FS: disk, Logger: logger{slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &crashing{Store: s, disk: disk}
}

func TestConformance(t *testing.T) {
	chainstoretest.Run(t, chainstoretest.Suite{
		Open: func(t *testing.T) chainstore.Store { return openOn(t, vfs.NewCrashableMem()) },
		Reopen: func(t *testing.T, s chainstore.Store) chainstore.Store {
			return openOn(t, s.(*crashing).disk.CrashClone(vfs.CrashCloneCfg{}))
		},
	})
}

func TestOneProcessHoldsADirectory(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	s, err := Open(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, log); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("second open: %v, want unavailable", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(dir, log)
	if err != nil {
		t.Fatalf("open after close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestShortValueIsCorrupt(t *testing.T) {
	s := openOn(t, vfs.NewCrashableMem())
	if err := s.db.Set(dbKey(spaceValues, "a"), []byte{1, 2}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "a"); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("get: %v, want corrupt", err)
	}
	if _, err := s.CompareAndSet(t.Context(), "a", 0, nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("set over it: %v, want corrupt", err)
	}
}

package diskstore

import (
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/chainstoretest"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/pebblelog"
)

// crashing is a store on a disk that forgets what was not synced.
type crashing struct {
	*Store
	disk *vfs.MemFS
}

func openOn(t *testing.T, disk *vfs.MemFS) *crashing {
	t.Helper()
	s, err := open("state", &pebble.Options{FS: disk, Logger: pebblelog.New(slog.New(slog.DiscardHandler), "state store")}, 0)
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

// A log that was left by a kill is flushed before the store opens.
func TestAFullDiskDoesNotHoldTheOpening(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := openOn(t, disk)
	if _, err := s.CompareAndSet(t.Context(), "a", 0, []byte("1")); err != nil {
		t.Fatal(err)
	}
	killed := disk.CrashClone(vfs.CrashCloneCfg{})
	var full errorfs.Toggle
	full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	full.On()
	opts := &pebble.Options{FS: errorfs.Wrap(killed, &full), Logger: pebblelog.New(slog.New(slog.DiscardHandler), "state store")}
	if _, err := open("state", opts, time.Millisecond); !errors.Is(err, fault.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("open on a full disk: %v, want unavailable and why", err)
	}
	full.Off()
	// The opening that was given up ends by itself, and lets the directory go.
	for {
		s, err := open("state", &pebble.Options{FS: killed, Logger: pebblelog.New(slog.New(slog.DiscardHandler), "state store")}, 0)
		if err != nil {
			runtime.Gosched()
			continue
		}
		if got, _, err := s.Get(t.Context(), "a"); err != nil || string(got) != "1" {
			t.Errorf("after the disk has room: %q, %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return
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

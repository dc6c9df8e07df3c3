package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// smallDisk mounts a file system of size bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("SKIPPED: only root may mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestAFullDiskCostsTheBlockCacheAndNotTheState: a gateway that was killed on a disk that is full comes back with all
// that it had published.
func TestAFullDiskCostsTheBlockCacheAndNotTheState(t *testing.T) {
	harness.NeedFull(t, "a small disk is mounted, as root")
	broker := harness.StartBroker(t)
	admin := harness.NewAdmin(t, broker)
	c := orders("pgjson")
	records := harness.Captured(t, c.file(t))
	admin.Replay(t, c.topic(), records)
	t.Run("disk", func(t *testing.T) { // it is unmounted when the gateway has ended
		disk := smallDisk(t, "200m")
		data := filepath.Join(disk, "data")
		f := harness.StartFrazil(t, harness.Options{Brokers: broker.Addr(), DataDir: data})
		before := load(t, f, "v2", c.topic(), int64(len(records)))
		f.Kill()
		fill(t, filepath.Join(data, "cache", strings.Repeat("f", 32)+".blob"))
		f.Start(t)
		after := load(t, f, "v2", c.topic(), int64(len(records)))
		if after.Metadata.TableUUID != before.Metadata.TableUUID || after.Metadata.CurrentSnapshot != before.Metadata.CurrentSnapshot {
			t.Errorf("table %s at %d, was %s at %d", after.Metadata.TableUUID, after.Metadata.CurrentSnapshot, before.Metadata.TableUUID, before.Metadata.CurrentSnapshot)
		}
		if rows, err := after.Rows(t.Context(), 0); err != nil || len(rows) != 2 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
		if !strings.Contains(f.Log(t), "block cache was emptied") {
			t.Error("the log does not say what became of the cache")
		}
		f.Stop(t)
	})
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 1<<16)
	for err == nil {
		if _, err = f.Write(piece); len(piece) > 1 && errors.Is(err, syscall.ENOSPC) {
			piece, err = piece[:len(piece)/2], nil
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

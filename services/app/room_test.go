package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/blobcache"
	"github.com/frazil-io/frazil/libs/fsys"
)

// The state gets the room that the block cache has, and not before it needs it.
func TestAFullDiskCostsTheBlockCache(t *testing.T) {
	const blob = 8 << 20
	for name, c := range map[string]struct {
		limit       int64 // of the disk, bytes
		blobs, left int
		says        string
	}{
		"room enough":   {limit: 2 * startRoom, blobs: 4, left: 4},
		"full":          {limit: startRoom + blob, blobs: 4, says: "freed_bytes"},
		"hopeless":      {limit: startRoom / 2, blobs: 2, says: "free some"},
		"nothing there": {limit: startRoom / 2, says: "freed_bytes=0"},
	} {
		disk := fsys.NewMem()
		if c.blobs > 0 {
			cache, err := blobcache.Open(disk, blobcache.Config{Dir: "/data/cache", MaxBytes: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.blobs {
				if err := cache.Put(string(rune('a'+i)), nil, make([]byte, blob)); err != nil {
					t.Fatal(err)
				}
			}
		}
		disk.Limit(c.limit)
		var logs strings.Builder
		makeRoom(disk, "/data", "/data/cache", slog.New(slog.NewTextHandler(&logs, nil)))
		if left, err := disk.List("/data/cache"); len(left) != c.left || err != nil && c.blobs > 0 {
			t.Errorf("%s: %d blobs left, %v", name, len(left), err)
		}
		if !strings.Contains(logs.String(), c.says) || c.says == "" && logs.Len() > 0 {
			t.Errorf("%s: the log says %q", name, logs.String())
		}
		if left, err := disk.List("/data"); len(left) != 0 || err != nil {
			t.Errorf("%s: left behind: %v, %v", name, left, err)
		}
	}
}

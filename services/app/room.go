package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/frazil-io/frazil/libs/blobcache"
	"github.com/frazil-io/frazil/libs/fsys"
)

// startRoom is what the disk must take, in bytes, for embedded state to be opened and to go on for a while: what a kill
// left in the log is flushed while it opens, and where that cannot be written Pebble ends the process.
const startRoom = 64 << 20

// makeRoom empties the block cache where the disk is too full for embedded state: blocks can be made again. What goes
// wrong is logged and no more: the opening that follows finds out whether it matters.
func makeRoom(files fsys.FS, dataDir, cacheDir string, log *slog.Logger) {
	err := tryRoom(files, dataDir, startRoom)
	if !errors.Is(err, fsys.ErrNoSpace) {
		if err != nil {
			log.Warn("the room on the disk of data_dir could not be tried", "err", err)
		}
		return
	}
	freed, err := blobcache.Clear(files, cacheDir)
	log.Warn("the disk of data_dir is full: the block cache was emptied to make room for the state", "freed_bytes", freed, "err", err)
	if err := tryRoom(files, dataDir, startRoom); err != nil {
		log.Warn("the disk of data_dir has little room still: free some", "wanted_bytes", startRoom, "err", err)
	}
}

// tryRoom writes a file of size bytes and removes it.
func tryRoom(files fsys.FS, dir string, size int) (err error) {
	if err := files.MakeDir(dir); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	name := dir + "/room.tmp"
	defer func() {
		if gone := files.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	f, err := files.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(fill(f, size), f.Close())
}

func fill(w io.Writer, size int) error {
	piece := make([]byte, min(size, 1<<20))
	for left := size; left > 0; left -= len(piece) {
		if _, err := w.Write(piece[:min(left, len(piece))]); err != nil {
			return err
		}
	}
	return nil
}

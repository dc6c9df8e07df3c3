package draintest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dump writes the objects of a world at a file:// location to the disk.
func (w *World) Dump() {
	w.tb.Helper()
	for location, body := range w.Lake.Objects() {
		path, ok := strings.CutPrefix(location, "file://")
		if !ok {
			w.tb.Fatalf("%s is no file", location)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.tb.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			w.tb.Fatal(err)
		}
	}
}

// Adopt takes over what lies on the disk, and the metadata at a location.
func (w *World) Adopt(location string) {
	w.tb.Helper()
	root := strings.TrimPrefix(w.location, "file://")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		w.Lake.Put("file://"+path, body)
		return err
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	body := w.Lake.Get(location)
	if body == nil {
		w.tb.Fatalf("no metadata at %s", location)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meta, w.at = body, location
	w.n += 1000
}

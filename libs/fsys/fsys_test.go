package fsys_test

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/fsys"
)

// Both file systems give what the door promises.
func TestConformance(t *testing.T) {
	for name, fresh := range map[string]func(t *testing.T) (fsys.FS, string){
		"os":  func(t *testing.T) (fsys.FS, string) { return fsys.OS(), t.TempDir() + "/a/b" },
		"mem": func(*testing.T) (fsys.FS, string) { return fsys.NewMem(), "/data/a/b" },
	} {
		t.Run(name, func(t *testing.T) {
			f, dir := fresh(t)
			if _, err := f.List(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("list before the directory is made: %v", err)
			}
			if _, err := f.Create(dir + "/x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("create in a directory that is not there: %v", err)
			}
			must(t, f.MakeDir(dir))
			must(t, f.MakeDir(dir))
			put(t, f, dir, "one", "hello")
			put(t, f, dir, "two", "x")
			put(t, f, dir, "one", "again")
			if got := list(t, f, dir); !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("files %v", got)
			}
			h, err := f.Open(dir + "/one")
			must(t, err)
			must(t, f.Remove(dir+"/one"))
			if got := read(t, h); got != "again" {
				t.Errorf("a removed open file reads %q", got)
			}
			if _, err := h.ReadAt(make([]byte, 3), 4); err != io.EOF {
				t.Errorf("read over the end: %v", err)
			}
			must(t, h.Close())
			if err := h.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("second close: %v", err)
			}
			for _, err := range []error{f.Remove(dir + "/one"), f.Rename(dir+"/one", dir+"/y"), open(f, dir+"/one")} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a file that is gone: %v", err)
				}
			}
			must(t, f.SyncDir(dir))
		})
	}
}

func TestMemCrashKeepsOnlyWhatWasSynced(t *testing.T) {
	m := fsys.NewMem()
	must(t, m.MakeDir("/d"))
	write := func(durable bool, name, content string) {
		must(t, fsys.WriteFile(m, "/d", name, durable, func(w io.Writer) error {
			_, err := io.WriteString(w, content)
			return err
		}))
	}
	write(true, "safe", "abc")
	write(false, "lost", "abc")
	m.Crash()
	if got := list(t, m, "/d"); !slices.Equal(got, []string{"safe"}) {
		t.Errorf("after the crash: %v", got)
	}
	h, err := m.Open("/d/safe")
	must(t, err)
	if got := read(t, h); got != "abc" {
		t.Errorf("content %q", got)
	}
}

func TestMemFailures(t *testing.T) {
	m := fsys.NewMem()
	must(t, m.MakeDir("/d"))
	m.Limit(4)
	err := fsys.WriteFile(m, "/d", "x", false, func(w io.Writer) error {
		_, err := io.WriteString(w, "12345")
		return err
	})
	if !errors.Is(err, fsys.ErrNoSpace) {
		t.Errorf("full disk: %v", err)
	}
	if got := list(t, m, "/d"); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	boom := errors.New("boom")
	m.Limit(0)
	m.Fail(func(op fsys.Op, name string) error {
		if op == fsys.OpRename {
			return boom
		}
		return nil
	})
	if err := fsys.WriteFile(m, "/d", "x", true, func(io.Writer) error { return nil }); !errors.Is(err, boom) {
		t.Errorf("rename: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(f fsys.FS, name string) error {
	_, err := f.Open(name)
	return err
}

func put(t *testing.T, f fsys.FS, dir, name, content string) {
	t.Helper()
	must(t, fsys.WriteFile(f, dir, name, true, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}))
}

func read(t *testing.T, h fsys.File) string {
	t.Helper()
	n, err := h.Size()
	must(t, err)
	p := make([]byte, n)
	if n > 0 {
		_, err = h.ReadAt(p, 0)
		must(t, err)
	}
	return string(p)
}

func list(t *testing.T, f fsys.FS, dir string) []string {
	t.Helper()
	infos, err := f.List(dir)
	must(t, err)
	var out []string
	for _, i := range infos {
		out = append(out, i.Name)
	}
	return out
}

package blobcache_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/libs/blobcache"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
)

const dir = "/cache"

func open(t *testing.T, f fsys.FS, maxBytes int64) *blobcache.Cache {
	t.Helper()
	c, err := blobcache.Open(f, blobcache.Config{Dir: dir, MaxBytes: maxBytes, OpenFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// body is a key's content.
func body(key string) []byte { return bytes.Repeat([]byte(key+"."), 100) }

func put(t *testing.T, c *blobcache.Cache, key string) {
	t.Helper()
	if err := c.Put(key, []byte("meta of "+key), body(key)); err != nil {
		t.Fatal(err)
	}
}

// has reads a blob whole. It fails the test when what comes back is something else.
func has(t *testing.T, c *blobcache.Cache, key string) bool {
	t.Helper()
	b, err := c.Get(key)
	if err != nil {
		return false
	}
	defer b.Close()
	check(t, b, key)
	return true
}

func check(t *testing.T, b *blobcache.Blob, key string) {
	t.Helper()
	got, err := io.ReadAll(io.NewSectionReader(b, 0, b.Size()))
	if err != nil || !bytes.Equal(got, body(key)) || string(b.Meta()) != "meta of "+key {
		t.Fatalf("blob %s: %d bytes, meta %q, %v", key, len(got), b.Meta(), err)
	}
}

func TestBlobsSurviveARestart(t *testing.T) {
	for name, f := range map[string]fsys.FS{"mem": fsys.NewMem(), "os": nil} {
		d := dir
		if f == nil {
			f, d = fsys.OS(), t.TempDir()
		}
		cfg := blobcache.Config{Dir: d, MaxBytes: 1 << 20, OpenFiles: 2}
		c, err := blobcache.Open(f, cfg)
		if err != nil {
			t.Fatal(err)
		}
		put(t, c, "a")
		put(t, c, "b")
		put(t, c, "a")
		before := c.Stats()
		if c, err = blobcache.Open(f, cfg); err != nil {
			t.Fatal(err)
		}
		if !has(t, c, "a") || !has(t, c, "b") || has(t, c, "c") || c.Stats().Bytes != before.Bytes || c.Stats().Blobs != 2 {
			t.Errorf("%s: after the restart %+v, before %+v", name, c.Stats(), before)
		}
	}
}

func TestTheLeastRecentlyUsedGoFirst(t *testing.T) {
	f := fsys.NewMem()
	c := open(t, f, 3*300)
	for _, k := range []string{"a", "b", "c"} {
		put(t, c, k)
	}
	has(t, c, "a")
	put(t, c, "d")
	if has(t, c, "b") || !has(t, c, "a") || !has(t, c, "c") || !has(t, c, "d") {
		t.Error("not the least recently used one was evicted")
	}
	if infos, err := f.List(dir); err != nil || len(infos) != 3 || c.Stats().Bytes > 900 {
		t.Errorf("%d files, %+v, %v", len(infos), c.Stats(), err)
	}
	// A smaller limit is applied at the next start.
	if c = open(t, f, 300); c.Stats().Blobs != 1 || !has(t, c, "d") {
		t.Errorf("after the cut: %+v", c.Stats())
	}
}

func TestAPinnedBlobStays(t *testing.T) {
	c := open(t, fsys.NewMem(), 300)
	put(t, c, "a")
	b, err := c.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put("b", nil, body("b")); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("stored beside a pinned blob that fills the cache: %v", err)
	}
	check(t, b, "a")
	b.Close()
	if err := c.Put("b", []byte("meta of b"), body("b")); err != nil || has(t, c, "a") || !has(t, c, "b") {
		t.Errorf("after the blob was unpinned: %v", err)
	}
	if err := c.Put("large", nil, make([]byte, 400)); !errors.Is(err, fault.ErrUnavailable) || !has(t, c, "b") {
		t.Errorf("a blob larger than the cache: %v", err)
	}
}

func TestDamageIsAMiss(t *testing.T) {
	for at := int64(0); at < 242; at += 3 {
		f := fsys.NewMem()
		put(t, open(t, f, 1<<20), "a")
		if !f.Corrupt(fileOf(t, f), at) {
			t.Fatalf("no byte %d", at)
		}
		c := open(t, f, 1<<20)
		if _, err := c.Get("a"); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("bit flipped at %d: %v", at, err)
		}
		if _, err := c.Get("a"); !errors.Is(err, fault.ErrNotFound) || c.Stats() != (blobcache.Stats{}) {
			t.Fatalf("a damaged blob is still there: %v, %+v", err, c.Stats())
		}
		put(t, c, "a")
		if !has(t, c, "a") {
			t.Fatal("not stored again")
		}
	}
}

func TestATornFileIsAMiss(t *testing.T) {
	for size := int64(0); size < 242; size += 7 {
		f := fsys.NewMem()
		put(t, open(t, f, 1<<20), "a")
		if !f.Truncate(fileOf(t, f), size) {
			t.Fatalf("shorter than %d", size)
		}
		c := open(t, f, 1<<20)
		if _, err := c.Get("a"); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("cut to %d: %v", size, err)
		}
	}
}

func TestAFileUnderAnotherNameIsAMiss(t *testing.T) {
	f := fsys.NewMem()
	c := open(t, f, 1<<20)
	put(t, c, "a")
	a := fileOf(t, f)
	put(t, c, "b")
	infos, err := f.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if n := dir + "/" + i.Name; n != a {
			if err := f.Rename(n, a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := open(t, f, 1<<20).Get("a"); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("b's file under a's name: %v", err)
	}
}

func TestAFullDiskStoresNothingAndBreaksNothing(t *testing.T) {
	f := fsys.NewMem()
	c := open(t, f, 1<<20)
	put(t, c, "a")
	f.Limit(300)
	if err := c.Put("b", nil, body("b")); !errors.Is(err, fsys.ErrNoSpace) {
		t.Errorf("full disk: %v", err)
	}
	if !has(t, c, "a") || has(t, c, "b") || c.Stats().Blobs != 1 {
		t.Errorf("after it: %+v", c.Stats())
	}
	if infos, err := f.List(dir); err != nil || len(infos) != 1 {
		t.Errorf("%d files, %v", len(infos), err)
	}
	f.Limit(0)
	put(t, c, "b")
	if !has(t, c, "b") {
		t.Error("not stored when there was room again")
	}
}

func TestAFullDiskIsGivenRoomByTheOldest(t *testing.T) {
	f := fsys.NewMem()
	c := open(t, f, 1<<20)
	for i := range 8 {
		put(t, c, fmt.Sprint(i))
	}
	pinned, err := c.Get("0")
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	f.Limit(c.Stats().Bytes)
	if err := c.Put("8", nil, body("8")); !errors.Is(err, fsys.ErrNoSpace) {
		t.Fatalf("full disk: %v", err)
	}
	for i := range 8 {
		if got, want := has(t, c, fmt.Sprint(i)), i != 1 && i != 2; got != want {
			t.Errorf("blob %d is there: %v, want %v", i, got, want)
		}
	}
	put(t, c, "8")
}

func TestWhatACrashLeftHalfWrittenIsRemoved(t *testing.T) {
	f := fsys.NewMem()
	put(t, open(t, f, 1<<20), "a")
	h, err := f.Create(dir + "/x.blob.tmp")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	c := open(t, f, 1<<20)
	if infos, err := f.List(dir); err != nil || len(infos) != 1 || !has(t, c, "a") {
		t.Errorf("%d files, %v", len(infos), err)
	}
	f.Crash() // nothing was synced: the names are gone
	if c = open(t, f, 1<<20); has(t, c, "a") {
		t.Error("a blob survived without its file")
	}
}

// A disk that is needed for other things is given all that the blobs take, and nothing else is touched.
func TestClear(t *testing.T) {
	f := fsys.NewMem()
	if freed, err := blobcache.Clear(f, dir); freed != 0 || err != nil {
		t.Errorf("no directory: %d bytes, %v", freed, err)
	}
	c := open(t, f, 1<<20)
	put(t, c, "a")
	put(t, c, "b")
	for _, name := range []string{"torn.blob.tmp", "vending.key"} {
		file, err := f.Create(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte("12345")); err != nil || file.Close() != nil {
			t.Fatal(err)
		}
	}
	held := c.Stats().Bytes
	if freed, err := blobcache.Clear(f, dir); freed != held+5 || err != nil {
		t.Errorf("%d bytes freed, %v; want %d", freed, err, held+5)
	}
	if left, err := f.List(dir); err != nil || len(left) != 1 || left[0].Name != "vending.key" {
		t.Errorf("left %v, %v", left, err)
	}
	if has(t, c, "a") {
		t.Error("a blob that was removed is there")
	}
	put(t, c, "a")
	if !has(t, c, "a") {
		t.Error("the cache does not go on")
	}
}

func TestReadErrorsAreNotDamage(t *testing.T) {
	f := fsys.NewMem()
	c := open(t, f, 1<<20)
	put(t, c, "a")
	boom := errors.New("boom")
	f.Fail(func(op fsys.Op, _ string) error {
		if op == fsys.OpRead {
			return boom
		}
		return nil
	})
	if _, err := c.Get("a"); !errors.Is(err, boom) || errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("read error: %v", err)
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	c := open(t, fsys.NewMem(), 1<<20)
	for i := range 20 {
		put(t, c, fmt.Sprint(i))
	}
	for i := range 20 {
		has(t, c, fmt.Sprint(i))
	}
	if n := c.Stats().Open; n != 2 {
		t.Errorf("%d open files", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	c := open(t, fsys.NewMem(), 10*300)
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 3))
			for range 500 {
				key := string(rune('a' + r.IntN(26)))
				if b, err := c.Get(key); err == nil {
					check(t, b, key)
					b.Close()
				} else if err := c.Put(key, []byte("meta of "+key), body(key)); err != nil && !errors.Is(err, fault.ErrUnavailable) {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	wg.Wait()
	if s := c.Stats(); s.Bytes > 3000 || s.Open > 2 {
		t.Errorf("at the end: %+v", s)
	}
}

// Whatever lies under a blob's name, it is refused or it is the blob.
func FuzzGet(f *testing.F) {
	seed := fsys.NewMem()
	c, err := blobcache.Open(seed, blobcache.Config{Dir: dir, MaxBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	if err := c.Put("a", []byte("meta of a"), body("a")); err != nil {
		f.Fatal(err)
	}
	infos, err := seed.List(dir)
	if err != nil {
		f.Fatal(err)
	}
	h, err := seed.Open(dir + "/" + infos[0].Name)
	if err != nil {
		f.Fatal(err)
	}
	whole := make([]byte, infos[0].Size)
	if _, err := h.ReadAt(whole, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, content []byte) {
		m := fsys.NewMem()
		if err := m.MakeDir(dir); err != nil {
			t.Fatal(err)
		}
		if err := fsys.WriteFile(m, dir, infos[0].Name, false, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
			t.Fatal(err)
		}
		b, err := open(t, m, 1<<20).Get("a")
		if err == nil {
			defer b.Close()
			if !bytes.Equal(content, whole) {
				t.Fatal("other bytes verify")
			}
			check(t, b, "a")
		} else if !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

func fileOf(t *testing.T, f fsys.FS) string {
	t.Helper()
	infos, err := f.List(dir)
	if err != nil || len(infos) != 1 {
		t.Fatalf("%d files, %v", len(infos), err)
	}
	return dir + "/" + infos[0].Name
}

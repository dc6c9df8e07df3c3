package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestKeysOfALogShareASlot(t *testing.T) {
	want := "E/3"
	for _, key := range []string{
		"head/E/3", "root/E/3/12-abc", "page/E/3/1-a", "layout/E/3/x", "segment/E/3/x", "fold/E/3/x", "rowgroups/E/3/100-1-a",
	} {
		if got := placeOf(key).tag(); got != want {
			t.Errorf("%s has tag %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]place{
		"record/t":       {"record/t", ""},
		"epoch/E":        {"epoch/E", ""},
		"topic/c/n":      {"topic/c", "/n"},
		"snapshot/E/5-a": {"snapshot/E", "/5-a"},
		"version/E/12":   {"version/E", "/12"},
		"group/E/name":   {"group/E", "/name"},
		"head/E/3":       {"head/E/3", ""},
		"root/E/3/x":     {"root/E/3", "/x"},
		"root/E/3/x/y":   {"root/E/3", "/x/y"},
		"plain":          {"plain", ""},
	} {
		if got := placeOf(key); got != want {
			t.Errorf("%s lies at %v, want %v", key, got, want)
		}
	}
}

// Any key has a place of its own, and braces in it do not move parts of a group to other slots.
func TestPlacesAreDistinct(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	k := keyspace{"p:"}
	seen := map[[2]string]string{}
	for range 20_000 {
		key := randomKey(r)
		p := placeOf(key)
		if p.group+p.field != key {
			t.Fatalf("seed %d: %q lies at %v", seed, key, p)
		}
		id := [2]string{k.values(p, spaceBlobs), p.field}
		if other, ok := seen[id]; ok && other != key {
			t.Fatalf("seed %d: %q and %q meet at %q", seed, key, other, id)
		}
		seen[id] = key
		slot := hashed(k.values(p, spaceBlobs))
		if slot == "" || hashed(k.index(p, spaceBlobs)) != slot || hashed(k.piece(p, "s", "0")) != slot {
			t.Fatalf("seed %d: the parts of %q are spread", seed, key)
		}
	}
}

// hashed is the part of a key that Redis Cluster takes the slot from.
func hashed(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, ok := strings.Cut(rest, "}")
	if !ok || tag == "" {
		return key
	}
	return tag
}

func randomKey(r *rand.Rand) string {
	const letters = "ab/{}h1"
	if r.IntN(4) == 0 {
		return fmt.Sprintf("head/%c/%d", letters[r.IntN(2)], r.IntN(3))
	}
	b := make([]byte, 1+r.IntN(7))
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

// Lists are what a look through all keys would find, whatever was written and deleted.
func TestListsAreWhatIsThere(t *testing.T) {
	s, _ := fake(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	blobs, values := map[string]bool{}, map[string]bool{}
	for step := range 600 {
		key := randomKey(r)
		switch x := r.IntN(10); {
		case x < 4:
			if err := s.PutBlob(t.Context(), key, []byte(key)); err != nil {
				t.Fatal(err)
			}
			blobs[key] = true
		case x < 6:
			if err := s.DeleteBlob(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			delete(blobs, key)
		case x < 8:
			if !values[key] {
				set(t, s, key, 0, "v")
				values[key] = true
			}
		default:
			prefix := key[:r.IntN(len(key)+1)]
			for name, c := range map[string]struct {
				list func() ([]string, error)
				want map[string]bool
			}{
				"blobs":  {func() ([]string, error) { return s.ListBlobs(t.Context(), prefix) }, blobs},
				"values": {func() ([]string, error) { return s.List(t.Context(), prefix) }, values},
			} {
				var want []string
				for k := range c.want {
					if strings.HasPrefix(k, prefix) {
						want = append(want, k)
					}
				}
				slices.Sort(want)
				if got, err := c.list(); err != nil || !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: %s with %q are %q, %v, want %q", seed, step, name, prefix, got, err, want)
				}
			}
		}
	}
}

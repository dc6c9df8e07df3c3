// Package chainstoretest has the conformance suite of chainstore.Store and a store that misbehaves on demand.
package chainstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
)

// Suite is an implementation under test.
type Suite struct {
	// Open makes an empty store that is closed at the end of the test.
	Open func(t *testing.T) chainstore.Store
	// Reopen ends the store as a killed process would and opens what it left. nil: it keeps nothing, which is
	// an exception that the implementation's documentation must declare.
	Reopen func(t *testing.T, s chainstore.Store) chainstore.Store
}

// Run checks the contract of chainstore.Store.
func Run(t *testing.T, s Suite) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Suite)
	}{
		{"a value counts its versions", testVersions},
		{"a compare-and-set at another version changes nothing", testConflict},
		{"one of many writers of a version wins", testRace},
		{"a blob does not change", testBlob},
		{"lists are sorted and exact", testLists},
		{"values and blobs do not meet", testSpaces},
		{"nobody shares memory with the store", testAliases},
		{"large and empty values", testSizes},
		{"bad keys are refused", testKeys},
		{"an ended context ends the call", testContext},
		{"what was acknowledged survives", testReopen},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

func testVersions(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	if _, v, err := st.Get(ctx, "a"); v != 0 || !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("get of nothing: version %d, %v", v, err)
	}
	for v := range chainstore.Version(5) {
		want := fmt.Appendf(nil, "value %d", v)
		if got, err := st.CompareAndSet(ctx, "a", v, want); err != nil || got != v+1 {
			t.Fatalf("set at %d: %d, %v", v, got, err)
		}
		if got, have, err := st.Get(ctx, "a"); err != nil || have != v+1 || !bytes.Equal(got, want) {
			t.Fatalf("get: %q at %d, %v", got, have, err)
		}
	}
}

func testConflict(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	set(t, st, "a", 0, "one")
	set(t, st, "a", 1, "two")
	for _, old := range []chainstore.Version{0, 1, 3, 9} {
		if _, err := st.CompareAndSet(ctx, "a", old, []byte("bad")); !errors.Is(err, fault.ErrConflict) {
			t.Fatalf("set at %d: %v, want a conflict", old, err)
		}
	}
	if _, err := st.CompareAndSet(ctx, "none", 1, []byte("bad")); !errors.Is(err, fault.ErrConflict) {
		t.Fatalf("set of a missing key at 1: %v, want a conflict", err)
	}
	if got, v, err := st.Get(ctx, "a"); err != nil || v != 2 || string(got) != "two" {
		t.Fatalf("get: %q at %d, %v", got, v, err)
	}
	if _, _, err := st.Get(ctx, "none"); !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("a lost set left something: %v", err)
	}
}

func testRace(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	for v := range chainstore.Version(10) {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { _, errs[i] = st.CompareAndSet(ctx, "a", v, fmt.Appendf(nil, "%d by %d", v, i)) })
		}
		wg.Wait()
		winner := slices.IndexFunc(errs, func(err error) bool { return err == nil })
		for i, err := range errs {
			if (i == winner) != (err == nil) || err != nil && !errors.Is(err, fault.ErrConflict) {
				t.Fatalf("writer %d at version %d: %v; winner %d", i, v, err, winner)
			}
		}
		got, _, err := st.Get(ctx, "a")
		if want := fmt.Sprintf("%d by %d", v, winner); err != nil || string(got) != want {
			t.Fatalf("get: %q, %v, want %q", got, err, want)
		}
	}
}

func testBlob(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	if _, err := st.GetBlob(ctx, "b"); !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("get of nothing: %v", err)
	}
	put(t, st, "b", "bytes")
	put(t, st, "b", "bytes")
	if err := st.PutBlob(ctx, "b", []byte("other")); !errors.Is(err, fault.ErrConflict) {
		t.Fatalf("put of other bytes: %v, want a conflict", err)
	}
	if got, err := st.GetBlob(ctx, "b"); err != nil || string(got) != "bytes" {
		t.Fatalf("get: %q, %v", got, err)
	}
	for range 2 {
		if err := st.DeleteBlob(ctx, "b"); err != nil {
			t.Fatalf("delete: %v", err)
		}
		if _, err := st.GetBlob(ctx, "b"); !errors.Is(err, fault.ErrNotFound) {
			t.Fatalf("get after delete: %v", err)
		}
	}
	put(t, st, "b", "other")
}

func testLists(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	names := []string{"x/1", "x/10", "x/2", "x/~", "y", "x", "x/"}
	for _, n := range names {
		set(t, st, n, 0, "v")
		put(t, st, n, "v")
	}
	slices.Sort(names)
	for _, prefix := range []string{"", "x", "x/", "x/1", "y", "z"} {
		want := []string{}
		for _, n := range names {
			if strings.HasPrefix(n, prefix) {
				want = append(want, n)
			}
		}
		for kind, list := range map[string]func(context.Context, string) ([]string, error){"values": st.List, "blobs": st.ListBlobs} {
			if got, err := list(ctx, prefix); err != nil || !slices.Equal(got, want) {
				t.Fatalf("list %s %q: %q, %v, want %q", kind, prefix, got, err, want)
			}
		}
	}
}

func testSpaces(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	set(t, st, "same", 0, "value")
	put(t, st, "same", "blob")
	if err := st.DeleteBlob(ctx, "same"); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if got, _, err := st.Get(ctx, "same"); err != nil || string(got) != "value" {
		t.Fatalf("get: %q, %v", got, err)
	}
}

func testAliases(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	value, blob := []byte("value"), []byte("blob")
	if _, err := st.CompareAndSet(ctx, "a", 0, value); err != nil {
		t.Fatal(err)
	}
	if err := st.PutBlob(ctx, "b", blob); err != nil {
		t.Fatal(err)
	}
	value[0], blob[0] = 'X', 'X'
	got, _, err := st.Get(ctx, "a")
	if err != nil || string(got) != "value" {
		t.Fatalf("get: %q, %v", got, err)
	}
	got[0] = 'Y'
	if again, _, _ := st.Get(ctx, "a"); string(again) != "value" {
		t.Fatalf("a reader changed the value: %q", again)
	}
	if b, err := st.GetBlob(ctx, "b"); err != nil || string(b) != "blob" {
		t.Fatalf("get blob: %q, %v", b, err)
	}
}

func testSizes(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	for i, size := range []int{0, 1, 8, 1 << 10, 5 << 20} {
		key, want := fmt.Sprintf("k%d", i), bytes.Repeat([]byte{byte(i)}, size)
		if _, err := st.CompareAndSet(ctx, key, 0, want); err != nil {
			t.Fatalf("set %d bytes: %v", size, err)
		}
		if err := st.PutBlob(ctx, key, want); err != nil {
			t.Fatalf("put %d bytes: %v", size, err)
		}
		value, _, err := st.Get(ctx, key)
		blob, err2 := st.GetBlob(ctx, key)
		if err != nil || err2 != nil || !bytes.Equal(value, want) || !bytes.Equal(blob, want) {
			t.Fatalf("%d bytes came back as %d and %d: %v %v", size, len(value), len(blob), err, err2)
		}
	}
}

func testKeys(t *testing.T, s Suite) {
	st, ctx := s.Open(t), t.Context()
	for _, key := range []string{"", strings.Repeat("k", chainstore.MaxKey+1), "a b", "a\x00", "a\xff"} {
		_, _, get := st.Get(ctx, key)
		_, cas := st.CompareAndSet(ctx, key, 0, nil)
		_, blob := st.GetBlob(ctx, key)
		for i, err := range []error{get, cas, blob, st.PutBlob(ctx, key, nil), st.DeleteBlob(ctx, key)} {
			if !errors.Is(err, fault.ErrInvalid) {
				t.Fatalf("call %d with key %.20q: %v, want invalid", i, key, err)
			}
		}
	}
	set(t, st, strings.Repeat("k", chainstore.MaxKey), 0, "longest")
}

func testContext(t *testing.T, s Suite) {
	st := s.Open(t)
	set(t, st, "a", 0, "v")
	put(t, st, "b", "v")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, get := st.Get(ctx, "a")
	_, cas := st.CompareAndSet(ctx, "a", 1, nil)
	_, list := st.List(ctx, "")
	_, blob := st.GetBlob(ctx, "b")
	_, blobs := st.ListBlobs(ctx, "")
	for i, err := range []error{get, cas, list, blob, blobs, st.PutBlob(ctx, "c", nil), st.DeleteBlob(ctx, "b")} {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("call %d: %v, want cancelled", i, err)
		}
	}
	if got, v, err := st.Get(t.Context(), "a"); err != nil || v != 1 || string(got) != "v" {
		t.Fatalf("get: %q at %d, %v", got, v, err)
	}
}

func testReopen(t *testing.T, s Suite) {
	if s.Reopen == nil {
		t.Skip("declared: keeps nothing")
	}
	st := s.Open(t)
	for v := range chainstore.Version(3) {
		set(t, st, "a", v, fmt.Sprint(v))
		put(t, st, fmt.Sprint("blob", v), fmt.Sprint(v))
	}
	if err := st.DeleteBlob(t.Context(), "blob0"); err != nil {
		t.Fatal(err)
	}
	st = s.Reopen(t, st)
	if got, v, err := st.Get(t.Context(), "a"); err != nil || v != 3 || string(got) != "2" {
		t.Fatalf("get: %q at %d, %v", got, v, err)
	}
	if names, err := st.ListBlobs(t.Context(), ""); err != nil || !slices.Equal(names, []string{"blob1", "blob2"}) {
		t.Fatalf("blobs %q, %v", names, err)
	}
	set(t, st, "a", 3, "3")
}

func set(t *testing.T, s chainstore.Store, key string, old chainstore.Version, value string) {
	t.Helper()
	if _, err := s.CompareAndSet(t.Context(), key, old, []byte(value)); err != nil {
		t.Fatalf("set %s at %d: %v", key, old, err)
	}
}

func put(t *testing.T, s chainstore.Store, name, value string) {
	t.Helper()
	if err := s.PutBlob(t.Context(), name, []byte(value)); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

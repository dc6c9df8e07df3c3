package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"

	"github.com/frazil-io/frazil/libs/fault"
)

// rolledBack is a world whose state was set back by two versions, and the locations before and after. Nobody in it
// remembers anything.
func rolledBack(t *testing.T) (w *world, fresh *Service, older, newer string) {
	t.Helper()
	w = newWorld(t)
	w.topic("orders", 1, 30)
	older = w.load(&catalogv1.LoadTableRequest{}).GetMetadataLocation()
	for range 2 {
		w.append("orders", 1)
		w.tick()
		newer = w.load(&catalogv1.LoadTableRequest{}).GetMetadataLocation()
	}
	w.dedup.set(func(f *fakeDedup) {
		epoch := f.current["orders"]
		f.versions[epoch] = f.versions[epoch][:len(f.versions[epoch])-2]
		f.known = nil
	})
	return w, w.replica(), older, newer
}

// told are the versions that dedup was told to have been published, after a load.
func (w *world) told(s *Service, location string) []uint64 {
	w.Helper()
	if _, err := s.LoadTable(context.Background(), &catalogv1.LoadTableRequest{Namespace: "kafka", Table: "orders", KnownMetadataLocation: location}); err != nil {
		w.Fatal(err)
	}
	var known []uint64
	w.dedup.set(func(f *fakeDedup) { known = slices.Clone(f.known) })
	return known
}

// The name of a metadata file that a reader brings along proves that its version was published.
func TestANameProvesARollback(t *testing.T) {
	w, fresh, older, newer := rolledBack(t)
	if _, err := tryRead(fresh, newer); !errors.Is(err, fault.ErrRetired) || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("a file of a lost version: %v", err)
	}
	if told := w.told(fresh, ""); !slices.Contains(told, 4) {
		t.Errorf("dedup was told %v, want version 4", told)
	}
	readObject(t, fresh, older)
}

// What a load brings along proves as much.
func TestAKnownLocationProvesARollback(t *testing.T) {
	w, fresh, _, newer := rolledBack(t)
	if told := w.told(fresh, newer); !slices.Contains(told, 4) {
		t.Errorf("dedup was told %v, want version 4", told)
	}
}

// A name that nobody has issued proves nothing, however high its version.
func TestAMadeUpNameProvesNothing(t *testing.T) {
	w, fresh, _, newer := rolledBack(t)
	last := newer[:len(newer)-len("0.metadata.json")]
	for _, name := range []string{
		strings.Replace(newer, "/4-", "/5-", 1), strings.Replace(newer, "/4-", "/1000000-", 1), strings.Replace(newer, "/v2/", "/v3/", 1),
		last + "0.metadata.json", last + "1.metadata.json",
	} {
		if name == newer {
			continue
		}
		if _, err := tryRead(fresh, name); !errors.Is(err, fault.ErrRetired) || strings.Contains(err.Error(), "rolled back") {
			t.Errorf("%s: %v", name, err)
		}
		if told := w.told(fresh, name); slices.Max(append(told, 0)) > 3 {
			t.Errorf("%s: dedup was told %v", name, told)
		}
	}
}

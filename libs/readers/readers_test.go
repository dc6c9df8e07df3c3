package readers_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/readers"
)

func builtin(t *testing.T) *readers.Matrix {
	t.Helper()
	m, err := readers.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The choice against a dull oracle: for random sets, walk the formats by hand.
func TestChooseIsTheCheapestThatAllResolve(t *testing.T) {
	m := builtin(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		names := make([]string, 1+r.IntN(4))
		for i := range names {
			names[i] = m.Readers[r.IntN(len(m.Readers))].Name
		}
		preview := r.IntN(2) == 0
		d, err := m.Choose(readers.Question{Readers: names, AllowPreview: preview})
		if err != nil {
			t.Fatal(err)
		}
		want := -1
		for i, f := range []readers.Format{readers.Equality, readers.Position, readers.DeletionVector} {
			all := true
			for _, n := range names {
				rd, err := m.Reader(n)
				if err != nil {
					t.Fatal(err)
				}
				s := rd.Of(f).Support
				all = all && (s == "yes" || preview && s == "preview")
			}
			if all {
				want = i
				break
			}
		}
		switch {
		case want < 0 && (d.Choice != nil || d.Refusal == nil || len(d.Refusal.Obstacles) == 0 || !errors.Is(d.Err(), fault.ErrUnsupported)):
			t.Fatalf("seed %d: %q preview %v: want a refusal, got %+v", seed, names, preview, d)
		case want >= 0 && (d.Refusal != nil || d.Choice == nil || int(d.Choice.Format) != want || d.Err() != nil):
			t.Fatalf("seed %d: %q preview %v: want %d, got %+v", seed, names, preview, want, d)
		}
		if d.Refusal != nil {
			for _, p := range d.Refusal.Pairs {
				pd, err := m.Choose(readers.Question{Readers: p[:], AllowPreview: preview})
				if err != nil || pd.Refusal == nil {
					t.Fatalf("seed %d: pair %v can meet: %+v, %v", seed, p, pd, err)
				}
			}
		}
	}
}

// Whoever can read through the gateway has a dialect: what is served never needs a refusal.
func TestEveryReaderOfTheGatewayHasADialect(t *testing.T) {
	m := builtin(t)
	none := []string{"bodo", "athena", "bigquery", "databricks"} // ignores deletes; read only their own stores
	for i := range m.Readers {
		name := m.Readers[i].Name
		got, err := m.Dialect(name, false)
		if slices.Contains(none, name) {
			if !errors.Is(err, fault.ErrUnsupported) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			continue
		}
		if err != nil || got != "v2" && got != "v3" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestOverlay(t *testing.T) {
	m := builtin(t)
	over, err := m.Overlay([]byte(`
version: ours
sources: {ticket: {kind: run, date: 2027-01-05, title: we ran it}}
readers:
  - name: clickhouse
    versions: "27.1"
    deletion_vector: {support: "yes", sources: [ticket]}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := over.Reader("clickhouse")
	if err != nil {
		t.Fatal(err)
	}
	if got.Vector.Support != readers.Yes || got.Versions != "27.1" || got.Position.Support != readers.Yes || over.Version != "ours" {
		t.Errorf("got %+v", got)
	}
	if was, err := m.Reader("clickhouse"); err != nil || was.Vector.Support != readers.No {
		t.Errorf("the overlay changed the matrix under it: %+v, %v", was, err)
	}
}

func TestBadMatrices(t *testing.T) {
	m := builtin(t)
	for _, text := range []string{
		"readers: [{name: x}]",
		"readers: [{name: Spark}]",
		"readers: [{name: spark, aliases: [iceberg-rust]}]",
		`readers: [{name: spark, equality: {support: "maybe", sources: [published]}}]`,
		`readers: [{name: spark, equality: {support: "yes", sources: [nowhere]}}]`,
		`readers: [{name: spark, equality: {support: "yes", sources: []}}]`,
		`readers: [{name: spark, equality: {support: "yes", needs: [luck], sources: [published]}}]`,
		"readers: [{name: spark, catalogs: [attic]}]",
		"sources: {x: {kind: run, date: yesterday, title: t}}",
		"sorces: {}",
		"readers: 7",
		"catalogs: [{name: x, deletes: [hopes]}]",
	} {
		if _, err := m.Overlay([]byte(text)); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

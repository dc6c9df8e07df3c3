package memstore_test

import (
	"errors"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/chainstoretest"
	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fault"
)

func TestConformance(t *testing.T) {
	chainstoretest.Run(t, chainstoretest.Suite{
		Open: func(*testing.T) chainstore.Store { return memstore.New() },
	})
}

func TestFaultyConformsUntilToldOtherwise(t *testing.T) {
	chainstoretest.Run(t, chainstoretest.Suite{
		Open: func(*testing.T) chainstore.Store { return chainstoretest.NewFaulty(memstore.New()) },
	})
}

func TestFaultyMisbehavesAsDeclared(t *testing.T) {
	ctx := t.Context()
	inner := memstore.New()
	f := chainstoretest.NewFaulty(inner)
	if _, err := f.CompareAndSet(ctx, "a", 0, []byte("one")); err != nil {
		t.Fatal(err)
	}
	f.LoseNext("a")
	if v, err := f.CompareAndSet(ctx, "a", 1, []byte("two")); v != 2 || err != nil {
		t.Fatalf("acknowledged %d, %v", v, err)
	}
	if b, v, _ := f.Get(ctx, "a"); v != 1 || string(b) != "one" {
		t.Fatalf("lost set was kept: %q at %d", b, v)
	}
	if err := f.Freeze(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.CompareAndSet(ctx, "a", 1, []byte("three")); err != nil {
		t.Fatal(err)
	}
	if b, v, _ := f.Get(ctx, "a"); v != 1 || string(b) != "one" {
		t.Fatalf("frozen value moved: %q at %d", b, v)
	}
	f.StopAfter(1)
	if err := f.PutBlob(ctx, "b", nil); err != nil {
		t.Fatal(err)
	}
	if err := f.PutBlob(ctx, "c", nil); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("write after the stop: %v", err)
	}
	if _, err := f.GetBlob(ctx, "b"); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("read after the stop: %v", err)
	}
	f.StopAfter(-1)
	f.Forget("b")
	if _, err := f.GetBlob(ctx, "b"); !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("forgotten blob: %v", err)
	}
}

package build_test

import (
	"errors"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/materializer/internal/build"
)

func TestMemoryIsBounded(t *testing.T) {
	m := build.NewMemory(100)
	a, b := m.Hold(), m.Hold()
	for _, c := range []struct {
		hold *build.Hold
		n    int64
		want error
	}{
		{a, 60, nil}, {a, 50, nil}, {b, 40, nil}, {b, 41, fault.ErrUnavailable}, {a, 61, fault.ErrUnavailable}, {a, 101, fault.ErrInvalid},
	} {
		if err := c.hold.Grow(c.n); !errors.Is(err, c.want) {
			t.Errorf("grow to %d: %v, want %v", c.n, err, c.want)
		}
	}
	if m.Used() != 100 {
		t.Errorf("%d bytes held", m.Used())
	}
	a.Release()
	if err := b.Grow(100); err != nil {
		t.Error(err)
	}
	b.Release()
	b.Release()
	if m.Used() != 0 {
		t.Errorf("%d bytes held at the end", m.Used())
	}
}

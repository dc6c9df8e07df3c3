package sealed_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/sealed"
)

func TestOnlyTheWholeFrameOpens(t *testing.T) {
	b := sealed.End(append(sealed.Begin("TEST", 1, 3), "abc"...))
	body, err := sealed.Open("TEST", 1, b)
	if err != nil || string(body) != "abc" || len(b) != 3+sealed.Overhead {
		t.Fatalf("%q of %d bytes, %v", body, len(b), err)
	}
	for i := range len(b) * 8 {
		flipped := bytes.Clone(b)
		flipped[i/8] ^= 1 << (i % 8)
		if _, err := sealed.Open("TEST", 1, flipped); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("bit %d flipped: %v", i, err)
		}
	}
	for n := range b {
		if _, err := sealed.Open("TEST", 1, b[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if _, err := sealed.Open("ELSE", 1, b); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another format: %v", err)
	}
	if _, err := sealed.Open("TEST", 2, b); !errors.Is(err, fault.ErrUnsupported) || errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another version: %v", err)
	}
}

func TestAReaderFailsOnceAndStaysFailed(t *testing.T) {
	r := sealed.NewReader([]byte{7, 1, 0, 0, 0, 0x80, 0x01})
	if r.Byte() != 7 || r.Uint32() != 1 || r.Uvarint(1000) != 128 || r.Done() != nil {
		t.Fatalf("read: %v", r.Err())
	}
	r = sealed.NewReader([]byte{1, 2, 3})
	if r.Int64() != 0 || r.Byte() != 0 || !errors.Is(r.Done(), fault.ErrCorrupt) {
		t.Errorf("a number beyond the end: %v", r.Err())
	}
	r = sealed.NewReader([]byte{200, 1})
	if r.Uvarint(100) != 0 || !errors.Is(r.Err(), fault.ErrCorrupt) {
		t.Errorf("a number above its limit: %v", r.Err())
	}
	r = sealed.NewReader([]byte{1, 2})
	if r.Byte(); !errors.Is(r.Done(), fault.ErrCorrupt) {
		t.Errorf("bytes left over: %v", r.Done())
	}
	r = sealed.NewReader([]byte{1})
	if r.Bytes(-1) != nil || r.Err() == nil {
		t.Error("a negative length")
	}
}

package redisstore

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
)

const large = "segment/e/0/1-large"

// keysOf are the Redis keys that hold pieces.
func piecesIn(keys []string) (out []string) {
	for _, k := range keys {
		if strings.Contains(k, "}p:") {
			out = append(out, k)
		}
	}
	return out
}

func TestALargeBlobIsStoredInPieces(t *testing.T) {
	s, m := fake(t)
	blob := bytes.Repeat([]byte("0123456789"), pieceSize/4) // 2.5 pieces
	put := func() {
		t.Helper()
		if err := s.PutBlob(t.Context(), large, blob); err != nil {
			t.Fatal(err)
		}
	}
	put()
	put()
	if got, err := s.GetBlob(t.Context(), large); err != nil || !bytes.Equal(got, blob) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	pieces := piecesIn(m.Keys())
	if len(pieces) != 3 {
		t.Fatalf("pieces %q", pieces)
	}
	m.FastForward(2 * pieceLife)
	if got, err := s.GetBlob(t.Context(), large); err != nil || !bytes.Equal(got, blob) {
		t.Fatalf("after a while: %d bytes, %v", len(got), err)
	}
	other := bytes.Clone(blob)
	other[len(other)-1]++
	if err := s.PutBlob(t.Context(), large, other); !errors.Is(err, fault.ErrConflict) {
		t.Fatalf("other bytes: %v", err)
	}
	if err := s.DeleteBlob(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	// What the loser of the conflict wrote, and nothing named, goes by itself.
	m.FastForward(2 * pieceLife)
	if left := piecesIn(m.Keys()); len(left) != 0 {
		t.Fatalf("left behind: %q", left)
	}
	put()
	m.Del(pieces[1])
	if _, err := s.GetBlob(t.Context(), large); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("a piece is gone: %v", err)
	}
	if err := m.Set(pieces[1], "torn"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetBlob(t.Context(), large); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("a piece is torn: %v", err)
	}
}

func TestPiecesOfADeadWriterGo(t *testing.T) {
	s, m := fake(t)
	blob := make([]byte, pieceSize+1)
	p := placeOf(large)
	names := formOf(blob).pieces(s.keys, p)
	if err := s.client.SetNX(t.Context(), names[0], blob[:pieceSize], pieceLife).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetBlob(t.Context(), large); !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("half a blob: %v", err)
	}
	// A writer that comes back shortly before they go keeps them.
	m.FastForward(pieceLife - time.Second)
	if err := s.PutBlob(t.Context(), large, blob); err != nil {
		t.Fatal(err)
	}
	m.FastForward(pieceLife)
	if got, err := s.GetBlob(t.Context(), large); err != nil || !bytes.Equal(got, blob) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

// Writers, readers and deleters of one large blob see all of it or nothing.
func TestPiecesUnderConcurrency(t *testing.T) {
	s, _ := fake(t)
	blob := bytes.Repeat([]byte{7}, pieceSize+10)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for range 15 {
				var err error
				switch i % 3 {
				case 0:
					err = s.PutBlob(t.Context(), large, blob)
				case 1:
					err = s.DeleteBlob(t.Context(), large)
				default:
					var got []byte
					got, err = s.GetBlob(t.Context(), large)
					if err == nil && !bytes.Equal(got, blob) {
						t.Errorf("read %d bytes", len(got))
					}
				}
				if err != nil && !errors.Is(err, fault.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzParseForm(f *testing.F) {
	f.Add("")
	f.Add(formOf([]byte("x")).stored)
	f.Add(formOf(make([]byte, pieceSize+1)).stored)
	f.Add("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, stored string) {
		got, err := parseForm(stored)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if got.stored != stored || got.size < 0 || got.size > MaxBlob && got.sum != nil {
			t.Fatalf("%q is %+v", stored, got)
		}
	})
}

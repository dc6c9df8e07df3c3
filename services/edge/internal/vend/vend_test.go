package vend_test

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

func start() time.Time { return time.Date(2026, 11, 29, 23, 0, 0, 0, time.UTC) }

func scope() vend.Scope {
	return vend.Scope{Principal: "alice", Warehouse: "v2", Namespace: "kafka", Table: "orders", Prefix: "orders-abcdefghijklmnop/current/"}
}

func newVendor(t *testing.T, lifetime time.Duration, key string, previous ...string) *vend.Vendor {
	t.Helper()
	var old [][]byte
	for _, p := range previous {
		old = append(old, []byte(p))
	}
	v, err := vend.New([]byte(key), old, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustVend(t *testing.T, v *vend.Vendor, s vend.Scope, now time.Time) vend.Credentials {
	t.Helper()
	c, err := v.Vend(s, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const keyA, keyB = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func TestVerifiesWhatItVends(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 300 {
		life := time.Minute + time.Duration(r.Int64N(int64(12*time.Hour)))
		now := start().Add(time.Duration(r.Int64N(int64(1000 * time.Hour))))
		v := newVendor(t, life, keyA)
		c := mustVend(t, v, scope(), now)
		left := c.Expires.Sub(now)
		if left > life || left < life/2-time.Second {
			t.Fatalf("seed %d: life %v at %v leaves %v", seed, life, now, left)
		}
		// Another edge, with the same key.
		secret, claims, err := newVendor(t, life, keyA).Verify(c.AccessKey, c.SessionToken, now)
		if err != nil || secret != c.Secret || claims.Scope != scope() || !claims.Expires.Equal(c.Expires) {
			t.Fatalf("seed %d: %v %+v", seed, err, claims)
		}
		if _, _, err := v.Verify(c.AccessKey, c.SessionToken, c.Expires.Add(-time.Millisecond)); err != nil {
			t.Fatalf("seed %d: just before the end: %v", seed, err)
		}
		if _, _, err := v.Verify(c.AccessKey, c.SessionToken, c.Expires); !errors.Is(err, vend.ErrExpired) {
			t.Fatalf("seed %d: at the end: %v", seed, err)
		}
	}
}

// Equal within an epoch, different after it: caches of clients depend on the one, their safety on the other.
func TestEqualWithinAnEpoch(t *testing.T) {
	v := newVendor(t, time.Hour, keyA)
	first := mustVend(t, v, scope(), start())
	if again := mustVend(t, v, scope(), start().Add(29*time.Minute)); again != first || v.Epoch(start()) != v.Epoch(start().Add(29*time.Minute)) {
		t.Error("credentials differ within an epoch")
	}
	later := mustVend(t, v, scope(), start().Add(30*time.Minute))
	if later == first || v.Epoch(start()) == v.Epoch(start().Add(30*time.Minute)) {
		t.Error("credentials do not change with the epoch")
	}
	for name, change := range map[string]func(*vend.Scope){
		"principal": func(s *vend.Scope) { s.Principal = "bob" },
		"warehouse": func(s *vend.Scope) { s.Warehouse = "v3" },
		"namespace": func(s *vend.Scope) { s.Namespace = "kafk" },
		"table":     func(s *vend.Scope) { s.Table = "order" },
		"prefix":    func(s *vend.Scope) { s.Prefix = "orders-abcdefghijklmnop/changes/" },
		// Texts have lengths: moving a letter over a border is another scope.
		"border": func(s *vend.Scope) { s.Namespace, s.Table = "kafkao", "rders" },
	} {
		s := scope()
		change(&s)
		other := mustVend(t, v, s, start())
		if other.Secret == first.Secret || other.AccessKey == first.AccessKey || other.SessionToken == first.SessionToken {
			t.Errorf("%s: credentials do not depend on it", name)
		}
	}
}

// The characters are those that no client or server splits or encodes, and the lengths those of AWS.
func TestShape(t *testing.T) {
	c := mustVend(t, newVendor(t, time.Hour, keyA), scope(), start())
	for name, p := range map[string][2]string{
		"access key": {c.AccessKey, `^FZ[A-Z0-9]{24}$`}, "secret": {c.Secret, `^[A-Za-z0-9_-]{43}$`}, "token": {c.SessionToken, `^[A-Za-z0-9_-]{1,1000}$`},
	} {
		if !regexp.MustCompile(p[1]).MatchString(p[0]) {
			t.Errorf("%s %q", name, p[0])
		}
	}
}

func TestRefusesWhatWasChanged(t *testing.T) {
	v := newVendor(t, time.Hour, keyA)
	c := mustVend(t, v, scope(), start())
	raw, err := base64.RawURLEncoding.DecodeString(c.SessionToken)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			changed := append([]byte(nil), raw...)
			changed[i] ^= 1 << bit
			if _, _, err := v.Verify(c.AccessKey, base64.RawURLEncoding.EncodeToString(changed), start()); !errors.Is(err, vend.ErrInvalid) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
		}
	}
	for n := range len(c.SessionToken) {
		if _, _, err := v.Verify(c.AccessKey, c.SessionToken[:n], start()); !errors.Is(err, vend.ErrInvalid) {
			t.Fatalf("cut to %d: %v", n, err)
		}
	}
	other := mustVend(t, v, vend.Scope{Principal: "eve"}, start())
	if _, _, err := v.Verify(other.AccessKey, c.SessionToken, start()); !errors.Is(err, vend.ErrUnknownAccessKey) {
		t.Errorf("someone else's access key: %v", err)
	}
	if _, _, err := v.Verify(c.AccessKey, c.SessionToken+"\n", start()); !errors.Is(err, vend.ErrInvalid) {
		t.Errorf("another spelling: %v", err)
	}
}

func TestRotation(t *testing.T) {
	old := mustVend(t, newVendor(t, time.Hour, keyA), scope(), start())
	if _, _, err := newVendor(t, time.Hour, keyB).Verify(old.AccessKey, old.SessionToken, start()); !errors.Is(err, vend.ErrInvalid) {
		t.Errorf("key that is gone: %v", err)
	}
	both := newVendor(t, time.Hour, keyB, keyA)
	if secret, _, err := both.Verify(old.AccessKey, old.SessionToken, start()); err != nil || secret != old.Secret {
		t.Errorf("previous key: %v", err)
	}
	if c := mustVend(t, both, scope(), start()); c.AccessKey[:6] == old.AccessKey[:6] {
		t.Error("the previous key still signs")
	}
}

func TestLongTexts(t *testing.T) {
	s := scope()
	s.Principal = strings.Repeat("x", 513)
	if _, err := newVendor(t, time.Hour, keyA).Vend(s, start()); err == nil {
		t.Error("a text that Verify would refuse was vended")
	}
}

func FuzzVerify(f *testing.F) {
	v, err := vend.New([]byte(keyA), nil, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	c, err := v.Vend(scope(), start())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.AccessKey, c.SessionToken)
	f.Add("", "AQ")
	f.Fuzz(func(t *testing.T, access, token string) {
		_, _, err := v.Verify(access, token, start())
		if (err == nil) != (access == c.AccessKey && token == c.SessionToken) {
			t.Fatalf("%q %q: %v", access, token, err)
		}
	})
}

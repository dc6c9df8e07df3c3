package change_test

import (
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/change"
	"github.com/frazil-io/frazil/libs/fault"
)

func encode(t *testing.T, e *change.Encoder, set func()) string {
	t.Helper()
	e.Reset()
	set()
	b, err := e.AppendTo([]byte("prefix"))
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b[len("prefix"):])
}

func encoder(t *testing.T, names ...string) *change.Encoder {
	t.Helper()
	e, err := change.NewEncoder(names)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The bytes are the identity of every record of every table: they never change.
func TestEncodingIsPinned(t *testing.T) {
	e := encoder(t, "b", "a")
	for _, c := range []struct {
		set  func()
		want string
	}{
		{func() { e.Int(0, 5); e.Text(1, []byte("x")) }, "0161" + "09" + "0178" + "0162" + "03" + "0000000000000005"},
		{func() { e.Null(0); e.Bool(1, true) }, "0161" + "0201" + "0162" + "01"},
		{func() { e.Date(0, -1); e.Bytes(1, nil) }, "0161" + "0a00" + "0162" + "06ffffffffffffffff"},
		{func() { e.Timestamp(0, 1); e.Timestamptz(1, 1) }, "0161" + "080000000000000001" + "0162" + "070000000000000001"},
		{func() { e.Float(0, 1); e.Decimal(1, true, []byte("00150"), -2) },
			"0161" + "052d" + "ffffffffffffffff" + "023135" + "0162" + "043ff0000000000000"},
	} {
		if got := encode(t, e, c.set); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestOneValueHasOneEncoding(t *testing.T) {
	e := encoder(t, "k")
	equal := [][]func(){
		{func() { e.Float(0, 0) }, func() { e.Float(0, math.Copysign(0, -1)) }},
		{func() { e.Float(0, math.NaN()) }, func() { e.Float(0, math.Float64frombits(0xfff8000000000123)) }},
		{func() { e.Decimal(0, false, []byte("15"), -1) }, func() { e.Decimal(0, false, []byte("1500"), -3) }, func() { e.Decimal(0, false, []byte("0015"), -1) }},
		{func() { e.Decimal(0, false, nil, 0) }, func() { e.Decimal(0, true, []byte("0"), -9) }, func() { e.Decimal(0, false, []byte("000"), 7) }},
		{func() { e.Int(0, 0) }},
		{func() { e.Date(0, 0) }},
		{func() { e.Timestamp(0, 0) }},
		{func() { e.Timestamptz(0, 0) }},
		{func() { e.Text(0, []byte("0")) }, func() { e.Int(0, 9); e.Text(0, []byte("0")) }},
		{func() { e.Bytes(0, []byte("0")) }},
		{func() { e.Null(0) }},
		{func() { e.Bool(0, false) }},
		{func() { e.Text(0, nil) }},
		{func() { e.Decimal(0, true, []byte("15"), -1) }},
	}
	seen := map[string]int{}
	for i, group := range equal {
		for _, set := range group {
			got := encode(t, e, set)
			if j, ok := seen[got]; ok && j != i {
				t.Errorf("groups %d and %d have one encoding", i, j)
			}
			seen[got] = i
		}
	}
	if len(seen) != len(equal) {
		t.Errorf("%d encodings of %d values", len(seen), len(equal))
	}
}

// No key is another one's bytes: fields and values are length-prefixed, so nothing can move between them.
func TestEncodingsDoNotRunIntoEachOther(t *testing.T) {
	e := encoder(t, "a", "b")
	first := encode(t, e, func() { e.Text(0, []byte("x")); e.Text(1, []byte("yz")) })
	second := encode(t, e, func() { e.Text(0, []byte("xy")); e.Text(1, []byte("z")) })
	if first == second {
		t.Error("two keys, one encoding")
	}
}

func TestFieldOrderDoesNotMatter(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	names := []string{"c", "a", "B", "é", "aa", ""}
	values := map[string]int64{}
	for _, n := range names {
		values[n] = r.Int64()
	}
	var want string
	for range 20 {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		e := encoder(t, names...)
		got := encode(t, e, func() {
			for _, i := range r.Perm(len(names)) {
				e.Int(i, values[names[i]])
			}
		})
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("seed %d: order %v changes the encoding", seed, names)
		}
	}
}

func TestIncompleteKeysAreErrors(t *testing.T) {
	e := encoder(t, "a", "b")
	e.Int(0, 1)
	if _, err := e.AppendTo(nil); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a missing field: %v", err)
	}
	e.Int(1, 1)
	e.Reset()
	if _, err := e.AppendTo(nil); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("after Reset: %v", err)
	}
	for _, names := range [][]string{nil, {"a", "a"}} {
		if _, err := change.NewEncoder(names); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%v: %v", names, err)
		}
	}
}

// vectors of the reference implementation (veorq/SipHash, vectors.h, SipHash-2-4-128), key 00 01 … 0f.
func TestHashIsTheStartOfSipHash128(t *testing.T) {
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	h := change.NewHasher(key)
	for n, want := range []string{"a3817f04ba25a8e66df6", "da87c1d86b99af443476", "8177228da4a45dc7fca3"} {
		in := slices.Clone(key[:n])
		if got := h.Hash(in); hex.EncodeToString(got[:]) != want {
			t.Errorf("%d bytes: %x, want %s", n, got, want)
		}
	}
	if change.NewHasher([16]byte{1}).Hash(nil) == h.Hash(nil) {
		t.Error("the key does not matter")
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	e := encoder(t, "a", "b")
	h := change.NewHasher([16]byte{})
	var buf []byte
	text := []byte("text")
	run := func() {
		e.Reset()
		e.Int(0, 7)
		e.Text(1, text)
		buf, _ = e.AppendTo(buf[:0])
		_ = h.Hash(buf)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

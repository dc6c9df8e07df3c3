package icebergcommit

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"testing"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Decimals of partitions are fixed bytes of their type's width in manifests: negative ones are below positive ones, and
// the limits of the manifest list have no more bytes than they need.
func TestLimitsOfDecimalPartitions(t *testing.T) {
	fixed := func(v int64, width int) icebergscan.Value {
		b := make([]byte, width)
		new(big.Int).And(big.NewInt(v), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*width)), big.NewInt(1))).FillBytes(b)
		return icebergscan.Value{Kind: icebergscan.Decimal, Bytes: b}
	}
	for _, tc := range []struct {
		values       []icebergscan.Value
		lower, upper string // hexadecimal
	}{
		{[]icebergscan.Value{fixed(5, 4), fixed(-3, 4), fixed(0, 4)}, "fd", "05"},
		{[]icebergscan.Value{fixed(-129, 4), fixed(-128, 4)}, "ff7f", "80"},
		{[]icebergscan.Value{fixed(127, 4), fixed(128, 4)}, "7f", "0080"},
		{[]icebergscan.Value{fixed(0, 16), fixed(-1, 16)}, "ff", "00"},
		{[]icebergscan.Value{fixed(300, 2), fixed(-70000, 9), fixed(299, 16)}, "feee90", "012c"}, // the precision was raised since
		{[]icebergscan.Value{{Kind: icebergscan.Decimal, Bytes: nil}, fixed(-1, 1)}, "ff", "00"},
	} {
		s := summaries{types: []string{"decimal(9,2)"}, order: []int{0}, fields: make([]fieldSums, 1)}
		for _, v := range tc.values {
			s.add([]icebergscan.Value{v})
		}
		got := s.done()
		if len(got) != 1 {
			t.Fatalf("%d limits", len(got))
		}
		if hex.EncodeToString(got[0].Lower) != tc.lower || hex.EncodeToString(got[0].Upper) != tc.upper {
			t.Errorf("limits %x to %x, want %s to %s", got[0].Lower, got[0].Upper, tc.lower, tc.upper)
		}
		for _, v := range tc.values {
			if compare(v, icebergscan.Value{Kind: icebergscan.Decimal, Bytes: got[0].Lower}) < 0 || bytes.Equal(got[0].Upper, got[0].Lower) {
				t.Errorf("%x is below the lower limit %x", v.Bytes, got[0].Lower)
			}
		}
	}
}

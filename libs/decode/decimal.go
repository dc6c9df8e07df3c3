package decode

import (
	"encoding/binary"
	"math/big"
	"math/bits"
)

// int128 is a two's complement integer of 128 bits: enough for every decimal of precision 38.
type int128 struct {
	hi int64
	lo uint64
}

// int128Of reads big-endian two's complement; ok is false when the value needs more than 128 bits. No bytes are 0.
func int128Of(b []byte) (v int128, ok bool) {
	if len(b) == 0 {
		return int128{}, true
	}
	sign := byte(0)
	if b[0]&0x80 != 0 {
		sign = 0xff
	}
	for len(b) > 16 {
		if b[0] != sign || (b[1]^sign)&0x80 != 0 {
			return int128{}, false
		}
		b = b[1:]
	}
	var full [16]byte
	if sign != 0 {
		for i := range full {
			full[i] = sign
		}
	}
	copy(full[16-len(b):], b)
	return int128{int64(binary.BigEndian.Uint64(full[:8])), binary.BigEndian.Uint64(full[8:])}, true
}

// abs is the magnitude; |-2^127| fits, too.
func (v int128) abs() (hi, lo uint64) {
	if v.hi >= 0 {
		return uint64(v.hi), v.lo
	}
	lo, borrow := bits.Sub64(0, v.lo, 0)
	hi, _ = bits.Sub64(0, uint64(v.hi), borrow)
	return hi, lo
}

// fits reports whether |v| < 10^prec, prec at most 38.
func (v int128) fits(prec int) bool {
	hi, lo := v.abs()
	limit := pow10(prec)
	return hi < limit.hi || (hi == limit.hi && lo < limit.lo)
}

// uint128 is a magnitude.
type uint128 struct{ hi, lo uint64 }

// pow10 is 10^n for n in [0, 38].
func pow10(n int) uint128 {
	v := uint128{0, 1}
	for ; n >= 19; n -= 19 {
		v, _ = v.mul(1e19)
	}
	m := uint64(1)
	for ; n > 0; n-- {
		m *= 10
	}
	v, _ = v.mul(m)
	return v
}

// mul multiplies; ok is false on overflow.
func (v uint128) mul(m uint64) (out uint128, ok bool) {
	hi, lo := bits.Mul64(v.lo, m)
	over, mid := bits.Mul64(v.hi, m)
	hi, carry := bits.Add64(hi, mid, 0)
	return uint128{hi, lo}, over == 0 && carry == 0
}

// add adds a small number; ok is false on overflow.
func (v uint128) add(m uint64) (out uint128, ok bool) {
	lo, carry := bits.Add64(v.lo, m, 0)
	hi, over := bits.Add64(v.hi, 0, carry)
	return uint128{hi, lo}, over == 0
}

// signed is the number with its sign; ok is false when it needs more than 128 bits.
func (v uint128) signed(negative bool) (int128, bool) {
	if v.hi>>63 != 0 {
		return int128{}, false
	}
	if !negative {
		return int128{int64(v.hi), v.lo}, true
	}
	lo, borrow := bits.Sub64(0, v.lo, 0)
	hi, _ := bits.Sub64(0, v.hi, borrow)
	return int128{int64(hi), lo}, true
}

// scaleUp is v * 10^n; ok is false when that leaves 38 digits.
func (v int128) scaleUp(n int) (int128, bool) {
	if n > 38 {
		return v, v == int128{}
	}
	hi, lo := v.abs()
	m := uint128{hi, lo}
	ok := true
	for ; n > 0 && ok; n-- {
		m, ok = m.mul(10)
	}
	if !ok {
		return v, false
	}
	return m.signed(v.hi < 0)
}

// appendDigits appends the magnitude in decimal, "0" for zero.
func (v uint128) appendDigits(dst []byte) []byte {
	var buf [40]byte
	at := len(buf)
	for {
		hi := v.hi / 10
		lo, digit := bits.Div64(v.hi%10, v.lo, 10)
		v = uint128{hi, lo}
		at--
		buf[at] = byte('0' + digit)
		if hi|lo == 0 {
			return append(dst, buf[at:]...)
		}
	}
}

// appendUnscaled appends the decimal digits of |b| and answers the sign. b is big-endian two's complement of any length.
func appendUnscaled(dst, b []byte) (digits []byte, negative bool) {
	if v, ok := int128Of(b); ok {
		hi, lo := v.abs()
		return uint128{hi, lo}.appendDigits(dst), v.hi < 0
	}
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))), n)
		negative = true
	}
	return n.Append(dst, 10), negative
}

// Limits of the text of a decimal: what Oracle and PostgreSQL can hold, with room.
const (
	maxDecimalScale = 1 << 15
	maxDecimalBytes = 1 << 14
)

// appendPlain appends digits * 10^-scale without an exponent, as Java's BigDecimal.toPlainString does.
func appendPlain(dst []byte, negative bool, digits []byte, scale int) []byte {
	if negative {
		dst = append(dst, '-')
	}
	if scale <= 0 {
		dst = append(dst, digits...)
		if len(digits) == 1 && digits[0] == '0' {
			return dst
		}
		for ; scale < 0; scale++ {
			dst = append(dst, '0')
		}
		return dst
	}
	if whole := len(digits) - scale; whole > 0 {
		dst = append(dst, digits[:whole]...)
		digits = digits[whole:]
	} else {
		dst = append(dst, '0')
	}
	dst = append(dst, '.')
	for zeros := scale - len(digits); zeros > 0; zeros-- {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// parseDecimal reads a JSON number exactly as digits * 10^exponent, digits without leading zeros.
// ok is false when it has an absurd exponent.
func parseDecimal(dst, number []byte) (digits []byte, negative bool, exponent int, ok bool) {
	digits = dst
	i := 0
	if number[0] == '-' {
		negative, i = true, 1
	}
	fraction := false
	for ; i < len(number); i++ {
		c := number[i]
		switch {
		case c == '.':
			fraction = true
			continue
		case c == 'e' || c == 'E':
			e, ok := parseExponent(number[i+1:])
			return digits, negative, exponent + e, ok
		}
		if fraction {
			exponent--
		}
		if c != '0' || len(digits) > len(dst) {
			digits = append(digits, c)
		}
	}
	return digits, negative, exponent, true
}

func parseExponent(b []byte) (e int, ok bool) {
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		if e = e*10 + int(c-'0'); e > 1<<20 {
			return 0, false
		}
	}
	if negative {
		e = -e
	}
	return e, true
}

// int128FromDigits is digits * 10^shift, exactly; ok is false when it is no integer of 38 digits.
func int128FromDigits(negative bool, digits []byte, shift int) (int128, bool) {
	for shift < 0 && len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		shift++
	}
	if len(digits) == 0 {
		return int128{}, true
	}
	if shift < 0 || len(digits)+shift > 38 {
		return int128{}, false
	}
	var v uint128
	for _, c := range digits {
		v, _ = v.mul(10)
		v, _ = v.add(uint64(c - '0'))
	}
	for ; shift > 0; shift-- {
		v, _ = v.mul(10)
	}
	return v.signed(negative)
}

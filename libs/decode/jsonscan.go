package decode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonScanner reads JSON tokens (RFC 8259) from b at p. Text must be UTF-8 and an escape must stand for a character:
// a lone surrogate is refused.
type jsonScanner struct {
	b     []byte
	p     int
	depth int
	text  []byte // the last text that had an escape in it
	err   error  // why a value could not be skipped
}

func (s *jsonScanner) syntax() error {
	return bad("no valid JSON at byte %d of %d", min(s.p, len(s.b)), len(s.b))
}

// space skips white space and answers the byte that follows, 0 at the end.
func (s *jsonScanner) space() byte {
	for s.p < len(s.b) {
		c := s.b[s.p]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return 0
		}
		s.p++
	}
	return 0
}

// end reports whether only white space is left.
func (s *jsonScanner) end() bool {
	s.space()
	return s.p == len(s.b)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special flags, among eight bytes of a text, the lowest one that is a quote, a backslash, a control character or not
// ASCII; flags above it may be wrong.
func special(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x - ones*0x20) | x) & highs
}

// plain moves p to the next byte of a text that needs a look; ascii says whether all before it were ASCII.
func (s *jsonScanner) plain() (ascii bool) {
	ascii = true
	for {
		for len(s.b)-s.p >= 8 {
			if m := special(binary.LittleEndian.Uint64(s.b[s.p:])); m != 0 {
				s.p += bits.TrailingZeros64(m) / 8
				break
			}
			s.p += 8
		}
		for s.p < len(s.b) {
			c := s.b[s.p]
			if c == '"' || c == '\\' || c < 0x20 {
				return ascii
			}
			s.p++
			if c >= 0x80 {
				ascii = false
				break
			}
		}
		if s.p >= len(s.b) {
			return ascii
		}
	}
}

// str reads a text at its opening quote. The result aliases b, or text where an escape had to be replaced; it is
// valid until the next text is read.
func (s *jsonScanner) str() ([]byte, error) {
	s.p++
	start := s.p
	ascii := s.plain()
	if s.p >= len(s.b) || s.b[s.p] < 0x20 {
		return nil, s.syntax()
	}
	v := s.b[start:s.p]
	if !ascii && !utf8.Valid(v) {
		return nil, s.notUTF8()
	}
	if s.b[s.p] == '"' {
		s.p++
		return v, nil
	}
	s.text = append(s.text[:0], v...)
	return s.escaped()
}

func (s *jsonScanner) notUTF8() error { return bad("text that is not UTF-8 before byte %d", s.p) }

// escaped reads the rest of a text, from its first backslash on.
func (s *jsonScanner) escaped() ([]byte, error) {
	for s.p < len(s.b) {
		switch c := s.b[s.p]; {
		case c == '"':
			s.p++
			return s.text, nil
		case c == '\\':
			r, ok := s.escape()
			if !ok {
				return nil, s.syntax()
			}
			s.text = utf8.AppendRune(s.text, r)
		case c < 0x20:
			return nil, s.syntax()
		default:
			start := s.p
			if ascii := s.plain(); !ascii && !utf8.Valid(s.b[start:s.p]) {
				return nil, s.notUTF8()
			}
			s.text = append(s.text, s.b[start:s.p]...)
		}
	}
	return nil, s.syntax()
}

// escape reads one escape, or two that make a surrogate pair.
func (s *jsonScanner) escape() (rune, bool) {
	if s.p+1 >= len(s.b) {
		return 0, false
	}
	c := s.b[s.p+1]
	s.p += 2
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
	default:
		return 0, false
	}
	r, ok := s.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if s.p+1 >= len(s.b) || s.b[s.p] != '\\' || s.b[s.p+1] != 'u' {
		return 0, false
	}
	s.p += 2
	low, ok := s.hex4()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

func (s *jsonScanner) hex4() (rune, bool) {
	if len(s.b)-s.p < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s.b[s.p : s.p+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.p += 4
	return r, true
}

// number reads a number and reports whether it has neither a fraction nor an exponent.
func (s *jsonScanner) number() (text []byte, whole bool, err error) {
	start := s.p
	end, whole := numberEnd(s.b, start)
	if end < 0 {
		return nil, false, s.syntax()
	}
	s.p = end
	return s.b[start:end], whole, nil
}

// numberEnd answers where the number at p ends, -1 if it is none.
func numberEnd(b []byte, p int) (end int, whole bool) {
	if b[p] == '-' {
		p++
	}
	first := p
	if p = digitsEnd(b, p); p == first || (b[first] == '0' && p-first > 1) {
		return -1, false
	}
	whole = true
	if p < len(b) && b[p] == '.' {
		whole = false
		first = p + 1
		if p = digitsEnd(b, first); p == first {
			return -1, false
		}
	}
	if p < len(b) && b[p]|0x20 == 'e' {
		whole = false
		p++
		if p < len(b) && (b[p] == '+' || b[p] == '-') {
			p++
		}
		first = p
		if p = digitsEnd(b, first); p == first {
			return -1, false
		}
	}
	return p, whole
}

func digitsEnd(b []byte, p int) int {
	for p < len(b) && b[p]-'0' <= 9 {
		p++
	}
	return p
}

// literal reads null, true or false.
func (s *jsonScanner) literal(word string) error {
	if len(s.b)-s.p < len(word) || string(s.b[s.p:s.p+len(word)]) != word {
		return s.syntax()
	}
	s.p += len(word)
	return nil
}

var errTooDeep = bad("the record nests deeper than %d levels", maxValueDepth)

func (s *jsonScanner) enter() error {
	s.p++
	if s.depth++; s.depth > maxValueDepth {
		return errTooDeep
	}
	return nil
}

// next moves to the next element of an object or array, or over its end.
func (s *jsonScanner) next(closing byte, first bool) (done bool, err error) {
	c := s.space()
	if c == closing {
		s.p++
		s.depth--
		return true, nil
	}
	if !first {
		if c != ',' {
			return false, s.syntax()
		}
		s.p++
		if s.space() == closing {
			return false, s.syntax()
		}
	}
	return false, nil
}

// name reads a field's name and the colon.
func (s *jsonScanner) name() ([]byte, error) {
	if s.space() != '"' {
		return nil, s.syntax()
	}
	v, err := s.str()
	if err != nil {
		return nil, err
	}
	return v, s.colon()
}

func (s *jsonScanner) colon() error {
	if s.space() != ':' {
		return s.syntax()
	}
	s.p++
	return nil
}

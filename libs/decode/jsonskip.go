package decode

import (
	"encoding/binary"
	"math/bits"
)

// skip reads one value of any kind and checks its syntax. Most of a record is skipped, so the steps below keep the
// position in a register: each takes one and answers the next, -1 after a fault, which is then in err.
func (s *jsonScanner) skip() error {
	end := s.valueEnd(s.p, s.depth)
	if end < 0 {
		return s.err
	}
	s.p = end
	return nil
}

func (s *jsonScanner) failAt(p int) int {
	s.p = p
	s.err = s.syntax()
	return -1
}

func spaceEnd(b []byte, p int) int {
	for p < len(b) && b[p] <= ' ' && (b[p] == ' ' || b[p] == '\n' || b[p] == '\t' || b[p] == '\r') {
		p++
	}
	return p
}

func (s *jsonScanner) valueEnd(p, depth int) int {
	p = spaceEnd(s.b, p)
	if p >= len(s.b) {
		return s.failAt(p)
	}
	switch c := s.b[p]; c {
	case '"':
		return s.textEnd(p)
	case '{':
		return s.objectEnd(p, depth+1)
	case '[':
		return s.arrayEnd(p, depth+1)
	case 'n':
		return s.wordEnd(p, "null")
	case 't':
		return s.wordEnd(p, "true")
	case 'f':
		return s.wordEnd(p, "false")
	default:
		if c == '-' || c-'0' <= 9 {
			if end, _ := numberEnd(s.b, p); end >= 0 {
				return end
			}
		}
	}
	return s.failAt(p)
}

func (s *jsonScanner) wordEnd(p int, word string) int {
	if len(s.b)-p < len(word) || string(s.b[p:p+len(word)]) != word {
		return s.failAt(p)
	}
	return p + len(word)
}

// textEnd reads a text at its opening quote. Only text that is not plain ASCII takes the long way.
func (s *jsonScanner) textEnd(p int) int {
	b := s.b
	for q := p + 1; ; {
		if len(b)-q >= 8 {
			m := special(binary.LittleEndian.Uint64(b[q:]))
			if m == 0 {
				q += 8
				continue
			}
			q += bits.TrailingZeros64(m) / 8
		} else {
			for q < len(b) && b[q] != '"' && b[q] != '\\' && b[q] >= 0x20 && b[q] < 0x80 {
				q++
			}
		}
		if q < len(b) && b[q] == '"' {
			return q + 1
		}
		break
	}
	s.p = p
	if _, err := s.str(); err != nil {
		s.err = err
		return -1
	}
	return s.p
}

func (s *jsonScanner) tooDeep() int {
	s.err = errTooDeep
	return -1
}

func (s *jsonScanner) objectEnd(p, depth int) int {
	if depth > maxValueDepth {
		return s.tooDeep()
	}
	b := s.b
	p = spaceEnd(b, p+1)
	if p < len(b) && b[p] == '}' {
		return p + 1
	}
	for {
		if p >= len(b) || b[p] != '"' {
			return s.failAt(p)
		}
		if p = s.textEnd(p); p < 0 {
			return p
		}
		if p = spaceEnd(b, p); p >= len(b) || b[p] != ':' {
			return s.failAt(p)
		}
		if p = s.valueEnd(p+1, depth); p < 0 {
			return p
		}
		if p = spaceEnd(b, p); p >= len(b) {
			return s.failAt(p)
		}
		switch b[p] {
		case ',':
			p = spaceEnd(b, p+1)
		case '}':
			return p + 1
		default:
			return s.failAt(p)
		}
	}
}

func (s *jsonScanner) arrayEnd(p, depth int) int {
	if depth > maxValueDepth {
		return s.tooDeep()
	}
	b := s.b
	p = spaceEnd(b, p+1)
	if p < len(b) && b[p] == ']' {
		return p + 1
	}
	for {
		if p = s.valueEnd(p, depth); p < 0 {
			return p
		}
		if p = spaceEnd(b, p); p >= len(b) {
			return s.failAt(p)
		}
		switch b[p] {
		case ',':
			p++
		case ']':
			return p + 1
		default:
			return s.failAt(p)
		}
	}
}

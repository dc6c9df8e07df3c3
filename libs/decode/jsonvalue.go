package decode

import (
	"encoding/base64"
	"math"
	"strconv"
	"unsafe"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/schema"
)

// jsonReader walks JSON with a program: one pass, straight into the columns. In an object that names a field twice
// the last one counts. The first pass cannot know that: a repeated field, or a fault in a value that a later one may
// replace, makes it give up, and the record is read again with careful set, which looks for the last ones first.
type jsonReader struct {
	jsonScanner
	sink
	careful bool
	bare    bool     // no schema: the placeholder may look like anything
	seen    []uint64 // a stack of bit sets, one per open object
	last    []int    // careful: a stack of positions of fields' last values
	bytes   []byte   // scratch of base64
	unknown bool     // bare: the row has a column that the table lacks
}

// errRepeated: an object names a field twice. The careful pass does not give it.
var errRepeated = bad("an object names a field twice")

func (r *jsonReader) start(b []byte) {
	r.b, r.p, r.depth = b, 0, 0
	r.seen, r.last = r.seen[:0], r.last[:0]
	r.careful, r.unknown = false, false
}

// value reads one value.
func (r *jsonReader) value(n *node, rep uint8) error {
	c := r.space()
	if c == 'n' {
		if err := r.literal("null"); err != nil {
			return err
		}
		return r.null(n, rep)
	}
	if n.dest == toNothing {
		return r.skip()
	}
	switch n.phys {
	case pInt, pLong:
		return r.integer(n, c, rep)
	case pString, pEnum:
		if c != '"' {
			return r.mismatch(n)
		}
		v, err := r.str()
		if err != nil {
			return err
		}
		return r.putText(n, v, rep)
	case pText:
		return r.anyText(n, c, rep)
	case pFloat, pDouble:
		return r.float(n, c, rep)
	case pBool:
		return r.boolean(n, c, rep)
	case pBytes, pFixed:
		return r.base64(n, c, rep)
	case pRecord:
		if c != '{' {
			return r.mismatch(n)
		}
		if n.conv == convVarDecimal {
			return r.varDecimal(n, rep)
		}
		return r.object(n, rep)
	case pArray:
		if c != '[' {
			return r.mismatch(n)
		}
		return r.array(n, rep)
	case pMap:
		return r.mapping(n, c, rep)
	default:
		return r.mismatch(n)
	}
}

// mismatch says that a value is not of its column's type, or not JSON at all.
func (r *jsonReader) mismatch(n *node) error {
	if err := r.skip(); err != nil {
		return err
	}
	return bad("column %q: a value that is not %s", n.label, &schema.Type{Kind: n.kind})
}

func isNumber(c byte) bool { return c == '-' || c-'0' <= 9 }

func (r *jsonReader) integer(n *node, c byte, rep uint8) error {
	if !isNumber(c) {
		return r.mismatch(n)
	}
	text, whole, err := r.number()
	if err != nil {
		return err
	}
	v, ok := parseInteger(text, whole)
	if !ok {
		return bad("column %q: a number that is no integer of 64 bits", n.label)
	}
	return r.putInt(n, v, rep)
}

// parseInteger reads a number exactly; 42.0 and 4.2e1 are integers.
func parseInteger(text []byte, whole bool) (int64, bool) {
	if !whole {
		var buf [24]byte
		digits, negative, exp, ok := parseDecimal(buf[:0], text)
		if !ok {
			return 0, false
		}
		d, ok := int128FromDigits(negative, digits, exp)
		return int64(d.lo), ok && d.hi == int64(d.lo)>>63
	}
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range text {
		u = u*10 + uint64(c-'0')
	}
	if negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u <= math.MaxInt64
}

func (r *jsonReader) float(n *node, c byte, rep uint8) error {
	if c == '"' {
		text, err := r.str()
		if err != nil {
			return err
		}
		switch string(text) {
		case "NaN":
			return r.putFloat(n, math.NaN(), rep)
		case "Infinity", "+Infinity":
			return r.putFloat(n, math.Inf(1), rep)
		case "-Infinity":
			return r.putFloat(n, math.Inf(-1), rep)
		}
		return bad("column %q: text where a number belongs", n.label)
	}
	if !isNumber(c) {
		return r.mismatch(n)
	}
	text, _, err := r.number()
	if err != nil {
		return err
	}
	width := 64
	if n.phys == pFloat {
		width = 32
	}
	v, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), width)
	if err != nil {
		return bad("column %q: a number out of the range of a %d-bit float", n.label, width)
	}
	return r.putFloat(n, v, rep)
}

func (r *jsonReader) boolean(n *node, c byte, rep uint8) error {
	switch c {
	case 't':
		if err := r.literal("true"); err != nil {
			return err
		}
		return r.putBool(n, true, rep)
	case 'f':
		if err := r.literal("false"); err != nil {
			return err
		}
		return r.putBool(n, false, rep)
	}
	return r.mismatch(n)
}

// base64 reads bytes, or a decimal that is written as a number (JsonConverter, decimal.format=NUMERIC).
func (r *jsonReader) base64(n *node, c byte, rep uint8) error {
	if n.conv == convDecimal && isNumber(c) {
		return r.numericDecimal(n, rep)
	}
	if c != '"' {
		return r.mismatch(n)
	}
	text, err := r.str()
	if err != nil {
		return err
	}
	v, err := r.unbase64(text)
	if err != nil {
		return bad("column %q: text that is not base64", n.label)
	}
	return r.putBytes(n, v, rep)
}

func (r *jsonReader) unbase64(text []byte) ([]byte, error) {
	if need := base64.StdEncoding.DecodedLen(len(text)); cap(r.bytes) < need {
		r.bytes = make([]byte, need)
	}
	r.bytes = r.bytes[:cap(r.bytes)]
	size, err := base64.StdEncoding.Decode(r.bytes, text)
	return r.bytes[:size], err
}

func (r *jsonReader) numericDecimal(n *node, rep uint8) error {
	text, _, err := r.number()
	if err != nil {
		return err
	}
	digits, negative, exp, ok := parseDecimal(r.decDigits[:0], text)
	r.decDigits = digits
	if !ok || exp > maxDecimalScale || exp < -maxDecimalScale {
		return bad("column %q: a number of an absurd size", n.label)
	}
	if n.dest == toKey || n.store == column.Bytes {
		return r.digitsText(n, negative, digits, -exp, rep)
	}
	d, ok := int128FromDigits(negative, digits, exp+n.scale)
	if !ok {
		return bad("column %q: a number that is no decimal(%d, %d)", n.label, n.prec, n.scale)
	}
	return r.putDecimal(n, d, rep)
}

// varDecimal reads io.debezium.data.VariableScaleDecimal.
func (r *jsonReader) varDecimal(n *node, rep uint8) error {
	if err := r.enter(); err != nil {
		return err
	}
	scale, haveScale := int64(0), false
	var unscaled []byte
	for first := true; ; first = false {
		done, err := r.next('}', first)
		if err != nil {
			return err
		}
		if done {
			break
		}
		name, err := r.name()
		if err != nil {
			return err
		}
		c := r.space()
		switch {
		case string(name) == "scale" && isNumber(c):
			text, whole, err := r.number()
			if err != nil {
				return err
			}
			scale, haveScale = parseInteger(text, whole)
		case string(name) == "value" && c == '"':
			text, err := r.str()
			if err == nil {
				unscaled, err = r.unbase64(text)
			}
			if err != nil {
				return bad("column %q: text that is not base64", n.label)
			}
		default:
			return r.mismatch(n)
		}
	}
	if !haveScale || unscaled == nil || scale > maxDecimalScale || scale < -maxDecimalScale {
		return bad("column %q: not a scale and a value", n.label)
	}
	return r.decimalText(n, unscaled, int(scale), rep)
}

// anyText reads a value of a column of text where there is no schema: text as it is, an object or an array as the
// JSON text that it is.
func (r *jsonReader) anyText(n *node, c byte, rep uint8) error {
	switch c {
	case '"':
		v, err := r.str()
		if err != nil {
			return err
		}
		if n.dest == toLeaf && isBarePlaceholder(v) {
			return n.placeholderError()
		}
		return r.putText(n, v, rep)
	case '{', '[':
		start := r.p
		if err := r.skip(); err != nil {
			return err
		}
		v := r.b[start:r.p]
		if n.dest == toLeaf && isBarePlaceholder(v) {
			return n.placeholderError()
		}
		return r.putText(n, v, rep)
	}
	return r.mismatch(n)
}

// Forms of the placeholder in JSON without a schema, beside the text itself: bytes, and lists of one element or of
// one integer a byte.
const (
	barePlaceholderBytes = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
	barePlaceholderInts  = "[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101]"
)

func isBarePlaceholder(v []byte) bool {
	switch string(v) {
	case barePlaceholderBytes, barePlaceholderInts, `["` + placeholder + `"]`, `["` + barePlaceholderBytes + `"]`,
		`["` + placeholderUUID + `"]`, `{"` + placeholder + `":"` + placeholder + `"}`:
		return true
	}
	return false
}

package decode

import (
	"encoding/binary"
	"math"
)

// avroReader walks Avro binary (Avro specification, "Binary Encoding") with a program.
type avroReader struct {
	sink
	b     []byte
	p     int
	depth int
	zeros int // elements of arrays that took no bytes, so far in this record
}

// maxValueDepth bounds how deep a value may nest.
const maxValueDepth = 512

// maxZeroSized bounds array elements that take no bytes: only they can make a short record long.
const maxZeroSized = 1 << 16

func errAvroShort() error { return bad("the record ends early, or a length in it is wrong") }

// long reads a zig-zag varint.
func (r *avroReader) long() (int64, bool) {
	b := r.b[r.p:]
	if len(b) > 0 && b[0] < 0x80 {
		r.p++
		return int64(b[0]>>1) ^ -int64(b[0]&1), true
	}
	u, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, false
	}
	r.p += n
	return int64(u>>1) ^ -int64(u&1), true
}

// bytes reads a length and that many bytes.
func (r *avroReader) bytes() ([]byte, bool) {
	n, ok := r.long()
	if !ok || n < 0 || n > int64(len(r.b)-r.p) {
		return nil, false
	}
	v := r.b[r.p : r.p+int(n) : r.p+int(n)]
	r.p += int(n)
	return v, true
}

// value reads one value.
func (r *avroReader) value(n *node, rep uint8) error {
	if n.dest == toNothing {
		return r.skip(n)
	}
	if n.branches > 0 {
		branch, ok := r.long()
		if !ok || branch < 0 || branch >= int64(n.branches) {
			return bad("column %q: no such branch of its union", n.label)
		}
		if int(branch) == n.null {
			return r.null(n, rep)
		}
	}
	switch n.phys {
	case pLong, pInt:
		v, ok := r.long()
		if !ok {
			return errAvroShort()
		}
		if n.phys == pInt && v != int64(int32(v)) {
			return bad("column %q: an int outside 32 bits", n.label)
		}
		return r.putInt(n, v, rep)
	case pString:
		v, ok := r.bytes()
		if !ok {
			return errAvroShort()
		}
		if !validText(v) {
			return bad("column %q: text that is not UTF-8", n.label)
		}
		if n.conv == convNone && n.dest == toLeaf {
			return r.leafText(n, v, rep)
		}
		return r.putText(n, v, rep)
	case pBytes:
		v, ok := r.bytes()
		if !ok {
			return errAvroShort()
		}
		return r.putBytes(n, v, rep)
	case pBool:
		if r.p >= len(r.b) || r.b[r.p] > 1 {
			return errAvroShort()
		}
		r.p++
		return r.putBool(n, r.b[r.p-1] == 1, rep)
	default:
		return r.other(n, rep)
	}
}

// other reads the rarer types.
func (r *avroReader) other(n *node, rep uint8) error {
	switch n.phys {
	case pFloat:
		if len(r.b)-r.p < 4 {
			return errAvroShort()
		}
		v := math.Float32frombits(binary.LittleEndian.Uint32(r.b[r.p:]))
		r.p += 4
		return r.putFloat(n, float64(v), rep)
	case pDouble:
		if len(r.b)-r.p < 8 {
			return errAvroShort()
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(r.b[r.p:]))
		r.p += 8
		return r.putFloat(n, v, rep)
	case pFixed:
		if len(r.b)-r.p < n.size {
			return errAvroShort()
		}
		v := r.b[r.p : r.p+n.size]
		r.p += n.size
		return r.putBytes(n, v, rep)
	case pEnum:
		i, ok := r.long()
		if !ok || i < 0 || i >= int64(len(n.symbols)) {
			return bad("column %q: no such symbol of its enum", n.label)
		}
		return r.putText(n, n.symbols[i], rep)
	case pRecord:
		return r.record(n, rep)
	case pArray, pMap:
		return r.blocks(n, rep)
	default:
		return bad("column %q: a type that is not known", n.label)
	}
}

// nested is value one level deeper.
func (r *avroReader) nested(n *node, rep uint8) error {
	if r.depth++; r.depth > maxValueDepth {
		return errTooDeep
	}
	err := r.value(n, rep)
	r.depth--
	return err
}

func (r *avroReader) record(n *node, rep uint8) error {
	if n.conv == convVarDecimal {
		return r.varDecimal(n, rep)
	}
	if r.depth++; r.depth > maxValueDepth {
		return errTooDeep
	}
	for i := range n.fields {
		if err := r.value(n.fields[i].node, rep); err != nil {
			return err
		}
	}
	r.depth--
	return r.absentAll(n, rep)
}

// varDecimal reads io.debezium.data.VariableScaleDecimal; which field is first is in size.
func (r *avroReader) varDecimal(n *node, rep uint8) error {
	var scale int64
	var unscaled []byte
	for i := range 2 {
		ok := false
		if (i == 0) == (n.size == 0) {
			scale, ok = r.long()
		} else {
			unscaled, ok = r.bytes()
		}
		if !ok {
			return errAvroShort()
		}
	}
	if scale > maxDecimalScale || scale < -maxDecimalScale {
		return bad("column %q: a number of an absurd size", n.label)
	}
	return r.decimalText(n, unscaled, int(scale), rep)
}

// blocks reads an array or a map: blocks of a count and that many elements, a negative count with the block's size.
func (r *avroReader) blocks(n *node, rep uint8) error {
	total := 0
	for {
		count, ok := r.long()
		if ok && count < 0 {
			count = -count
			_, ok = r.long()
		}
		if !ok || count < 0 {
			return errAvroShort()
		}
		if count == 0 {
			break
		}
		for ; count > 0; count-- {
			before := r.p
			if err := r.element(n, rep, total); err != nil {
				return err
			}
			total++
			if r.p == before {
				if r.zeros++; r.zeros > maxZeroSized {
					return bad("column %q: more than %d elements without bytes", n.label, maxZeroSized)
				}
			}
		}
	}
	if total == 0 {
		r.empty(n, rep)
	}
	return r.endList(n, total)
}

func (r *avroReader) element(n *node, rep uint8, index int) error {
	if index > 0 {
		rep = n.rep
	}
	if n.phys == pMap {
		key, ok := r.bytes()
		if !ok {
			return errAvroShort()
		}
		if !validText(key) {
			return bad("column %q: text that is not UTF-8", n.label)
		}
		if n.keyNode != nil {
			if err := r.putText(n.keyNode, key, rep); err != nil {
				return err
			}
		}
	}
	return r.nested(n.elem, rep)
}

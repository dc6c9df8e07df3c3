package decode

// skip reads a value and drops it. Lengths and branches are checked, since what follows hangs on them; text is not.
func (r *avroReader) skip(n *node) error {
	if n.branches > 0 {
		branch, ok := r.long()
		if !ok || branch < 0 || branch >= int64(n.branches) {
			return errAvroShort()
		}
		if int(branch) == n.null {
			return nil
		}
	}
	switch n.phys {
	case pLong:
		return r.skipLong()
	case pInt:
		if v, ok := r.long(); !ok || v != int64(int32(v)) {
			return errAvroShort()
		}
		return nil
	case pString, pBytes:
		size, ok := r.long()
		if !ok || size < 0 {
			return errAvroShort()
		}
		return r.skipBytes(size)
	case pBool:
		if r.p < len(r.b) && r.b[r.p] > 1 {
			return errAvroShort()
		}
		return r.skipBytes(1)
	case pFloat:
		return r.skipBytes(4)
	case pDouble:
		return r.skipBytes(8)
	case pFixed:
		return r.skipBytes(int64(n.size))
	case pRecord:
		if r.depth++; r.depth > maxValueDepth {
			return errTooDeep
		}
		for i := range n.fields {
			if err := r.skip(n.fields[i].node); err != nil {
				return err
			}
		}
		r.depth--
		return nil
	default:
		return r.skipOther(n)
	}
}

func (r *avroReader) skipLong() error {
	for i, c := range r.b[r.p:] {
		if c < 0x80 {
			r.p += i + 1
			return nil
		}
		if i == 9 {
			break
		}
	}
	return errAvroShort()
}

func (r *avroReader) skipBytes(n int64) error {
	if n > int64(len(r.b)-r.p) {
		return errAvroShort()
	}
	r.p += int(n)
	return nil
}

func (r *avroReader) skipOther(n *node) error {
	switch n.phys {
	case pNull:
		return nil
	case pEnum:
		i, ok := r.long()
		if !ok || i < 0 || i >= int64(len(n.symbols)) {
			return errAvroShort()
		}
		return nil
	case pUnion:
		branch, ok := r.long()
		if !ok || branch < 0 || branch >= int64(len(n.union)) {
			return errAvroShort()
		}
		return r.skip(n.union[branch])
	case pArray, pMap:
		return r.blocks(n, 0)
	default:
		return errAvroShort()
	}
}

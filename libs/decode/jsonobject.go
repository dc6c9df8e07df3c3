package decode

import (
	"bytes"
	"slices"

	"github.com/frazil-io/frazil/libs/column"
)

// object reads a record.
func (r *jsonReader) object(n *node, rep uint8) error {
	if r.careful {
		return r.carefulObject(n, rep)
	}
	if err := r.enter(); err != nil {
		return err
	}
	base := len(r.seen)
	r.seen = appendZeros(r.seen, (len(n.fields)+63)/64)
	found, next := 0, 0
	for first := true; ; first = false {
		done, err := r.next('}', first)
		if err != nil {
			return err
		}
		if done {
			break
		}
		i, err := r.fieldName(n, next)
		if err != nil {
			return err
		}
		if i < 0 {
			if err := r.unknownField(n); err != nil {
				return err
			}
			continue
		}
		word, bit := base+i/64, uint64(1)<<(i%64)
		if r.seen[word]&bit != 0 {
			return errRepeated
		}
		r.seen[word] |= bit
		if err := r.value(n.fields[i].node, rep); err != nil {
			return err
		}
		found++
		next = i + 1
	}
	if found < len(n.fields) {
		for i := range n.fields {
			if r.seen[base+i/64]&(1<<(i%64)) == 0 {
				if err := r.absent(n.fields[i].node, rep); err != nil {
					return err
				}
			}
		}
	}
	r.seen = r.seen[:base]
	return r.absentAll(n, rep)
}

func appendZeros(s []uint64, n int) []uint64 {
	for ; n > 0; n-- {
		s = append(s, 0)
	}
	return s
}

// fieldName reads a name and the colon. next is the field that is expected. The answer is -1 for an unknown name.
func (r *jsonReader) fieldName(n *node, next int) (int, error) {
	if next < len(n.fields) {
		quoted := n.fields[next].quoted
		if len(quoted) > 0 && len(r.b)-r.p > len(quoted) && string(r.b[r.p:r.p+len(quoted)]) == string(quoted) {
			r.p += len(quoted)
			if r.b[r.p] == ':' {
				r.p++
				return next, nil
			}
			return next, r.colon()
		}
	}
	name, err := r.name()
	if err != nil {
		return 0, err
	}
	if i, ok := n.byName[string(name)]; ok {
		return i, nil
	}
	return -1, nil
}

// unknownField reads the value of a field that the program has no step for. Where there is no schema a null says
// nothing; any other value is a column that the table lacks.
func (r *jsonReader) unknownField(n *node) error {
	if n.dest == toNothing {
		return r.skip()
	}
	if n.dest == toKey {
		return errKeyShape
	}
	if !r.bare || !n.row {
		return bad("the record has a field that its schema lacks")
	}
	if r.space() != 'n' {
		r.unknown = true
	}
	return r.skip()
}

// carefulObject finds the last value of each field before it reads any.
func (r *jsonReader) carefulObject(n *node, rep uint8) error {
	if err := r.enter(); err != nil {
		return err
	}
	base := len(r.last)
	for range n.fields {
		r.last = append(r.last, -1)
	}
	for first := true; ; first = false {
		done, err := r.next('}', first)
		if err != nil {
			return err
		}
		if done {
			break
		}
		i, err := r.fieldName(n, len(n.fields))
		if err != nil {
			return err
		}
		if i < 0 {
			err = r.unknownField(n)
		} else {
			r.last[base+i] = r.p
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
	end := r.p
	for i := range n.fields {
		var err error
		if r.p = r.last[base+i]; r.p < 0 {
			err = r.absent(n.fields[i].node, rep)
		} else {
			err = r.value(n.fields[i].node, rep)
		}
		if err != nil {
			return err
		}
	}
	r.p = end
	r.last = r.last[:base]
	return r.absentAll(n, rep)
}

func (r *jsonReader) array(n *node, rep uint8) error {
	if err := r.enter(); err != nil {
		return err
	}
	total := 0
	for ; ; total++ {
		done, err := r.next(']', total == 0)
		if err != nil {
			return err
		}
		if done {
			break
		}
		if err := r.value(n.elem, rep); err != nil {
			return err
		}
		rep = n.rep
	}
	if total == 0 {
		r.empty(n, rep)
	}
	return r.endList(n, total)
}

// mapping reads a map: an object, or an array of pairs where the keys are no text (apache/kafka JsonConverter).
func (r *jsonReader) mapping(n *node, c byte, rep uint8) error {
	closing := byte('}')
	if c == '[' {
		closing = ']'
	} else if c != '{' || n.keyNode.phys != pString {
		return r.mismatch(n)
	}
	if err := r.enter(); err != nil {
		return err
	}
	total := 0
	for ; ; total++ {
		done, err := r.next(closing, total == 0)
		if err != nil {
			return err
		}
		if done {
			break
		}
		if closing == '}' {
			err = r.entry(n, rep)
		} else {
			err = r.pair(n, rep)
		}
		if err != nil {
			return err
		}
		rep = n.rep
	}
	if total == 0 {
		r.empty(n, rep)
	}
	return r.distinctKeys(n, total)
}

func (r *jsonReader) entry(n *node, rep uint8) error {
	name, err := r.name()
	if err != nil {
		return err
	}
	if err := r.putText(n.keyNode, name, rep); err != nil {
		return err
	}
	return r.value(n.elem, rep)
}

func (r *jsonReader) pair(n *node, rep uint8) error {
	if r.space() != '[' {
		return r.mismatch(n)
	}
	if err := r.enter(); err != nil {
		return err
	}
	for i, part := range [2]*node{n.keyNode, n.elem} {
		done, err := r.next(']', i == 0)
		if err == nil && done {
			err = bad("column %q: a pair of a map with %d values", n.label, i)
		}
		if err != nil {
			return err
		}
		if err := r.value(part, rep); err != nil {
			return err
		}
	}
	done, err := r.next(']', false)
	if err == nil && !done {
		err = bad("column %q: a pair of a map with more than 2 values", n.label)
	}
	return err
}

// distinctKeys refuses a map with a text key twice: which value counts is not said anywhere.
func (r *jsonReader) distinctKeys(n *node, total int) error {
	l := r.leaves[n.keyNode.leaf]
	if total < 2 || l.Kind != column.Bytes {
		return nil
	}
	if total <= 16 {
		for i := l.Len() - total; i < l.Len(); i++ {
			for j := l.Len() - total; j < i; j++ {
				if bytes.Equal(l.Value(i), l.Value(j)) {
					return bad("column %q: a map with the same key twice", n.label)
				}
			}
		}
		return nil
	}
	keys := make([]string, total)
	for i := range keys {
		keys[i] = string(l.Value(l.Len() - total + i))
	}
	slices.Sort(keys)
	for i := 1; i < total; i++ {
		if keys[i] == keys[i-1] {
			return bad("column %q: a map with the same key twice", n.label)
		}
	}
	return nil
}

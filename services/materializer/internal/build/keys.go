package build

import (
	"encoding/binary"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

const (
	// maxEvents and maxKeyBytes bound a batch, so that one message stays far below any limit.
	maxEvents   = 1 << 16
	maxKeyBytes = 1 << 20
	maxNonRows  = 1 << 15
)

// Keys is one batch of a key projection, column by column. Offsets ascend.
type Keys struct {
	Base      kafkapos.Offset
	Offsets   []byte // unsigned varints: the first from Base, each other one from the offset before
	Classes   []byte // layout.Class
	KeyHashes []byte // decode.Event.Hash, one after the other
	NonRows   []kafkapos.Range
	last      kafkapos.Offset
}

func (k *Keys) event(off kafkapos.Offset, ev decode.Event) {
	if len(k.Classes) == 0 {
		k.Base, k.last = off, off
	}
	k.Offsets = binary.AppendUvarint(k.Offsets, uint64(off-k.last))
	k.last = off
	k.Classes = append(k.Classes, byte(ev.Class))
	k.KeyHashes = append(k.KeyHashes, ev.Hash[:]...)
}

// nonRow adds offsets that hold no event; neighbours become one range.
func (k *Keys) nonRow(r kafkapos.Range) {
	if r.Empty() {
		return
	}
	if n := len(k.NonRows); n > 0 && k.NonRows[n-1].End == r.Start {
		k.NonRows[n-1].End = r.End
		return
	}
	if len(k.Classes) == 0 && len(k.NonRows) == 0 {
		k.Base = r.Start
	}
	k.NonRows = append(k.NonRows, r)
}

func (k *Keys) empty() bool { return len(k.Classes) == 0 && len(k.NonRows) == 0 }

func (k *Keys) full() bool {
	return len(k.Classes) >= maxEvents || len(k.NonRows) >= maxNonRows ||
		len(k.Offsets)+len(k.Classes)+len(k.KeyHashes) >= maxKeyBytes
}

func (k *Keys) reset() {
	k.Offsets, k.Classes, k.KeyHashes, k.NonRows = k.Offsets[:0], k.Classes[:0], k.KeyHashes[:0], k.NonRows[:0]
}

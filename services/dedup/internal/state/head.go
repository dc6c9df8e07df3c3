package state

import (
	"fmt"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/sealed"
)

// Head is the one small value per log that every published range of it goes through.
type Head struct {
	// LeaderEpoch is the newest leader epoch under which the log was found to continue; -1 unknown.
	LeaderEpoch kafkapos.LeaderEpoch
	// Frontier is the lowest offset that the walk has published.
	Frontier kafkapos.Offset
	// End is the scanned end: how far increments are published.
	End kafkapos.Offset
	// Start is the lowest offset that the next cut shows; monotone.
	Start kafkapos.Offset
	// Floor is the lowest end at which the log can still be shown; monotone.
	Floor kafkapos.Offset
	// LogStart is the highest log start that Kafka reported: what lies below cannot be read any more.
	LogStart kafkapos.Offset
	// Tail is what the log looked like just below End, to tell later whether it still is the same log.
	Tail Tail
	// Directory is the suffix of the blob name of the root, see LogBlob. Empty: nothing is published.
	Directory string
}

// Tail is a fingerprint of the events in [From, End) of a log.
type Tail struct {
	From kafkapos.Offset
	Sum  [16]byte
}

const headMagic sealed.Magic = "FZHD"

// Walked reports whether the backward walk has reached the start.
func (h *Head) Walked() bool { return h.Frontier <= h.Start }

// Bytes is the persistent form.
func (h *Head) Bytes() []byte {
	w := newWriter(headMagic, 128)
	w.signed(int64(h.LeaderEpoch))
	for _, o := range []kafkapos.Offset{h.Frontier, h.End, h.Start, h.Floor, h.LogStart, h.Tail.From} {
		w.offset(o)
	}
	w.fixed(h.Tail.Sum[:])
	w.text(h.Directory)
	return w.seal()
}

// ParseHead reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParseHead(b []byte) (*Head, error) {
	r, err := openReader(headMagic, b)
	if err != nil {
		return nil, fmt.Errorf("parse head: %w", err)
	}
	h := &Head{LeaderEpoch: kafkapos.LeaderEpoch(r.signed())}
	for _, o := range []*kafkapos.Offset{&h.Frontier, &h.End, &h.Start, &h.Floor, &h.LogStart, &h.Tail.From} {
		*o = r.offset()
	}
	copy(h.Tail.Sum[:], r.Bytes(len(h.Tail.Sum)))
	h.Directory = r.text()
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse head: %w", err)
	}
	if h.Frontier > h.End || h.Frontier < 0 {
		return nil, corrupt("parse head: frontier %d, end %d", h.Frontier, h.End)
	}
	return h, nil
}

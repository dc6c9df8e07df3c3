package franz

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/recordbatch"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Read implements kafkalog.Reader. One answer is decoded while the next is fetched.
func (c *Client) Read(ctx context.Context, topic kafkalog.Topic, p kafkapos.Partition, rng kafkapos.Range, v kafkalog.Visitor) (kafkalog.Result, error) {
	r := &reading{rng: rng, visitor: v, result: kafkalog.Result{LogStart: -1, LeaderEpoch: -1}}
	if rng.Empty() {
		return r.result, nil
	}
	r.decoder = c.decoders.Get().(*recordbatch.Decoder)
	defer c.decoders.Put(r.decoder)

	fetching, stop := context.WithCancel(ctx)
	answers := make(chan fetched)
	go c.newFetcher(topic, p, rng).run(fetching, answers)
	defer func() {
		stop()
		for range answers { // until the fetcher has gone
		}
	}()
	for a := range answers {
		err := a.err
		if err == nil {
			err = r.answer(a)
		}
		var own visitError
		if errors.As(err, &own) {
			return r.result, own.err
		}
		if err != nil {
			return r.result, fmt.Errorf("read %s/%d %s: %w", topic.Name, p, rng, err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return r.result, fmt.Errorf("read %s/%d %s: %w", topic.Name, p, rng, err)
	}
	return r.result, r.flush()
}

// visitError carries an error of the visitor past the wrapping of our own.
type visitError struct{ err error }

func (e visitError) Error() string { return e.err.Error() }

// reading is the state of one Read on the decoding side.
type reading struct {
	rng     kafkapos.Range // what is left to visit
	visitor kafkalog.Visitor
	decoder *recordbatch.Decoder
	result  kafkalog.Result
	nonRow  kafkapos.Range // not yet reported
}

// answer visits what one answer of a broker holds of the range.
func (r *reading) answer(a fetched) error {
	r.result.LogStart = a.logStart
	txns := newAborted(a.aborted)
	for rest := a.batches; ; {
		b, after, ok, err := recordbatch.Next(rest)
		if err != nil {
			return err
		}
		if !ok || b.Base >= r.rng.End {
			return nil
		}
		rest = after
		if b.Last < r.rng.Start {
			continue // the broker answers whole batches, and whole sets of them
		}
		if err := r.batch(&b, txns); err != nil {
			return err
		}
		r.rng.Start = b.Last + 1
	}
}

func (r *reading) batch(b *recordbatch.Batch, txns *abortedTxns) error {
	if err := b.Verify(); err != nil {
		return err
	}
	r.result.LeaderEpoch = b.LeaderEpoch
	r.result.Bytes += b.Size()
	isAborted := txns.covers(b)
	if b.Control {
		return r.control(b, txns)
	}
	if !isAborted {
		return r.decoder.Records(b, r.record)
	}
	if b.Dense() {
		return r.skip(b.Range())
	}
	return r.decoder.Records(b, func(rec *kafkalog.Record) error { return r.skipOne(rec.Offset) })
}

func (r *reading) record(rec *kafkalog.Record) error {
	if !r.rng.Contains(rec.Offset) {
		return nil
	}
	if err := r.flush(); err != nil {
		return visitError{err}
	}
	if err := r.visitor.Record(rec); err != nil {
		return visitError{err}
	}
	return nil
}

// control notes the markers of a control batch.
func (r *reading) control(b *recordbatch.Batch, txns *abortedTxns) error {
	return r.decoder.Records(b, func(rec *kafkalog.Record) error {
		txns.marker(b.ProducerID, rec.Key)
		return r.skipOne(rec.Offset)
	})
}

func (r *reading) skipOne(off kafkapos.Offset) error {
	return r.skip(kafkapos.Range{Start: off, End: off + 1})
}

// skip adds offsets to the run of non-row offsets, and reports the run before if there is a gap between them.
func (r *reading) skip(rng kafkapos.Range) error {
	rng = rng.Intersect(r.rng)
	if rng.Empty() {
		return nil
	}
	if r.nonRow.End != rng.Start || r.nonRow.Empty() {
		if err := r.flush(); err != nil {
			return visitError{err}
		}
		r.nonRow.Start = rng.Start
	}
	r.nonRow.End = rng.End
	return nil
}

// flush reports the run of non-row offsets, if there is one. The error is the visitor's.
func (r *reading) flush() error {
	run := r.nonRow
	r.nonRow = kafkapos.Range{}
	if run.Empty() || r.visitor.NonRow == nil {
		return nil
	}
	return r.visitor.NonRow(run)
}

// abortedTxns tells, batch by batch in offset order, which belong to aborted transactions. A broker answers, with the
// batches, the aborted transactions that have records among them: producer and first offset; each ends at the
// producer's abort marker.
type abortedTxns struct {
	ahead []kmsg.FetchResponseTopicPartitionAbortedTransaction // by ascending first offset
	open  map[int64]bool                                       // producers
}

func newAborted(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) *abortedTxns {
	slices.SortFunc(list, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	return &abortedTxns{ahead: list, open: map[int64]bool{}}
}

// covers reports whether b's records belong to an aborted transaction.
func (t *abortedTxns) covers(b *recordbatch.Batch) bool {
	for len(t.ahead) > 0 && kafkapos.Offset(t.ahead[0].FirstOffset) <= b.Last {
		t.open[t.ahead[0].ProducerID] = true
		t.ahead = t.ahead[1:]
	}
	return b.Transactional && t.open[b.ProducerID]
}

// abortMarker is the type of a marker that ends an aborted transaction; a commit's is 1.
const abortMarker = 0

// marker takes note of a control record's key: version and type, two bytes each.
func (t *abortedTxns) marker(producer int64, key []byte) {
	if len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == abortMarker {
		delete(t.open, producer)
	}
}

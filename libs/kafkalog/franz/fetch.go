package franz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/recordbatch"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

const (
	// topicIDFetch is the first fetch version that names the topic by its id, of Kafka 3.1. Below it, a broker cannot
	// tell that the topic was re-created under the same name.
	topicIDFetch = 13

	minFetchBytes    = 64 << 10
	assumedPerOffset = 1 << 10 // bytes, before the first answer

	// fetchWaitMs is how long a broker may wait for data that is not there. What a read asks for is there, and a
	// waiting fetch holds up the others on the same connection.
	fetchWaitMs = 10

	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 2 * time.Second

	// confirmations is how often a leader must say the same before a range counts as lying beyond the last stable
	// offset, a topic as deleted, or the rest of a range as absent. A leader that was just elected or started may not
	// know better yet.
	confirmations = 4
)

// fetched is one answer with at least one whole batch or the news that there is none up to the end.
type fetched struct {
	batches  []byte
	aborted  []kmsg.FetchResponseTopicPartitionAbortedTransaction
	logStart kafkapos.Offset
	err      error
}

// fetcher walks one range of one log, answer by answer.
type fetcher struct {
	client *Client
	topic  kafkalog.Topic
	key    logKey
	rng    kafkapos.Range

	position  kafkapos.Offset // all before it was fetched
	perOffset int64           // bytes, as seen so far
	floor     int32           // bytes to ask for at least: raised when a batch did not fit
	replica   int32           // follower to read from, -1 for the leader
	rack      string
	namedOnly bool // an answer came from a broker that does not check the topic id

	// Of the present position:
	trying  time.Time // when the first try began
	backoff time.Duration
	doubts  int // answers in a row that need confirmation
}

func (c *Client) newFetcher(topic kafkalog.Topic, p kafkapos.Partition, rng kafkapos.Range) *fetcher {
	return &fetcher{
		client: c, topic: topic, key: logKey{topic.ID, p}, rng: rng,
		position: rng.Start, perOffset: assumedPerOffset, replica: -1, rack: c.cfg.RackID,
		trying: time.Now(), backoff: firstBackoff,
	}
}

// run sends answers until the position has reached the end of the range, an error has been sent, or ctx ends.
func (f *fetcher) run(ctx context.Context, out chan<- fetched) {
	defer close(out)
	for f.position < f.rng.End {
		got := f.next(ctx)
		select {
		case out <- got:
		case <-ctx.Done():
			return
		}
		if got.err != nil {
			return
		}
	}
	if err := f.finish(ctx); err != nil {
		select {
		case out <- fetched{err: err}:
		case <-ctx.Done():
		}
	}
}

// finish checks the topic id afterwards if a broker could not.
func (f *fetcher) finish(ctx context.Context) error {
	if !f.namedOnly {
		return nil
	}
	_, _, err := f.client.incarnation(ctx, f.topic)
	return err
}

// next fetches from the position until an answer moves it, and retries what may pass.
func (f *fetcher) next(ctx context.Context) fetched {
	f.trying, f.backoff, f.doubts = time.Now(), firstBackoff, 0
	for {
		got, err := f.once(ctx)
		if err == nil {
			return got
		}
		if cause := context.Cause(ctx); cause != nil {
			return fetched{err: cause}
		}
		if !errors.Is(err, fault.ErrUnavailable) {
			return fetched{err: err}
		}
		if time.Since(f.trying) > f.client.cfg.RetryFor {
			return fetched{err: fmt.Errorf("gave up after %s: %w", f.client.cfg.RetryFor, err)}
		}
		if err := pause(ctx, f.backoff); err != nil {
			return fetched{err: err}
		}
		f.backoff = min(2*f.backoff, lastBackoff)
	}
}

// confirmed reports whether the present answer has come often enough in a row to be believed.
func (f *fetcher) confirmed() bool {
	f.doubts++
	return f.doubts >= confirmations
}

// doubt answers the verdict once it has been confirmed, and before that an error that is retried.
func (f *fetcher) doubt(verdict error) error {
	if f.confirmed() {
		return verdict
	}
	return fmt.Errorf("not yet sure: %v: %w", verdict, fault.ErrUnavailable) //nolint:errorlint // not its kind until it is sure
}

// once asks one broker once. An error of kind fault.ErrUnavailable may pass.
func (f *fetcher) once(ctx context.Context) (fetched, error) {
	broker, err := f.broker(ctx)
	if err != nil {
		return fetched{}, err
	}
	resp, err := f.ask(ctx, broker)
	if err != nil {
		// The leader may be another one by now.
		f.toLeader()
		f.client.leaders.forget(f.key)
		return fetched{}, err
	}
	part, err := f.partition(resp)
	if err != nil {
		return fetched{}, err
	}
	if code := kerr.ErrorForCode(part.ErrorCode); code != nil {
		return fetched{}, f.refused(code)
	}
	if resp.Version < topicIDFetch {
		f.namedOnly = true
	}
	if len(part.RecordBatches) == 0 && part.PreferredReadReplica >= 0 && part.PreferredReadReplica != broker {
		f.replica = part.PreferredReadReplica
		return f.once(ctx)
	}
	return f.accept(part)
}

// accept moves the position over what an answer without an error holds.
func (f *fetcher) accept(part *kmsg.FetchResponseTopicPartition) (fetched, error) {
	logStart, stable := kafkapos.Offset(part.LogStartOffset), kafkapos.Offset(part.LastStableOffset)
	if f.position == f.rng.Start && logStart > f.rng.Start {
		return fetched{}, fmt.Errorf("log starts at %d: %w", logStart, fault.ErrRetired)
	}
	next, err := endOf(part.RecordBatches, f.position)
	if err != nil {
		return fetched{}, err
	}
	got := fetched{batches: part.RecordBatches, aborted: part.AbortedTransactions, logStart: logStart}
	switch {
	case next > f.position:
		f.perOffset = max(1, int64(len(part.RecordBatches))/int64(next-f.position))
		f.position = next
		return got, nil
	case len(part.RecordBatches) > 0:
		// Not even one batch fitted, which old brokers allow.
		f.floor = int32(min(2*int64(f.fetchBytes()), int64(f.client.cfg.MaxBatchBytes)))
		return fetched{}, f.doubt(fmt.Errorf("batch at %d does not fit a fetch: %w", f.position, fault.ErrUnsupported))
	case f.replica >= 0:
		f.toLeader() // a follower may lag
		return fetched{}, fmt.Errorf("replica has nothing at %d: %w", f.position, fault.ErrUnavailable)
	case stable < f.rng.End:
		return fetched{}, f.doubt(fmt.Errorf("last stable offset is %d: %w", stable, fault.ErrRetired))
	}
	// Nothing from here to the last stable offset: the cleaner removed it.
	if f.confirmed() {
		f.position = f.rng.End
		return got, nil
	}
	return fetched{}, fmt.Errorf("nothing at %d: %w", f.position, fault.ErrUnavailable)
}

// endOf is the offset after the last whole batch, or from if there is none.
func endOf(batches []byte, from kafkapos.Offset) (kafkapos.Offset, error) {
	end := from
	for {
		b, rest, ok, err := recordbatch.Next(batches)
		if err != nil || !ok {
			return end, err
		}
		end, batches = max(end, b.Last+1), rest
	}
}

// broker is the one to ask: the replica that the leader named, or the leader.
func (f *fetcher) broker(ctx context.Context) (int32, error) {
	if f.replica >= 0 {
		return f.replica, nil
	}
	if broker, ok := f.client.leaders.get(f.key); ok {
		return broker, nil
	}
	now, leaders, err := f.client.incarnation(ctx, f.topic)
	if errors.Is(err, fault.ErrRetired) && now.ID == (kafkapos.TopicID{}) {
		return 0, f.doubt(err) // deleted, or a broker that does not know it yet
	}
	if err != nil {
		return 0, err
	}
	f.client.leaders.put(f.key.topic, leaders)
	broker, ok := leaders[f.key.partition]
	switch {
	case !ok:
		return 0, f.doubt(fmt.Errorf("topic has no such partition: %w", fault.ErrNotFound))
	case broker < 0:
		return 0, fmt.Errorf("partition has no leader: %w", fault.ErrUnavailable)
	}
	return broker, nil
}

// toLeader reads from the leader for the rest of the range.
func (f *fetcher) toLeader() { f.replica, f.rack = -1, "" }

// fetchBytes is what the next fetch asks for: the rest of the range by the density seen so far.
func (f *fetcher) fetchBytes() int32 {
	const slack = 1.125
	estimate := float64(f.rng.End-f.position) * float64(f.perOffset) * slack
	return max(f.floor, int32(min(max(estimate, minFetchBytes), float64(f.client.cfg.FetchBytes))))
}

func (f *fetcher) ask(ctx context.Context, broker int32) (*kmsg.FetchResponse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.client.cfg.FetchTimeout, errTimeout)
	defer cancel()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = fetchWaitMs, 1, f.fetchBytes()
	req.IsolationLevel, req.Rack = readCommitted, f.rack
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = f.topic.Name, f.topic.ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = int32(f.key.partition), int64(f.position), req.MaxBytes
	rp.CurrentLeaderEpoch = -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := f.client.kafka.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, transport(ctx, err)
	}
	return resp.(*kmsg.FetchResponse), nil
}

// partition finds the only partition of an answer.
func (f *fetcher) partition(resp *kmsg.FetchResponse) (*kmsg.FetchResponseTopicPartition, error) {
	if code := kerr.ErrorForCode(resp.ErrorCode); code != nil {
		return nil, f.refused(code)
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.Partition == int32(f.key.partition) {
				return p, nil
			}
		}
	}
	// A broker that throttles the client answers nothing at all.
	return nil, fmt.Errorf("broker left the partition out: %w", fault.ErrUnavailable)
}

// refused sorts an error code that came instead of records.
func (f *fetcher) refused(code error) error {
	fromReplica := f.replica >= 0
	f.toLeader()
	f.client.leaders.forget(f.key)
	switch {
	case errors.Is(code, kerr.UnknownTopicOrPartition), errors.Is(code, kerr.UnknownTopicID), errors.Is(code, kerr.InconsistentTopicID):
		// The next try asks what became of the topic. If it is there, the broker will learn of it.
		return fmt.Errorf("broker says %w: %w", code, fault.ErrUnavailable)
	case errors.Is(code, kerr.OffsetOutOfRange):
		if fromReplica {
			return fmt.Errorf("replica says %w: %w", code, fault.ErrUnavailable)
		}
		return fmt.Errorf("offset %d is not in the log: %w", f.position, fault.ErrRetired)
	}
	return answered(code)
}

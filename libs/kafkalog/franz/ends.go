package franz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// The timestamps that ListOffsets takes for the ends of a log.
const (
	latest   = -1 // under read_committed: the last stable offset
	earliest = -2
)

const (
	readCommitted = 1
	// endsAttempts is how often a partition whose leader does not answer is asked for, each time after new metadata.
	endsAttempts = 3
	endsBackoff  = 50 * time.Millisecond
)

// Ends implements kafkalog.Metadata. A partition whose leader does not answer, while others do, is Offline. If the
// topic is not the incarnation that the caller knows, the error is of kind fault.ErrRetired.
func (c *Client) Ends(ctx context.Context, topic kafkalog.Topic) (map[kafkapos.Partition]kafkalog.Ends, error) {
	ends := map[kafkapos.Partition]kafkalog.Ends{}
	for attempt := 1; ; attempt++ {
		now, leaders, err := c.incarnation(ctx, topic)
		if err != nil {
			return nil, fmt.Errorf("list offsets of %s: %w", topic.Name, err)
		}
		byLeader := map[int32][]kafkapos.Partition{}
		for _, p := range now.Partitions {
			if e, done := ends[p.Partition]; done && !e.Offline {
				continue
			}
			ends[p.Partition] = kafkalog.Ends{Offline: true}
			if leader := leaders[p.Partition]; leader >= 0 {
				byLeader[leader] = append(byLeader[leader], p.Partition)
			}
		}
		if err := c.endsOf(ctx, topic.Name, byLeader, ends); err != nil {
			return nil, fmt.Errorf("list offsets of %s: %w", topic.Name, err)
		}
		if len(byLeader) == 0 || attempt == endsAttempts || !anyOffline(byLeader, ends) {
			return ends, nil
		}
		if err := pause(ctx, endsBackoff); err != nil {
			return nil, fmt.Errorf("list offsets of %s: %w", topic.Name, err)
		}
	}
}

// anyOffline reports whether a partition that has a leader did not answer.
func anyOffline(byLeader map[int32][]kafkapos.Partition, ends map[kafkapos.Partition]kafkalog.Ends) bool {
	for _, ps := range byLeader {
		for _, p := range ps {
			if ends[p].Offline {
				return true
			}
		}
	}
	return false
}

// incarnation asks for the topic again. The error is of kind fault.ErrRetired if the topic that has the name now is
// not the known one.
func (c *Client) incarnation(ctx context.Context, known kafkalog.Topic) (kafkalog.Topic, leaderOf, error) {
	now, leaders, err := c.topic(ctx, known.Name)
	switch {
	case errors.Is(err, fault.ErrNotFound):
		return now, nil, fmt.Errorf("topic was deleted: %w", fault.ErrRetired)
	case err != nil:
		return now, nil, err
	case now.ID != known.ID:
		return now, nil, fmt.Errorf("topic was re-created: %w", fault.ErrRetired)
	}
	return now, leaders, nil
}

// offsetsAnswer is what one broker said of one end of its partitions.
type offsetsAnswer struct {
	end  int64 // earliest or latest
	resp *kmsg.ListOffsetsResponse
}

// endsOf asks every leader, at once, for both ends of its partitions and enters those that it answered.
func (c *Client) endsOf(ctx context.Context, topic string, byLeader map[int32][]kafkapos.Partition, ends map[kafkapos.Partition]kafkalog.Ends) error {
	answers := make(chan offsetsAnswer, 2*len(byLeader))
	var g errgroup.Group
	for leader, ps := range byLeader {
		for _, end := range []int64{earliest, latest} {
			g.Go(func() error {
				resp, err := c.listOffsets(ctx, leader, topic, ps, end)
				if errors.Is(err, fault.ErrUnavailable) && context.Cause(ctx) == nil {
					return nil // its partitions stay offline
				}
				if err == nil {
					answers <- offsetsAnswer{end, resp}
				}
				return err
			})
		}
	}
	err := g.Wait()
	close(answers)
	if err != nil {
		return err
	}
	starts, stables := map[kafkapos.Partition]int64{}, map[kafkapos.Partition]int64{}
	for a := range answers {
		into := starts
		if a.end == latest {
			into = stables
		}
		if err := enter(a.resp, into); err != nil {
			return err
		}
	}
	for p, start := range starts {
		if stable, ok := stables[p]; ok {
			// The two were asked for at once: retention may have passed the end that was seen.
			ends[p] = kafkalog.Ends{LogStart: kafkapos.Offset(start), LastStable: kafkapos.Offset(max(start, stable))}
		}
	}
	return nil
}

// enter takes the offsets out of an answer. Partitions with an error that may pass are left out.
func enter(resp *kmsg.ListOffsetsResponse, into map[kafkapos.Partition]int64) error {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				kind := answered(err)
				if errors.Is(kind, fault.ErrDenied) || errors.Is(kind, fault.ErrUnsupported) {
					return kind
				}
				continue
			}
			if p.Offset >= 0 {
				into[kafkapos.Partition(p.Partition)] = p.Offset
			}
		}
	}
	return nil
}

func (c *Client) listOffsets(ctx context.Context, leader int32, topic string, ps []kafkapos.Partition, end int64) (*kmsg.ListOffsetsResponse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RequestTimeout, errTimeout)
	defer cancel()
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = readCommitted
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range ps {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = int32(p), end
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := c.kafka.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return nil, transport(ctx, err)
	}
	return resp.(*kmsg.ListOffsetsResponse), nil
}

// pause waits, or answers why the caller no longer does.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

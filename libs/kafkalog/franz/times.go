package franz

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

var _ kafkalog.TimeIndex = (*Client)(nil)

// OffsetsAt implements kafkalog.TimeIndex. ListOffsets by a timestamp answers the first offset that is not older, under
// read_committed below the last stable offset only; -1 where there is none.
func (c *Client) OffsetsAt(ctx context.Context, topic kafkalog.Topic, at time.Time) (map[kafkapos.Partition]kafkapos.Offset, error) {
	now, leaders, err := c.incarnation(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s by time: %w", topic.Name, err)
	}
	byLeader := map[int32][]kafkapos.Partition{}
	for _, p := range now.Partitions {
		if leader := leaders[p.Partition]; leader >= 0 {
			byLeader[leader] = append(byLeader[leader], p.Partition)
		}
	}
	out := map[kafkapos.Partition]kafkapos.Offset{}
	for leader, ps := range byLeader {
		resp, err := c.listOffsets(ctx, leader, topic.Name, ps, max(0, at.UnixMilli()))
		if errors.Is(err, fault.ErrUnavailable) && context.Cause(ctx) == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list offsets of %s by time: %w", topic.Name, err)
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if kerr.ErrorForCode(p.ErrorCode) == nil {
					out[kafkapos.Partition(p.Partition)] = kafkapos.Offset(p.Offset)
				}
			}
		}
	}
	return out, nil
}

//go:build librdkafka

package confluent

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Client is the door to one cluster. Close it. Safe for concurrent use.
type Client struct {
	conf  kafka.ConfigMap
	admin *kafka.AdminClient
	// requestTimeout bounds one metadata request, retryFor a read without progress.
	requestTimeout, retryFor time.Duration
}

var (
	_ kafkalog.Metadata = (*Client)(nil)
	_ kafkalog.Reader   = (*Client)(nil)
)

// New makes a client of librdkafka's configuration, which must name the brokers (bootstrap.servers).
func New(conf kafka.ConfigMap, requestTimeout, retryFor time.Duration) (*Client, error) {
	own := kafka.ConfigMap{}
	for k, v := range conf {
		own[k] = v
	}
	admin, err := kafka.NewAdminClient(&own)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w: %w", err, fault.ErrInvalid)
	}
	return &Client{conf: own, admin: admin, requestTimeout: requestTimeout, retryFor: retryFor}, nil
}

// Close closes the connections.
func (c *Client) Close() { c.admin.Close() }

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.requestTimeout)
}

// sorted gives err a kind. ctx is the caller's.
func sorted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	code := kafka.ErrUnknown
	var e kafka.Error
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch code { //nolint:exhaustive // all others may pass
	case kafka.ErrUnknownTopicOrPart, kafka.ErrUnknownTopic, kafka.ErrUnknownTopicID:
		return fmt.Errorf("broker says %s: %w", code, fault.ErrNotFound)
	case kafka.ErrTopicAuthorizationFailed, kafka.ErrClusterAuthorizationFailed, kafka.ErrSaslAuthenticationFailed, kafka.ErrAuthentication:
		return fmt.Errorf("broker says %s: %w", code, fault.ErrDenied)
	case kafka.ErrOffsetOutOfRange, kafka.ErrAutoOffsetReset:
		return fmt.Errorf("broker says %s: %w", code, fault.ErrRetired)
	case kafka.ErrBadMsg, kafka.ErrInvalidMsg:
		return fmt.Errorf("broker says %s: %w", code, fault.ErrCorrupt)
	}
	return fmt.Errorf("broker says %s: %w", code, fault.ErrUnavailable)
}

// ClusterID implements kafkalog.Metadata.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	bounded, cancel := c.bounded(ctx)
	defer cancel()
	id, err := c.admin.ClusterID(bounded)
	if err != nil {
		return "", fmt.Errorf("ask for the cluster id: %w", sorted(ctx, err))
	}
	return id, nil
}

// Topics implements kafkalog.Metadata.
func (c *Client) Topics(ctx context.Context) ([]kafkalog.Topic, error) {
	m, err := c.admin.GetMetadata(nil, true, int(c.requestTimeout.Milliseconds()))
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", sorted(ctx, err))
	}
	var names []string
	for name := range m.Topics {
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, nil
	}
	topics, err := c.describe(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	slices.SortFunc(topics, func(a, b kafkalog.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return topics, nil
}

// Topic implements kafkalog.Metadata.
func (c *Client) Topic(ctx context.Context, name string) (kafkalog.Topic, error) {
	topics, err := c.describe(ctx, []string{name})
	if err == nil && len(topics) != 1 {
		err = fault.ErrNotFound
	}
	if err != nil {
		return kafkalog.Topic{}, fmt.Errorf("describe topic %s: %w", name, err)
	}
	return topics[0], nil
}

// describe leaves out topics that do not exist.
func (c *Client) describe(ctx context.Context, names []string) ([]kafkalog.Topic, error) {
	bounded, cancel := c.bounded(ctx)
	defer cancel()
	res, err := c.admin.DescribeTopics(bounded, kafka.NewTopicCollectionOfTopicNames(names))
	if err != nil {
		return nil, sorted(ctx, err)
	}
	var topics []kafkalog.Topic
	for _, d := range res.TopicDescriptions {
		if d.Error.Code() == kafka.ErrUnknownTopicOrPart {
			continue
		}
		if d.Error.Code() != kafka.ErrNoError {
			return nil, sorted(ctx, d.Error)
		}
		t := kafkalog.Topic{Name: d.Name, Internal: d.IsInternal}
		binary.BigEndian.PutUint64(t.ID[:8], uint64(d.TopicID.GetMostSignificantBits()))
		binary.BigEndian.PutUint64(t.ID[8:], uint64(d.TopicID.GetLeastSignificantBits()))
		for _, p := range d.Partitions {
			t.Partitions = append(t.Partitions, kafkalog.PartitionInfo{
				Partition: kafkapos.Partition(p.Partition), LeaderEpoch: -1, Offline: p.Leader == nil || p.Leader.ID < 0,
			})
		}
		slices.SortFunc(t.Partitions, func(a, b kafkalog.PartitionInfo) int { return cmp.Compare(a.Partition, b.Partition) })
		topics = append(topics, t)
	}
	return topics, nil
}

// incarnation asks for the topic again and compares its id.
func (c *Client) incarnation(ctx context.Context, known kafkalog.Topic) (kafkalog.Topic, error) {
	topics, err := c.describe(ctx, []string{known.Name})
	switch {
	case err != nil:
		return kafkalog.Topic{}, err
	case len(topics) == 0:
		return kafkalog.Topic{}, fmt.Errorf("topic was deleted: %w", fault.ErrRetired)
	case topics[0].ID != known.ID:
		return kafkalog.Topic{}, fmt.Errorf("topic was re-created: %w", fault.ErrRetired)
	}
	return topics[0], nil
}

// Ends implements kafkalog.Metadata.
func (c *Client) Ends(ctx context.Context, topic kafkalog.Topic) (map[kafkapos.Partition]kafkalog.Ends, error) {
	now, err := c.incarnation(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic.Name, err)
	}
	ends := map[kafkapos.Partition]kafkalog.Ends{}
	for _, spec := range []kafka.OffsetSpec{kafka.EarliestOffsetSpec, kafka.LatestOffsetSpec} {
		if err := c.enter(ctx, now, spec, ends); err != nil {
			return nil, fmt.Errorf("list offsets of %s: %w", topic.Name, err)
		}
	}
	return ends, nil
}

func (c *Client) enter(ctx context.Context, topic kafkalog.Topic, spec kafka.OffsetSpec, ends map[kafkapos.Partition]kafkalog.Ends) error {
	ask := map[kafka.TopicPartition]kafka.OffsetSpec{}
	for _, p := range topic.Partitions {
		if p.Offline || ends[p.Partition].Offline {
			ends[p.Partition] = kafkalog.Ends{Offline: true}
			continue
		}
		ask[kafka.TopicPartition{Topic: &topic.Name, Partition: int32(p.Partition)}] = spec
	}
	if len(ask) == 0 {
		return nil
	}
	bounded, cancel := c.bounded(ctx)
	defer cancel()
	res, err := c.admin.ListOffsets(bounded, ask, kafka.SetAdminIsolationLevel(kafka.IsolationLevelReadCommitted))
	if err != nil {
		return sorted(ctx, err)
	}
	for tp, info := range res.ResultInfos {
		p := kafkapos.Partition(tp.Partition)
		e := ends[p]
		switch {
		case info.Error.Code() != kafka.ErrNoError:
			e = kafkalog.Ends{Offline: true}
		case spec == kafka.EarliestOffsetSpec:
			e.LogStart = kafkapos.Offset(info.Offset)
		default:
			e.LastStable = max(e.LogStart, kafkapos.Offset(info.Offset))
		}
		ends[p] = e
	}
	return nil
}

// Config implements kafkalog.Metadata.
func (c *Client) Config(ctx context.Context, name string) (kafkalog.TopicConfig, error) {
	bounded, cancel := c.bounded(ctx)
	defer cancel()
	res, err := c.admin.DescribeConfigs(bounded, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: name}})
	if err == nil && len(res) == 1 && res[0].Error.Code() != kafka.ErrNoError {
		err = res[0].Error
	}
	if err != nil || len(res) != 1 {
		return kafkalog.TopicConfig{}, fmt.Errorf("describe configuration of %s: %w", name, sorted(ctx, err))
	}
	entries := res[0].Config
	cfg := kafkalog.TopicConfig{RetentionMs: -1, RetentionBytes: -1}
	_, cfg.Known = entries["cleanup.policy"]
	for policy := range strings.SplitSeq(entries["cleanup.policy"].Value, ",") {
		cfg.Compact = cfg.Compact || policy == "compact"
		cfg.Delete = cfg.Delete || policy == "delete"
	}
	for key, number := range map[string]*int64{"retention.ms": &cfg.RetentionMs, "retention.bytes": &cfg.RetentionBytes, "segment.bytes": &cfg.SegmentBytes} {
		if e, ok := entries[key]; ok {
			if *number, err = strconv.ParseInt(e.Value, 10, 64); err != nil {
				return kafkalog.TopicConfig{}, fmt.Errorf("topic configuration %s is %q: %w", key, e.Value, fault.ErrUnsupported)
			}
		}
	}
	return cfg, nil
}

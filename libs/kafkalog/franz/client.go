package franz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/recordbatch"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// topicIDVersion is the first metadata version with topic ids, of Kafka 2.8.
const topicIDVersion = 10

// Client is the door to one cluster. It holds connections: Close it. Safe for concurrent use.
type Client struct {
	cfg      Config
	kafka    *kgo.Client
	leaders  leaders
	decoders sync.Pool // of *recordbatch.Decoder
}

var (
	_ kafkalog.Metadata = (*Client)(nil)
	_ kafkalog.Reader   = (*Client)(nil)
)

// New makes a client. It reads the certificate files and opens no connection: an unreachable cluster shows in the
// first call. What the Kafka client library warns of goes to log.
func New(cfg Config, log *slog.Logger) (*Client, error) {
	if _, err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	kafka, err := kgo.NewClient(append(opts, kgo.WithLogger(logger{log}))...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w: %w", err, fault.ErrInvalid)
	}
	c := &Client{cfg: cfg, kafka: kafka, leaders: leaders{known: map[logKey]int32{}}}
	c.decoders.New = func() any { return recordbatch.NewDecoder(cfg.MaxBatchBytes) }
	return c, nil
}

// Close closes the connections; calls that are still running fail.
func (c *Client) Close() { c.kafka.Close() }

// ClusterID implements kafkalog.Metadata.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none, where nil is all
	resp, err := c.metadata(ctx, req)
	if err != nil {
		return "", fmt.Errorf("ask for the cluster id: %w", err)
	}
	if resp.ClusterID == nil {
		return "", fmt.Errorf("broker tells no cluster id: %w", fault.ErrUnsupported)
	}
	return *resp.ClusterID, nil
}

// Topics implements kafkalog.Metadata. Topics that the client may not see are left out.
func (c *Client) Topics(ctx context.Context) ([]kafkalog.Topic, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := c.metadata(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var topics []kafkalog.Topic
	for i := range resp.Topics {
		t, _, err := describe(&resp.Topics[i])
		if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrDenied) {
			continue // being deleted, or not for us
		}
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b kafkalog.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return topics, nil
}

// Topic implements kafkalog.Metadata.
func (c *Client) Topic(ctx context.Context, name string) (kafkalog.Topic, error) {
	t, _, err := c.topic(ctx, name)
	return t, err
}

// leaderOf tells each partition's leader, -1 if it has none.
type leaderOf map[kafkapos.Partition]int32

// topic asks for one topic and its leaders.
func (c *Client) topic(ctx context.Context, name string) (kafkalog.Topic, leaderOf, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, rt)
	resp, err := c.metadata(ctx, req)
	if err != nil {
		return kafkalog.Topic{}, nil, fmt.Errorf("describe topic %s: %w", name, err)
	}
	if len(resp.Topics) != 1 {
		return kafkalog.Topic{}, nil, fmt.Errorf("describe topic %s: broker answered %d topics: %w", name, len(resp.Topics), fault.ErrUnavailable)
	}
	t, leaders, err := describe(&resp.Topics[0])
	if err != nil {
		return kafkalog.Topic{}, nil, fmt.Errorf("describe topic %s: %w", name, err)
	}
	return t, leaders, nil
}

func (c *Client) metadata(ctx context.Context, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	req.AllowAutoTopicCreation = false
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RequestTimeout, errTimeout)
	defer cancel()
	resp, err := req.RequestWith(ctx, c.kafka)
	if err != nil {
		return nil, transport(ctx, err)
	}
	if resp.Version < topicIDVersion {
		return nil, fmt.Errorf("broker has no topic ids, which Kafka has from 2.8 on: %w", fault.ErrUnsupported)
	}
	return resp, nil
}

// describe turns a topic of a metadata answer into ours.
func describe(mt *kmsg.MetadataResponseTopic) (kafkalog.Topic, leaderOf, error) {
	// LEADER_NOT_AVAILABLE on a topic is what its partitions say one by one.
	if err := kerr.ErrorForCode(mt.ErrorCode); err != nil && !errors.Is(err, kerr.LeaderNotAvailable) {
		return kafkalog.Topic{}, nil, answered(err)
	}
	if mt.Topic == nil {
		return kafkalog.Topic{}, nil, fmt.Errorf("topic without a name: %w", fault.ErrUnavailable)
	}
	t := kafkalog.Topic{Name: *mt.Topic, ID: mt.TopicID, Internal: mt.IsInternal}
	leaders := leaderOf{}
	for _, mp := range mt.Partitions {
		info := kafkalog.PartitionInfo{
			Partition:   kafkapos.Partition(mp.Partition),
			LeaderEpoch: kafkapos.LeaderEpoch(mp.LeaderEpoch),
			Offline:     mp.Leader < 0,
		}
		t.Partitions = append(t.Partitions, info)
		leaders[info.Partition] = mp.Leader
	}
	slices.SortFunc(t.Partitions, func(a, b kafkalog.PartitionInfo) int { return cmp.Compare(a.Partition, b.Partition) })
	for i, p := range t.Partitions {
		if int(p.Partition) != i {
			return kafkalog.Topic{}, nil, fmt.Errorf("broker left out partition %d: %w", i, fault.ErrUnavailable)
		}
	}
	if len(t.Partitions) == 0 {
		return kafkalog.Topic{}, nil, fmt.Errorf("broker knows no partition yet: %w", fault.ErrUnavailable)
	}
	return t, leaders, nil
}

// Config implements kafkalog.Metadata.
func (c *Client) Config(ctx context.Context, name string) (kafkalog.TopicConfig, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RequestTimeout, errTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
	resource.ConfigNames = []string{"cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes"}
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, c.kafka)
	if err != nil {
		return kafkalog.TopicConfig{}, fmt.Errorf("describe configuration of %s: %w", name, transport(ctx, err))
	}
	if len(resp.Resources) != 1 {
		return kafkalog.TopicConfig{}, fmt.Errorf("describe configuration of %s: broker left it out: %w", name, fault.ErrUnavailable)
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		if err = answered(err); errors.Is(err, fault.ErrDenied) {
			return kafkalog.TopicConfig{}, nil // not known
		}
		return kafkalog.TopicConfig{}, fmt.Errorf("describe configuration of %s: %w", name, err)
	}
	return parseConfig(resp.Resources[0].Configs)
}

func parseConfig(entries []kmsg.DescribeConfigsResponseResourceConfig) (kafkalog.TopicConfig, error) {
	cfg := kafkalog.TopicConfig{Known: true, RetentionMs: -1, RetentionBytes: -1}
	numbers := map[string]*int64{
		"retention.ms": &cfg.RetentionMs, "retention.bytes": &cfg.RetentionBytes, "segment.bytes": &cfg.SegmentBytes,
	}
	policyKnown := false
	for _, e := range entries {
		if e.Value == nil {
			continue
		}
		if e.Name == "cleanup.policy" {
			policyKnown = true
			for policy := range strings.SplitSeq(*e.Value, ",") {
				switch strings.TrimSpace(policy) {
				case "compact":
					cfg.Compact = true
				case "delete":
					cfg.Delete = true
				}
			}
		}
		if number, ok := numbers[e.Name]; ok {
			v, err := strconv.ParseInt(*e.Value, 10, 64)
			if err != nil {
				return kafkalog.TopicConfig{}, fmt.Errorf("topic configuration %s is %q: %w", e.Name, *e.Value, fault.ErrUnsupported)
			}
			*number = v
		}
	}
	// A policy that is not told must not pass for "not compacted".
	cfg.Known = policyKnown
	return cfg, nil
}

// logger hands what kgo has to warn of to slog. Its lower levels tell of every reconnect and are left out.
type logger struct{ log *slog.Logger }

// Level implements kgo.Logger.
func (logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	at := slog.LevelWarn
	if level == kgo.LogLevelError {
		at = slog.LevelError
	}
	l.log.Log(context.Background(), at, "kafka client warns", append([]any{"warning", msg}, keyvals...)...)
}

// Package memlog is Kafka in memory: topics whose logs can be appended to, compacted, truncated, expired and taken
// offline on command. It implements kafkalog.Metadata and kafkalog.Reader for tests, with the offsets that a real
// broker would give.
package memlog

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Cluster is a set of topics. Its methods are safe for concurrent use. Commands that name a topic or partition that
// does not exist answer an error of kind fault.ErrNotFound.
type Cluster struct {
	id string

	mu     sync.Mutex
	topics map[string]*topic
	made   uint64 // topics ever created; the source of topic ids
	down   bool
}

var (
	_ kafkalog.Metadata  = (*Cluster)(nil)
	_ kafkalog.Reader    = (*Cluster)(nil)
	_ kafkalog.TimeIndex = (*Cluster)(nil)
)

// topic is one incarnation of a topic.
type topic struct {
	name     string
	id       kafkapos.TopicID
	internal bool
	config   kafkalog.TopicConfig
	logs     []*partitionLog // by partition
}

// New makes a cluster without topics.
func New(clusterID string) *Cluster {
	return &Cluster{id: clusterID, topics: map[string]*topic{}}
}

// DefaultConfig is the configuration that CreateTopic gives a topic: deleted by retention, unlimited.
func DefaultConfig() kafkalog.TopicConfig {
	return kafkalog.TopicConfig{Known: true, Delete: true, RetentionMs: -1, RetentionBytes: -1, SegmentBytes: 1 << 30}
}

// CreateTopic makes a topic with empty partitions 0..partitions-1. It fails with fault.ErrConflict if the name is
// taken.
func (c *Cluster) CreateTopic(name string, partitions int) (kafkalog.Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.topics[name]; taken {
		return kafkalog.Topic{}, fmt.Errorf("create topic %s: %w", name, fault.ErrConflict)
	}
	return c.create(name, partitions), nil
}

func (c *Cluster) create(name string, partitions int) kafkalog.Topic {
	c.made++
	t := &topic{name: name, config: DefaultConfig()}
	// A topic id is never all zero: Kafka reserves that id for "no id".
	binary.BigEndian.PutUint64(t.id[:8], 0xf4a2_0000_0000_0000)
	binary.BigEndian.PutUint64(t.id[8:], c.made)
	for range partitions {
		t.logs = append(t.logs, newPartitionLog())
	}
	c.topics[name] = t
	return t.describe()
}

// DeleteTopic removes a topic and its records.
func (c *Cluster) DeleteTopic(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.topics[name]; !ok {
		return fmt.Errorf("delete topic %s: %w", name, fault.ErrNotFound)
	}
	delete(c.topics, name)
	return nil
}

// RecreateTopic deletes a topic and makes another of the same name, which has another topic id and no records.
func (c *Cluster) RecreateTopic(name string, partitions int) (kafkalog.Topic, error) {
	if err := c.DeleteTopic(name); err != nil {
		return kafkalog.Topic{}, err
	}
	return c.CreateTopic(name, partitions)
}

// AddPartitions raises the number of a topic's partitions by n.
func (c *Cluster) AddPartitions(name string, n int) error {
	return c.withTopic(name, func(t *topic) error {
		for range n {
			t.logs = append(t.logs, newPartitionLog())
		}
		return nil
	})
}

// SetConfig replaces a topic's configuration.
func (c *Cluster) SetConfig(name string, config kafkalog.TopicConfig) error {
	return c.withTopic(name, func(t *topic) error {
		t.config = config
		return nil
	})
}

// SetInternal marks a topic as one of Kafka's own.
func (c *Cluster) SetInternal(name string, internal bool) error {
	return c.withTopic(name, func(t *topic) error {
		t.internal = internal
		return nil
	})
}

// SetDown takes the whole cluster away (every call answers fault.ErrUnavailable) or brings it back.
func (c *Cluster) SetDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// SetOffline takes one partition's leader away or brings it back; coming back raises the leader epoch.
func (c *Cluster) SetOffline(name string, p kafkapos.Partition, offline bool) error {
	return c.withLog(name, p, func(l *partitionLog) error {
		if l.offline && !offline {
			l.leaderEpoch++
		}
		l.offline = offline
		return nil
	})
}

// ClusterID implements kafkalog.Metadata.
func (c *Cluster) ClusterID(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id, c.reachable(ctx)
}

// Topics implements kafkalog.Metadata.
func (c *Cluster) Topics(ctx context.Context) ([]kafkalog.Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reachable(ctx); err != nil {
		return nil, err
	}
	var all []kafkalog.Topic
	for _, t := range c.topics {
		all = append(all, t.describe())
	}
	slices.SortFunc(all, func(a, b kafkalog.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Topic implements kafkalog.Metadata.
func (c *Cluster) Topic(ctx context.Context, name string) (kafkalog.Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reachable(ctx); err != nil {
		return kafkalog.Topic{}, err
	}
	t, ok := c.topics[name]
	if !ok {
		return kafkalog.Topic{}, fmt.Errorf("describe topic %s: %w", name, fault.ErrNotFound)
	}
	return t.describe(), nil
}

// Ends implements kafkalog.Metadata.
func (c *Cluster) Ends(ctx context.Context, topic kafkalog.Topic) (map[kafkapos.Partition]kafkalog.Ends, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.incarnation(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic.Name, err)
	}
	ends := make(map[kafkapos.Partition]kafkalog.Ends, len(t.logs))
	for p, l := range t.logs {
		e := kafkalog.Ends{LogStart: l.start, LastStable: l.lastStable()}
		if l.offline {
			e = kafkalog.Ends{Offline: true}
		}
		ends[kafkapos.Partition(p)] = e
	}
	return ends, nil
}

// OffsetsAt implements kafkalog.TimeIndex.
func (c *Cluster) OffsetsAt(ctx context.Context, topic kafkalog.Topic, at time.Time) (map[kafkapos.Partition]kafkapos.Offset, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.incarnation(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s by time: %w", topic.Name, err)
	}
	out := make(map[kafkapos.Partition]kafkapos.Offset, len(t.logs))
	for p, l := range t.logs {
		if l.offline {
			continue
		}
		i := slices.IndexFunc(l.entries, func(e entry) bool { return e.record.TimestampMs >= at.UnixMilli() })
		if out[kafkapos.Partition(p)] = -1; i >= 0 && l.entries[i].offset < l.lastStable() {
			out[kafkapos.Partition(p)] = l.entries[i].offset
		}
	}
	return out, nil
}

// Config implements kafkalog.Metadata.
func (c *Cluster) Config(ctx context.Context, name string) (kafkalog.TopicConfig, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reachable(ctx); err != nil {
		return kafkalog.TopicConfig{}, err
	}
	t, ok := c.topics[name]
	if !ok {
		return kafkalog.TopicConfig{}, fmt.Errorf("describe configuration of %s: %w", name, fault.ErrNotFound)
	}
	return t.config, nil
}

func (t *topic) describe() kafkalog.Topic {
	d := kafkalog.Topic{Name: t.name, ID: t.id, Internal: t.internal}
	for p, l := range t.logs {
		d.Partitions = append(d.Partitions, kafkalog.PartitionInfo{
			Partition: kafkapos.Partition(p), LeaderEpoch: l.leaderEpoch, Offline: l.offline,
		})
	}
	return d
}

// reachable is the error of a caller that has left or of a cluster that is down. c.mu is held.
func (c *Cluster) reachable(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("ask broker: %w", err)
	}
	if c.down {
		return fmt.Errorf("no broker answers: %w", fault.ErrUnavailable)
	}
	return nil
}

// incarnation finds the topic that the caller knows by its id. c.mu is held.
func (c *Cluster) incarnation(ctx context.Context, known kafkalog.Topic) (*topic, error) {
	if err := c.reachable(ctx); err != nil {
		return nil, err
	}
	t, ok := c.topics[known.Name]
	if !ok {
		return nil, fmt.Errorf("topic was deleted: %w", fault.ErrRetired)
	}
	if t.id != known.ID {
		return nil, fmt.Errorf("topic was re-created: %w", fault.ErrRetired)
	}
	return t, nil
}

func (c *Cluster) withTopic(name string, do func(*topic) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.topics[name]
	if !ok {
		return fmt.Errorf("topic %s: %w", name, fault.ErrNotFound)
	}
	return do(t)
}

func (c *Cluster) withLog(name string, p kafkapos.Partition, do func(*partitionLog) error) error {
	return c.withTopic(name, func(t *topic) error {
		if int(p) < 0 || int(p) >= len(t.logs) {
			return fmt.Errorf("topic %s partition %d: %w", name, p, fault.ErrNotFound)
		}
		return do(t.logs[p])
	})
}

package catalog

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkaname"
	"github.com/frazil-io/frazil/libs/shared"
)

// directory knows which tables there are. While the brokers are away the last list goes on being served.
type directory struct {
	kafka kafkalog.Metadata
	cfg   *Config
	now   func() time.Time
	fetch *shared.Group[struct{}, *kafkaname.Listing]

	mu      sync.Mutex
	last    *kafkaname.Listing
	lastAsk time.Time // when last was asked for
	failing bool      // the newest attempt failed
}

func newDirectory(kafka kafkalog.Metadata, cfg *Config, now func() time.Time) *directory {
	return &directory{
		kafka: kafka, cfg: cfg, now: now,
		fetch: shared.New[struct{}, *kafkaname.Listing](shared.Limits{Running: 1, Timeout: cfg.Freshness.KafkaTimeout}),
	}
}

// list answers the tables, at most TopicsTTL old where the brokers answer.
func (d *directory) list(ctx context.Context) (*kafkaname.Listing, error) {
	last, fresh, failing := d.cached(d.cfg.Freshness.TopicsTTL)
	switch {
	case fresh:
		return last, nil
	case last != nil && failing:
		// The one who found out has waited for the brokers; the others need not.
		d.fetch.Start(ctx, struct{}{}, d.refresh)
		return last, nil
	}
	l, err := d.fetch.Do(ctx, struct{}{}, d.refresh)
	if err != nil && last != nil && ctx.Err() == nil {
		return last, nil
	}
	return l, err
}

func (d *directory) cached(maxAge time.Duration) (last *kafkaname.Listing, fresh, failing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.last != nil && d.now().Sub(d.lastAsk) < maxAge, d.failing
}

func (d *directory) refresh(ctx context.Context) (*kafkaname.Listing, error) {
	asked := d.now()
	topics, err := d.kafka.Topics(ctx)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failing = true
		return nil, away(fmt.Errorf("list topics: %w", err))
	}
	l := kafkaname.NewListing(d.choose(topics))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.lastAsk, d.failing = l, asked, false
	return l, nil
}

// choose leaves out what is no table.
func (d *directory) choose(topics []kafkalog.Topic) []kafkaname.Named {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	internal := kafkaname.NewInternal(names)
	var chosen []kafkaname.Named
	for _, t := range topics {
		conf, named := d.cfg.Tables[t.Name]
		if t.Internal || conf.Exclude || !named && internal.Match(t.Name) || !d.cfg.Topics.match(t.Name) {
			continue
		}
		chosen = append(chosen, kafkaname.Named{Topic: t.Name, Table: d.cfg.tableName(t.Name)})
	}
	return chosen
}

func (c *TopicsConfig) match(topic string) bool {
	matches := func(glob string) bool {
		ok, err := path.Match(glob, topic)
		return err == nil && ok
	}
	return (len(c.Include) == 0 || slices.ContainsFunc(c.Include, matches)) && !slices.ContainsFunc(c.Exclude, matches)
}

// topic answers the topic of a table. A name that the list lacks is looked up anew, since a table exists as soon
// as its topic does; and while the brokers are away, nobody can say that it does not.
func (d *directory) topic(ctx context.Context, table string) (string, error) {
	l, err := d.list(ctx)
	if err != nil {
		return "", err
	}
	topic, err := l.Topic(table)
	if !errors.Is(err, fault.ErrNotFound) {
		return topic, err
	}
	l, fresh, _ := d.cached(d.cfg.Freshness.OffsetsTTL)
	if !fresh {
		if l, err = d.fetch.Do(ctx, struct{}{}, d.refresh); err != nil {
			return "", err
		}
	}
	return l.Topic(table)
}

func (d *directory) close() { d.fetch.Close() }

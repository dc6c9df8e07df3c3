package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/rpc"
)

// advanceGrace is what an Advance may take beyond the wait that was asked for.
const advanceGrace = 2 * time.Second

// confirmEvery is how often dedup is asked about a table that has not moved: its state may have been lost meanwhile.
const confirmEvery = 10 * time.Second

// outcome is what a flight brings home. began is set also when it failed.
type outcome struct {
	began  time.Time
	answer answer
}

// await answers the table as it is now. It waits for a flight at most: for LoadWait while nothing was ever
// published, for AdvanceWait afterwards.
func (s *Service) await(ctx context.Context, t *table) (answer, error) {
	if p := t.view(); p.known && p.failing {
		// Whoever found out has waited; the others get the last cut at once, and find out when it is over.
		s.flights.Start(ctx, t.topic, s.flight(t))
		return p.answer, nil
	}
	asked := s.now()
	for {
		out, err := s.flights.Do(ctx, t.topic, s.flight(t))
		// Who joined a flight near its end has not had the wait that a first load gets.
		joined := !out.began.IsZero() && out.began.Before(asked)
		if err == nil || !joined || !errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
			return out.answer, err
		}
	}
}

func (s *Service) flight(t *table) func(context.Context) (outcome, error) {
	return func(ctx context.Context) (outcome, error) {
		began := s.now()
		a, err := s.freshen(ctx, t)
		return outcome{began, a}, err
	}
}

// freshen looks at the topic and brings the table up to what it sees. One at a time per topic.
func (s *Service) freshen(ctx context.Context, t *table) (answer, error) {
	p := t.view()
	if p.known && !p.failing && s.now().Sub(p.checked) < s.cfg.Freshness.OffsetsTTL {
		return p.answer, nil
	}
	o, err := s.observe(ctx, t)
	if err != nil {
		return s.unseen(ctx, t, err)
	}
	if p.covers(o) && o.at.Sub(p.advanced) < confirmEvery {
		return t.update(func(p *progress) {
			p.checked, p.fresh, p.failing, p.answer.stale = o.at, o.at, false, staleness{}
		}).answer, nil
	}
	if p.known && p.topicID == o.topic.ID && o.at.Sub(p.advanced) < s.cfg.Freshness.cutInterval(len(o.logs)) {
		return t.update(func(p *progress) { p.checked = o.at }).answer, nil
	}
	return s.advance(ctx, t, o)
}

// observe looks at a topic. fault.ErrInvalid: it can't be served.
func (s *Service) observe(ctx context.Context, t *table) (*observation, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Freshness.KafkaTimeout)
	defer cancel()
	o := &observation{at: s.now()}
	slow, err := s.lookUpSlow(ctx, t)
	if err != nil {
		return nil, err
	}
	o.clusterID, o.config = slow.clusterID, slow.config
	if o.topic, err = s.deps.Kafka.Topic(ctx, t.topic); err != nil {
		return nil, fmt.Errorf("describe topic %q: %w", t.topic, err)
	}
	if err := s.servable(t.topic, o.config); err != nil {
		return nil, err
	}
	ends, err := s.deps.Kafka.Ends(ctx, o.topic)
	if err != nil {
		return nil, fmt.Errorf("read ends of topic %q: %w", t.topic, err)
	}
	for _, info := range o.topic.Partitions {
		l := logView{partition: info.Partition, leaderEpoch: info.LeaderEpoch, offline: true}
		if e, ok := ends[info.Partition]; ok && !e.Offline && !info.Offline {
			l.start, l.end, l.offline = e.LogStart, e.LastStable, false
		}
		o.logs = append(o.logs, l)
	}
	return o, nil
}

// lookUpSlow answers the cluster id and the topic's configuration. What was known before stands while the brokers
// do not answer.
func (s *Service) lookUpSlow(ctx context.Context, t *table) (slowFacts, error) {
	last, now := t.slowFacts(), s.now()
	if !last.at.IsZero() && now.Sub(last.at) < s.cfg.Freshness.ConfigTTL {
		return last, nil
	}
	next, err := s.askSlow(ctx, t.topic)
	if err != nil {
		if !last.at.IsZero() && !errors.Is(err, fault.ErrNotFound) {
			return last, nil
		}
		return slowFacts{}, err
	}
	next.at = now
	t.setSlowFacts(next)
	return next, nil
}

func (s *Service) askSlow(ctx context.Context, topic string) (f slowFacts, err error) {
	if f.clusterID, err = s.deps.Kafka.ClusterID(ctx); err != nil {
		return f, fmt.Errorf("read cluster id: %w", err)
	}
	f.config, err = s.deps.Kafka.Config(ctx, topic)
	if errors.Is(err, fault.ErrDenied) {
		return f, nil // not Known
	}
	if err != nil {
		return f, fmt.Errorf("read configuration of topic %q: %w", topic, err)
	}
	return f, nil
}

// servable refuses topics whose current state can't be told yet.
func (s *Service) servable(topic string, c kafkalog.TopicConfig) error {
	switch {
	case c.Known && c.Compact:
		return fmt.Errorf("topic %q has cleanup.policy=compact, and compacted topics are not served yet: "+
			"set the topic's cleanup.policy to delete, or leave it out with tables.%s.exclude: %w", topic, topic, fault.ErrInvalid)
	case !c.Known && s.cfg.Tables[topic].CleanupPolicy != "delete":
		return fmt.Errorf("the configuration of topic %q may not be read: allow DescribeConfigs, "+
			"or declare tables.%s.cleanup_policy: delete: %w", topic, topic, fault.ErrInvalid)
	}
	return nil
}

// unseen decides what a failed look means: a topic that is gone or can't be served is an error, everything else
// is no decision about data, and the last cut goes on being served.
func (s *Service) unseen(ctx context.Context, t *table, err error) (answer, error) {
	switch {
	case errors.Is(err, fault.ErrNotFound):
		s.forget(t)
		return answer{}, err
	case errors.Is(err, fault.ErrInvalid):
		return answer{}, err
	}
	reason := "Kafka does not answer"
	if errors.Is(err, fault.ErrDenied) {
		reason = "Kafka denies access to the topic"
	}
	return s.behind(ctx, t, reason, away(err))
}

// behind serves the last cut and says since when.
func (s *Service) behind(ctx context.Context, t *table, reason string, err error) (answer, error) {
	first := !t.view().failing
	now := s.now()
	p := t.update(func(p *progress) {
		if !p.known {
			return
		}
		p.failing, p.checked = true, now
		if p.answer.stale.since.IsZero() {
			p.answer.stale.since = p.fresh
		}
		p.answer.stale.reason = reason
	})
	if !p.known {
		if !errors.Is(err, fault.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
		}
		return answer{}, err
	}
	if first && ctx.Err() == nil {
		s.deps.Logger.WarnContext(ctx, "table is served from its last cut", "topic", t.topic, "reason", reason, "err", err)
	}
	return p.answer, nil
}

// advance has dedup publish a cut that shows what was observed.
func (s *Service) advance(ctx context.Context, t *table, o *observation) (answer, error) {
	p := t.view()
	wait, known := s.cfg.Freshness.LoadWait, t.knownVersion(o.topic.ID)
	if p.known && p.topicID == o.topic.ID {
		wait = s.cfg.Freshness.AdvanceWait
	}
	if known == 0 && s.cfg.Lazy.has(t.topic) {
		// Entries keep the bounds with which they were listed first.
		if err := s.lookUpTimes(ctx, o); err != nil {
			return s.unseen(ctx, t, err)
		}
	}
	callCtx, cancel := context.WithTimeout(ctx, wait+advanceGrace)
	defer cancel()
	resp, err := s.deps.Dedup.Advance(callCtx, o.request(s.cfg.tableName(t.topic), wait, known))
	if err == nil {
		err = checkState(resp.GetState(), p, o)
	}
	if err != nil {
		s.metrics.advance(ctx, "error")
		return s.notAdvanced(ctx, t, p.topicID == o.topic.ID, rpc.Error(err))
	}
	return s.advanced(ctx, t, o, resp), nil
}

// checkState refuses an answer that would take readers back.
func checkState(state *dedupv1.TableState, p progress, o *observation) error {
	id, err := kafkapos.ParseTopicID(state.GetTopic().GetTopicId())
	if err != nil || id != o.topic.ID {
		return fmt.Errorf("dedup answered for another topic id: %w", fault.ErrCorrupt)
	}
	if p.known && p.answer.epoch == state.GetStateEpoch() && state.GetVersion() < p.answer.version {
		return fmt.Errorf("dedup answered version %d after %d: %w", state.GetVersion(), p.answer.version, fault.ErrCorrupt)
	}
	return nil
}

func (s *Service) notAdvanced(ctx context.Context, t *table, sameTopic bool, err error) (answer, error) {
	if !sameTopic {
		// The last cut is of a topic that is gone.
		t.update(func(p *progress) { *p = progress{} })
		return answer{}, err
	}
	for _, decisive := range []error{fault.ErrInvalid, fault.ErrUnsupported, fault.ErrNotFound, fault.ErrRetired} {
		if errors.Is(err, decisive) {
			return answer{}, err
		}
	}
	return s.behind(ctx, t, "the table's state can't be advanced", err)
}

func (s *Service) advanced(ctx context.Context, t *table, o *observation, resp *dedupv1.AdvanceResponse) answer {
	state := resp.GetState()
	s.keepState(state)
	a := answer{epoch: state.GetStateEpoch(), version: state.GetVersion()}
	if ms := resp.GetStaleSinceMillis(); ms != 0 {
		a.stale = staleness{since: time.UnixMilli(ms), reason: resp.GetStaleReason()}
	}
	last := t.view()
	t.update(func(p *progress) {
		if p.known && p.answer.epoch == a.epoch {
			a.version = max(a.version, p.answer.version) // tags were changed meanwhile
		}
		p.known, p.answer, p.topicID, p.failing = true, a, o.topic.ID, false
		p.checked, p.advanced, p.logs = o.at, s.now(), nil
		if a.stale.since.IsZero() {
			p.logs, p.fresh = o.logs, o.at
		} else if p.fresh.IsZero() {
			p.fresh = a.stale.since
		}
	})
	switch {
	case last.known && last.answer.epoch != a.epoch:
		s.cache.drop(last.answer.epoch + "/")
		s.deps.Logger.InfoContext(ctx, "table has a new state epoch", "topic", t.topic, "state_epoch", a.epoch, "replaced", last.answer.epoch)
		s.metrics.advance(ctx, "new_epoch")
	case !a.stale.since.IsZero():
		s.metrics.advance(ctx, "stale")
	case last.known && last.answer.version == a.version:
		s.metrics.advance(ctx, "unmoved")
	default:
		s.metrics.advance(ctx, "moved")
	}
	return a
}

func topicRef(clusterID string, topic kafkalog.Topic) *typesv1.TopicRef {
	return &typesv1.TopicRef{ClusterId: clusterID, TopicId: topic.ID[:], Topic: topic.Name}
}

package catalog

import (
	"context"
	"fmt"
	"strconv"
	"time"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
)

// planLazy is how dedup calls the plan of a table that is published before its history is read.
const planLazy = "lazy"

// Lazy says which topics have lazy tables: all but the exceptions, or none but them.
type Lazy struct {
	All    bool
	Except map[string]bool
}

func (l Lazy) has(topic string) bool { return l.All != l.Except[topic] }

// The times, counted back from now, for which a lazy table asks where the log has what is younger: each that much
// older than the one before. A query over the newest tenth of the time then reads little more than it must.
const (
	youngestMark = time.Minute
	oldestMark   = 3 * 365 * 24 * time.Hour
	markFactor   = 1.25
)

// timeMark says that all events below offset are older than at. -1: all that were there.
type timeMark struct {
	at     time.Time
	offset kafkapos.Offset
}

// lookUpTimes adds to an observation what is known of the timestamps in the logs. Where the door cannot tell, files
// that nobody has read have no bound of their timestamps.
func (s *Service) lookUpTimes(ctx context.Context, o *observation) error {
	door, ok := s.deps.Kafka.(kafkalog.TimeIndex)
	if !ok {
		return nil
	}
	o.times = map[kafkapos.Partition][]timeMark{}
	now := s.now()
	for _, age := range markAges() {
		at := now.Add(-age)
		found, err := door.OffsetsAt(ctx, o.topic, at)
		if err != nil {
			return fmt.Errorf("look up times of topic %q: %w", o.topic.Name, err)
		}
		for p, off := range found {
			o.times[p] = append(o.times[p], timeMark{at, off})
		}
	}
	return nil
}

// markAges are the ages of the marks, oldest first.
func markAges() []time.Duration {
	ages := []time.Duration{0}
	for age := youngestMark; age < oldestMark; age = time.Duration(float64(age) * markFactor) {
		ages = append([]time.Duration{age}, ages...)
	}
	return ages
}

// wireTimes are the marks of one log. What lies at its end was seen before the times were looked up.
func (o *observation) wireTimes(l logView) []*dedupv1.TimeMark {
	var out []*dedupv1.TimeMark
	for _, m := range o.times[l.partition] {
		off := m.offset
		if off < 0 {
			off = l.end
		}
		if off > l.start {
			out = append(out, &dedupv1.TimeMark{TimestampMillis: m.at.UnixMilli(), Offset: int64(off)})
		}
	}
	return out
}

// hasRooms reports whether a snapshot shows files that nobody has read.
func hasRooms(snap *dedupv1.Snapshot) bool {
	for _, g := range snap.GetGroups() {
		if g.GetRooms() {
			return true
		}
	}
	return false
}

// shows reports whether the dialect can express a snapshot: deletion vectors need counts that nobody knows of a file
// that nobody has read.
func (s subject) shows(snap *dedupv1.Snapshot) bool {
	return s.dialect != objectname.V3 || !hasRooms(snap)
}

// refused is the error of a table whose current snapshot the dialect cannot express.
func (s subject) refused() error {
	return fmt.Errorf("table %s has plan lazy and files that nobody has read yet, and deletion vectors cannot say what they do not know: "+
		"read it from the warehouse v2, or set tables.%s.plan: eager: %w", s.state.GetTable(), s.state.GetTopic().GetTopic(), fault.ErrInvalid)
}

// walked says inline how far a lazy table was read. Not to know it is no reason to refuse a load.
func (s *Service) walked(ctx context.Context, state *dedupv1.TableState) map[string]string {
	if state.GetPlan() != planLazy || !hasRooms(currentSnapshot(state)) {
		return nil
	}
	resp, err := s.deps.Dedup.GetProgress(ctx, &dedupv1.GetProgressRequest{TopicId: state.GetTopic().GetTopicId()})
	if err != nil || resp.GetStateEpoch() != state.GetStateEpoch() {
		return nil
	}
	read, all, wanted := int64(0), int64(0), int64(0)
	for _, w := range resp.GetWalks() {
		all += w.GetEnd() - w.GetStart()
		read += w.GetEnd() - max(w.GetStart(), w.GetFrontier())
		wanted += w.GetFrontier() - w.GetWanted()
	}
	return map[string]string{
		"frazil.walk.offsets": strconv.FormatInt(all, 10), "frazil.walk.offsets-read": strconv.FormatInt(read, 10),
		"frazil.walk.offsets-wanted": strconv.FormatInt(wanted, 10),
	}
}

// GetProgress answers how far the walks of a table are.
func (s *Service) GetProgress(ctx context.Context, req *catalogv1.GetProgressRequest) (*catalogv1.GetProgressResponse, error) {
	if err := s.checkNamespace(req.GetNamespace()); err != nil {
		return nil, err
	}
	topic, err := s.dir.topic(ctx, req.GetTable())
	if err != nil {
		return nil, err
	}
	t, err := s.deps.Kafka.Topic(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("describe topic %q: %w", topic, err)
	}
	resp, err := s.deps.Dedup.GetProgress(ctx, &dedupv1.GetProgressRequest{TopicId: t.ID[:]})
	if err != nil {
		return nil, fmt.Errorf("progress of table %s: %w", req.GetTable(), rpc.Error(err))
	}
	return &catalogv1.GetProgressResponse{
		Table: req.GetTable(), Topic: topic, StateEpoch: resp.GetStateEpoch(), Plan: resp.GetPlan(), Partitions: resp.GetPartitions(),
		Walks: resp.GetWalks(),
	}, nil
}

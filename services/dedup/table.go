package dedup

import (
	"fmt"
	"sync"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/publish"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// table is what the service remembers of a topic. All of it can be lost.
type table struct {
	id kafkapos.TopicID

	mu   sync.Mutex
	seen sighting // the newest
	// done is the last sighting that was worked through without anything left to do, and rec the record then.
	done *sighting
	rec  *state.Record
	// freshAt is when the table was last known to be up to date; zero: not since the process started.
	freshAt time.Time
	// named is the state epoch and the encoding for which the files of the kept snapshots are known to be named, and
	// encodedAt when the encoding was last asked for, or first known.
	named     string
	encodedAt time.Time

	// verified has the leader epoch under which the end of each log was last found to be what was published. Used
	// by one flight at a time.
	verified map[kafkapos.Partition]kafkapos.LeaderEpoch
	// blocked has the record that stops a partition. Used under mu.
	blocked map[kafkapos.Partition]block
}

// block is a record that stops its partition, and until when it is not read again.
type block struct {
	*scan.Blocked
	until time.Time
}

// sighting is what Kafka said about a topic.
type sighting struct {
	number int64 // counts the sightings of a table
	at     time.Time
	topic  state.Topic
	table  string
	logs   []logState           // by partition, dense
	times  [][]publish.TimeMark // by partition, ascending; may be short
	known  uint64               // the highest record version that anybody has seen
	finite bool
}

// logState is one partition of a sighting.
type logState struct {
	start, end  kafkapos.Offset
	leaderEpoch kafkapos.LeaderEpoch
	offline     bool
}

// parseSighting checks a request. fault.ErrInvalid says what is wrong with it.
func parseSighting(req *dedupv1.AdvanceRequest) (sighting, error) {
	invalid := func(format string, args ...any) (sighting, error) {
		return sighting{}, fmt.Errorf("advance: "+format+": %w", append(args, fault.ErrInvalid)...)
	}
	id, err := kafkapos.ParseTopicID(req.GetTopic().GetTopicId())
	if err != nil {
		return invalid("%v", err)
	}
	s := sighting{
		topic: state.Topic{ClusterID: req.GetTopic().GetClusterId(), ID: id, Name: req.GetTopic().GetTopic()},
		table: req.GetTable(), known: req.GetKnownVersion(), finite: req.GetFiniteRetention(),
		logs: make([]logState, len(req.GetLogs())), times: make([][]publish.TimeMark, len(req.GetLogs())),
	}
	if s.topic.Name == "" || s.table == "" || len(s.logs) == 0 {
		return invalid("topic, table and logs are required")
	}
	seen := make([]bool, len(s.logs))
	for _, l := range req.GetLogs() {
		p := int(l.GetPartition())
		if p < 0 || p >= len(s.logs) || seen[p] {
			return invalid("the partitions of topic %s are not 0 to %d", s.topic.Name, len(s.logs)-1)
		}
		seen[p] = true
		s.logs[p] = logState{
			start: kafkapos.Offset(l.GetLogStartOffset()), end: kafkapos.Offset(l.GetEnd()),
			leaderEpoch: kafkapos.LeaderEpoch(l.GetLeaderEpoch()), offline: l.GetOffline(),
		}
		for _, m := range l.GetTimes() {
			s.times[p] = append(s.times[p], publish.TimeMark{Millis: m.GetTimestampMillis(), Offset: kafkapos.Offset(m.GetOffset())})
		}
		if !l.GetOffline() && (l.GetLogStartOffset() < 0 || l.GetEnd() < l.GetLogStartOffset()) {
			return invalid("partition %d reaches from %d to %d", p, l.GetLogStartOffset(), l.GetEnd())
		}
	}
	return s, nil
}

// same reports whether two sightings say the same about the logs.
func (s *sighting) same(o *sighting) bool {
	if len(s.logs) != len(o.logs) || s.finite != o.finite || s.table != o.table {
		return false
	}
	for i := range s.logs {
		if s.logs[i] != o.logs[i] {
			return false
		}
	}
	return true
}

// observe makes a sighting the newest one and answers it with its number.
func (t *table) observe(s sighting) sighting {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.number = t.seen.number + 1
	s.known = max(s.known, t.seen.known)
	t.seen = s
	return s
}

// newest answers the newest sighting.
func (t *table) newest() sighting {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// settled answers the record that the sighting was found to be covered by; nil if it must be looked at.
func (t *table) settled(s *sighting) *state.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil || !t.done.same(s) || s.known > t.rec.Version {
		return nil
	}
	return t.rec
}

// settle remembers that everything of a sighting is published in rec.
func (t *table) settle(s sighting, rec *state.Record, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done, t.rec, t.freshAt = &s, rec, now
	t.seen.known = max(t.seen.known, rec.Version)
}

// checkEncoding reports whether it is time to ask for the encoding again. One caller is told so.
func (t *table) checkEncoding(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := !t.encodedAt.IsZero() && now.Sub(t.encodedAt) >= encodingCheck
	if due || t.encodedAt.IsZero() {
		t.encodedAt = now
	}
	return due
}

// namedFor reports whether the files of all kept snapshots are named for an encoding.
func (t *table) namedFor(epoch, encoding string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.named == epoch+"/"+encoding
}

// setNamed remembers that they are.
func (t *table) setNamed(epoch, encoding string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.named = epoch + "/" + encoding
}

// unsettle forgets what settle remembered.
func (t *table) unsettle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = nil
}

// staleSince answers since when the published state is not known to be up to date.
func (t *table) staleSince(rec *state.Record) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.freshAt.IsZero() {
		return max(1, rec.UpdatedMs)
	}
	return t.freshAt.UnixMilli()
}

// setBlock remembers a record that stops its partition.
func (t *table) setBlock(b *scan.Blocked, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blocked[b.Partition] = block{b, until}
}

// block answers the record that stops a partition, nil if there is none or it may be read again.
func (t *table) block(p kafkapos.Partition, now time.Time) *scan.Blocked {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, ok := t.blocked[p]
	if !ok || !now.Before(b.until) {
		return nil
	}
	return b.Blocked
}

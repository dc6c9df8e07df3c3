package catalog

import (
	"slices"
	"sync"
	"time"

	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// answer names the version of a table's record that is served, and says whether it is behind.
type answer struct {
	epoch   string
	version uint64
	stale   staleness
}

// logView is one partition as it was seen. Two views that are equal need no new cut.
type logView struct {
	partition   kafkapos.Partition
	start, end  kafkapos.Offset
	leaderEpoch kafkapos.LeaderEpoch
	offline     bool
}

// observation is one look at a topic.
type observation struct {
	at        time.Time
	clusterID string
	topic     kafkalog.Topic
	logs      []logView
	config    kafkalog.TopicConfig
	times     map[kafkapos.Partition][]timeMark // ascending; nil: not looked up
}

func (o *observation) request(table string, wait time.Duration, known uint64) *dedupv1.AdvanceRequest {
	req := &dedupv1.AdvanceRequest{
		Topic: topicRef(o.clusterID, o.topic), Table: table, WaitMillis: wait.Milliseconds(), KnownVersion: known,
		// Without a readable configuration, records may vanish at any time.
		FiniteRetention: !o.config.Known || o.config.Delete && (o.config.RetentionMs >= 0 || o.config.RetentionBytes >= 0),
	}
	for _, l := range o.logs {
		req.Logs = append(req.Logs, &dedupv1.LogState{
			Partition: int32(l.partition), LogStartOffset: int64(l.start), End: int64(l.end),
			LeaderEpoch: int32(l.leaderEpoch), Offline: l.offline, Times: o.wireTimes(l),
		})
	}
	return req
}

// slowFacts are what is looked up less often than the ends.
type slowFacts struct {
	at        time.Time // zero = never looked up
	clusterID string
	config    kafkalog.TopicConfig
}

// table is what is remembered of a topic that was loaded. Losing it costs one Advance. All changes to it but
// touch, prove, uncover and those of UpdateTags are made by the topic's one running flight.
type table struct {
	topic string

	mu     sync.Mutex
	loaded time.Time // last LoadTable
	slow   slowFacts
	proven proof // by names; zero: nothing
	progress
}

// progress is how far a table has come.
type progress struct {
	known   bool // answer is set
	answer  answer
	topicID kafkapos.TopicID
	// logs are the ends that the answer covers; nil = it is behind what was asked for.
	logs []logView
	// checked is when the ends were last looked at, or the attempt failed.
	checked time.Time
	// fresh is when the answer last was all that there is.
	fresh time.Time
	// advanced is when the last Advance ended.
	advanced time.Time
	// failing: the last look, or the last Advance, failed.
	failing bool
}

func (t *table) view() progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.progress
}

func (t *table) touch(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded = now
}

// active reports whether the table was loaded since.
func (t *table) active(since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loaded.After(since)
}

func (t *table) update(change func(p *progress)) progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.progress)
	return t.progress
}

func (t *table) slowFacts() slowFacts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slow
}

func (t *table) setSlowFacts(f slowFacts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slow = f
}

// uncover makes the next flight ask dedup again: what it named is no longer held.
func (t *table) uncover() {
	t.update(func(p *progress) { p.logs, p.checked, p.advanced = nil, time.Time{}, time.Time{} })
}

// covers reports whether a new cut would show nothing new.
func (p *progress) covers(o *observation) bool {
	return p.known && p.logs != nil && p.topicID == o.topic.ID && slices.Equal(p.logs, o.logs)
}

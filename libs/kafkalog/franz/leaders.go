package franz

import (
	"sync"

	"github.com/frazil-io/frazil/libs/kafkapos"
)

// maxLeaders bounds the leaders that are remembered; when it is reached, all are forgotten and asked for again.
const maxLeaders = 1 << 16

type logKey struct {
	topic     kafkapos.TopicID
	partition kafkapos.Partition
}

// leaders remembers which broker leads a log. It is a hint: a broker that no longer leads says so.
type leaders struct {
	mu    sync.Mutex
	known map[logKey]int32
}

func (l *leaders) get(k logKey) (broker int32, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	broker, ok = l.known[k]
	return broker, ok
}

func (l *leaders) put(topic kafkapos.TopicID, of leaderOf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known)+len(of) > maxLeaders {
		clear(l.known)
	}
	for p, broker := range of {
		if broker >= 0 {
			l.known[logKey{topic, p}] = broker
		}
	}
}

func (l *leaders) forget(k logKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, k)
}

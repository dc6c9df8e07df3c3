package catalog

import (
	"context"
	"fmt"
	"strings"

	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
)

// proof is a version of a topic's record that was published for certain.
type proof struct {
	topicID kafkapos.TopicID
	version uint64
}

// prove remembers the highest version that is known to have been published, and makes the next flight say so to dedup.
func (t *table) prove(p proof) {
	t.mu.Lock()
	if t.proven.topicID != p.topicID || t.proven.version < p.version {
		t.proven = p
	}
	t.mu.Unlock()
	t.uncover()
}

// knownVersion answers the highest version of a topic's record that this catalog knows to have been published: what it
// was told, and what names that readers brought along prove.
func (t *table) knownVersion(id kafkapos.TopicID) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := uint64(0)
	if t.known && t.topicID == id {
		known = t.answer.version
	}
	if t.proven.topicID == id {
		known = max(known, t.proven.version)
	}
	return known
}

// meet is called with a metadata file that somebody holds and dedup does not. One that was issued, of a version above
// the newest that there is, proves that the state was rolled back: the table gets a new state epoch. The error says so;
// nil if it proves nothing.
func (s *Service) meet(ctx context.Context, object objectname.Metadata, version uint64) error {
	newest, err := s.state(ctx, object.Table.Epoch, 0)
	if err != nil || !s.ahead(newest, object, version) {
		return nil //nolint:nilerr // given up already, or nobody can tell, or it is no proof
	}
	t := s.table(newest.GetTopic().GetTopic())
	s.deps.Logger.WarnContext(ctx, "the state was rolled back", "topic", t.topic, "state_epoch", object.Table.Epoch,
		"version", newest.GetVersion(), "published", version)
	s.flights.Start(ctx, t.topic, s.flight(t))
	return fmt.Errorf("version %d was published and the newest is %d: the state was rolled back: %w: plan the query again",
		version, newest.GetVersion(), fault.ErrRetired)
}

// ahead reports whether a metadata file was issued with a version above that of a state, and remembers it if it was.
func (s *Service) ahead(than *dedupv1.TableState, object objectname.Metadata, version uint64) bool {
	sub := newSubject(&s.cfg, than, object.Dialect)
	id, err := kafkapos.ParseTopicID(than.GetTopic().GetTopicId())
	if err != nil || version <= than.GetVersion() || sub.table != object.Table || !sub.issued(object.File, version) {
		return false
	}
	s.table(than.GetTopic().GetTopic()).prove(proof{id, version})
	return true
}

// met is ahead for a location that a caller has loaded before. The state may be behind because another catalog has
// published since, or because it was rolled back: dedup finds out which.
func (s *Service) met(than *dedupv1.TableState, location string) bool {
	key, ok := strings.CutPrefix(location, "s3://"+s.cfg.Bucket+"/")
	if !ok {
		return false
	}
	parsed, err := objectname.Parse(key)
	object, ok := parsed.(objectname.Metadata)
	if err != nil || !ok {
		return false
	}
	file, err := s.names.parse(object.File)
	return err == nil && s.ahead(than, object, file.version)
}

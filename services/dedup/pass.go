package dedup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/services/dedup/internal/advance"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// outcome is what a pass over a table brings home.
type outcome struct {
	number int64 // of the sighting that it worked through
	rec    *state.Record
	// behind is why the state does not cover the sighting; nil if it does.
	behind error
}

// pass works through the newest sighting of a table: it advances every log and publishes the cut. One at a time per
// table. An error means that there is nothing to serve.
func (s *Service) pass(ctx context.Context, t *table) (outcome, error) {
	in := t.newest()
	out := outcome{number: in.number}
	out.rec, out.behind = s.work(ctx, t, &in)
	if errors.Is(out.behind, state.ErrLost) {
		out.rec, out.behind = s.regain(ctx, t, &in)
	}
	if out.behind == nil {
		t.settle(in, out.rec, s.deps.Clock())
		if s.roomy(ctx, out.rec) || !s.renewed(t, out.rec) {
			t.unsettle() // walks, and names that are missing, change what the next cut shows
		}
		return out, nil
	}
	if out.rec == nil {
		var err error
		if out.rec, err = s.served(ctx, in.topic.ID); err != nil {
			return out, out.behind
		}
	}
	if len(out.rec.Snapshots) == 0 {
		return out, out.behind
	}
	return out, nil
}

// work answers the record after the pass, if it knows it, and why the sighting is not covered.
func (s *Service) work(ctx context.Context, t *table, in *sighting) (*state.Record, error) {
	rec, version, err := s.sameLogs(ctx, t, in)
	if grown := new(grownError); errors.As(err, &grown) {
		return nil, join(err, s.keep(ctx, t, in, grown))
	}
	if err != nil {
		return nil, err
	}
	if rec.ChunkLog2 == 0 && hasRecords(in) {
		if rec, version, err = s.size(ctx, in, rec, version); err != nil {
			return nil, err
		}
	}
	s.upgraded(ctx, t, in, rec) // asks: what is recorded in this pass is to be of the present encoder
	behind := s.advanceAll(ctx, t, in, rec)
	// What did advance is shown, whatever stopped the rest.
	rooms, err := s.rooms(ctx, in, rec)
	if err != nil {
		return nil, join(behind, err)
	}
	if rec, version, err = s.renew(ctx, t, in, rec, version); err != nil {
		return nil, join(behind, err)
	}
	next, err := s.cuts.Cut(ctx, rec, version, in.at, rooms)
	if err != nil {
		return nil, join(behind, err)
	}
	if len(rec.Snapshots) == 0 {
		if now, known := s.planner.Known(rec.Epoch); known {
			t.setNamed(rec.Epoch, now.ID)
		}
		s.deps.Log.Info("first snapshot published", "table", rec.Table, "topic", rec.Topic.Name, "state_epoch", rec.Epoch)
	}
	return next, behind
}

// served answers a topic's record if its state epoch has not been given up.
func (s *Service) served(ctx context.Context, id kafkapos.TopicID) (*state.Record, error) {
	rec, _, err := s.store.Record(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.resolve(ctx, rec.Epoch)
}

func hasRecords(in *sighting) bool {
	for _, l := range in.logs {
		if !l.offline && l.end > l.start {
			return true
		}
	}
	return false
}

// sameLogs answers the record of a state epoch whose logs are those that Kafka has now.
func (s *Service) sameLogs(ctx context.Context, t *table, in *sighting) (*state.Record, chainstore.Version, error) {
	for {
		rec, version, err := s.current(ctx, in)
		if err != nil {
			return nil, 0, err
		}
		reason := ""
		for p := range in.logs[:min(int(rec.Partitions), len(in.logs))] {
			if reason, err = s.verify(ctx, t, in, rec, kafkapos.Partition(p)); err != nil {
				return nil, 0, err
			}
			if reason != "" {
				break
			}
		}
		if n := int(rec.Partitions); reason == "" && n != len(in.logs) {
			if n > len(in.logs) || len(rec.Snapshots) > 0 {
				return nil, 0, &grownError{rec, version, len(in.logs)}
			}
			reason = fmt.Sprintf("topic %s has got %d partitions, it had %d, before its first snapshot", rec.Topic.Name, len(in.logs), n)
		}
		if reason == "" {
			return rec, version, nil
		}
		if err := s.replace(ctx, rec.Epoch, reason); err != nil {
			return nil, 0, err
		}
		t.unsettle()
		clear(t.verified)
	}
}

// verify answers why a log is not the one that was published, "" if it is. The end of the published part is read
// again when the log ends below it, when its leader epoch has changed, or is newer than the head knows, and once per
// process: a sighting that is late says that the log went back too, but then what was published is still there.
func (s *Service) verify(ctx context.Context, t *table, in *sighting, rec *state.Record, p kafkapos.Partition) (string, error) {
	l := in.logs[p]
	if l.offline || rec.ChunkLog2 == 0 {
		return "", nil
	}
	spec := s.spec(in, rec, nil, p)
	head, _, err := s.store.Head(ctx, spec.Log)
	if errors.Is(err, fault.ErrNotFound) {
		t.verified[p] = l.leaderEpoch // nothing is published yet
		return "", nil
	}
	if err != nil {
		return "", err
	}
	at, known := t.verified[p]
	if known && at == l.leaderEpoch && l.end >= head.End && head.LeaderEpoch >= l.leaderEpoch {
		return "", nil
	}
	same, head, err := s.planner.Verify(ctx, spec, l.end)
	if err != nil {
		return "", err
	}
	if same {
		t.verified[p] = l.leaderEpoch
		return "", nil
	}
	return fmt.Sprintf("partition %d of topic %s was cut off or replaced: offsets up to %d were published, it now ends at %d in leader epoch %d"+
		" and what was published is not there", p, rec.Topic.Name, head.End, l.end, l.leaderEpoch), nil
}

// spec is what plans for a log need.
func (s *Service) spec(in *sighting, rec *state.Record, cuts [][]kafkapos.Offset, p kafkapos.Partition) *advance.Spec {
	spec := s.recorded(rec, p)
	if l := in.logs[p]; !l.offline {
		spec.LogStart, spec.LeaderEpoch = l.start, l.leaderEpoch
	}
	if cuts != nil {
		spec.CutEnds = cuts[p]
	}
	return spec
}

// recorded is a spec with what a table's record says of its logs.
func (s *Service) recorded(rec *state.Record, p kafkapos.Partition) *advance.Spec {
	id := int32(len(rec.Schemas) - 1)
	return &advance.Spec{
		Log: state.Log{Epoch: rec.Epoch, Partition: p}, Table: tableSpec(rec, id), SchemaID: id,
		ChunkLog2: rec.ChunkLog2, BlockLog2: rec.BlockLog2, Skip: s.cfg.skips(rec.Topic.Name), LeaderEpoch: -1,
		PieceOffsets: int64(s.cfg.PublishOffsets), PieceBytes: s.cfg.BlockBytes,
	}
}

// cutEnds answers, per partition, the ends of the listed snapshots.
func (s *Service) cutEnds(ctx context.Context, rec *state.Record) ([][]kafkapos.Offset, error) {
	out := make([][]kafkapos.Offset, rec.Partitions)
	listed := rec.Snapshots[max(0, len(rec.Snapshots)-s.cfg.Snapshots.Listed):]
	for _, ref := range listed {
		snap, err := s.store.Snapshot(ctx, rec.Epoch, ref.Blob)
		if errors.Is(err, fault.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for p, r := range snap.Cut {
			if n := len(out[p]); n == 0 || out[p][n-1] != r.End {
				out[p] = append(out[p], r.End)
			}
		}
	}
	return out, nil
}

// advanceAll advances every log as far as the sighting says, some side by side. It answers what stopped any of them.
func (s *Service) advanceAll(ctx context.Context, t *table, in *sighting, rec *state.Record) error {
	cuts, err := s.cutEnds(ctx, rec)
	if err != nil {
		return err
	}
	errs := make([]error, len(in.logs))
	next := make(chan kafkapos.Partition)
	var wg sync.WaitGroup
	for range min(s.cfg.Parallel, len(in.logs)) {
		wg.Go(func() {
			for p := range next {
				errs[p] = s.advanceLog(ctx, t, in, s.spec(in, rec, cuts, p))
			}
		})
	}
	for p := range in.logs {
		next <- kafkapos.Partition(p)
	}
	close(next)
	wg.Wait()
	return join(errs...)
}

// advanceLog walks a log down to its start, publishes its increments, and records what its files need.
func (s *Service) advanceLog(ctx context.Context, t *table, in *sighting, spec *advance.Spec) error {
	w := &worker{
		s: s, t: t, in: in, spec: spec, now: s.deps.Clock(), ahead: advance.NewAhead(s.walks), lazy: s.cfg.lazy(in.topic.Name),
	}
	defer w.ahead.Close()
	if err := w.begin(ctx); err != nil {
		return err
	}
	for {
		again, err := w.slot(ctx, w.step)
		if errors.Is(err, fault.ErrCorrupt) && !w.checked {
			// A damaged run is found where it is read.
			w.checked = true
			if err := s.planner.Check(ctx, spec); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			w.stopped = err
		}
		if !again || err != nil {
			break
		}
	}
	_, err := w.slot(ctx, func(ctx context.Context) (bool, error) { return false, w.complete(ctx) })
	return join(w.stopped, err)
}

// join makes one error of several, in one line.
func join(errs ...error) error {
	var kept []error
	for _, err := range errs {
		if err != nil {
			kept = append(kept, err)
		}
	}
	switch len(kept) {
	case 0:
		return nil
	case 1:
		return kept[0]
	}
	return joined(kept)
}

type joined []error

// Error puts the texts in one line.
func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap answers all of them.
func (j joined) Unwrap() []error { return j }

// worker advances one log in one pass.
type worker struct {
	s       *Service
	t       *table
	in      *sighting
	spec    *advance.Spec
	now     time.Time
	ahead   *advance.Ahead
	lazy    bool  // readers ask for the walk
	walking bool  // the frontier was above the start when last seen
	checked bool  // runs were read whole in this pass
	stopped error // what ended the increments
}

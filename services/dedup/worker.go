package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/services/dedup/internal/advance"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
)

func (w *worker) partition() kafkapos.Partition { return w.spec.Log.Partition }

// begin makes the head of a log that is seen for the first time, and moves the start.
func (w *worker) begin(ctx context.Context) error {
	l := w.in.logs[w.partition()]
	head, _, err := w.s.store.Head(ctx, w.spec.Log)
	missing := errors.Is(err, fault.ErrNotFound)
	switch {
	case err != nil && !missing:
		return err
	case l.offline && missing:
		return fmt.Errorf("partition %d has no leader and was never read: %w", w.partition(), fault.ErrUnavailable)
	case l.offline:
		return nil
	}
	rule := startRule{
		finite: w.in.finite, percent: w.s.cfg.RetentionMarginPercent, chunkLog2: w.spec.ChunkLog2, blockLog2: w.spec.BlockLog2,
	}
	if missing {
		w.walking = !w.lazy
		return w.s.planner.Begin(ctx, w.spec, rule.next(l, -1), l.end)
	}
	w.walking = !w.lazy && !head.Walked()
	return w.s.planner.Note(ctx, w.spec, rule.next(l, head.Start))
}

// slot does one piece of work when it is this log's turn: tables whose first walk takes hours leave room for others
// after every range. Nobody who is called from within waits for such a slot.
func (w *worker) slot(ctx context.Context, work func(context.Context) (bool, error)) (again bool, err error) {
	slots := w.s.slots
	if w.walking {
		slots = w.s.walks
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-slots }()
	return work(ctx)
}

// step plans and publishes one range. again is false when nothing is left to do.
func (w *worker) step(ctx context.Context) (again bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	v, err := w.s.store.View(ctx, w.spec.Log)
	if err != nil {
		return false, err
	}
	blocked := w.t.block(w.partition(), w.now)
	var piece *advance.Piece
	if !w.lazy && !v.Head.Walked() {
		if blocked != nil && blocked.Offset < v.Head.Frontier && blocked.Offset >= v.Head.Start {
			return false, blocked
		}
		piece, err = w.s.planner.PlanWalk(ctx, w.spec, v, v.Head.Start, w.ahead)
	} else {
		if w.walking {
			w.walking = false
			return true, nil // go on when it is the turn of an increment
		}
		l := w.in.logs[w.partition()]
		if l.offline {
			return false, fmt.Errorf("partition %d has no leader: %w", w.partition(), fault.ErrUnavailable)
		}
		end := l.end
		if blocked != nil {
			if end = min(end, blocked.Offset); end <= v.Head.End && l.end > v.Head.End {
				return false, blocked
			}
		}
		piece, err = w.s.planner.PlanIncrement(ctx, w.spec, v, end)
	}
	var stop *scan.Blocked
	if errors.As(err, &stop) {
		return w.stop(stop, w.lazy || v.Head.Walked())
	}
	if piece == nil || err != nil {
		return false, err
	}
	return true, w.s.publish(ctx, w.spec, piece)
}

// stop remembers a record that cannot be passed. An increment goes on up to it.
func (w *worker) stop(b *scan.Blocked, increment bool) (again bool, err error) {
	if w.t.block(w.partition(), w.now) == nil {
		w.s.deps.Log.Warn("a record stops its partition", "topic", w.in.topic.Name, "kafka_partition", b.Partition, "offset", b.Offset,
			"reason", b.Reason)
	}
	w.t.setBlock(b, w.s.deps.Clock().Add(w.s.cfg.BadRecordRetry))
	if !increment {
		return false, b
	}
	return true, nil
}

// complete records the row groups that the files of the next cut name and that are not recorded: a start that moved
// cuts a file anew, and another encoder makes other bytes.
func (w *worker) complete(ctx context.Context) error {
	v, err := w.s.store.View(ctx, w.spec.Log)
	if err != nil || !w.lazy && !v.Head.Walked() {
		return err
	}
	from := v.Head.Start
	if !v.Head.Walked() {
		from = roundUp(v.Head.Frontier, w.spec.ChunkLog2) // files that begin below are rooms
	}
	for chunk := range layout.Chunks(kafkapos.Range{Start: from, End: v.Head.End}, w.spec.ChunkLog2) {
		number := int64(chunk.Start) >> w.spec.ChunkLog2
		c, err := w.s.store.Chunk(ctx, v, number)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		covered, err := w.s.planner.Covers(ctx, w.spec, c, v.Head.Start)
		if err != nil {
			return err
		}
		if covered {
			continue
		}
		if err := w.s.planner.Complete(ctx, w.spec, number); err != nil {
			return err
		}
	}
	return nil
}

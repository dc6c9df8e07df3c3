package catalog

import (
	"context"
	"errors"
	"time"

	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
)

// awayRetry is how often a held load asks the brokers again.
const awayRetry = 250 * time.Millisecond

// awayError marks what failed because no broker answered.
type awayError struct{ error }

// Unwrap keeps the kind.
func (e awayError) Unwrap() error { return e.error }

// away marks an error of Kafka's door that says nothing about the topic: the next try may succeed.
func away(err error) error {
	if errors.Is(err, fault.ErrUnavailable) {
		return awayError{err}
	}
	return err
}

// hold is seek that waits for a broker to answer where there is no cut to serve, for LoadWait at most: several clients
// give up at the first 503, and a broker that restarts is back sooner than that. What dedup answers is final: Advance
// has waited itself.
func (s *Service) hold(ctx context.Context, table string) (topic string, state *dedupv1.TableState, stale staleness, err error) {
	topic, state, stale, err = s.seek(ctx, table)
	if !isAway(err) {
		return topic, state, stale, err
	}
	select {
	case s.held <- struct{}{}:
		defer func() { <-s.held }()
	default:
		return topic, state, stale, err // as many wait as may
	}
	patience := time.NewTimer(s.cfg.Freshness.LoadWait)
	defer patience.Stop()
	again := time.NewTicker(awayRetry)
	defer again.Stop()
	for isAway(err) {
		select {
		case <-again.C:
		case <-patience.C:
			return topic, state, stale, err
		case <-s.ended:
			return topic, state, stale, err
		case <-ctx.Done():
			return topic, state, stale, context.Cause(ctx)
		}
		topic, state, stale, err = s.seek(ctx, table)
	}
	return topic, state, stale, err
}

func isAway(err error) bool {
	var e awayError
	return errors.As(err, &e)
}

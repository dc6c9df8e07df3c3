package advance

import (
	"context"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
)

// Ahead reads the next range of a walk while the present one is planned and published. Used by one goroutine, which
// calls Close. A nil Ahead reads nothing ahead.
type Ahead struct {
	// slots bounds, over all walks, how many ranges are read; without a free one nothing is read ahead.
	slots  chan struct{}
	rng    kafkapos.Range
	done   chan struct{} // closed when res and err are set; nil: nothing is being read
	cancel context.CancelFunc
	res    *scan.Result
	err    error
}

// NewAhead makes an Ahead whose reads take one of slots each, as long as they last.
func NewAhead(slots chan struct{}) *Ahead { return &Ahead{slots: slots} }

// read starts to read rng.
func (a *Ahead) read(ctx context.Context, rng kafkapos.Range, work func(context.Context) (*scan.Result, error)) {
	if a == nil {
		return
	}
	select {
	case a.slots <- struct{}{}:
	default:
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	a.rng, a.done, a.cancel = rng, make(chan struct{}), cancel
	go func() {
		defer close(a.done)
		defer func() { <-a.slots }()
		a.res, a.err = work(ctx)
	}()
}

// reading answers the range that was last read ahead and not taken.
func (a *Ahead) reading() (rng kafkapos.Range, ok bool) {
	if a == nil || a.done == nil {
		return kafkapos.Range{}, false
	}
	return a.rng, true
}

// take answers what was read ahead of rng, or reads it now.
func (a *Ahead) take(rng kafkapos.Range, work func() (*scan.Result, error)) (*scan.Result, error) {
	if a == nil || a.done == nil {
		return work()
	}
	if a.rng != rng {
		a.Close()
		return work()
	}
	<-a.done
	a.cancel()
	res, err := a.res, a.err
	a.done, a.res, a.err = nil, nil, nil
	return res, err
}

// Close ends what is being read and waits for it.
func (a *Ahead) Close() {
	if a == nil || a.done == nil {
		return
	}
	a.cancel()
	<-a.done
	a.done, a.res, a.err = nil, nil, nil
}

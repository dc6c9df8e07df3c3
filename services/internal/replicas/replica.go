package replicas

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/frazil-io/frazil/libs/fault"
)

// state of a replica, the best first.
type state int

const (
	up      state = iota
	leaving       // it answers, and says that it takes no new calls
	down          // it does not answer
)

// Why a call to a replica is ended before its time.
var (
	// errDown: it stopped answering.
	errDown = errors.New("the replica does not answer")
	// errBack: it answers again. What was asked while it did not may have got lost.
	errBack = errors.New("the replica was away")
)

// replica is one process of the service.
type replica struct {
	address string
	conn    Conn
	stop    context.CancelFunc // of its probes

	mu    sync.Mutex
	state state
	// as ends when the replica goes down or comes back, and the calls to it with it: they are made anew.
	as  context.Context //nolint:containedctx // its life is the replica's, not a call's
	end context.CancelCauseFunc
}

func newReplica(address string, conn Conn) *replica {
	r := &replica{address: address, conn: conn}
	r.as, r.end = context.WithCancelCause(context.Background())
	return r
}

func (r *replica) current() state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// become changes the state and answers what it was.
func (r *replica) become(now state) (was state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, r.state = r.state, now
	if (was == down) == (now == down) {
		return was
	}
	cause := errBack
	if now == down {
		cause = errDown
	}
	r.end(cause)
	r.as, r.end = context.WithCancelCause(context.Background())
	return was
}

// bind answers a context for a call to this replica: it ends with ctx, and when the replica goes down or comes back.
func (r *replica) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	call, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	as := r.as
	r.mu.Unlock()
	unbind := context.AfterFunc(as, func() { cancel(context.Cause(as)) })
	context.AfterFunc(call, func() { unbind() })
	return call, func() { cancel(context.Canceled) }
}

// probe asks a replica again and again whether it serves, until ctx ends.
func (s *Set) probe(ctx context.Context, r *replica) {
	client := grpc_health_v1.NewHealthClient(r.conn)
	tick := time.NewTicker(s.cfg.ProbeEvery)
	defer tick.Stop()
	for {
		if now, ok := s.ask(ctx, client); ok {
			s.note(r, now)
		}
		select {
		case <-ctx.Done():
			r.become(down)
			return
		case <-tick.C:
		}
	}
}

// ask probes once. ok is false when the answer says nothing: this process itself was stopped meanwhile.
func (s *Set) ask(ctx context.Context, client grpc_health_v1.HealthClient) (now state, ok bool) {
	began := time.Now()
	asking, cancel := context.WithTimeout(ctx, s.cfg.ProbeTimeout)
	defer cancel()
	resp, err := client.Check(asking, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	switch {
	case ctx.Err() != nil, err != nil && time.Since(began) > 2*s.cfg.ProbeTimeout:
		return 0, false
	case err != nil && (asking.Err() != nil || errors.Is(err, fault.ErrUnavailable)):
		return down, true
	case err == nil && resp.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING:
		return leaving, true
	}
	return up, true // also when it knows no health: it answered
}

func (s *Set) note(r *replica, now state) {
	switch was := r.become(now); {
	case was != down && now == down:
		s.deps.Log.Warn("replica does not answer", "service", s.cfg.Service, "address", r.address)
	case was == down && now != down:
		s.deps.Log.Info("replica answers again", "service", s.cfg.Service, "address", r.address)
	}
}

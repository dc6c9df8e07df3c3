package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/frazil-io/frazil/libs/fault"
)

// round is what lies between two looks through all replicas when none has answered.
const round = 100 * time.Millisecond

// search goes through the replicas for one call, until one answers.
type search struct {
	set   *Set
	place string
	left  []*replica // of this round
	until time.Time
	err   error // of the last one
}

func (s *Set) search(place string) *search {
	return &search{set: s, place: place, left: s.order(place), until: time.Now().Add(s.cfg.Patience)}
}

// next answers the next replica. When all were tried it begins again, for as long as the set is patient. The error is
// the last one's.
func (f *search) next(ctx context.Context) (*replica, error) {
	for len(f.left) == 0 {
		wait := time.NewTimer(round)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, context.Cause(ctx)
		case <-wait.C:
		}
		if time.Now().After(f.until) {
			if f.err == nil {
				f.err = fmt.Errorf("no %s is there: %w", f.set.cfg.Service, fault.ErrUnavailable)
			}
			return nil, f.err
		}
		f.left = f.set.order(f.place)
	}
	r := f.left[0]
	f.left = f.left[1:]
	return r, nil
}

// unanswered reports whether a call has failed without an answer of the service, so that another replica may have one.
func (f *search) unanswered(ctx, call context.Context, err error, trailer metadata.MD) bool {
	if ctx.Err() != nil || len(trailer.Get(answered)) > 0 {
		return false
	}
	if errors.Is(context.Cause(call), errBack) {
		f.until = time.Now().Add(f.set.cfg.Patience)
	}
	f.err = f.set.cut(call, err)
	return errors.Is(f.err, fault.ErrUnavailable)
}

// cut answers the error of a call, which is not the caller's end if it was this package that ended it.
func (s *Set) cut(call context.Context, err error) error {
	if cause := context.Cause(call); errors.Is(cause, errDown) || errors.Is(cause, errBack) {
		return fmt.Errorf("%s: %w: %w", s.cfg.Service, cause, fault.ErrUnavailable)
	}
	return err
}

// Invoke implements grpc.ClientConnInterface.
func (s *Set) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	f := s.search(s.deps.Place(args))
	for {
		r, err := f.next(ctx)
		if err != nil {
			return err
		}
		call, release := r.bind(ctx)
		var trailer metadata.MD
		err = r.conn.Invoke(call, method, args, reply, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
		more := err != nil && f.unanswered(ctx, call, err, trailer)
		release()
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case !more:
			return err
		}
	}
}

// NewStream implements grpc.ClientConnInterface for streams of the server: the client sends one message. Until the
// first message has come the call may move to another replica.
func (s *Set) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if desc.ClientStreams {
		return nil, fmt.Errorf("stream %s: %w", method, fault.ErrUnsupported)
	}
	return &stream{set: s, ctx: ctx, desc: desc, method: method, opts: opts}, nil
}

// stream is a call that has been opened on one replica after another. Like every client stream it is used by one
// goroutine.
type stream struct {
	set    *Set
	ctx    context.Context //nolint:containedctx // lives as long as the call
	desc   *grpc.StreamDesc
	method string
	opts   []grpc.CallOption

	req    any
	search *search
	begun  bool // a message has come

	cur     grpc.ClientStream
	call    context.Context //nolint:containedctx // of cur
	release context.CancelFunc
}

// SendMsg sends the one message. It opens the stream.
func (s *stream) SendMsg(m any) error {
	if s.req != nil {
		return fmt.Errorf("stream %s: a second message: %w", s.method, fault.ErrUnsupported)
	}
	s.req, s.search = m, s.set.search(s.set.deps.Place(m))
	return s.open()
}

// open starts the call on the next replica that takes it.
func (s *stream) open() error {
	for {
		r, err := s.search.next(s.ctx)
		if err != nil {
			return err
		}
		s.call, s.release = r.bind(s.ctx)
		s.cur, err = r.conn.NewStream(s.call, s.desc, s.method, s.opts...)
		if err == nil {
			// An end of the stream while sending shows what it was when receiving.
			if err = s.cur.SendMsg(s.req); err == nil || errors.Is(err, io.EOF) {
				err = s.cur.CloseSend()
			}
		}
		if err == nil {
			return nil
		}
		unanswered := s.search.unanswered(s.ctx, s.call, err, nil)
		s.release()
		if !unanswered {
			return err
		}
	}
}

// moved opens the stream elsewhere if it failed before its first message without an answer.
func (s *stream) moved(err error) bool {
	if s.begun || err == nil || errors.Is(err, io.EOF) || !s.search.unanswered(s.ctx, s.call, err, s.cur.Trailer()) {
		return false
	}
	s.release()
	return s.open() == nil
}

// RecvMsg implements grpc.ClientStream.
func (s *stream) RecvMsg(m any) error {
	for {
		err := s.cur.RecvMsg(m)
		if err == nil {
			s.begun = true
			return nil
		}
		if !s.moved(err) {
			if err = s.set.cut(s.call, err); s.ctx.Err() != nil && !errors.Is(err, io.EOF) {
				err = context.Cause(s.ctx)
			}
			s.release()
			return err
		}
	}
}

// Header implements grpc.ClientStream.
func (s *stream) Header() (metadata.MD, error) {
	for {
		md, err := s.cur.Header()
		if err == nil || !s.moved(err) {
			return md, err
		}
	}
}

// Trailer implements grpc.ClientStream.
func (s *stream) Trailer() metadata.MD { return s.cur.Trailer() }

// CloseSend implements grpc.ClientStream: SendMsg has done it.
func (*stream) CloseSend() error { return nil }

// Context implements grpc.ClientStream.
func (s *stream) Context() context.Context { return s.ctx }

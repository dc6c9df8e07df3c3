package object

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
)

// Reader is an open range. Not safe for concurrent use.
type Reader struct {
	data   []byte // a range that is whole in memory; stream is nil then
	stream grpc.ClientStream
	frame  rpc.Frame
	cancel context.CancelFunc
	left   int64 // bytes not yet written, the frame's included
	// open opens the last n bytes of the range.
	open func(n int64) (grpc.ClientStream, context.CancelFunc, error)
	// resumed counts how often the stream was opened again since its last piece.
	resumed int
}

// maxResumed bounds how often a stream is opened again without a piece in between.
const maxResumed = 3

// SinkError is a failure of the writer that Copy writes to, not of the object.
type SinkError struct{ Err error }

// Error is the writer's text.
func (e *SinkError) Error() string { return "write object: " + e.Err.Error() }

// Unwrap is the writer's error.
func (e *SinkError) Unwrap() error { return e.Err }

// Copy writes the whole range to w, calling flush after each piece. It never writes a byte more or less than the
// range has without answering an error: *SinkError when w failed, else what went wrong at the source.
func (r *Reader) Copy(w io.Writer, flush func() error) (written int64, err error) {
	if r.stream == nil {
		n, err := w.Write(r.data)
		if err != nil {
			return int64(n), &SinkError{err}
		}
		return int64(n), nil
	}
	for {
		n, err := r.frame.WriteTo(w)
		written += n
		r.left -= n
		if err == nil {
			err = flush()
		}
		if err != nil {
			return written, &SinkError{err}
		}
		if r.left == 0 {
			return written, nil
		}
		if err := r.next(); err != nil {
			return written, err
		}
	}
}

// next receives a piece.
func (r *Reader) next() error {
	err := r.receive()
	for errors.Is(err, fault.ErrUnavailable) && r.resumed < maxResumed {
		// A replica that served it has gone. A path has the same bytes wherever they come from.
		r.resumed++
		stream, cancel, openErr := r.open(r.left)
		if openErr != nil {
			return rpc.Error(openErr)
		}
		r.cancel()
		r.stream, r.cancel = stream, cancel
		err = r.receive()
	}
	if err != nil {
		return err
	}
	if r.frame.Len() > 0 {
		r.resumed = 0
	}
	if n := int64(r.frame.Len()); n > r.left {
		return fmt.Errorf("read object: stream is %d bytes too long: %w", n-r.left, fault.ErrCorrupt)
	}
	return nil
}

// receive reads the next piece into the frame.
func (r *Reader) receive() error {
	err := r.stream.RecvMsg(&r.frame)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("read object: stream ended %d bytes early: %w", r.left, fault.ErrUnavailable)
	}
	return rpc.Error(err)
}

// Close ends the stream.
func (r *Reader) Close() {
	r.frame.Free()
	if r.cancel != nil {
		r.cancel()
	}
}

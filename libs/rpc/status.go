package rpc

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/frazil-io/frazil/libs/fault"
)

// kindOf is the table between kinds and codes, in the order in which Status tests them. A wrapped chain may hold
// two kinds (a conflict that became unavailable): the outermost meaning is the first that matches, so the kinds
// that stop a reader come before those that let it try again.
func kindOf() []kindCode {
	return []kindCode{
		{fault.ErrCorrupt, codes.DataLoss},
		{fault.ErrRetired, codes.FailedPrecondition},
		{fault.ErrNotFound, codes.NotFound},
		{fault.ErrInvalid, codes.InvalidArgument},
		{fault.ErrUnauthenticated, codes.Unauthenticated},
		{fault.ErrDenied, codes.PermissionDenied},
		{fault.ErrUnsupported, codes.Unimplemented},
		{fault.ErrUnavailable, codes.Unavailable},
		{fault.ErrConflict, codes.Aborted},
	}
}

type kindCode struct {
	kind error
	code codes.Code
}

// Code answers the gRPC code of an error: its kind's code, Canceled or DeadlineExceeded for a context's end, the
// code of a status error, Internal for everything else. OK for nil.
func Code(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	for _, k := range kindOf() {
		if errors.Is(err, k.kind) {
			return k.code
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Internal
}

// Status turns a handler's error into what travels: a status with the kind's code and the error's whole text.
// A status error without a kind stays as it is. nil stays nil.
func Status(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return err
	}
	return status.Error(Code(err), err.Error())
}

// Error turns what a client received back into an error of the kind that the server meant: errors.Is works
// across the wire. A deadline is both context.DeadlineExceeded and fault.ErrUnavailable; a cancellation is
// context.Canceled alone; every code without a kind counts as fault.ErrUnavailable. nil and io.EOF stay as they
// are, and so does an error that is no status.
func Error(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	var already *remoteError
	if errors.As(err, &already) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	return &remoteError{code: s.Code(), text: safeText(s), is: kindsOfCode(s.Code())}
}

// safeText is what may reach a client. What grpc itself says of a connection that it cannot make or has lost names
// hosts and ports.
func safeText(s *status.Status) string {
	if s.Code() != codes.Unavailable {
		return s.Message()
	}
	for _, own := range []string{"connection error: ", "error reading from server: ", "name resolver error: ", "last resolver error: ",
		"last connection error: ", "transport: ", "closing transport due to: ", "the connection is "} {
		if strings.HasPrefix(s.Message(), own) {
			return "another service of the gateway cannot be reached"
		}
	}
	return s.Message()
}

// errorFor is Error for a call that belongs to ctx. A server that was cancelled or ran out of time by itself,
// while the caller still waits, is unavailable: nobody may take it for the caller's own end.
func errorFor(ctx context.Context, err error) error {
	out := Error(err)
	var remote *remoteError
	if !errors.As(out, &remote) || ctx.Err() != nil {
		return out
	}
	if remote.code == codes.Canceled || remote.code == codes.DeadlineExceeded {
		remote.is = []error{fault.ErrUnavailable}
	}
	return out
}

func kindsOfCode(code codes.Code) []error {
	for _, k := range kindOf() {
		if k.code == code {
			return []error{k.kind}
		}
	}
	if code == codes.Canceled {
		return []error{context.Canceled}
	}
	if code == codes.DeadlineExceeded {
		return []error{context.DeadlineExceeded, fault.ErrUnavailable}
	}
	return []error{fault.ErrUnavailable}
}

// remoteError is an error that came over the wire.
type remoteError struct {
	code codes.Code
	text string
	is   []error
}

// Error returns the server's text.
func (e *remoteError) Error() string { return e.text }

// Unwrap lets errors.Is find the kinds.
func (e *remoteError) Unwrap() []error { return e.is }

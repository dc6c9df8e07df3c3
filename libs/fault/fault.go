// Package fault names the kinds of failure that a caller may act on. Errors are wrapped with %w around one of
// the kinds and tested with errors.Is; the text may reach clients, so it holds no host, key or row value.
package fault

import "errors"

// The kinds. Every error that crosses a service boundary is one of them, or counts as Unavailable.
var (
	// ErrNotFound: the thing does not exist and never did. Stop.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request or the configuration is wrong. Stop; the text says what to change.
	ErrInvalid = errors.New("invalid")
	// ErrUnauthenticated: no credentials, or credentials that do not verify. Stop.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrDenied: good credentials without the right. Stop.
	ErrDenied = errors.New("denied")
	// ErrRetired: what the snapshot or path needs is no longer held. Plan again from a new snapshot.
	ErrRetired = errors.New("retired")
	// ErrConflict: a compare-and-set was lost. Rebase; never reaches a reader.
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: try again later; nothing was decided about data.
	ErrUnavailable = errors.New("unavailable")
	// ErrUnsupported: the operation does not exist here. Stop.
	ErrUnsupported = errors.New("unsupported")
	// ErrCorrupt: stored or received bytes do not verify. Never served.
	ErrCorrupt = errors.New("corrupt")
)

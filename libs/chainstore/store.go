// Package chainstore is the door to the state of the dedup service: small versioned values under
// compare-and-set, and immutable values under content names.
package chainstore

import "context"

// Version counts the changes of a value; 0 = the value does not exist.
type Version uint64

// Store keeps state. Safe for concurrent use. A value that was acknowledged survives a crash of the process
// and of the machine. Errors: fault.ErrNotFound, fault.ErrConflict, fault.ErrCorrupt, fault.ErrUnavailable.
type Store interface {
	// Get answers a versioned value. fault.ErrNotFound: version 0.
	Get(ctx context.Context, key string) ([]byte, Version, error)
	// CompareAndSet stores value if the key's version is still old, and answers the new version (old+1).
	// fault.ErrConflict: it was not; nothing was changed.
	CompareAndSet(ctx context.Context, key string, old Version, value []byte) (Version, error)
	// List answers the keys of versioned values that begin with prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	// PutBlob stores an immutable value. Storing the same bytes again is no error; other bytes under the
	// same name are fault.ErrConflict.
	PutBlob(ctx context.Context, name string, value []byte) error
	// GetBlob answers an immutable value. The caller may not change it.
	GetBlob(ctx context.Context, name string) ([]byte, error)
	// DeleteBlob removes an immutable value; removing what is not there is no error.
	DeleteBlob(ctx context.Context, name string) error
	// ListBlobs answers the names of immutable values that begin with prefix, sorted.
	ListBlobs(ctx context.Context, prefix string) ([]string, error)
}

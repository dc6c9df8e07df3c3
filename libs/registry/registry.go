// Package registry is the door to a Confluent-compatible schema registry.
package registry

import "context"

// Schema is one registered schema, its references resolved.
type Schema struct {
	ID         int32
	Type       string // "AVRO", "JSON", "PROTOBUF"
	Text       string
	References []Reference
}

// Reference is a schema that another one names.
type Reference struct {
	Name, Subject string
	Version       int
	Text          string
}

// Registry answers schemas. Safe for concurrent use; ids are cached for ever, since they never change.
// Errors: fault.ErrNotFound only when the registry said so (404); fault.ErrUnavailable for everything that may
// pass; fault.ErrDenied.
type Registry interface {
	// ByID answers the schema of an id that was found in a record.
	ByID(ctx context.Context, id int32) (Schema, error)
	// Versions answers all versions of a subject, oldest first.
	Versions(ctx context.Context, subject string) ([]Schema, error)
}

package decode

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/schema"
)

// Sample is one record that Discover looks at. A nil Key or Value is Kafka's null.
type Sample struct {
	Partition  kafkapos.Partition
	Offset     kafkapos.Offset
	Key, Value []byte
}

// Discovery is how a topic is read and which columns it has.
type Discovery struct {
	Decoding Decoding
	// Writers are the schemas that records were written with, oldest first: the value's columns and the key columns
	// that the value lacks. Field ids are positions and mean nothing. schema.Extend folds them into a table schema.
	Writers []*schema.Schema
}

// MaxSamples is how many of a topic's newest records Discover needs at most.
const MaxSamples = 1000

// Discover finds how a topic is encoded. samples are its newest records, by ascending offset within a partition.
// reg may be nil when there is no registry.
//
// Errors: fault.ErrInvalid when the topic cannot be served as a table; the text gives the reason, the partition and
// offset that show it, and the configuration key that helps where one does. fault.ErrUnavailable and fault.ErrDenied
// come from the registry and decide nothing. fault.ErrNotFound: there is no record to look at.
func Discover(ctx context.Context, topic string, samples []Sample, reg registry.Registry) (Discovery, error) {
	return Discovery{}, fmt.Errorf("discover %s: %w", topic, fault.ErrUnsupported)
}

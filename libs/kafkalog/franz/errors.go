package franz

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/libs/fault"
)

// errTimeout is the cause of a context that one of our own timeouts ended.
var errTimeout = fmt.Errorf("no answer from the broker in time: %w", fault.ErrUnavailable)

// transport sorts an error of a request that got no answer. ctx is the request's own context. The text of the library
// holds addresses, so it is not passed on.
func transport(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		return answered(code)
	}
	if errors.Is(err, kgo.ErrClientClosed) {
		return fmt.Errorf("kafka client is closed: %w", fault.ErrUnavailable)
	}
	return fmt.Errorf("no broker answers: %w", fault.ErrUnavailable)
}

// answered sorts an error code of a broker.
func answered(code error) error {
	isOne := func(codes ...error) bool {
		return slices.ContainsFunc(codes, func(c error) bool { return errors.Is(code, c) })
	}
	kind := fault.ErrUnavailable
	switch {
	case isOne(kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException):
		kind = fault.ErrNotFound
	case isOne(kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed):
		kind = fault.ErrDenied
	case isOne(kerr.OffsetOutOfRange):
		kind = fault.ErrRetired
	case isOne(kerr.CorruptMessage):
		kind = fault.ErrCorrupt
	case isOne(kerr.UnsupportedVersion, kerr.UnsupportedSaslMechanism, kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat):
		kind = fault.ErrUnsupported
	}
	return fmt.Errorf("broker says %w: %w", code, kind)
}

package franz

import (
	"context"
	"errors"
	"fmt"

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
func answered(err error) error {
	switch err {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException:
		return fmt.Errorf("broker says %w: %w", err, fault.ErrNotFound)
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed:
		return fmt.Errorf("broker says %w: %w", err, fault.ErrDenied)
	case kerr.OffsetOutOfRange:
		return fmt.Errorf("broker says %w: %w", err, fault.ErrRetired)
	case kerr.CorruptMessage:
		return fmt.Errorf("broker says %w: %w", err, fault.ErrCorrupt)
	case kerr.UnsupportedVersion, kerr.UnsupportedSaslMechanism, kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat:
		return fmt.Errorf("broker says %w: %w", err, fault.ErrUnsupported)
	}
	return fmt.Errorf("broker says %w: %w", err, fault.ErrUnavailable)
}

// kindOf is the kind that err wraps, nil if none.
func kindOf(err error) error {
	for _, kind := range []error{fault.ErrNotFound, fault.ErrDenied, fault.ErrRetired, fault.ErrCorrupt, fault.ErrUnsupported, fault.ErrUnavailable} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

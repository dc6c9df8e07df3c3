package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/frazil-io/frazil/libs/fault"
)

// kind gives an error of the client its kind. Everything but a missing and a strange value may be gone at the next
// try. The text may reach clients: it holds no address.
func kind(ctx context.Context, err error) error {
	var netErr *net.OpError
	switch text := err.Error(); {
	case errors.Is(err, redis.Nil):
		return fault.ErrNotFound
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case strings.HasPrefix(text, "WRONGTYPE"):
		return fmt.Errorf("a key of ours holds something else: %w", fault.ErrCorrupt)
	case strings.HasPrefix(text, "OOM"):
		return fmt.Errorf("redis is full: raise its maxmemory or give it a machine with more memory; nothing may be evicted: %w", fault.ErrUnavailable)
	case isServer(err):
		return fmt.Errorf("redis refuses: %s%s: %w", text, advice(text), fault.ErrUnavailable)
	case errors.As(err, &netErr):
		return fmt.Errorf("redis does not answer: %s: %w", reason(netErr), fault.ErrUnavailable)
	case errors.Is(err, redis.ErrPoolTimeout):
		return fmt.Errorf("redis: all connections are busy: %w", fault.ErrUnavailable)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("redis does not answer in time: %w", fault.ErrUnavailable) // not the caller's own end
	default:
		return fmt.Errorf("redis does not answer: %s: %w", text, fault.ErrUnavailable)
	}
}

// isServer reports whether the server itself answered with an error.
func isServer(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// advice says what to do about a refusal.
func advice(text string) string {
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "NOAUTH", "WRONGPASS":
		return " (set state.redis.username and state.redis.password)"
	case "NOPERM":
		return " (allow the user the commands that docs/OPERATING.md lists)"
	case "MISCONF":
		return " (its disk is full or broken)"
	case "READONLY":
		return " (this is a replica: name the master, or use Sentinel)"
	case "MOVED", "ASK", "CROSSSLOT":
		return " (this is a Cluster: set state.redis.cluster)"
	}
	return ""
}

// reason is the text of a network error without its addresses.
func reason(err *net.OpError) string {
	var dns *net.DNSError
	switch {
	case err.Timeout():
		return err.Op + " timed out"
	case errors.As(err, &dns):
		return "the name is unknown"
	}
	inner := error(err.Err)
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return err.Op + ": " + inner.Error()
}

// unanswered reports whether a call failed for a reason that another connection may not have.
func unanswered(err error) bool {
	if errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if !isServer(err) {
		return true
	}
	for _, code := range []string{"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "UNBLOCKED"} {
		if strings.HasPrefix(err.Error(), code) {
			return true
		}
	}
	return false
}

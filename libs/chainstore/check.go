package chainstore

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
)

// MaxKey is the longest key or blob name, bytes.
const MaxKey = 512

// Check is what every Store does first with a call: it answers the cause when ctx has ended, and
// fault.ErrInvalid for a key that is empty, longer than MaxKey or not made of printable ASCII.
func Check(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("key of %d bytes: %w", len(key), fault.ErrInvalid)
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("key with byte %#x: %w", key[i], fault.ErrInvalid)
		}
	}
	return nil
}

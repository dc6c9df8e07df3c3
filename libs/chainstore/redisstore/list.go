package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// listBatch is how many groups are asked for in one go.
const listBatch = 256

// list answers the keys of a space that begin with prefix, from the indexes: nothing looks through the key space.
func (s *Store) list(ctx context.Context, space, prefix string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := s.fit(ctx); err != nil {
		return nil, err
	}
	names, err := repeat(ctx, func() ([]string, error) { return s.lookUp(ctx, space, prefix) })
	s.metrics.call(ctx, "list", err)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, kind(ctx, err))
	}
	slices.Sort(names)
	return names, nil
}

func (s *Store) lookUp(ctx context.Context, space, prefix string) ([]string, error) {
	within, groups := candidates(prefix)
	if groups {
		found, err := s.client.ZRangeByLex(ctx, s.keys.directory(space), from(prefix)).Result()
		if err != nil {
			return nil, err
		}
		for _, g := range found {
			within = append(within, place{group: g})
		}
	}
	names := make([]string, 0, len(within))
	for batch := range slices.Chunk(within, listBatch) {
		cmds := make([]*redis.StringSliceCmd, len(batch))
		_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, p := range batch {
				cmds[i] = pipe.ZRangeByLex(ctx, s.keys.index(p, space), from(p.field))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i, p := range batch {
			for _, field := range cmds[i].Val() {
				names = append(names, p.group+field)
			}
		}
	}
	return names, nil
}

// from is the range of everything that begins with prefix. Names are ASCII: 0xff is above every continuation.
func from(prefix string) *redis.ZRangeBy {
	if prefix == "" {
		return &redis.ZRangeBy{Min: "-", Max: "+"}
	}
	return &redis.ZRangeBy{Min: "[" + prefix, Max: "(" + prefix + "\xff"}
}

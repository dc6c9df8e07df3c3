package catalog

import (
	"strings"

	"github.com/frazil-io/frazil/libs/lru"
)

// cache keeps the most recently used values up to a number of bytes. Keys begin with the state epoch of their
// table. Safe for concurrent use; values must not be changed.
type cache struct {
	limit int64
	items *lru.Cache[string, any]
}

// cacheOverhead is what an entry costs beside its value and key, bytes.
const cacheOverhead = 200

func newCache(limit int64) *cache {
	return &cache{limit: limit, items: lru.New[string, any](limit)}
}

// get answers the value of a key and marks it as used; nil if it is not there.
func (c *cache) get(key string) any {
	v, _ := c.items.Get(key)
	return v
}

// put stores a value of size bytes. What is larger than a quarter of the cache is not kept: one object must not
// push out everything else.
func (c *cache) put(key string, value any, size int64) {
	if size += int64(len(key)) + cacheOverhead; size <= c.limit/4 {
		c.items.Add(key, value, size)
	}
}

// drop removes all keys that begin with prefix.
func (c *cache) drop(prefix string) {
	c.items.RemoveFunc(func(key string) bool { return strings.HasPrefix(key, prefix) })
}

package catalog

import (
	"strings"
	"sync"
)

// cache keeps the most recently used values up to a number of bytes. It is a hint: everything in it can be made
// again. Keys begin with the state epoch of their table. Safe for concurrent use; values must not be changed.
type cache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	items map[string]*cached
	// ring holds all items from the most recently used, ring.next, to the least, ring.prev.
	ring cached
}

type cached struct {
	key        string
	value      any
	size       int64
	prev, next *cached
}

// cacheOverhead is what an entry costs beside its value and key, bytes.
const cacheOverhead = 200

func newCache(limit int64) *cache {
	c := &cache{limit: limit, items: map[string]*cached{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// get answers the value of a key and marks it as used; nil if it is not there.
func (c *cache) get(key string) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	item, ok := c.items[key]
	if !ok {
		return nil
	}
	c.unlink(item)
	c.link(item)
	return item.value
}

// put stores a value of size bytes. What is larger than a quarter of the cache is not kept: one object must not
// push out everything else.
func (c *cache) put(key string, value any, size int64) {
	size += int64(len(key)) + cacheOverhead
	if size > c.limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.items[key]; ok {
		c.remove(old)
	}
	item := &cached{key: key, value: value, size: size}
	c.items[key] = item
	c.link(item)
	c.used += size
	for c.used > c.limit {
		c.remove(c.ring.prev)
	}
}

func (c *cache) link(item *cached) {
	item.prev, item.next = &c.ring, c.ring.next
	item.prev.next, item.next.prev = item, item
}

func (*cache) unlink(item *cached) {
	item.prev.next, item.next.prev = item.next, item.prev
}

func (c *cache) remove(item *cached) {
	c.unlink(item)
	delete(c.items, item.key)
	c.used -= item.size
}

// drop removes all keys that begin with prefix.
func (c *cache) drop(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, item := range c.items {
		if strings.HasPrefix(key, prefix) {
			c.remove(item)
		}
	}
}

package catalog

import (
	"container/list"
	"strings"
	"sync"
)

// cache keeps the most recently used values up to a number of bytes. It is a hint: everything in it can be made
// again. Keys begin with the state epoch of their table. Safe for concurrent use; values must not be changed.
type cache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	order *list.List // of *cached, most recently used first
	items map[string]*list.Element
}

type cached struct {
	key   string
	value any
	size  int64
}

// cacheOverhead is what an entry costs beside its value and key, bytes.
const cacheOverhead = 200

func newCache(limit int64) *cache {
	return &cache{limit: limit, order: list.New(), items: map[string]*list.Element{}}
}

// get answers the value of a key and marks it as used; nil if it is not there.
func (c *cache) get(key string) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).value
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
	if e, ok := c.items[key]; ok {
		c.remove(e)
	}
	c.items[key] = c.order.PushFront(&cached{key, value, size})
	c.used += size
	for c.used > c.limit {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(e *list.Element) {
	item := e.Value.(*cached)
	c.order.Remove(e)
	delete(c.items, item.key)
	c.used -= item.size
}

// drop removes all keys that begin with prefix.
func (c *cache) drop(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.items {
		if strings.HasPrefix(key, prefix) {
			c.remove(e)
		}
	}
}

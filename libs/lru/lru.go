// Package lru is a bounded cache of immutable things. It is a hint: nothing is correct because of it.
package lru

import "sync"

// Cache keeps the most recently used values up to a total cost. Safe for concurrent use.
type Cache[K comparable, V any] struct {
	mu    sync.Mutex
	limit int64
	used  int64
	items map[K]*item[K, V]
	// newest and oldest are the ends of the list by last use.
	newest, oldest *item[K, V]
}

type item[K comparable, V any] struct {
	key          K
	value        V
	cost         int64
	newer, older *item[K, V]
}

// New makes a cache for values of a total cost of limit. With a cost of 1 each, limit is how many are kept.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, items: map[K]*item[K, V]{}}
}

// Get answers the value of key and counts as a use.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, ok := c.items[key]
	if !ok {
		var none V
		return none, false
	}
	c.unlink(it)
	c.link(it)
	return it.value, true
}

// Add keeps value, which costs cost, in place of the key's value before, and drops what was not used for longest.
// A value above the limit is not kept.
func (c *Cache[K, V]) Add(key K, value V, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if it, ok := c.items[key]; ok {
		c.drop(it)
	}
	if cost > c.limit {
		return
	}
	it := &item[K, V]{key: key, value: value, cost: cost}
	c.items[key] = it
	c.used += cost
	c.link(it)
	for c.used > c.limit {
		c.drop(c.oldest)
	}
}

// RemoveFunc drops every value whose key satisfies match.
func (c *Cache[K, V]) RemoveFunc(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, it := range c.items {
		if match(key) {
			c.drop(it)
		}
	}
}

// Size answers how many values are kept and what they cost together.
func (c *Cache[K, V]) Size() (values int, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items), c.used
}

func (c *Cache[K, V]) drop(it *item[K, V]) {
	c.unlink(it)
	delete(c.items, it.key)
	c.used -= it.cost
}

func (c *Cache[K, V]) link(it *item[K, V]) {
	it.older, it.newer = c.newest, nil
	if c.newest != nil {
		c.newest.newer = it
	} else {
		c.oldest = it
	}
	c.newest = it
}

func (c *Cache[K, V]) unlink(it *item[K, V]) {
	if it.newer != nil {
		it.newer.older = it.older
	} else {
		c.newest = it.older
	}
	if it.older != nil {
		it.older.newer = it.newer
	} else {
		c.oldest = it.newer
	}
}

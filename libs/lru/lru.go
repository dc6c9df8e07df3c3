// Package lru is a bounded cache of immutable things. It is a hint: nothing is correct because of it.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps the most recently used values up to a total cost. Safe for concurrent use.
type Cache[K comparable, V any] struct {
	mu    sync.Mutex
	limit int64
	used  int64
	order *list.List // of *item, most recent first
	items map[K]*list.Element
}

type item[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

// New makes a cache for values of a total cost of limit. With a cost of 1 each, limit is how many are kept.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, order: list.New(), items: map[K]*list.Element{}}
}

// Get answers the value of key and counts as a use.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		var none V
		return none, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*item[K, V]).value, true
}

// Add keeps value, which costs cost, in place of the key's value before, and drops what was not used for longest.
// A value above the limit is not kept.
func (c *Cache[K, V]) Add(key K, value V, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		c.drop(e)
	}
	if cost > c.limit {
		return
	}
	c.items[key] = c.order.PushFront(&item[K, V]{key, value, cost})
	c.used += cost
	for c.used > c.limit {
		c.drop(c.order.Back())
	}
}

// RemoveFunc drops every value whose key satisfies match.
func (c *Cache[K, V]) RemoveFunc(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.items {
		if match(key) {
			c.drop(e)
		}
	}
}

// Size answers how many values are kept and what they cost together.
func (c *Cache[K, V]) Size() (values int, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items), c.used
}

func (c *Cache[K, V]) drop(e *list.Element) {
	it := e.Value.(*item[K, V])
	c.order.Remove(e)
	delete(c.items, it.key)
	c.used -= it.cost
}

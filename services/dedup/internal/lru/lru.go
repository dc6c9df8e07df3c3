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

// New makes a cache for values of a total cost of limit.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, order: list.New(), items: map[K]*list.Element{}}
}

// Get answers the value of key.
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

// Add keeps value, which costs cost, and drops what was not used for longest. A value above the limit is not
// kept.
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

func (c *Cache[K, V]) drop(e *list.Element) {
	it := e.Value.(*item[K, V])
	c.order.Remove(e)
	delete(c.items, it.key)
	c.used -= it.cost
}

package queue

import (
	"container/list"
	"iter"
	"maps"
)

// A Cache keeps values that principals share room for, bounded in number and size. A principal that
// is alone may have all of it. When there is too much, the oldest values of the principal with the
// most make room, so that nobody loses anything to one with more. It is not safe for concurrent
// use.
type Cache[K comparable, V any] struct {
	most int   // values
	size int64 // bytes of all of them

	used   int64
	clock  int64
	by     map[K]*list.Element // of *cached
	owners map[string]*share
}

// A share is what a Cache keeps for one principal.
type share struct {
	values list.List // of *cached, the oldest first
	size   int64
}

type cached[K comparable, V any] struct {
	key   K
	owner string
	value V
	size  int64
	at    int64 // of Cache.clock
}

// NewCache makes a Cache of so many values that have so many bytes in all; 0 bytes: only their
// number is bounded.
func NewCache[K comparable, V any](most int, size int64) *Cache[K, V] {
	return &Cache[K, V]{most: most, size: size, by: map[K]*list.Element{}, owners: map[string]*share{}}
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return len(c.by) }

// Keys iterates over the keys.
func (c *Cache[K, V]) Keys() iter.Seq[K] { return maps.Keys(c.by) }

// Get returns the value of a key, without making it newer.
func (c *Cache[K, V]) Get(key K) (v V, ok bool) {
	if e := c.by[key]; e != nil {
		return e.Value.(*cached[K, V]).value, true
	}
	return v, false
}

// Use returns the value of a key, which becomes the newest.
func (c *Cache[K, V]) Use(key K) (v V, ok bool) {
	e := c.by[key]
	if e == nil {
		return v, false
	}
	one := e.Value.(*cached[K, V])
	c.clock++
	one.at = c.clock
	c.owners[one.owner].values.MoveToBack(e)
	return one.value, true
}

// Put keeps the value of a key for its owner, and returns the values that made room for it. Among
// these may be the value itself if it alone is too large.
func (c *Cache[K, V]) Put(owner string, key K, value V, size int64) (out []V) {
	c.Remove(key)
	s := c.owners[owner]
	if s == nil {
		s = &share{}
		c.owners[owner] = s
	}
	c.clock++
	newest := s.values.PushBack(&cached[K, V]{key, owner, value, size, c.clock})
	c.by[key] = newest
	c.used += size
	s.size += size
	if c.size > 0 && size > c.size {
		v, _ := c.Remove(key)
		return []V{v}
	}
	for len(c.by) > c.most {
		out = append(out, c.evict(newest, func(s *share) int64 { return int64(s.values.Len()) }))
	}
	for c.size > 0 && c.used > c.size {
		out = append(out, c.evict(newest, func(s *share) int64 { return s.size }))
	}
	return out
}

// evict removes the oldest value but newest, of the owner that has most of it.
func (c *Cache[K, V]) evict(newest *list.Element, has func(*share) int64) V {
	var victim *list.Element
	most := int64(-1)
	for _, s := range c.owners {
		oldest := s.values.Front()
		if n := has(s); n >= most && oldest != newest {
			if n == most && oldest.Value.(*cached[K, V]).at > victim.Value.(*cached[K, V]).at {
				continue
			}
			victim, most = oldest, n
		}
	}
	v, _ := c.Remove(victim.Value.(*cached[K, V]).key)
	return v
}

// Remove removes a key and returns its value.
func (c *Cache[K, V]) Remove(key K) (v V, ok bool) {
	e := c.by[key]
	if e == nil {
		return v, false
	}
	one := e.Value.(*cached[K, V])
	s := c.owners[one.owner]
	s.values.Remove(e)
	s.size -= one.size
	c.used -= one.size
	delete(c.by, key)
	if s.values.Len() == 0 {
		delete(c.owners, one.owner)
	}
	return one.value, true
}

// Oldest returns the oldest value of all, and its key.
func (c *Cache[K, V]) Oldest() (key K, value V, ok bool) {
	var oldest *cached[K, V]
	for _, s := range c.owners {
		if one := s.values.Front().Value.(*cached[K, V]); oldest == nil || one.at < oldest.at {
			oldest = one
		}
	}
	if oldest == nil {
		return key, value, false
	}
	return oldest.key, oldest.value, true
}

// Clear removes all values.
func (c *Cache[K, V]) Clear() {
	clear(c.by)
	clear(c.owners)
	c.used = 0
}

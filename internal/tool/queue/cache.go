package queue

import (
	"container/list"
	"iter"
	"maps"
)

// A Cache stores values in room shared by principals, limited in number and size. A single
// principal may use all of it. When the room is exceeded, the oldest values of the principal with
// the most are evicted. So no one loses values to a principal that has more. It is not safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	most int   // maximum number of values
	size int64 // maximum total size, in bytes

	used   int64
	clock  int64
	by     map[K]*list.Element // of *cached
	owners map[string]*share
}

// A share holds the values of one principal.
type share struct {
	values list.List // of *cached, oldest first
	size   int64
}

type cached[K comparable, V any] struct {
	key   K
	owner string
	value V
	size  int64
	at    int64 // value of Cache.clock at the last use
}

// NewCache returns a Cache for at most most values with a total size of at most size bytes. If size
// is 0, only the number is limited.
func NewCache[K comparable, V any](most int, size int64) *Cache[K, V] {
	return &Cache[K, V]{most: most, size: size, by: map[K]*list.Element{}, owners: map[string]*share{}}
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return len(c.by) }

// Keys iterates over the keys.
func (c *Cache[K, V]) Keys() iter.Seq[K] { return maps.Keys(c.by) }

// Get returns the value of a key, without marking it as used.
func (c *Cache[K, V]) Get(key K) (v V, ok bool) {
	if e := c.by[key]; e != nil {
		return e.Value.(*cached[K, V]).value, true
	}
	return v, false
}

// Use returns the value of a key and makes it the newest.
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

// Put stores the value of a key for its owner, and returns the evicted values. These include the
// value itself if it alone is too large.
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

// evict removes the oldest value, except newest, of the owner for which has is largest.
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

// EvictOwner evicts the oldest values of an owner until it has at most most of them.
func (c *Cache[K, V]) EvictOwner(owner string, most int) (out []V) {
	for s := c.owners[owner]; s != nil && s.values.Len() > most; {
		v, _ := c.Remove(s.values.Front().Value.(*cached[K, V]).key)
		out = append(out, v)
	}
	return out
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

// Oldest returns the oldest value and its key.
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

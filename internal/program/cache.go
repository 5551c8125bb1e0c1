package program

import (
	"container/list"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/catalog"
)

const (
	maxCached = 256      // programs
	maxKept   = 16 << 10 // bytes of a text that is kept; a larger one takes long to run, too
)

// A cache keeps the programs that were prepared last: agents send small ones again and again, and preparing one takes
// longer than running it.
type cache struct {
	mu    sync.Mutex
	view  *catalog.View         // the whole catalog that all were checked against
	byKey map[key]*list.Element // of *kept
	order list.List             // the latest first
}

type key struct {
	source, language string
	session          bool
	unchecked        bool
	declared         string
	view             *catalog.View // what is visible of the catalog
}

type kept struct {
	key     key
	program *Program
}

func keyOf(q Request, v *catalog.View) key {
	return key{q.Source, q.Language, q.Session, q.Unchecked, strings.Join(q.Declared, "\n"), v}
}

// get gives the program of a key, or nil.
func (c *cache) get(k key, v *catalog.View) *Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[k]
	if e == nil || c.view != v {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*kept).program
}

// put keeps a program, unless what it imports may be another the next time.
func (c *cache) put(k key, v *catalog.View, p *Program) {
	if len(k.source)+len(k.declared) > maxKept || p.fleeting {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil || c.view != v {
		c.view, c.byKey = v, map[key]*list.Element{}
		c.order.Init()
	}
	if c.byKey[k] != nil {
		return
	}
	c.byKey[k] = c.order.PushFront(&kept{k, p})
	if c.order.Len() > maxCached {
		last := c.order.Back()
		delete(c.byKey, last.Value.(*kept).key)
		c.order.Remove(last)
	}
}

package program

import (
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

const (
	maxCached = 256      // programs
	maxKept   = 16 << 10 // maximum bytes of a cached text; a larger program takes long to run, too
)

// A cache holds the programs prepared last. Agents send small programs repeatedly, and
// preparing one takes longer than running it.
type cache struct {
	mu    sync.Mutex
	view  tool.Directory // the whole catalog that all of them were checked against
	byKey *queue.Cache[key, *Program]
}

type key struct {
	source, language string
	session          bool
	unchecked        bool
	declared         string
	view             tool.Directory // the visible part of the catalog
}

func keyOf(q Request, v tool.Directory) key {
	return key{q.Source, q.Language, q.Session, q.Unchecked, strings.Join(q.Declared, "\n"), v}
}

// get returns the program of a key, or nil.
func (c *cache) get(k key, v tool.Directory) *Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil || c.view != v {
		return nil
	}
	p, _ := c.byKey.Use(k)
	return p
}

// putProgram caches p for the principal that sent it, unless its imports may change.
func (c *cache) putProgram(owner string, k key, v tool.Directory, p *Program) {
	if len(k.source)+len(k.declared) > maxKept || p.fleeting {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil || c.view != v {
		c.view, c.byKey = v, queue.NewCache[key, *Program](maxCached, 0)
	}
	if _, ok := c.byKey.Get(k); !ok {
		c.byKey.Put(owner, k, p, 0)
	}
}

package policy

import (
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// maxDecisions is the maximum number of decisions that an Engine caches.
const maxDecisions = 2048

// maxDecisionKey is the maximum size of a cache key in bytes. Larger requests are not cached.
const maxDecisionKey = 4096

// decisions caches decisions that depend neither on the arguments nor on the time. Most of the time
// for evaluating policies is spent on Cedar's entities. The principals share the room fairly.
type decisions struct {
	mu  sync.Mutex
	key []byte // buffer
	by  *queue.Cache[string, cachedDecision]
}

// A cachedDecision is a cached decision about a version of a tool.
type cachedDecision struct {
	tool     *tool.Tool
	decision Decision
}

// lookUp returns the decision on r, a call of t, from the cache, or else from evaluate.
func (c *decisions) lookUp(r Request, t *tool.Tool, evaluate func() Decision) Decision {
	c.mu.Lock()
	c.key = appendRequest(c.key[:0], &r)
	if len(c.key) > maxDecisionKey {
		c.key = nil
		c.mu.Unlock()
		return evaluate()
	}
	key := string(c.key)
	if c.by == nil {
		c.by = queue.NewCache[string, cachedDecision](maxDecisions, 0)
	}
	found, ok := c.by.Use(key)
	c.mu.Unlock()
	if ok && found.tool == t {
		return found.decision
	}
	d := evaluate()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by.Put(r.Principal.ID, key, cachedDecision{t, d}, 0)
	return d
}

// appendRequest appends everything that a decision depends on, besides the arguments, the time and
// the definition of the tool.
func appendRequest(b []byte, r *Request) []byte {
	b = tool.AppendTexts(r.Principal.AppendKey(b), r.Tool.Upstream, r.Tool.Name)
	for _, list := range [][]string{r.Labels, r.Findings, r.Kinds} {
		b = tool.AppendTexts(b, list...)
	}
	if r.Parent != "" {
		b = append(b, 1)
	}
	return append(b, byte(r.Tier))
}

package console

import (
	"sync"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Limits of the timelines that are kept.
const (
	keptTimelines = 64
	ownTimelines  = 8 // of each principal
	timelineBytes = 4 << 20
	placeBytes    = 16
)

// A place is the place of a call in its program, and the number of lines logged before.
type place struct{ line, lines int }

// A timeline holds the places of the calls of an execution that has ended, by number. They come
// from a replay, since the journal has neither lines.
type timeline map[int]place

// A timelineKey identifies a timeline. version is the version of the execution.
type timelineKey struct{ principal, execution, version string }

// timelines keeps the newest timelines, so that each step of an execution needs no replay of its
// own. Principals share it fairly, and never share a timeline: each has its own replay, which the
// API permitted. It is safe for concurrent use.
type timelines struct {
	mu  sync.Mutex
	all *queue.Cache[timelineKey, timeline]
}

func newTimelines() *timelines {
	return &timelines{all: queue.NewCache[timelineKey, timeline](keptTimelines, timelineBytes)}
}

// findTimeline returns a timeline, or nil if it is not kept.
func (t *timelines) findTimeline(key timelineKey) timeline {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, _ := t.all.Use(key)
	return found
}

// keepTimeline keeps a timeline.
func (t *timelines) keepTimeline(key timelineKey, of timeline) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Put(key.principal, key, of, int64(len(of)+1)*placeBytes)
	t.all.EvictOwner(key.principal, ownTimelines)
}

// keyOf returns the key of the visitor's timeline of an execution.
func keyOf(v *visit, x *api.ExecutionDetail) timelineKey {
	return timelineKey{v.who.ID, x.ID, x.Version}
}

// timelineOf returns the timeline of an execution, after a replay if it is not kept. If there is
// none, it returns why.
func timelineOf(v *visit, x *api.ExecutionDetail) (timeline, string) {
	key := keyOf(v, x)
	if found := v.server.timelines.findTimeline(key); found != nil {
		return found, ""
	}
	if !v.mayUse("POST /executions/{id}/replay") {
		return nil, "Your role can't replay executions, which is how the lines of a step are found."
	}
	r, err := v.newClient().Replay(v.r.Context(), x.ID, api.ReplayRequest{})
	if err != nil {
		return nil, problemOf(err)
	}
	out := timeline{}
	for i := range r.Calls {
		c := &r.Calls[i]
		if c.Recorded > 0 {
			out[c.Recorded] = place{c.Line, c.Lines}
		}
	}
	v.server.timelines.keepTimeline(key, out)
	return out, ""
}

// addLines sets the lines of the calls of x that are known.
func (t timeline) addLines(x *api.ExecutionDetail) {
	for i := range x.Calls {
		x.Calls[i].Line = t[x.Calls[i].Call].line
	}
}

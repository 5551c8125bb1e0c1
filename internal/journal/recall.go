package journal

import (
	"sync"
	"time"
)

// A Recall is what an execution heard before this process began. Its guest hears it once more, and so does again what it did: calls
// that it makes again are not made, files that it changes again are changed in memory. What it has not heard goes on from
// there. A nil Recall is that of one which began in this process.
type Recall struct {
	Story *Story
	Lines []Heard // what it heard, in order, but for answers to questions

	mu      sync.Mutex
	answers []Heard          // to questions, which the guest has yet to ask
	heard   map[int64][]byte // the lines that answer, by what they answer
	unseen  map[int64]bool   // calls that the guest has yet to make again
}

// NewRecall makes that of an execution.
func NewRecall(st *Story) *Recall {
	c := &Recall{Story: st, heard: map[int64][]byte{}, unseen: map[int64]bool{}}
	for _, h := range st.Heard {
		if h.Question {
			c.answers = append(c.answers, h)
			continue
		}
		c.Lines = append(c.Lines, h)
		if h.Answers != 0 {
			c.heard[h.Answers] = h.Text
		}
	}
	for _, k := range st.Calls {
		c.unseen[k.ID] = true
	}
	return c
}

// Told reports whether the guest hears the answer to this call or file operation among what it heard before.
func (c *Recall) Told(id int64) bool { return c != nil && c.heard[id] != nil }

// Line gives the line that answered a call or file operation; nil where Told doesn't report it.
func (c *Recall) Line(id int64) []byte { return c.heard[id] }

// Call gives the call of the guest's as it was made before; nil: it never was.
func (c *Recall) Call(id int64) *Call {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unseen, id)
	return c.Story.Call(id)
}

// Known returns the call of the guest's as it was made before, and leaves it among those that the guest has yet to make
// again; nil: it never was.
func (c *Recall) Known(id int64) *Call {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Story.Call(id)
}

// Left gives the calls that the guest has not made again, in their order.
func (c *Recall) Left() (out []*Call) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.Story.Calls {
		if c.unseen[k.ID] {
			out = append(out, k)
		}
	}
	return out
}

// Answer gives the next answer that the guest heard before; nil: it heard no more.
func (c *Recall) Answer() *Heard {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) == 0 {
		return nil
	}
	h := c.answers[0]
	c.answers = c.answers[1:]
	return &h
}

// Behind is how long ago the guest last heard something, as far as its timers are concerned. They are set again at once.
func (c *Recall) Behind(now int64) time.Duration {
	if c == nil || len(c.Lines) == 0 {
		return 0
	}
	return time.Duration(max(now-c.Lines[len(c.Lines)-1].At, 0)) * time.Millisecond
}

// Whole reports whether the guest has done again all that it did before.
func (c *Recall) Whole() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unseen) == 0 && len(c.answers) == 0
}

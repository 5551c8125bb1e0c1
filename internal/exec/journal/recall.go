package journal

import (
	"sync"
	"time"
)

// A Recall holds what an execution's guest received before this process took over. The guest
// receives it again and repeats what it did. Repeated calls are not sent, and repeated file changes
// are made in memory. After that the execution continues normally. A nil Recall belongs to an
// execution that started in this process.
type Recall struct {
	History *History
	Lines   []Input // lines sent to the guest, in order, except answers to questions

	mu      sync.Mutex
	answers []Input          // answers to questions that the guest has not yet repeated
	byCall  map[int64][]byte // lines that are answers, by the ID that they answer
	unseen  map[int64]bool   // calls that the guest has not yet repeated
}

// NewRecall returns the Recall of st.
func NewRecall(st *History) *Recall {
	c := &Recall{History: st, byCall: map[int64][]byte{}, unseen: map[int64]bool{}}
	for _, h := range st.Inputs {
		if h.Question {
			c.answers = append(c.answers, h)
			continue
		}
		c.Lines = append(c.Lines, h)
		if h.Answers != 0 {
			c.byCall[h.Answers] = h.Text
		}
	}
	for _, k := range st.Calls {
		c.unseen[k.ID] = true
	}
	return c
}

// IsAnswered reports whether the answer to this call or file operation is among the lines that the
// guest receives again.
func (c *Recall) IsAnswered(id int64) bool { return c != nil && c.byCall[id] != nil }

// Line returns the line that answered a call or file operation, or nil if there is none. IsAnswered
// reports which.
func (c *Recall) Line(id int64) []byte { return c.byCall[id] }

// Call returns the guest's call as it was made before, and marks it as repeated. It returns nil if
// the call is new.
func (c *Recall) Call(id int64) *Call {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unseen, id)
	return c.History.Call(id)
}

// Known returns the guest's call as it was made before, without marking it as repeated. It returns
// nil if the call is new.
func (c *Recall) Known(id int64) *Call {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.History.Call(id)
}

// Left returns the calls that the guest has not repeated, in order.
func (c *Recall) Left() (out []*Call) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.History.Calls {
		if c.unseen[k.ID] {
			out = append(out, k)
		}
	}
	return out
}

// Answer returns the next recorded answer to a question, or nil if there are no more.
func (c *Recall) Answer() *Input {
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

// Behind returns how long ago the guest last received a line, for its timers. They are set again
// immediately.
func (c *Recall) Behind(now int64) time.Duration {
	if c == nil || len(c.Lines) == 0 {
		return 0
	}
	return time.Duration(max(now-c.Lines[len(c.Lines)-1].At, 0)) * time.Millisecond
}

// Whole reports whether the guest has repeated everything that it did before.
func (c *Recall) Whole() bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.unseen) == 0 && len(c.answers) == 0
}

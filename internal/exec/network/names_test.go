package network

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// A countingTraffic counts what policy is asked.
type countingTraffic struct {
	noTraffic
	asked, notes atomic.Int64
}

func (c *countingTraffic) ReachesHost(string) bool { return c.asked.Add(1) > 0 }
func (c *countingTraffic) AddNote(string)          { c.notes.Add(1) }

// TestNameQuestions checks that a name is decided on once in a moment, and that a program that asks
// without end is no longer answered.
func TestNameQuestions(t *testing.T) {
	c := &countingTraffic{}
	s := &service{traffic: c}
	for i := range 2 {
		if !s.reachesName("a.test") {
			t.Errorf("question %d: the name isn't reached", i+1)
		}
	}
	if n := c.asked.Load(); n > 2 {
		t.Errorf("two questions: policy was asked %d times", n)
	}
	for i := range 2 * maxVerdicts {
		s.reachesName(fmt.Sprintf("n%d.test", i))
	}
	if n := c.asked.Load(); n != maxVerdicts || s.reachesName("late.test") || c.notes.Load() != 1 {
		t.Errorf("policy was asked %d times, want %d; %d notes, want 1", n, maxVerdicts, c.notes.Load())
	}
}

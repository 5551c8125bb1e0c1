package tool

import (
	"slices"
	"sync"
)

// Labels are those of the data that somebody has read. They only grow. The zero Labels are none; they are safe for concurrent use.
type Labels struct {
	mu   sync.Mutex
	list []string // sorted; never changed, but replaced
}

// All gives them, sorted. The list is not to be changed.
func (l *Labels) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// Add adds some.
func (l *Labels) Add(more []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = Joined(l.list, more)
}

// Joined gives the labels of both lists, sorted; a itself, which is sorted, where it has all of them.
func Joined(a, b []string) []string {
	if !slices.ContainsFunc(b, func(s string) bool { return !slices.Contains(a, s) }) {
		return a
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

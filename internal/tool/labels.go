package tool

import (
	"slices"
	"sync"
)

// Labels are the labels of the data that someone has read. Labels are never removed. The zero
// Labels are empty. They are safe for concurrent use.
type Labels struct {
	mu   sync.Mutex
	list []string // sorted; never modified, only replaced
}

// All returns the labels, sorted. Callers must not modify the list.
func (l *Labels) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list
}

// Add adds labels.
func (l *Labels) Add(more []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = JoinLabels(l.list, more)
}

// JoinLabels returns the union of two lists of labels, sorted. If a, which must be sorted, has all
// of them, it returns a.
func JoinLabels(a, b []string) []string {
	if !slices.ContainsFunc(b, func(s string) bool { return !slices.Contains(a, s) }) {
		return a
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// Package lazily creates values on first use, if most runs of this program never need them.
// Compiling all regular expressions at initialization took longer than many commands. The compiler
// lays out a variable that is a Value, or calls Regexp or Words with constants, so that it costs
// nothing at start.
package lazily

import (
	"regexp"
	"strings"
	"sync"
)

// A Pattern is a regular expression that is compiled on first use.
type Pattern struct {
	expr     string
	once     sync.Once
	compiled *regexp.Regexp
}

// Regexp returns the pattern of expr.
func Regexp(expr string) *Pattern { return &Pattern{expr: expr} }

// Get returns the regular expression. If it is invalid, Get panics, like regexp.MustCompile.
func (p *Pattern) Get() *regexp.Regexp {
	p.once.Do(func() { p.compiled = regexp.MustCompile(p.expr) })
	return p.compiled
}

// A Set is a set of words that is built on first use.
type Set struct {
	lists []string
	once  sync.Once
	words map[string]bool
}

// Words returns the set of the space-separated words of lists.
func Words(lists ...string) *Set { return &Set{lists: lists} }

// Has reports whether the set contains w.
func (s *Set) Has(w string) bool {
	s.once.Do(s.addWords)
	return s.words[w]
}

func (s *Set) addWords() {
	s.words = map[string]bool{}
	for _, l := range s.lists {
		for _, w := range strings.Fields(l) {
			s.words[w] = true
		}
	}
}

// A Value is what Make returns, which is called on first use.
type Value[T any] struct {
	Make  func() T
	once  sync.Once
	value T
}

// Get returns the value.
func (v *Value[T]) Get() T {
	v.once.Do(func() { v.value = v.Make() })
	return v.value
}

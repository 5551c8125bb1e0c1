// Package tokens counts the tokens of texts for language models.
package tokens

import (
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// A Counter counts tokens with the o200k_base vocabulary. For models with other vocabularies the
// result is an estimate. It remembers the counts of short words, since tools repeat them. The zero
// Counter is ready to use, and safe for concurrent use.
type Counter struct {
	mu    sync.Mutex
	words map[string]int
	merge merger
}

// Limits on the words that a Counter remembers.
const (
	maxWords    = 8192
	maxWordSize = 32 // bytes
)

// MinSample is the minimum sample size for Sample in bytes.
const MinSample = 4 << 10

// Count returns the number of tokens of s. It stops when there are more than most (0: no limit).
// Counting a KiB lasts about 0.02 ms, and less if all words are known.
func (c *Counter) Count(s string, most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for s != "" && (most <= 0 || n <= most) {
		size := wordSize(s)
		n += c.countWord(s[:size])
		s = s[size:]
	}
	return n
}

// countWord returns the number of tokens of a word. The caller holds mu.
func (c *Counter) countWord(word string) int {
	n, ok := c.words[word]
	if ok {
		return n
	}
	n = c.merge.countWord(word)
	if len(word) <= maxWordSize {
		if c.words == nil || len(c.words) >= maxWords {
			c.words = map[string]int{}
		}
		c.words[strings.Clone(word)] = n
	}
	return n
}

// Fit returns the longest part of s, its Head or its Tail, that has about budget tokens.
func (c *Counter) Fit(s string, budget int, part func(string, int) string) string {
	n := min(len(s), budget*8)
	for {
		p := part(s, n)
		k := c.Count(p, 0)
		if k <= budget {
			return p
		}
		n = min(n-1, len(p)*budget/k)
	}
}

// Sample estimates the number of tokens of s from samples of up to most bytes, spread over all of
// it. If s is not longer than most, the result is exact.
func (c *Counter) Sample(s string, most int) (n int, exact bool) {
	if len(s) <= most || most < MinSample {
		return c.Count(s, 0), true
	}
	parts := most / MinSample
	step := len(s) / parts
	size := 0
	for i := range parts {
		part := text.Head(s[i*step:], MinSample)
		n, size = n+c.Count(part, 0), size+len(part)
	}
	return int(float64(n) * float64(len(s)) / float64(max(size, 1))), false
}

// Package tokens counts tokens as o200k_base does: for models with another vocabulary it is an estimate.
package tokens

import (
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

// A Counter counts tokens; its tables (some megabytes, in some 20 ms) are loaded when first needed. The zero Counter is
// ready, and safe for concurrent use.
type Counter struct {
	once   sync.Once
	codec  tokenizer.Codec
	err    error
	loaded atomic.Bool
}

// Loaded reports whether the tables are there, so that counting costs no more than that.
func (c *Counter) Loaded() bool { return c.loaded.Load() }

func (c *Counter) load() (tokenizer.Codec, error) {
	c.once.Do(func() {
		c.codec, c.err = tokenizer.Get(tokenizer.O200kBase)
		c.loaded.Store(true)
	})
	return c.codec, c.err
}

// Least is the least that Sample looks at, in bytes.
const Least = 4 << 10

// piece is how many bytes are counted at once: the counting of one long word without spaces is not linear.
const piece = Least

// Count counts the tokens of s, and stops when there are more than most (0: never). Text is counted in pieces, so that
// hostile text costs no more than other; that is at most a token a piece too much. It takes some 0.3 ms for each KiB.
func (c *Counter) Count(s string, most int) (int, error) {
	codec, err := c.load()
	if err != nil {
		return 0, err
	}
	n := 0
	for s != "" {
		part := Head(s, piece)
		k, err := codec.Count(part)
		if err != nil {
			return 0, err
		}
		if n += k; most > 0 && n > most {
			return n, nil
		}
		s = s[len(part):]
	}
	return n, nil
}

// Head gives the first n bytes of s or fewer, whole characters.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := 0; i < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); i++ {
		n--
	}
	return s[:n]
}

// Tail gives the last n bytes of s or fewer, whole characters.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := len(s) - n
	for i := 0; i < utf8.UTFMax && at < len(s) && !utf8.RuneStart(s[at]); i++ {
		at++
	}
	return s[at:]
}

// Fit gives as much of s, its Head or its Tail, as is about so many tokens.
func (c *Counter) Fit(s string, budget int, part func(string, int) string) (string, error) {
	n := min(len(s), budget*8)
	for {
		p := part(s, n)
		k, err := c.Count(p, 0)
		if err != nil || k <= budget {
			return p, err
		}
		n = min(n-1, len(p)*budget/k)
	}
}

// Sample counts the tokens of some of s, up to most bytes spread over all of it, and gives what that comes to for the
// whole. Where s is no longer than most it is exact.
func (c *Counter) Sample(s string, most int) (n int, exact bool, err error) {
	if len(s) <= most || most < piece {
		n, err = c.Count(s, 0)
		return n, true, err
	}
	parts := most / piece
	step := len(s) / parts
	size := 0
	for i := range parts {
		part := Head(s[i*step:], piece)
		k, err := c.Count(part, 0)
		if err != nil {
			return 0, false, err
		}
		n, size = n+k, size+len(part)
	}
	return int(float64(n) * float64(len(s)) / float64(max(size, 1))), false, nil
}

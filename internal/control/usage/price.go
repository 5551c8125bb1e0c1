package usage

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A Price is the price of a million tokens.
type Price struct {
	Input  float64 // tokens that a model reads
	Output float64 // tokens that a model writes
}

// priceOf returns the price of a number of tokens.
func (p Price) priceOf(read, written int64) float64 {
	return (float64(read)*p.Input + float64(written)*p.Output) / 1e6
}

// Prices are the prices of tokens. Biplane doesn't know which model a client uses, so the
// configuration sets prices for agents and clients.
type Prices struct {
	Currency string
	Default  Price
	Special  []Special
}

// A Special is the price for some agents or clients.
type Special struct {
	Pattern string // of the agent's or client's name, as in path.Match: "claude-code*"
	Price
}

// findPrice returns the price for w: the price of the longest pattern that matches the agent or the
// client, or the default.
func (p *Prices) findPrice(w Subject) Price {
	if p == nil {
		return Price{}
	}
	best := -1
	for i, s := range p.Special {
		if (matchesPattern(s.Pattern, w.Agent) || matchesPattern(s.Pattern, w.Client)) &&
			(best < 0 || cmp.Or(cmp.Compare(len(s.Pattern), len(p.Special[best].Pattern)),
				strings.Compare(s.Pattern, p.Special[best].Pattern)) > 0) {
			best = i
		}
	}
	if best < 0 {
		return p.Default
	}
	return p.Special[best].Price
}

// matchesPattern reports whether a pattern matches a known name; * matches any text, including "/".
func matchesPattern(pattern, s string) bool {
	if s == "" {
		return false
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00"))
	return err == nil && ok
}

// CheckPattern reports whether a pattern is valid.
func CheckPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != "" && !slices.Contains([]byte(pattern), 0)
}

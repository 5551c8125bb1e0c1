package usage

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// A Price is of a million tokens.
type Price struct {
	Input  float64 // that a model reads
	Output float64 // that it writes
}

// of gives what tokens come to.
func (p Price) of(read, written int64) float64 {
	return (float64(read)*p.Input + float64(written)*p.Output) / 1e6
}

// Prices say what tokens cost. Which model a client has behind it nobody tells Biplane: the configuration says what
// those of an agent or client pay.
type Prices struct {
	Currency string
	Default  Price
	Special  []Special
}

// A Special is the price of some agents or clients.
type Special struct {
	Pattern string // of an agent or client, as of path.Match: "claude-code*"
	Price
}

// of gives the price of whoever uses something: of the patterns that match the agent or the client the longest, else the
// default.
func (p *Prices) of(w Who) Price {
	if p == nil {
		return Price{}
	}
	best := -1
	for i, s := range p.Special {
		if (matches(s.Pattern, w.Agent) || matches(s.Pattern, w.Client)) &&
			(best < 0 || cmp.Or(cmp.Compare(len(s.Pattern), len(p.Special[best].Pattern)), strings.Compare(s.Pattern, p.Special[best].Pattern)) > 0) {
			best = i
		}
	}
	if best < 0 {
		return p.Default
	}
	return p.Special[best].Price
}

// matches reports whether a pattern matches what is known; * stands for any text, "/" in it too.
func matches(pattern, s string) bool {
	if s == "" {
		return false
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00"))
	return err == nil && ok
}

// CheckPattern reports whether a pattern can be matched.
func CheckPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != "" && !slices.Contains([]byte(pattern), 0)
}

package config

import (
	"fmt"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/usage"
)

// Usage configures the retention of usage data.
type Usage struct {
	Keep  time.Duration // in total
	Hours time.Duration // by hour; older data is kept by day
}

// ShownUsage is the printable form of a Usage and of prices.
type ShownUsage struct {
	Keep   string   `json:"keep"`
	Hours  string   `json:"hours"`
	Prices []string `json:"prices"` // "3 USD in, 15 USD out"; a client's with its pattern; empty if none
}

// Shown returns the printable form. p may be nil.
func (u Usage) Shown(p *usage.Prices) ShownUsage {
	out := ShownUsage{Keep: text.Setting(u.Keep), Hours: text.Setting(u.Hours), Prices: []string{}}
	if p != nil {
		out.Prices = append(out.Prices,
			fmt.Sprintf("%g %s in, %g %s out", p.Default.Input, p.Currency, p.Default.Output, p.Currency))
		for _, c := range p.Special {
			out.Prices = append(out.Prices,
				fmt.Sprintf("%s: %g %s in, %g %s out", c.Pattern, c.Input, p.Currency, c.Output, p.Currency))
		}
	}
	return out
}

func (r *fileReader) readUsage(n *node) {
	s := &r.c.Usage
	const day = 24 * time.Hour
	r.readObject(n, "usage", key{
		"keep":  func(n *node) { s.Keep = r.readDays(n, "usage.keep", day, 3650*day) },
		"hours": func(n *node) { s.Hours = r.readDays(n, "usage.hours", day, 400*day) },
	})
}

// readPrices reads the prices of a million tokens.
func (r *fileReader) readPrices(n *node) *usage.Prices {
	p := &usage.Prices{Currency: "USD"}
	r.readObject(n, "prices", key{
		"currency": func(n *node) { p.Currency = r.readCurrency(n) },
		"input":    func(n *node) { p.Default.Input = r.readPrice(n, "prices.input") },
		"output":   func(n *node) { p.Default.Output = r.readPrice(n, "prices.output") },
		"clients": func(n *node) {
			r.eachEntry(n, "prices.clients", func(k, v *node) {
				what := "prices.clients " + strconv.Quote(clipText(k.text))
				if !usage.CheckPattern(k.text) {
					r.addProblem(k, "%s is not a valid pattern of agents and clients: * matches any text", what)
					return
				}
				s := usage.Special{Pattern: k.text, Price: usage.Price{Input: -1, Output: -1}}
				r.readObject(v, what, key{
					"input":  func(n *node) { s.Input = r.readPrice(n, what+".input") },
					"output": func(n *node) { s.Output = r.readPrice(n, what+".output") },
				})
				p.Special = append(p.Special, s)
			})
		},
	})
	for i := range p.Special { // missing prices are the defaults, which may come later in the file
		s := &p.Special[i]
		if s.Input < 0 {
			s.Input = p.Default.Input
		}
		if s.Output < 0 {
			s.Output = p.Default.Output
		}
	}
	return p
}

// readCurrency reads the code of a currency, which is only shown.
func (r *fileReader) readCurrency(n *node) string {
	s := r.readText(n, "prices.currency")
	if len(s) < 1 || len(s) > 8 {
		r.addProblem(n, "prices.currency must be the code of a currency like USD or EUR, not %q", clipText(s))
	}
	for _, c := range s {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			r.addProblem(n, "prices.currency must be the code of a currency like USD or EUR, not %q", clipText(s))
			break
		}
	}
	return s
}

// readPrice reads the price of a million tokens.
func (r *fileReader) readPrice(n *node, what string) float64 {
	text := r.readText(n, what)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1e6) {
		r.addProblem(n, "%s must be the price of a million tokens, a number from 0 to 1000000, not %q", what,
			clipText(text))
		return 0
	}
	return v
}

package mcp

import "time"

// Hastened is the first pause of an impatient upstream's breaker.
func Hastened() time.Duration { return Hasten(Config{}).pace.breaks }

// Hasten makes an upstream impatient, for tests.
func Hasten(c Config) Config {
	c.pace = pace{probe: 300 * time.Millisecond, check: 500 * time.Millisecond, grace: 300 * time.Millisecond, spacing: 50 * time.Millisecond, breaks: 300 * time.Millisecond, look: 50 * time.Millisecond}
	return c
}

// Patient makes an upstream give servers an hour to exit, for tests of those that get less.
func Patient(c Config) Config {
	c = Hasten(c)
	c.pace.grace = time.Hour
	return c
}

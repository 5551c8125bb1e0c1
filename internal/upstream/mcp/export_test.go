package mcp

import "time"

// Hastened is the first pause of a breaker after Hasten.
func Hastened() time.Duration { return Hasten(Config{}).pace.breaks }

// Hasten shortens the timeouts of an upstream, for tests.
func Hasten(c Config) Config {
	c.pace = pace{probe: 300 * time.Millisecond, check: 500 * time.Millisecond, grace: 300 * time.Millisecond,
		spacing: 50 * time.Millisecond, breaks: 300 * time.Millisecond, look: 50 * time.Millisecond}
	return c
}

// Patient lets servers take an hour to exit, for tests of servers that get less time.
func Patient(c Config) Config {
	c = Hasten(c)
	c.pace.grace = time.Hour
	return c
}

// CheckURL is checkURL.
var CheckURL = checkURL

// Costly lets each list, and each use of one, count as work of a duration.
func Costly(c Config, work time.Duration) Config {
	c.pace = usualPace
	c.pace.work = work
	return c
}

// BusyFactor is busyFactor.
const BusyFactor = busyFactor

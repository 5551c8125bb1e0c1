package limit

// CountCircuits returns the number of upstreams and hosts that have not answered their last call.
func (l *Limiter) CountCircuits() int {
	l.breaker.mu.Lock()
	defer l.breaker.mu.Unlock()
	return len(l.breaker.upstreams)
}

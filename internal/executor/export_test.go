package executor

// Waiting says how many use a session of a principal, or wait for it.
func (x *Executor) Waiting(name, principal string) int {
	return x.live.Users(principal, name)
}

// Spoke reports whether a program of a principal's that is under way has said its last word.
func (x *Executor) Spoke(principal string) bool {
	for _, r := range x.history.live() {
		r.mu.Lock()
		spoke := r.spoke
		r.mu.Unlock()
		if r.principal.ID == principal && spoke {
			return true
		}
	}
	return false
}

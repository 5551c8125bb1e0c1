package executor

// Waiting returns how many programs use or wait for a session of a principal.
func (x *Executor) Waiting(name, principal string) int {
	return x.live.Users(principal, name)
}

// Spoke reports whether a program of the principal that is under way has sent its last message.
func (x *Executor) Spoke(principal string) bool {
	for _, r := range x.runs.live() {
		if r.principal.ID == principal && r.history.hasSpoken() {
			return true
		}
	}
	return false
}

// Ended reports whether the waiters of an execution were woken.
func (x *Executor) Ended(id string) bool {
	r, _ := x.runs.get(id)
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Frozen reports whether the journal of an execution was closed before its end.
func (x *Executor) Frozen(id string) bool {
	r, _ := x.runs.get(id)
	return r.history.Frozen()
}

package executor

// Waiting says how many use a session of a principal, or wait for it.
func (x *Executor) Waiting(name, principal string) int {
	users, _, _ := x.lives.look(sessionKey{principal, name})
	return users
}

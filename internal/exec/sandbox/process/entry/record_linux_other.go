//go:build linux && !amd64

package entry

// starterMachine is not used.
const starterMachine = 0

// starterCode returns nil: there are no starters for this architecture.
func starterCode() []byte { return nil }

package journal

import "time"

// A Task is an execution that is a task for the client that began it (MCP).
type Task struct {
	ID        string // of the execution
	Principal string
	Profile   string // of the client; empty: none
	Created   time.Time
	TTL       time.Duration // how long it is kept after its creation
	Grace     time.Duration // how long it is kept at least after its end

	// The state of the execution, which SaveTask ignores.
	State State
	Ended time.Time // zero: still running
}

// A TaskQuery selects tasks.
type TaskQuery struct {
	Principal, Profile string
	After              time.Time // only tasks created after this time, or then with an id after AfterID
	AfterID            string
	Limit              int
}

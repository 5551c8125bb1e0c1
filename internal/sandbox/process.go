package sandbox

// Unenclosed is among the Missing of a kind whose guests run inside the process that made its driver. A driver that puts
// a process of its own around another one takes it away.
const Unenclosed = "a process around the engine: it runs inside this one, with no seccomp, Landlock or namespaces between them"

// A CrashError says that the process around an engine ended while it held a sandbox: by a fault, by the system, or by the
// host that ended it because it broke a rule. Whatever the sandbox held is lost, and nothing is known of what it did last;
// others are unharmed, and a new sandbox can be made at once.
type CrashError struct {
	Reason string // for the log and for people: "made a forbidden system call (SIGSYS)"
}

// Error says it for people.
func (e *CrashError) Error() string { return "the engine's process " + e.Reason }

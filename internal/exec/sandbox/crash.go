package sandbox

// Unenclosed is listed in Capabilities.Missing by a driver whose guests run inside the process that
// created it. A driver that runs another driver in a process of its own removes the entry.
const Unenclosed = "a process around the engine: it runs inside this one, with no seccomp, Landlock or namespaces " +
	"between them"

// A CrashError reports that the process around an engine ended while it held a sandbox: because of
// a fault, by the system, or killed by the host for breaking a rule. The sandbox's state is lost,
// and its last action is unknown. Other sandboxes are unaffected, and a new one can be created
// immediately.
type CrashError struct {
	Reason string // for the log and for users: "made a forbidden system call (SIGSYS)"
}

// Error returns a message for users.
func (e *CrashError) Error() string { return "the engine's process " + e.Reason }

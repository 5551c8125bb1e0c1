// Package process runs programs in Linux processes: ordinary interpreters with the packages that
// are installed on this host, isolated by namespaces, a private root, Landlock, a system call
// filter and resource limits.
//
// A sandbox is one process and its descendants in namespaces of their own. The process first is
// this binary (EnterSandbox), which arms the protections and then executes the interpreter with the
// agent: the guest's end of the protocol, the same as in the embedded engine (package pyguest),
// over a socket. There is no network.
//
// Guests are not deterministic, so they can be neither stored nor replayed.
package process

import (
	"log/slog"
)

// Command is the argument that makes this program enter a sandbox.
const Command = "__sandbox"

// Config configures a Driver. The zero value is valid if this program's main calls EnterSandbox for
// Command.
type Config struct {
	Command   []string     // arguments with which this program calls EnterSandbox; default Command
	Python    string       // path of the interpreter; default: the newest python3 below /usr
	Disk      int64        // bytes of the files of a sandbox; default 256 MiB
	Processes int          // maximum number of processes and threads of a sandbox; default 256
	Log       *slog.Logger // default: nothing is logged
}

const (
	defaultDisk      = 256 << 20
	defaultProcesses = 256
	defaultMemory    = 512 << 20 // of Spec.Memory
	defaultOutput    = 64 << 20  // of Spec.Output
)

// A setup is what the driver tells EnterSandbox: one line of JSON on the socket.
type setup struct {
	Interpreter string `json:"interpreter"` // path
	Disk        int64  `json:"disk"`        // bytes
	Processes   int    `json:"processes"`
	AddressMax  int64  `json:"address_max"` // bytes of address space of a process; 0: not limited
	CPUSeconds  int64  `json:"cpu_seconds"` // of a process; 0: not limited
}

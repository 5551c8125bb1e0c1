// Package process runs programs in Linux processes: ordinary interpreters with the packages that
// are installed on this host, isolated by namespaces, a private root, Landlock, a system call
// filter and resource limits.
//
// A sandbox is one process and its descendants in namespaces of their own. The process first is
// this binary, or a small part of it (package entry), which arms the protections and then executes
// the agent: the guest's end of the protocol, over a socket. For Python, the agent is the
// interpreter with the runtime of the embedded engine (package pyguest). For JavaScript, it is
// Node.js with the runtime of package nodeguest. For shell scripts, it is the same binary again
// (package shell). The sandbox's network is the loopback interface. Listeners there, which the
// sandbox passes out before any program runs, lead to the gateway (Config.Network).
//
// Guests are not deterministic, so they can be neither stored nor replayed.
package process

import (
	"log/slog"
	"os"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
)

// Command is the argument that makes this program enter a sandbox.
const Command = entry.Command

// A process that enters or serves a sandbox does so while its packages are initialized. So it
// starts milliseconds earlier: some packages come after this one.
func init() {
	if code, ok := entry.RunCommand(os.Args[1:]); ok {
		os.Exit(code)
	}
}

// Config configures a Driver. The zero value is valid.
type Config struct {
	Command []string // arguments with which this program enters a sandbox; default Command
	Python  string   // path of the interpreter; default: the newest python3 below /usr
	Node    string   // path of the Node.js executable; default: node below /usr
	// NodeModules is a folder of the host with npm packages for programs on Node.js; empty: none.
	NodeModules string
	Images      *image.Store // images by name; nil: none
	// Libraries is a folder for compiled libraries of compiled languages. Empty: each sandbox
	// compiles them.
	Libraries string

	Disk      int64 // bytes of the files of a sandbox; default 256 MiB
	Processes int   // maximum number of processes and threads of a sandbox; default 512
	Warm      int   // maximum number of sandboxes that are started ahead; default 0
	// Network is the network of the sandboxes; nil: they have none.
	Network sandbox.Network
	Log     *slog.Logger // default: nothing is logged
}

const (
	defaultDisk      = 256 << 20
	defaultProcesses = 512
	defaultMemory    = 512 << 20 // of Spec.Memory
	defaultOutput    = 64 << 20  // of Spec.Output
)

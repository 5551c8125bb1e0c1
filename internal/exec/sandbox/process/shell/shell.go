// Package shell is the agent of sandboxes in which programs are shell scripts, or programs in Go,
// Rust or Java: the first process of such a sandbox. It runs a script with a shell, or compiles and
// runs a program, and copies files in and out. It passes on the calls of the command tool, which is
// this package in another process, and of the clients in folder client. All of it runs inside the
// sandbox, and imports almost nothing, so that it starts fast.
package shell

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// Commands of this program that run inside a sandbox.
const (
	AgentCommand = "__sandbox_agent" // its arguments are a runtime and the path of its shell or compiler
	ToolCommand  = "__sandbox_tool"  // followed by the path of the command tool and its arguments
	// MachineCommand serves a machine (package service).
	MachineCommand = "__sandbox_machine"
)

// Folder is the folder of a sandbox with the agent's files.
const Folder = "/biplane"

// LibraryFolder is the folder of a sandbox with compiled libraries of its language, if there are
// some.
const LibraryFolder = Folder + "/libraries"

// Executable is the path of this program in a sandbox.
const Executable = Folder + "/agent"

// ToolPath is the path of the command tool in a sandbox. It is a text with ToolScript.
const ToolPath = Folder + "/bin/tool"

// Environment is the whole environment of the first process of a sandbox.
var Environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/go/bin", "HOME=/workspace",
	"TMPDIR=/tmp", "USER=agent", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "TERM=dumb", "PYTHONDONTWRITEBYTECODE=1",
	"PYTHONUTF8=1", "PYTHONSAFEPATH=1",
	// Caches and settings of tools such as Go's are not files of the program.
	"XDG_CACHE_HOME=/tmp/.cache", "XDG_CONFIG_HOME=/tmp/.config", "GOPATH=/tmp/.go", "GOTOOLCHAIN=local",
	"CARGO_HOME=/tmp/.cargo"}

// JoinEnvironment returns variables (NAME=value) of base and more. Those of more replace others of
// the same name.
func JoinEnvironment(base, more []string) []string {
	out := slices.Clone(base)
	for _, e := range more {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			continue
		}
		out = append(slices.DeleteFunc(out, func(o string) bool { return strings.HasPrefix(o, name+"=") }), e)
	}
	return out
}

// ToolScript makes the system run this program for the command tool.
const ToolScript = "#!" + Executable + " " + ToolCommand + "\n"

// RunCommand runs a command of this package, and returns its exit code. It reports false if args
// don't begin with one.
func RunCommand(args []string) (code int, ok bool) {
	switch {
	case len(args) == 3 && args[0] == AgentCommand:
		return runAgent(func() error { return serveDriver(args[1], args[2]) }), true
	case len(args) == 1 && args[0] == MachineCommand:
		return runAgent(serveMachine), true
	case len(args) >= 2 && args[0] == ToolCommand:
		return runTool(args[2:], os.Stdin, os.Stdout, os.Stderr, askAgent), true
	}
	return 0, false
}

// runAgent runs an agent, and returns the exit code of its process.
func runAgent(serve func() error) (code int) {
	// On another goroutine: the calling one may be bound to its thread, and wake slowly.
	ended := make(chan error)
	go func() { ended <- serve() }()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, "biplane: "+err.Error())
		return 1
	}
	return 0
}

// A request is a request of the command tool to the agent: one line of JSON. It is a call, or the
// handle or path of something to emit.
type request struct {
	Path  string          `json:"path,omitempty"`
	Args  json.RawMessage `json:"args,omitempty"`
	Flags []sandbox.Flag  `json:"flags,omitempty"`
	Emit  string          `json:"emit,omitempty"`
}

// A reply is the agent's answer: one line of JSON.
type reply struct {
	Value json.RawMessage     `json:"value,omitempty"`
	Error *sandbox.GuestError `json:"error,omitempty"`
}

// maxRequest is the maximum size of a request, in bytes.
const maxRequest = 4 << 20

// An asker sends a request to the agent, and returns its reply.
type asker func(*request) (*reply, error)

// readAtMost reads r to its end. It fails if there are more than most bytes.
func readAtMost(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return b, err
}

package sandbox

import (
	"context"
	"os"
)

// A MachineDriver is a Driver that also creates machines.
type MachineDriver interface {
	// CreateMachine starts a machine. It fails rather than leave out a protection.
	CreateMachine(ctx context.Context, spec MachineSpec) (Machine, error)
	// ListMissing returns the protections that machines lack on this host, with their substitutes.
	ListMissing() []string
}

// A MachineSpec configures a machine. A zero limit means the driver's default, never "none".
type MachineSpec struct {
	// Folder is the folder of the host that the machine has as /workspace. It must be used by this
	// machine only, and outlives it.
	Folder    string
	Owner     string  // its owner, whose volumes of the image it has
	Image     string  // image of the machine; empty: the host's /usr
	Mounts    []Mount // further folders of the host, read-only
	Memory    int64   // hard limit of the memory of all processes, in bytes
	Processes int     // maximum number of processes and threads
	// Network creates the host's end of its network; nil: it has only its own loopback interface.
	Network Network
	// Traffic decides on its connections, as long as it exists; nil: it has none.
	Traffic Traffic
}

// A Mount is a file or folder of the host that a machine has at the same path, read-only.
type Mount struct {
	Path string // absolute
	File bool   // it is not a folder
}

// A Machine is a sandbox without a program of its own. An agent inside serves commands, processes,
// files and ports, each on a stream of its own; package service defines them.
type Machine interface {
	Freezer
	// OpenStream opens a stream to the agent: a socket. The machine must not be frozen. It is no
	// net.Conn: package net is initialized so late that processes of a sandbox start without it.
	OpenStream(ctx context.Context) (*os.File, error)
	// ReclaimMemory makes the system reclaim memory of a frozen machine, and returns the amount. An
	// error names what this host lacks.
	ReclaimMemory() (freed int64, err error)
	// RemovedBytes returns how much the files occupy that were removed from Folder, and that its
	// processes still have open.
	RemovedBytes() int64
	// EndSignal returns a channel that is closed when all processes of the machine have ended.
	EndSignal() <-chan struct{}
	// EndReason returns why they have ended; nil before that.
	EndReason() error
	// Close ends all processes, and waits until nothing of them is left. It may be called twice.
	Close() error
}

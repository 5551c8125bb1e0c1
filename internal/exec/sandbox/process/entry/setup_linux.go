package entry

import "github.com/biplane-dev/biplane/internal/exec/sandbox/netns"

// A Setup is the driver's message to EnterSandbox: one line of JSON on the socket.
type Setup struct {
	Runtime     string `json:"runtime"`     // Spec.Runtime
	Interpreter string `json:"interpreter"` // path
	// Program is the gateway's program, for the command tool and for the agent of a shell, unless
	// AgentFD has a smaller program for that. NodeModules is a folder with npm packages.
	Program     *Shared     `json:"program,omitempty"`
	AgentFD     int         `json:"agent_fd,omitempty"`
	NodeModules *Shared     `json:"node_modules,omitempty"`
	FileFDs     []int       `json:"file_fds,omitempty"` // the files of the agent for Python (PackFiles)
	Image       *ImageSetup `json:"image,omitempty"`    // nil: the host's /usr
	Mounts      []Mounted   `json:"mounts,omitempty"`
	Environment []string    `json:"environment,omitempty"` // what the image adds
	// LeaveGroups means that the process leaves its supplementary groups. An ordinary user may not,
	// because a group may be what denies an access.
	LeaveGroups bool  `json:"leave_groups,omitempty"`
	Disk        int64 `json:"disk"` // bytes
	Processes   int   `json:"processes"`
	Memory      int64 `json:"memory"`      // bytes
	AddressMax  int64 `json:"address_max"` // bytes of address space of a process; 0: not limited
	CPUSeconds  int64 `json:"cpu_seconds"` // of a process; 0: not limited
	// Network describes the sandbox's network; nil: it has none.
	Network *netns.Setup `json:"network,omitempty"`
	// HasNetwork means that the process has a network namespace already. Its loopback interface is
	// up if the sandbox needs it.
	HasNetwork bool `json:"has_network,omitempty"`
}

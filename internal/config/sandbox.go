package config

import (
	"cmp"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Sandbox configures the limits of one program.
type Sandbox struct {
	Tier         tool.Tier // the weakest at which programs run
	Strongest    tool.Tier // the strongest that this build has; not configurable
	Memory       int64     // bytes
	CPU          time.Duration
	OutputTokens int // of the output for the agent
	Calls        int // maximum number of calls of a program
	Concurrency  int // maximum number of concurrent calls of a program
	// isolation required of the process around the embedded engine; "": as much as the system
	// supports
	Process string
	// programs can't use the host's interpreters in process sandboxes
	NoHostPackages bool
	// folder with npm packages for programs on Node.js; empty: none
	NodeModules string
	Images      map[string]image.Description // images of process sandboxes, by name
	// limits of principals' own sandboxes; zero fields mean the defaults
	Own owned.Limits
}

// Values of Process besides "".
const (
	ProcessStrict = "strict" // full isolation, or no program runs
	ProcessOff    = "off"    // no process: the engine runs in this one
)

// ShownSandbox is the printable form of a Sandbox.
type ShownSandbox struct {
	Tier         string `json:"tier"`
	Memory       string `json:"memory"`
	CPU          string `json:"cpu"`
	OutputTokens int    `json:"output_tokens"`
	Calls        int    `json:"calls"`
	Concurrency  int    `json:"concurrency"`
	Process      string `json:"process"`
	HostPackages bool   `json:"host_packages"`
	NodeModules  string `json:"node_modules,omitempty"`

	Images map[string]ShownImage `json:"images,omitempty"`
}

// Shown returns the printable form.
func (s Sandbox) Shown() ShownSandbox {
	return ShownSandbox{
		Tier: s.Tier.String(), Memory: formatSize(s.Memory), CPU: s.CPU.String(), OutputTokens: s.OutputTokens,
		Calls: s.Calls, Concurrency: s.Concurrency,
		Process: cmp.Or(s.Process, "auto"), HostPackages: !s.NoHostPackages,
		NodeModules: s.NodeModules, Images: showImages(s.Images),
	}
}

func (r *fileReader) readSandbox(n *node) {
	s := &r.c.Sandbox
	images := &imageReader{reader: r.reader}
	r.readObject(n, "sandbox", key{
		"images":  func(n *node) { images.nodes = n },
		"mounts":  func(n *node) { images.mounts = r.readMounts(n, "sandbox.mounts") },
		"volumes": images.readVolumes,
		"tier": func(n *node) {
			t, err := tool.ParseTier(r.readText(n, "sandbox.tier"))
			switch {
			case err != nil:
				r.addProblem(n, "sandbox.tier: %s", err)
			case t > s.Strongest:
				r.addProblem(n, "sandbox.tier %s is not available yet in this build: the strongest is %s",
					t, s.Strongest)
			default:
				s.Tier = t
			}
		},
		"memory":        func(n *node) { s.Memory = r.readSize(n, "sandbox.memory", 8<<20, 4<<30) },
		"cpu":           func(n *node) { s.CPU = r.readDuration(n, "sandbox.cpu", 10*time.Millisecond, time.Hour) },
		"output_tokens": func(n *node) { s.OutputTokens = r.readCount(n, "sandbox.output_tokens", 100, 1_000_000) },
		"calls":         func(n *node) { s.Calls = r.readCount(n, "sandbox.calls", 1, 1_000_000) },
		"concurrency":   func(n *node) { s.Concurrency = r.readCount(n, "sandbox.concurrency", 1, 1000) },
		"host_packages": func(n *node) { s.NoHostPackages = !r.readBool(n, "sandbox.host_packages") },
		"node_modules":  func(n *node) { s.NodeModules = r.readDir(n, "sandbox.node_modules") },
		"process": func(n *node) {
			if s.Process = r.oneOf(n, "sandbox.process", "auto", ProcessStrict, ProcessOff); s.Process == "auto" {
				s.Process = ""
			}
		},
	})
	images.readImages(s)
}

package config

import (
	"cmp"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Sandbox bound what one program may use.
type Sandbox struct {
	Tier         tool.Tier
	Memory       int64 // bytes
	CPU          time.Duration
	OutputTokens int // of what a program gives to the agent
	Calls        int // that one program may make
	Concurrency  int // calls of one program under way at once
	// how locked down the process around the embedded engine must be: "" as far as the system lets
	// it
	Process string
}

// What Process may be besides "".
const (
	ProcessStrict = "strict" // entirely, or no program runs
	ProcessOff    = "off"    // there is none: the engine runs in this process
)

// ShownSandbox is a Sandbox as it may be shown.
type ShownSandbox struct {
	Tier         string `json:"tier"`
	Memory       string `json:"memory"`
	CPU          string `json:"cpu"`
	OutputTokens int    `json:"output_tokens"`
	Calls        int    `json:"calls"`
	Concurrency  int    `json:"concurrency"`
	Process      string `json:"process"`
}

// Shown gives it as it may be shown.
func (s Sandbox) Shown() ShownSandbox {
	return ShownSandbox{
		Tier: s.Tier.String(), Memory: formatSize(s.Memory), CPU: s.CPU.String(), OutputTokens: s.OutputTokens, Calls: s.Calls, Concurrency: s.Concurrency,
		Process: cmp.Or(s.Process, "auto"),
	}
}

func (r *reader) sandbox(n *node, s *Sandbox) {
	r.object(n, "sandbox", key{
		"tier": func(n *node) {
			t, err := tool.ParseTier(r.text(n, "sandbox.tier"))
			switch {
			case err != nil:
				r.wrong(n, "sandbox.tier: %s", err)
			case t != tool.WASM:
				r.wrong(n, "sandbox.tier %s is not available yet in this build: only wasm is", t)
			default:
				s.Tier = t
			}
		},
		"memory":        func(n *node) { s.Memory = r.size(n, "sandbox.memory", 8<<20, 4<<30) },
		"cpu":           func(n *node) { s.CPU = r.duration(n, "sandbox.cpu", 10*time.Millisecond, time.Hour) },
		"output_tokens": func(n *node) { s.OutputTokens = r.count(n, "sandbox.output_tokens", 100, 1_000_000) },
		"calls":         func(n *node) { s.Calls = r.count(n, "sandbox.calls", 1, 1_000_000) },
		"concurrency":   func(n *node) { s.Concurrency = r.count(n, "sandbox.concurrency", 1, 1000) },
		"process": func(n *node) {
			if s.Process = r.oneOf(n, "sandbox.process", "auto", ProcessStrict, ProcessOff); s.Process == "auto" {
				s.Process = ""
			}
		},
	})
}

package config

import (
	"time"

	"github.com/biplane-dev/biplane/internal/exec/owned"
)

// readOwnSandboxes reads the limits of principals' own sandboxes.
func readOwnSandboxes(r *reader, n *node, l *owned.Limits) {
	const day = 24 * time.Hour
	r.readObject(n, "sandboxes", key{
		"count":        func(n *node) { l.Count = r.readCount(n, "sandboxes.count", 1, 100_000) },
		"each":         func(n *node) { l.Each = r.readCount(n, "sandboxes.each", 1, 10_000) },
		"running":      func(n *node) { l.Running = r.readCount(n, "sandboxes.running", 1, 10_000) },
		"running_each": func(n *node) { l.RunningEach = r.readCount(n, "sandboxes.running_each", 1, 10_000) },
		"memory":       func(n *node) { l.Memory = r.readSize(n, "sandboxes.memory", 16<<20, 1<<40) },
		"total_memory": func(n *node) { l.TotalMemory = r.readSize(n, "sandboxes.total_memory", 16<<20, 1<<42) },
		"disk":         func(n *node) { l.Disk = r.readSize(n, "sandboxes.disk", 1<<20, 1<<40) },
		"files":        func(n *node) { l.Files = r.readCount(n, "sandboxes.files", 100, 10_000_000) },
		"processes":    func(n *node) { l.Processes = r.readCount(n, "sandboxes.processes", 16, 10_000) },
		"run_time":     func(n *node) { l.RunTime = r.readDuration(n, "sandboxes.run_time", time.Second, day) },
		"standby":      func(n *node) { l.Standby = r.readDuration(n, "sandboxes.standby", time.Second, day) },
		"end_after":    func(n *node) { l.EndAfter = r.readDuration(n, "sandboxes.end_after", time.Second, 7*day) },
		"previews":     func(n *node) { l.Previews = r.readDays(n, "sandboxes.previews", time.Minute, 30*day) },
		"unused":       func(n *node) { l.Unused = r.readDays(n, "sandboxes.unused", time.Minute, 3650*day) },
	})
}

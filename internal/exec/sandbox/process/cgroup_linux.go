package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroups are the control groups of this process, below which those of sandboxes are created. The
// fields are directories, or empty if this process may not use a controller.
type cgroups struct {
	unified string // version 2, with the controllers memory and pids
	memory  string // version 1
	pids    string // version 1
	cpuacct string // version 1
	freezer string // version 2, possibly without controllers: it can stop processes
}

// A sharedGroups finds the control groups once.
type sharedGroups struct {
	once sync.Once
	all  cgroups
}

func (s *sharedGroups) findOnce() cgroups {
	s.once.Do(func() {
		s.all = findCgroups()
		s.all.removeLeftovers()
	})
	return s.all
}

// findCgroups returns the control groups that this process may use: those of version 2, or else
// those of version 1.
func findCgroups() (c cgroups) {
	b, err := os.ReadFile("/proc/self/cgroup") // lines of number:controllers:path
	if err != nil {
		return c
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch names := strings.Split(parts[1], ","); {
		case parts[1] == "":
			c.unified = checkSecondVersion(filepath.Join(cgroupRoot, parts[2]))
			c.freezer = findFreezer(c.unified, parts[2])
		case slices.Contains(names, "memory"):
			c.memory = checkWritable(filepath.Join(cgroupRoot, "memory", parts[2]))
		case slices.Contains(names, "pids"):
			c.pids = checkWritable(filepath.Join(cgroupRoot, "pids", parts[2]))
		case slices.Contains(names, "cpuacct"):
			c.cpuacct = checkWritable(filepath.Join(cgroupRoot, "cpuacct", parts[2]))
		}
	}
	return c
}

// checkWritable returns dir if a group can be created in it. If this process is killed before it
// removes the group, removeLeftovers of another one does so.
func checkWritable(dir string) string {
	probe, err := os.MkdirTemp(dir, groupName("probe"))
	if err != nil {
		return ""
	}
	if os.Remove(probe) != nil {
		return ""
	}
	return dir
}

// checkSecondVersion returns dir if groups with limits can be created in it.
func checkSecondVersion(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return ""
	}
	names := strings.Fields(string(b))
	if !slices.Contains(names, "memory") || !slices.Contains(names, "pids") {
		// This fails in a group with processes, other than the root.
		if os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory +pids"), 0) != nil {
			return ""
		}
	}
	return checkWritable(dir)
}

// findFreezer returns the directory of version 2 below which groups that can stop their processes
// are created, or "". It is unified, unless the limits are those of version 1. The freezer of
// version 1 isn't used: it would keep a sandbox from being killed, also when this process dies.
func findFreezer(unified, path string) string {
	if unified != "" {
		return unified
	}
	for _, root := range []string{filepath.Join(cgroupRoot, "unified"), cgroupRoot} {
		dir := filepath.Join(root, path)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.max.depth")); err == nil { // only version 2 has it
			return checkWritable(dir)
		}
	}
	return ""
}

// canLimitMemory reports whether the memory of sandboxes can be limited as a whole.
func (c cgroups) canLimitMemory() bool { return c.unified != "" || c.memory != "" }

// canLimitProcesses reports whether the number of processes of a sandbox can be limited as a whole.
func (c cgroups) canLimitProcesses() bool { return c.unified != "" || c.pids != "" }

// canCountCPU reports whether the CPU time of a sandbox can be read as a whole.
func (c cgroups) canCountCPU() bool { return c.unified != "" || c.cpuacct != "" }

// A group is the control groups of one sandbox.
type group struct {
	dirs    []string // all of them
	memory  string
	cpu     string
	freezer string // empty: it can't stop its processes
	unified bool
}

// createGroup creates the groups of a sandbox with its limits.
func (c cgroups) createGroup(name string, memory int64, processes int) (_ *group, err error) {
	g := &group{}
	defer func() {
		if err != nil {
			g.removeGroup()
		}
	}()
	add := func(parent string, files ...[2]string) (string, error) {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("create a control group: %w", err)
		}
		g.dirs = append(g.dirs, dir)
		for _, f := range files {
			optional := strings.HasPrefix(f[0], "?")
			err := writeControl(filepath.Join(dir, strings.TrimPrefix(f[0], "?")), f[1])
			if err != nil && !optional {
				return "", fmt.Errorf("limit a control group: %w", err)
			}
		}
		return dir, nil
	}
	bytes, count := strconv.FormatInt(memory, 10), strconv.Itoa(processes)
	if c.unified != "" {
		g.unified = true
		g.memory, err = add(c.unified, [2]string{"memory.max", bytes}, [2]string{"?memory.swap.max", "0"},
			[2]string{"pids.max", count})
		g.cpu, g.freezer = g.memory, g.memory
		return g, err
	}
	if c.freezer != "" {
		if g.freezer, err = add(c.freezer); err != nil {
			return g, err
		}
	}
	if c.memory != "" {
		// With swap, the limit of both comes after the limit of memory. Not all systems count swap.
		if g.memory, err = add(c.memory, [2]string{"memory.limit_in_bytes", bytes},
			[2]string{"?memory.memsw.limit_in_bytes", bytes}); err != nil {
			return g, err
		}
	}
	if c.pids != "" {
		if _, err = add(c.pids, [2]string{"pids.max", count}); err != nil {
			return g, err
		}
	}
	if c.cpuacct != "" {
		g.cpu, err = add(c.cpuacct)
	}
	return g, err
}

// enrollThread makes the next process that this thread starts begin in the groups. That is much
// faster than to move the process, for which the kernel stops the creation of all others. In
// version 1 the thread itself moves into the groups, so the caller calls leave when the process has
// started. If leave fails, the thread must end.
func (g *group) enrollThread(attributes *syscall.SysProcAttr) (leave func() error, err error) {
	var folder *os.File
	var joined []string
	leave = func() error {
		var errs []error
		if folder != nil {
			errs = append(errs, folder.Close())
		}
		for _, dir := range joined {
			errs = append(errs, moveThread(filepath.Dir(dir)))
		}
		return errors.Join(errs...)
	}
	for _, dir := range g.dirs {
		if dir == g.freezer { // of version 2
			if folder, err = os.Open(dir); err == nil {
				attributes.UseCgroupFD, attributes.CgroupFD = true, int(folder.Fd())
			}
		} else if err = moveThread(dir); err == nil {
			joined = append(joined, dir)
		}
		if err != nil {
			return leave, fmt.Errorf("enter a control group: %w", errors.Join(err, leave()))
		}
	}
	return leave, nil
}

// moveThread moves this thread into a group of version 1.
func moveThread(dir string) error {
	return writeControl(filepath.Join(dir, "tasks"), "0")
}

// writeControl writes to a file of a control group. Package os would also ask the system to report
// when the file can be written, and that wakes another thread at once.
func writeControl(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// countMemoryKills returns how many processes of the group the kernel has killed because the group
// reached its limit.
func (g *group) countMemoryKills() int64 {
	name := "memory.oom_control"
	if g.unified {
		name = "memory.events"
	}
	if g.memory == "" {
		return 0
	}
	return max(readField(filepath.Join(g.memory, name), "oom_kill"), 0)
}

// stopProcesses stops the processes of the group, or lets them continue.
func (g *group) stopProcesses(stop bool) error {
	value := "0"
	if stop {
		value = "1"
	}
	if err := writeControl(filepath.Join(g.freezer, "cgroup.freeze"), value); err != nil {
		return fmt.Errorf("stop a control group: %w", err)
	}
	return nil
}

// cpuTime returns the CPU time of the group. It reports false if it can't be read.
func (g *group) cpuTime() (time.Duration, bool) {
	switch {
	case g.cpu == "":
		return 0, false
	case g.unified:
		n := readField(filepath.Join(g.cpu, "cpu.stat"), "usage_usec")
		return time.Duration(n) * time.Microsecond, n >= 0
	}
	b, err := os.ReadFile(filepath.Join(g.cpu, "cpuacct.usage"))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return time.Duration(n), err == nil
}

// readField returns a number of a file with lines of a name and a number, or -1 if it has none.
func readField(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// removeGroup removes the groups once their processes have ended. The kernel may take a moment to
// account for the last one.
func (g *group) removeGroup() error {
	var errs []error
	for _, dir := range g.dirs {
		var err error
		for wait := time.Millisecond; wait < time.Second; wait *= 2 {
			if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				err = nil
				break
			}
			time.Sleep(wait)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// groupName returns the name of a group of this process.
func groupName(random string) string { return fmt.Sprintf("%s%d-%s", groupPrefix, os.Getpid(), random) }

const groupPrefix = "biplane-"

// removeLeftovers removes the groups of processes that died. Their sandboxes died with them.
func (c cgroups) removeLeftovers() {
	for _, parent := range []string{c.unified, c.memory, c.pids, c.cpuacct, c.freezer} {
		if parent == "" {
			continue
		}
		dirs, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"[0-9]*-*")) // the pattern is valid
		for _, dir := range dirs {
			owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
			if _, err := os.Stat("/proc/" + owner); errors.Is(err, os.ErrNotExist) {
				_ = os.Remove(dir) // it fails while the group is in use
			}
		}
	}
}

package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxMounts is the maximum number of folders of the host that a machine has besides its own.
const maxMounts = 16

// sendTime is how long an agent may take to have room for another descriptor.
const sendTime = 10 * time.Second

// A machine is a sandbox without a program. Its agent receives a descriptor for each operation.
type machine struct {
	*box
	done chan struct{} // closed when it has ended and its reason is known

	sending sync.Mutex // one descriptor at a time
}

// CreateMachine starts a machine.
func (d *Driver) CreateMachine(ctx context.Context, spec sandbox.MachineSpec) (sandbox.Machine, error) {
	if len(spec.Mounts) > maxMounts {
		return nil, tool.Errorf(tool.Invalid, "a machine has at most %d folders of the host", maxMounts)
	}
	own := sandbox.Spec{Runtime: entry.MachineRuntime, Owner: spec.Owner, Image: spec.Image, Memory: spec.Memory}
	lease, err := d.useImage(own)
	if err != nil {
		return nil, err
	}
	b, err := d.startKept(ctx, &box{d: d, image: lease, machine: &spec, spec: own}, "")
	if err != nil {
		return nil, err
	}
	m := &machine{box: b, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed { // together with the driver
		return nil, errDriverClosed
	}
	b.runs.Add(1) // Close waits for it
	running, cancel := context.WithCancel(context.Background())
	closeNetwork := b.gate.openTraffic(running, spec.Traffic)
	go func() {
		defer b.runs.Done()
		<-b.ended
		close(m.done)
		cancel()
		closeNetwork()
	}()
	return m, nil
}

// fillMachine adds the folders of a machine to its setup. Its own becomes the property of the
// sandbox's user.
func fillMachine(spec *sandbox.MachineSpec, s *entry.Setup, h *handover) error {
	if os.Geteuid() == 0 {
		u := sandboxUser()
		if err := os.Lchown(spec.Folder, u.UID, u.GID); err != nil {
			return fmt.Errorf("the folder of a machine: %w", err)
		}
	}
	at, err := h.addMount(spec.Folder)
	if err != nil {
		return fmt.Errorf("the folder of a machine: %w", err)
	}
	s.Mounts = append(s.Mounts, entry.Mounted{Shared: at, Target: "/workspace", Write: true})
	for _, m := range spec.Mounts {
		if err := checkMount(m.Path); err != nil {
			return err
		}
		at, err := h.addMount(m.Path)
		if err != nil {
			return tool.Errorf(tool.Invalid, "%s can't be shared with a sandbox: %w", m.Path, err)
		}
		s.Mounts = append(s.Mounts, entry.Mounted{Shared: at, Target: m.Path, File: m.File})
	}
	return nil
}

// checkMount returns an error for a folder that a machine can't have at the same path.
func checkMount(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return tool.Errorf(tool.Invalid, "%q can't be shared with a sandbox: write an absolute path below /", path)
	}
	for _, own := range []string{"/workspace", "/skills", "/proc", "/sys", "/dev", shell.Folder} {
		if path == own || strings.HasPrefix(path, own+"/") {
			return tool.Errorf(tool.Invalid, "%s can't be shared with a sandbox: it has its own %s", path, own)
		}
	}
	return nil
}

// OpenStream opens a stream to the agent.
func (m *machine) OpenStream(ctx context.Context) (*os.File, error) {
	if err := m.EndReason(); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	own := os.NewFile(uintptr(pair[0]), "stream")
	theirs := os.NewFile(uintptr(pair[1]), "stream")
	defer theirs.Close()
	if err := m.sendDescriptor(ctx, pair[1]); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return own, nil
}

// sendDescriptor sends a descriptor to the agent.
func (m *machine) sendDescriptor(ctx context.Context, fd int) error {
	m.sending.Lock()
	defer m.sending.Unlock()
	conn, err := m.conn.SyscallConn()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := m.conn.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	var sent error
	err = conn.Write(func(to uintptr) bool {
		sent = unix.Sendmsg(int(to), []byte{'S'}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return tool.Errorf(tool.Unavailable, "the sandbox does not answer: end it")
	}
	if err = errors.Join(err, sent); err != nil {
		return tool.Errorf(tool.Unavailable, "the sandbox has ended: %w", cmp.Or(m.EndReason(), err))
	}
	return nil
}

// EndSignal returns a channel that is closed when the machine has ended.
func (m *machine) EndSignal() <-chan struct{} { return m.done }

// EndReason returns why the machine has ended.
func (m *machine) EndReason() error {
	select {
	case <-m.done:
	default:
		return nil
	}
	m.mu.Lock()
	cause := m.cause
	m.mu.Unlock()
	switch {
	case cause != nil:
		return cause
	case m.group.countMemoryKills() > 0:
		return memoryLimit(m.spec.Memory)
	}
	return tool.Errorf(tool.Unavailable, "its first process ended: %s", m.state)
}

// ReclaimMemory makes the system take back memory of a frozen machine.
func (m *machine) ReclaimMemory() (freed int64, err error) {
	before := m.usedMemory()
	if before == 0 {
		return 0, errors.New("no control group counts the memory of a sandbox here")
	}
	err = m.group.reclaimMemory(before)
	freed = max(before-m.usedMemory(), 0)
	if !hasSwap() && err == nil {
		err = errors.New("this host has no swap: only the memory of files can be taken back")
	}
	return freed, err
}

// reclaimMemory asks the system to take back memory of a group, as much as it can.
func (g *group) reclaimMemory(most int64) error {
	if !g.unified { // version 1 has one request for all that can be taken back
		return os.WriteFile(filepath.Join(g.memory, "memory.force_empty"), []byte("0"), 0)
	}
	_ = os.WriteFile(filepath.Join(g.memory, "memory.swap.max"), []byte("max"), 0) // not all systems count swap
	err := os.WriteFile(filepath.Join(g.memory, "memory.reclaim"), []byte(strconv.FormatInt(most, 10)), 0)
	if errors.Is(err, unix.EAGAIN) { // less than all of it
		return nil
	}
	return err
}

// hasSwap reports whether the system has swap.
func hasSwap() bool {
	b, err := os.ReadFile("/proc/swaps")
	return err == nil && strings.Count(string(b), "\n") > 1
}

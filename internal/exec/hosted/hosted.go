// Package hosted runs the servers of upstreams in sandboxes of their own (sandbox.Machine): with
// their own files, only the hosts that the configuration grants, and secrets that they use without
// having them. An idle server sleeps: it is frozen, and the next call wakes it. Nothing here runs a
// server with less: if its sandbox can't be created, it doesn't start.
package hosted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/folder"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits are bounds on one server. A zero field means its default.
type Limits struct {
	Memory    int64         // bytes of its processes; default 512 MiB
	Processes int           // processes and threads; default 256
	Disk      int64         // bytes of its files; default 1 GiB
	Files     int           // files and folders; default 100,000
	Standby   time.Duration // an idle server is frozen after this time; default 15 s; negative: never
}

// completeLimits returns the limits with defaults for zero fields.
func (l Limits) completeLimits() Limits {
	l.Memory, l.Processes = cmp.Or(l.Memory, 512<<20), cmp.Or(l.Processes, 256)
	l.Disk, l.Files = cmp.Or(l.Disk, 1<<30), cmp.Or(l.Files, 100_000)
	l.Standby = cmp.Or(l.Standby, 15*time.Second)
	return l
}

// A Gate decides on the connections of a server.
type Gate struct {
	Hosts   traffic.Hosts
	Door    tool.Caller
	Network sandbox.Network
	// Client makes the connections. It inserts the secrets of this server, and no others.
	Client *egress.Client
	// Reach are the hosts that the configuration grants, in lower case. Grantor names the key that
	// does, for the record.
	Reach   []string
	Grantor string
}

// Files are the files of a server.
type Files interface {
	// EndUse is called when nothing of a server is left, except files that are kept.
	EndUse()
}

// Config configures a Host. Name, Driver, Command and Log must be set.
type Config struct {
	Name    string // of the upstream
	Driver  sandbox.MachineDriver
	Folder  string   // of the server's files; empty: a temporary one for each start
	Parent  string   // of temporary folders; empty: the system's
	Command []string // the server's program and its arguments, in the sandbox
	Env     []string // NAME=value
	Dir     string   // in the sandbox; empty: /workspace
	Image   string
	Mounts  []string // files and folders of the host, read-only, at the same paths
	Gate    *Gate    // nil: the server has no network
	Limits  Limits
	Memory  *Memory // reclaims its memory when that is scarce; nil: nothing does
	Files   Files   // of servers with a Folder; may be nil
	Log     *slog.Logger
}

// A Host starts the server of one upstream in sandboxes. It is safe for concurrent use.
type Host struct{ cfg Config }

// NewHost returns a Host. It starts nothing.
func NewHost(cfg Config) *Host {
	cfg.Limits = cfg.Limits.completeLimits()
	return &Host{cfg}
}

// ownPrincipal returns on whose behalf the server makes connections.
func (h *Host) ownPrincipal() tool.Principal {
	return tool.Principal{ID: "server:" + h.cfg.Name, Name: h.cfg.Name}
}

// listMounts returns the mounts of the sandbox.
func (h *Host) listMounts() (out []sandbox.Mount, err error) {
	for _, path := range h.cfg.Mounts {
		info, err := os.Stat(path)
		if err != nil {
			return nil, tool.Errorf(tool.Invalid, "sandbox.mounts: %w", err)
		}
		out = append(out, sandbox.Mount{Path: path, File: !info.IsDir()})
	}
	return out, nil
}

// makeFolder makes the folder of the server's files. The server removes one that is temporary.
func (h *Host) makeFolder() (dir string, temporary bool, err error) {
	if h.cfg.Folder == "" {
		if h.cfg.Parent != "" {
			if err := os.MkdirAll(h.cfg.Parent, 0o700); err != nil {
				return "", true, err
			}
		}
		dir, err = os.MkdirTemp(h.cfg.Parent, "biplane-server-")
		return dir, true, err
	}
	if err := os.MkdirAll(h.cfg.Folder, 0o700); err != nil {
		return "", false, err
	}
	return h.cfg.Folder, false, h.checkFiles(h.cfg.Folder, 0)
}

// checkFiles returns an error of kind Limit if the server's files exceed a limit. removed are the
// bytes of removed files that its processes have open.
func (h *Host) checkFiles(folder string, removed int64) error {
	l := h.cfg.Limits
	bytes, files, err := owned.MeasureFolder(folder, l.Disk, l.Files)
	if err == nil && (bytes+removed > l.Disk || files > l.Files) {
		return tool.Errorf(tool.Limit, "they exceed %s or %s (sandbox.disk)", text.Size(l.Disk),
			text.Count(l.Files, "file"))
	}
	return err
}

// RemoveLeft removes the temporary folders that a process left which was killed.
func RemoveLeft(parent string) error {
	if _, err := os.Lstat(parent); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return folder.RemoveFolder(parent)
}

// StartServer starts the server in a new sandbox.
func (h *Host) StartServer(ctx context.Context) (*Server, error) {
	mounts, err := h.listMounts()
	if err != nil {
		return nil, err
	}
	s := &Server{host: h, streams: newStreams(), ended: make(chan struct{})}
	switch s.folder, s.temporary, err = h.makeFolder(); {
	case err != nil && tool.AsError(err).Kind == tool.Limit: // or each start could add to them
		return nil, tool.Errorf(tool.Limit, "its files: %w: remove some from its folder below servers/ in the data "+
			"folder", err)
	case err != nil:
		return nil, fmt.Errorf("make the folder of its files: %w", err)
	}
	l := h.cfg.Limits
	spec := sandbox.MachineSpec{Folder: s.folder, Owner: h.ownPrincipal().ID, Image: h.cfg.Image, Mounts: mounts,
		Memory: l.Memory, Processes: l.Processes}
	if g := h.cfg.Gate; g != nil {
		spec.Network, spec.Traffic = g.Network, newGuard(s, g)
	}
	if s.machine, err = h.cfg.Driver.CreateMachine(ctx, spec); err != nil {
		return nil, errors.Join(err, s.removeFolder())
	}
	running, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	h.cfg.Memory.addServer(s)
	s.work.Go(s.guardFiles)
	s.work.Go(s.streams.passNotes)
	go s.runCommand(running)
	return s, nil
}

// A Server is a server that runs in a sandbox, or has ended.
type Server struct {
	host      *Host
	machine   sandbox.Machine
	folder    string
	temporary bool
	streams   streams
	cancel    context.CancelFunc // ends the command
	ended     chan struct{}      // closed when nothing of it is left
	work      sync.WaitGroup     // goroutines besides the one that runs the command

	mu     sync.Mutex
	users  int
	frozen bool
	shrunk bool        // it is frozen, and its memory was taken back
	since  time.Time   // when it was frozen
	over   bool        // it is ending, or has ended
	rests  bool        // it was ended to free memory
	sleep  *time.Timer // freezes it; nil: it was not used yet
	why    string      // why it was ended; may be empty
	status string      // how it ended; set before ended is closed
}

// runCommand runs the server's command to its end, and then ends the sandbox.
func (s *Server) runCommand(ctx context.Context) {
	defer close(s.ended)
	c := s.host.cfg
	q := &service.Request{Op: service.OpRun, Command: c.Command, Dir: c.Dir, Env: c.Env, Input: true}
	r, err := service.RunCommand(ctx, s.machine, q, s.streams.in.from, &s.streams)
	status := s.describeStatus(r, err)
	s.mu.Lock()
	s.over, s.status = true, status
	if s.sleep != nil {
		s.sleep.Stop()
	}
	s.mu.Unlock()
	if err := s.machine.Close(); err != nil { // with everything that the server left behind
		c.Log.Warn("sandbox of a server not closed", "upstream", c.Name, "error", err)
	}
	c.Memory.removeServer(s)
	s.streams.closeAll()
	s.work.Wait()
	if err := s.removeFolder(); err != nil {
		c.Log.Warn("files of a server not removed", "upstream", c.Name, "error", err)
	}
	if c.Files != nil {
		c.Files.EndUse()
	}
}

// lostTime is how long the processes of a sandbox may take to end after its agent has.
const lostTime = 5 * time.Second

// describeStatus describes how the command ended.
func (s *Server) describeStatus(r *service.Reply, err error) string {
	s.mu.Lock()
	why := s.why
	s.mu.Unlock()
	switch {
	case why != "":
		return "was ended: " + why
	case err == nil && r.Exit != nil && r.Exit.Signal != "":
		return "was ended by " + r.Exit.Signal
	case err == nil && r.Exit != nil:
		return fmt.Sprintf("exited with status %d", r.Exit.Status)
	case errors.Is(err, service.ErrLost):
		timer := time.NewTimer(lostTime)
		defer timer.Stop()
		select {
		case <-s.machine.EndSignal(): // soon: the stream ends with the agent, and the rest with it
			return "lost its sandbox: " + tool.AsError(s.machine.EndReason()).Msg
		case <-timer.C:
		}
	case err == nil:
		return "ended"
	}
	return "ended: " + tool.AsError(err).Msg
}

// removeFolder removes the server's files if they are temporary.
func (s *Server) removeFolder() error {
	if !s.temporary {
		return nil
	}
	return folder.RemoveFolder(s.folder)
}

// EndSignal returns a channel that is closed when nothing of the server is left.
func (s *Server) EndSignal() <-chan struct{} { return s.ended }

// DescribeEnd describes its end. It rests if it was only ended to free memory.
func (s *Server) DescribeEnd() (how string, rests bool) {
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.rests
}

// StopServer ends the server. It has grace to exit, since its standard input is closed.
func (s *Server) StopServer(grace time.Duration) {
	if release, err := s.UseServer(context.Background()); err == nil { // it must be awake to notice
		defer release()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
		s.cancel()
		<-s.ended
	}
}

// measureEach is the time between two measurements of the server's files.
const measureEach = 5 * time.Second

// guardFiles measures the server's files while it runs. If they exceed a limit, it ends the server.
func (s *Server) guardFiles() {
	wait := measureEach
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.machine.EndSignal():
			timer.Stop()
			return
		}
		s.mu.Lock()
		frozen := s.frozen
		s.mu.Unlock()
		if frozen {
			continue
		}
		began := time.Now()
		if err := s.host.checkFiles(s.folder, s.machine.RemovedBytes()); err != nil &&
			tool.AsError(err).Kind == tool.Limit {
			s.endServer("its files: " + tool.AsError(err).Msg)
			return
		}
		wait = max(measureEach, 10*time.Since(began))
	}
}

// endServer ends the server for a reason.
func (s *Server) endServer(why string) {
	s.mu.Lock()
	if s.why == "" {
		s.why = why
	}
	s.mu.Unlock()
	s.cancel()
}

package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
	"github.com/biplane-dev/biplane/internal/tool"
)

// startTime is how long a sandbox may take to become ready.
const startTime = time.Minute

// A Driver creates sandboxes. It is safe for concurrent use.
type Driver struct {
	cfg      Config
	build    string // identity of the guests: no other process can continue them
	groups   sharedGroups
	small    smallProgram
	starters starters
	network  hostNetwork
	threads  sync.WaitGroup // that use network
	probe    probe

	closing context.Context // done when Close begins
	cancel  context.CancelCauseFunc
	starts  sync.WaitGroup // sandboxes that are being started

	mu       sync.Mutex
	boxes    map[*box]struct{} // started sandboxes
	closed   bool              // no further sandbox is started
	sources  *os.File          // the files of the agent for Python; nil: not yet needed
	bytecode *os.File          // its compiled modules; nil: unknown
	pool     pool
	// libraries are compiled libraries by their folders
	libraries map[string]*library
	fills     sync.WaitGroup // sandboxes that are started ahead, and libraries that are compiled
}

// A probe caches the capabilities that the first successful probe found.
type probe struct {
	mu   sync.Mutex
	caps *sandbox.Capabilities
}

// New returns a Driver. It starts nothing.
func New(cfg Config) (*Driver, error) {
	if len(cfg.Command) == 0 {
		cfg.Command = []string{Command}
	}
	if cfg.Disk == 0 {
		cfg.Disk = defaultDisk
	}
	if cfg.Processes == 0 {
		cfg.Processes = defaultProcesses
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Driver{cfg: cfg, build: "process " + rand.Text(), boxes: map[*box]struct{}{},
		libraries: map[string]*library{}}
	d.closing, d.cancel = context.WithCancelCause(context.Background())
	return d, nil
}

// Probe starts a sandbox, and returns what sandboxes can do and which protections they lack.
func (d *Driver) Probe(ctx context.Context) (sandbox.Capabilities, error) {
	d.probe.mu.Lock()
	defer d.probe.mu.Unlock()
	if d.probe.caps != nil {
		return d.addFailure(*d.probe.caps), nil
	}
	c := sandbox.Capabilities{Driver: "process", Tier: tool.Process, Engines: map[string]string{},
		Builds: map[string]string{}, Details: map[string]string{}, Modules: map[string][]string{},
		Ephemeral: true}
	var errs []error
	c.Unavailable = map[string]string{}
	found := make([]sandbox.Capabilities, len(interpreters))
	failed := make([]error, len(interpreters))
	var probes sync.WaitGroup
	for i, r := range interpreters {
		probes.Go(func() { found[i], failed[i] = d.probeRuntime(ctx, r) })
	}
	probes.Wait()
	for i, r := range interpreters {
		if failed[i] != nil {
			errs = append(errs, failed[i])
			c.Unavailable[r.name] = failed[i].Error()
			continue
		}
		c.Runtimes = append(c.Runtimes, r.name)
		c.Engines[r.name], c.Builds[r.name] = found[i].Engine, d.build
		c.Modules[r.name] = found[i].Modules[r.name]
		maps.Copy(c.Details, found[i].Details)
		if c.Engine != "" {
			c.Engine += ", "
		}
		c.Engine += found[i].Engine
	}
	if len(c.Runtimes) == 0 {
		return sandbox.Capabilities{}, errors.Join(errs...)
	}
	c.Missing = d.ListMissing()
	d.probe.caps = &c
	return d.addFailure(c), nil
}

// addFailure adds to the capabilities why sandboxes start slowly, if they do.
func (d *Driver) addFailure(c sandbox.Capabilities) sandbox.Capabilities {
	if why := d.starters.describeFailure(); why != "" {
		c.Details = maps.Clone(c.Details)
		c.Details[sandbox.SlowStart] = why
	}
	return c
}

// probeRuntime starts a sandbox with a runtime, and returns what only that can do.
func (d *Driver) probeRuntime(ctx context.Context, r interpreter) (c sandbox.Capabilities, err error) {
	began := time.Now()
	path, err := d.checkInterpreter(r.name, nil)
	if err != nil {
		return c, err
	}
	b, err := d.createBox(ctx, sandbox.Spec{Runtime: r.name}, path, nil)
	if err != nil {
		return c, err
	}
	took := time.Since(began).Round(time.Millisecond)
	has, err := b.readInventory()
	if err := errors.Join(err, b.Close()); err != nil {
		return c, fmt.Errorf("probe a sandbox for %s: %w", r.title, err)
	}
	if len(has.Bytecode) > 0 { // no program has run there
		if err := d.keepBytecode(has.Bytecode); err != nil {
			return c, err
		}
	}
	c.Engine = r.title + " " + has.Version
	c.Details = map[string]string{r.name: d.findInterpreter(r), r.name + " start": took.String()}
	c.Modules = map[string][]string{r.name: has.Modules}
	return c, nil
}

// ListMissing returns the protections that this host doesn't provide, with their substitutes.
func (d *Driver) ListMissing() []string {
	g := d.groups.findOnce()
	var out []string
	if !g.canLimitMemory() {
		out = append(out, "a limit of the memory of all processes of a sandbox: each has its own "+
			"(no control group with the memory controller can be created here)")
	}
	if !g.canLimitProcesses() {
		out = append(out, "a limit of the processes of one sandbox: the limit of their user applies "+
			"(no control group with the pids controller can be created here)")
	}
	if !g.canCountCPU() {
		out = append(out, "a limit of the CPU time of all processes of a sandbox: each has its own "+
			"(no control group that counts it can be created here)")
	}
	return out
}

// An interpreter runs a language, or is its compiler.
type interpreter struct {
	name  string   // Spec.Runtime
	title string   // name of the interpreter
	paths []string // where it may be, below /usr
	pack  string   // its package in Debian
}

var interpreters = []interpreter{
	{"python", "CPython", []string{"/usr/bin/python3", "/usr/local/bin/python3"}, "python3"},
	{"js", "Node.js", []string{"/usr/bin/node", "/usr/local/bin/node", "/usr/bin/nodejs"}, "nodejs"},
	{"bash", "Bash", []string{"/usr/bin/bash", "/usr/local/bin/bash", "/bin/bash"}, "bash"},
	{"go", "Go", []string{"/usr/local/go/bin/go", "/usr/bin/go", "/usr/lib/go/bin/go"}, "golang-go"},
	{"rust", "Rust", []string{"/usr/bin/rustc", "/usr/local/bin/rustc", "/usr/local/cargo/bin/rustc"}, "rustc"},
	{"java", "Java", []string{"/usr/bin/javac", "/usr/local/bin/javac"}, "default-jdk-headless"},
}

// needsCompiler reports whether programs of a runtime are compiled.
func needsCompiler(runtime string) bool {
	return runtime == "go" || runtime == "rust" || runtime == "java"
}

// findInterpreter returns the path of the interpreter of a runtime, or "" if there is none.
func (d *Driver) findInterpreter(r interpreter) string {
	if r.name == "python" && d.cfg.Python != "" {
		return d.cfg.Python
	}
	if r.name == "js" && d.cfg.Node != "" {
		return d.cfg.Node
	}
	for _, path := range r.paths {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// checkInterpreter returns the path of the interpreter of a runtime, in an image or at the host.
func (d *Driver) checkInterpreter(name string, lease *image.Lease) (string, error) {
	i := slices.IndexFunc(interpreters, func(r interpreter) bool { return r.name == name })
	if i < 0 {
		return "", tool.Errorf(tool.Invalid, "process sandboxes have no runtime %q", name)
	}
	r := interpreters[i]
	if lease != nil {
		path := lease.Interpreters[name]
		switch {
		case path != "":
			return path, nil
		case !lease.Host:
			return "", tool.Errorf(tool.Unavailable, "image %q has no %s for %s programs", lease.Name, r.title, name)
		}
	}
	path := d.findInterpreter(r)
	file, err := filepath.EvalSymlinks(path)
	switch {
	case path == "" && needsCompiler(name):
		return "", tool.Errorf(tool.Unavailable, "process sandboxes need %s for %s programs, and this host has no %s: "+
			"install it (Debian: %s), or build an image that has it: biplane image build %s --packages %[4]s",
			r.title, name, r.paths[0], r.pack, name)
	case path == "":
		return "", tool.Errorf(tool.Unavailable, "process sandboxes need %s for %s programs, and this host has no %s: "+
			"install it (Debian: %s)", r.title, name, r.paths[0], r.pack)
	case err != nil:
		return "", tool.Errorf(tool.Unavailable, "process sandboxes need %s for %s programs, and %w: "+
			"install it (Debian: %s)", r.title, name, err, r.pack)
	case !isShared(path) || !isShared(file):
		return "", tool.Errorf(tool.Invalid, "the interpreter %s is not below /usr, so sandboxes don't have it: "+
			"install one there (Debian: %s)", file, r.pack)
	}
	return path, nil
}

// isShared reports whether sandboxes have a file of the host.
func isShared(path string) bool {
	return strings.HasPrefix(path, "/usr/") || strings.HasPrefix(path, "/bin/")
}

// Create starts a sandbox. It fails if a protection can't be armed.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	spec.Runtime = cmp.Or(spec.Runtime, "js")
	lease, err := d.useImage(spec)
	if err != nil {
		return nil, err
	}
	path, err := d.checkInterpreter(spec.Runtime, lease)
	if err != nil {
		return nil, errors.Join(err, lease.EndUse())
	}
	if b := d.claimBox(spec, lease); b != nil {
		return b, lease.EndUse() // the sandbox has one of its own
	}
	b := &box{d: d, spec: spec, image: lease, libraries: d.findLibraries(ctx, spec, path, lease)}
	if b, err = d.startKept(ctx, b, path); err != nil {
		return nil, err
	}
	return b, nil
}

// keepBytecode keeps the agent's compiled modules for later sandboxes.
func (d *Driver) keepBytecode(files map[string][]byte) error {
	f, err := packFiles("bytecode", files)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bytecode != nil || d.closed {
		return f.Close()
	}
	d.bytecode = f
	return nil
}

// createBox starts a sandbox that runs the interpreter at path. The sandbox closes the lease of its
// image, which may be nil.
func (d *Driver) createBox(ctx context.Context, spec sandbox.Spec, path string, lease *image.Lease) (*box, error) {
	return d.startKept(ctx, &box{d: d, spec: spec, image: lease}, path)
}

// startKept starts a sandbox, and has it closed together with the driver.
func (d *Driver) startKept(ctx context.Context, b *box, path string) (*box, error) {
	if b.spec.Memory == 0 {
		b.spec.Memory = defaultMemory
	}
	if b.spec.Output == 0 {
		b.spec.Output = defaultOutput
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errors.Join(fmt.Errorf("create a sandbox: %w", errDriverClosed), b.image.EndUse())
	}
	d.starts.Add(1) // Close waits for it
	d.mu.Unlock()
	defer d.starts.Done()
	if err := d.startBox(ctx, b, path); err != nil {
		return nil, errors.Join(fmt.Errorf("create a sandbox: %w", err), b.Close())
	}
	d.mu.Lock()
	d.boxes[b] = struct{}{}
	d.mu.Unlock()
	return b, nil
}

// errDriverClosed is the error of a sandbox that is created too late.
var errDriverClosed = &tool.Error{Kind: tool.Unavailable, Msg: "the driver is closed"}

// errSlowStart is the error of a sandbox that needs more than startTime to become ready.
var errSlowStart = tool.Errorf(tool.Unavailable, "the sandbox was not ready after %s: is this host overloaded?",
	startTime)

// startBox starts the process of a sandbox, and waits until its agent is ready.
func (d *Driver) startBox(ctx context.Context, b *box, path string) (err error) {
	var t *thread
	if d.expectsStarter(b) {
		t = d.prepareThread(b.machine != nil)
	}
	defer t.dismissThread()
	g := d.groups.findOnce()
	name := groupName(strings.ToLower(rand.Text()[:16]))
	processes := d.cfg.Processes
	if b.machine != nil {
		processes = cmp.Or(b.machine.Processes, processes)
	}
	if b.group, err = g.createGroup(name, b.spec.Memory, processes); err != nil {
		return err
	}
	s := entry.Setup{Runtime: b.spec.Runtime, Interpreter: path, Disk: d.cfg.Disk, Processes: processes,
		Memory: b.spec.Memory, LeaveGroups: os.Geteuid() == 0}
	if !g.canLimitMemory() {
		s.AddressMax = b.spec.Memory
	}
	if !g.canCountCPU() && b.spec.CPU > 0 {
		s.CPUSeconds = int64(b.spec.CPU/time.Second) + 1
	}
	if s.Network, err = b.gate.createGate(b.chooseNetwork()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errSlowStart)
	defer cancel()
	started, err := d.enterBox(ctx, b, s, true, t)
	switch {
	case !started || err != nil && (ctx.Err() != nil || d.closing.Err() != nil):
		return err
	case err == nil:
		d.starters.noteSuccess(d.cfg.Log)
		return nil
	}
	failed := err
	if _, err = d.enterBox(ctx, b, s, false, nil); err == nil { // else the program has reported why
		d.starters.noteFailure(failed, d.cfg.Log)
	}
	return err
}

// enterBox starts the process of a sandbox, and waits until its agent is ready. If quick is set and
// a starter can enter this sandbox, that does so instead of the program, in the network of t, which
// may be nil. enterBox reports whether a starter was tried.
func (d *Driver) enterBox(ctx context.Context, b *box, s entry.Setup, quick bool, t *thread) (
	started bool, err error) {
	h := &handover{}
	defer h.closeFiles()
	if err := d.fillSetup(b, &s, h); err != nil {
		return false, err
	}
	program := "/proc/self/exe"
	if f := d.small.openFile(d.cfg.Command); f != nil {
		s.AgentFD = h.lendFile(f)
		program = descriptorPath(s.AgentFD)
	}
	line, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	if quick && s.AgentFD != 0 {
		s.HasNetwork = t != nil
		switch f, err := d.starters.openStarter(&s, h); {
		case err != nil:
			return true, err
		case f != nil:
			program, line, started = descriptorPath(h.addFile(f)), nil, true
		}
	}
	if !started {
		t = nil // the program makes its own network
	}
	if err := b.startProcess(program, d.cfg.Command, h.files, append(line, '\n'), t); err != nil {
		return started, err
	}
	defer context.AfterFunc(ctx, b.killProcess)()
	defer context.AfterFunc(d.closing, b.killProcess)()
	err = b.awaitAgent()
	switch {
	case ctx.Err() != nil:
		return started, context.Cause(ctx)
	case err != nil && d.closing.Err() != nil:
		return started, context.Cause(d.closing)
	}
	return started, err
}

// sandboxUser returns the user of the host that a sandbox's processes have.
func sandboxUser() image.User {
	if os.Geteuid() == 0 {
		return image.User{UID: 65534, GID: 65534}
	}
	return image.User{UID: os.Geteuid(), GID: os.Getegid()}
}

// processAttributes returns the system's attributes of a new sandbox. The process borrows this
// one's memory until it executes the binary, while the thread that starts it waits. Copying the
// page tables of a gateway would take milliseconds. So its user is mapped later (launch.MapUser).
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: entry.Namespaces&^unix.CLONE_NEWTIME | unix.CLONE_VM | unix.CLONE_VFORK,
		AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP,
			unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE},
		Setsid: true,
	}
}

// forgetBox removes a sandbox from those to close.
func (d *Driver) forgetBox(b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.boxes, b)
}

// Close closes the driver and all sandboxes. It ends sandboxes that are being started, too.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel(errDriverClosed)
	d.starts.Wait()
	d.mu.Lock()
	d.pool.stopTimers()
	var all []*box
	for b := range d.boxes {
		all = append(all, b)
	}
	d.mu.Unlock()
	var errs []error
	for _, b := range all {
		errs = append(errs, b.Close())
	}
	d.fills.Wait()
	d.threads.Wait()
	for _, f := range []*os.File{d.sources, d.bytecode, d.small.file, d.network.file} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	d.sources, d.bytecode = nil, nil
	return errors.Join(errs...)
}

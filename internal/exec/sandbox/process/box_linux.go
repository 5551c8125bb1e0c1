package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxFrame  = 64 << 20 // bytes of a frame from the agent
	watchEach = 20 * time.Millisecond
)

// Kinds of frames; agent/_host.py describes them.
const (
	frameLine     = 'L'
	frameQuestion = 'Q'
	frameReady    = 'R'
	frameIdle     = 'I'
	frameAnswer   = 'A'
	frameNone     = 'N'
	frameEnd      = 'E'

	frameInventory = 'M'
	frameWarm      = 'W'
	frameKilled    = 'K'
	frameOutput    = 'O'
)

// A box is a sandbox: the first process in its namespaces, and a connection to the agent in it.
// When that process ends, the kernel kills all others in its namespaces.
type box struct {
	d       *Driver
	spec    sandbox.Spec
	image   *image.Lease         // nil: the host's /usr
	machine *sandbox.MachineSpec // nil: it runs programs
	// libraries is a folder of the host with compiled libraries; empty: it has none. makes means
	// that they are made here.
	libraries string
	makes     bool
	group     *group
	process   *os.Process
	conn      *os.File
	in        *bufio.Reader
	said      launch.Tail   // the beginning of standard error before the interpreter runs
	saidAll   chan struct{} // closed at the end of standard error
	gate      gate
	output    *output       // what the agent for Node.js and its processes write; nil: another runtime
	ended     chan struct{} // closed when the process has ended
	state     *os.ProcessState

	out  sender
	runs sync.WaitGroup // a Run in progress

	mu      sync.Mutex
	running bool
	frozen  bool  // its processes are stopped
	kills   int64 // out-of-memory kills of its processes before this Run
	failed  error // why no further Run is possible
	cause   error // why the process was killed
	closed  bool
}

// A sender sends frames to the agent, one at a time.
type sender struct {
	mu   sync.Mutex
	conn *os.File
}

// An inventory is what the interpreter has.
type inventory struct {
	Version string   `json:"version"`
	Modules []string `json:"modules"` // without the modules of the embedded engine
	// Bytecode is the agent's compiled modules: path below the agent's folder to content.
	Bytecode map[string][]byte `json:"bytecode"`
}

// readInventory asks the agent what the interpreter has. It is called before the first Run.
func (b *box) readInventory() (out inventory, err error) {
	if err := b.sendFrame(frameInventory, nil); err != nil {
		return out, err
	}
	kind, data, err := b.readFrame()
	if err == nil && kind != frameInventory {
		err = fmt.Errorf("the agent of the sandbox sent %q", kind)
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return out, err
}

// prepareGuest makes the agent for Python import modules, and the agent for a compiled language
// compile its libraries. It is called before the first Run. Modules that can't be imported are left
// out: a program that imports one learns why.
func (b *box) prepareGuest(modules []string, most time.Duration) error {
	ctx, cancel := context.WithTimeout(b.d.closing, most)
	defer cancel()
	defer context.AfterFunc(ctx, b.killProcess)()
	names, err := json.Marshal(modules)
	if err == nil {
		err = b.sendFrame(frameWarm, names)
	}
	if err != nil {
		return err
	}
	kind, data, err := b.readFrame()
	switch {
	case err == nil && kind != frameWarm:
		err = fmt.Errorf("the agent of the sandbox sent %q", kind)
	case err == nil && string(data) != "{}":
		b.d.cfg.Log.Warn("modules not imported ahead", "image", b.image.Name, "failed", text.Cut(string(data), 1000))
	}
	return err
}

// startProcess starts a program in new namespaces, and sends it a line with its setup. extra are
// files for it. If t isn't nil, that thread starts it.
func (b *box) startProcess(program string, command []string, extra []*os.File, line []byte, t *thread) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("make a socket pair: %w", err)
	}
	if b.conn != nil { // of an attempt that failed
		_ = b.conn.Close()
	}
	b.conn = os.NewFile(uintptr(pair[0]), "sandbox")
	b.out.conn = b.conn
	agent := os.NewFile(uintptr(pair[1]), "agent")
	defer agent.Close()
	_ = unix.SetNonblock(pair[1], false) // the agent reads and writes blockingly
	size := 64 << 10
	if b.machine != nil {
		size = 1 << 10 // its agent only says that it is ready
	}
	b.in = bufio.NewReaderSize(b.conn, size)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	stderr, toStderr, err := os.Pipe()
	if err != nil {
		return err
	}
	defer toStderr.Close()
	saidAll := make(chan struct{}) // another attempt has its own
	b.saidAll = saidAll
	if b.spec.Runtime == "js" {
		b.output = newOutput(b, stderr)
	} else {
		go func() {
			defer close(saidAll)
			defer stderr.Close()
			_, _ = io.Copy(&b.said, stderr) // partial output is acceptable
		}()
	}
	s := &spawn{box: b, program: program, command: command, line: line, thread: t,
		files: append([]*os.File{null, toStderr, toStderr, agent}, extra...)}
	return s.spawnOnThread()
}

// lastWords is how long the driver waits for the rest of what an ended process wrote.
const lastWords = time.Second

// awaitAgent waits until the agent is ready.
func (b *box) awaitAgent() error {
	err := b.greetAgent()
	if err == nil {
		return nil
	}
	b.killProcess()
	<-b.ended
	select { // a process that outlives the first one could keep standard error open
	case <-b.saidAll:
	case <-time.After(lastWords):
	}
	if said := strings.TrimSpace(b.said.Text()); said != "" {
		return tool.Errorf(tool.Unavailable, "the sandbox did not start: %s", text.Cut(said, 1000))
	}
	return tool.Errorf(tool.Unavailable, "the sandbox did not start: %w (its process ended: %s)", err, b.state)
}

// greetAgent reads the answers to the setup.
func (b *box) greetAgent() error {
	if err := b.gate.receiveListeners(b.conn); err != nil {
		return fmt.Errorf("receive the listeners of its network: %w", err)
	}
	kind, _, err := b.readFrame()
	switch {
	case err != nil:
		return fmt.Errorf("wait for its agent: %w", err)
	case kind != frameReady:
		return fmt.Errorf("its agent sent %q before it was ready", kind)
	}
	return nil
}

// readFrame reads a frame of the agent.
func (b *box) readFrame() (kind byte, data []byte, err error) {
	var line []byte
	for {
		part, err := b.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxFrame:
			return 0, nil, outputLimit(maxFrame)
		case err == nil:
			return line[0], line[1 : len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return 0, nil, err
		}
	}
}

// sendFrame sends a frame to the agent.
func (b *box) sendFrame(kind byte, data []byte) error {
	b.out.mu.Lock()
	defer b.out.mu.Unlock()
	frame := make([]byte, 0, len(data)+2)
	frame = append(append(append(frame, kind), data...), '\n')
	_, err := b.out.conn.Write(frame)
	return err
}

// killProcess ends the sandbox.
func (b *box) killProcess() {
	if b.process != nil {
		_ = b.process.Kill() // it may have ended
	}
}

// stopRun kills the sandbox for a reason; the first one counts.
func (b *box) stopRun(cause error) {
	b.mu.Lock()
	if b.cause == nil {
		b.cause = cause
	}
	b.mu.Unlock()
	b.killProcess()
}

// Run runs the guest. It closes cmd.Guest at the end if it has a Close method.
func (b *box) Run(ctx context.Context, cmd *sandbox.Cmd) (exit int, err error) {
	if cmd.Guest == nil {
		return -1, tool.Errorf(tool.Invalid, "a guest needs a stream")
	}
	if err := b.beginRun(); err != nil {
		return -1, err
	}
	defer b.endRun()
	b.allowTime()
	if ctx.Err() != nil {
		return -1, fmt.Errorf("run a guest: %w", context.Cause(ctx))
	}
	before := b.cpuTime()
	unhook := context.AfterFunc(ctx, func() { b.stopRun(context.Cause(ctx)) })
	quit := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { b.watchCPU(before, cmd.CPU, quit) })
	closeNetwork := b.gate.openTraffic(ctx, cmd.Traffic)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		b.feedLines(cmd.Guest)
	}()
	if exit, err = b.pumpFrames(ctx, cmd); err != nil {
		b.killProcess() // it may not read what feedLines sends
	}
	closeNetwork()
	b.output.detachGuest()
	if c, ok := cmd.Guest.(io.Closer); ok {
		_ = c.Close() // the other side sees EOF
		err = cmp.Or(err, b.awaitLines(fed))
	}
	unhook()
	close(quit)
	others.Wait()
	cmd.Usage = sandbox.Usage{CPU: b.cpuTime() - before, Memory: b.usedMemory()}
	if err == nil && !cmd.Keep {
		err = b.endGuest()
	}
	if err != nil {
		b.mu.Lock()
		b.failed = err
		b.mu.Unlock()
		b.killProcess()
		return -1, err
	}
	return exit, nil
}

// beginRun reserves the sandbox for a Run.
func (b *box) beginRun() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failed != nil:
		return b.failed
	case b.running:
		return tool.Errorf(tool.Conflict, "run a guest: the sandbox is already running one")
	}
	if err := b.stopProcesses(false); err != nil {
		return err
	}
	b.running, b.kills = true, b.group.countMemoryKills()
	b.runs.Add(1)
	return nil
}

func (b *box) endRun() {
	b.mu.Lock()
	b.running = false
	b.mu.Unlock()
	b.runs.Done()
}

// endGuest makes a guest that isn't kept unusable.
func (b *box) endGuest() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = tool.Errorf(tool.Conflict, "run a guest: this one has ended")
	return nil
}

// feedLines sends the host's lines to the agent.
func (b *box) feedLines(from io.Reader) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && line[len(line)-1] == '\n' {
			if b.sendFrame(frameLine, line[:len(line)-1]) != nil {
				return // pump notices
			}
		}
		if err != nil {
			_ = b.sendFrame(frameEnd, nil) // if this fails, pump notices
			return
		}
	}
}

// awaitLines waits until the host's lines were sent, after the agent was idle. If the agent has not
// read them, it was a program that said so.
func (b *box) awaitLines(fed <-chan struct{}) error {
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-fed:
		return nil
	case <-timer.C:
	}
	b.killProcess()
	<-fed
	return errConnection
}

// errConnection is the error of a program that acts as the agent.
var errConnection = tool.Errorf(tool.Invalid, "the program used the connection of its sandbox: it must not write to "+
	"descriptor %d", entry.SocketFD)

// pumpFrames handles the agent's frames until it is idle after the end of the host's lines.
func (b *box) pumpFrames(ctx context.Context, cmd *sandbox.Cmd) (exit int, err error) {
	var written int64
	b.output.attachGuest(cmd.Guest)
	for {
		kind, data, err := b.readFrame()
		if err != nil {
			return b.explainEnd(ctx, err)
		}
		if written += int64(len(data)) + 1; written > b.spec.Output {
			return -1, outputLimit(b.spec.Output)
		}
		switch kind {
		case frameIdle:
			return 0, nil
		case frameLine:
			if err := b.output.writeGuest(cmd.Guest, append(data, '\n')); err != nil {
				if sandbox.HungUp(err) {
					b.stopRun(err)
					return 0, nil // the host wants no more of it
				}
				return -1, fmt.Errorf("write to the guest stream: %w", err)
			}
		case frameQuestion:
			if err := b.answerQuestion(ctx, cmd, data); err != nil {
				return b.explainEnd(ctx, err)
			}
		case frameOutput:
			b.output.flushLines()
		case frameKilled:
			if err := b.sendFrame(frameKilled, b.describeKill()); err != nil {
				return b.explainEnd(ctx, err)
			}
		default:
			return -1, errConnection
		}
	}
}

// answerQuestion answers a question of the guest.
func (b *box) answerQuestion(ctx context.Context, cmd *sandbox.Cmd, question []byte) error {
	var out []byte
	if cmd.Ask != nil {
		out = cmd.Ask(ctx, question)
	}
	if out == nil {
		return b.sendFrame(frameNone, nil)
	}
	return b.sendFrame(frameAnswer, bytes.TrimSuffix(out, []byte("\n")))
}

// describeKill returns "1" if the kernel killed a process of the sandbox because memory ran out,
// and "0" otherwise.
func (b *box) describeKill() []byte {
	if b.hasMemoryKill() {
		return []byte("1")
	}
	return []byte("0")
}

// hasMemoryKill reports whether, since the Run began, the kernel has killed a process of the
// sandbox because memory ran out.
func (b *box) hasMemoryKill() bool { return b.group.countMemoryKills() > b.kills }

// explainEnd returns why the connection ended.
func (b *box) explainEnd(ctx context.Context, err error) (int, error) {
	var limit *sandbox.LimitError
	if errors.As(err, &limit) {
		return -1, err
	}
	select {
	case <-b.ended:
	case <-time.After(time.Second): // the program closed the connection
		b.killProcess()
		<-b.ended
	}
	b.mu.Lock()
	cause := b.cause
	b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return -1, fmt.Errorf("run a guest: %w", context.Cause(ctx))
	case cause != nil:
		return -1, cause
	case b.hasMemoryKill() || b.output.reportsFullHeap():
		return -1, memoryLimit(b.spec.Memory)
	}
	status, _ := b.state.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == unix.SIGXCPU:
		return -1, cpuLimit(b.spec.CPU)
	case status.Signaled():
		return -1, tool.Errorf(tool.Invalid,
			"the interpreter was ended by %s: the program, or a native package in it, crashed it", status.Signal())
	}
	return -1, tool.Errorf(tool.Invalid, "the program ended the interpreter with exit code %d: "+
		"let it come to its end, return, or raise an exception", status.ExitStatus())
}

func outputLimit(n int64) error {
	return &sandbox.LimitError{Limit: "output", Msg: fmt.Sprintf("the program's output reached the limit of %s: "+
		"print and return less", text.Size(n))}
}

func memoryLimit(n int64) error {
	return &sandbox.LimitError{Limit: "memory", Msg: fmt.Sprintf("the program reached its memory limit of %s: "+
		"hold less at a time", text.Size(n))}
}

func cpuLimit(d time.Duration) error {
	return &sandbox.LimitError{Limit: "cpu", Msg: fmt.Sprintf("the program reached its limit of %s of CPU time: "+
		"do less, or in several programs", d)}
}

// watchCPU ends the sandbox when its CPU time, above what it was before, reaches a limit.
func (b *box) watchCPU(before, most time.Duration, quit <-chan struct{}) {
	if most == 0 || b.spec.CPU > 0 && b.spec.CPU < most {
		most = b.spec.CPU
	}
	if most == 0 {
		return
	}
	tick := time.NewTicker(watchEach)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
			if b.cpuTime()-before >= most {
				b.stopRun(cpuLimit(most))
				return
			}
		}
	}
}

// cpuTime returns the CPU time of the sandbox so far, or of its first process if the system doesn't
// count all.
func (b *box) cpuTime() time.Duration {
	if t, ok := b.group.cpuTime(); ok {
		return t
	}
	return processTime(b.process.Pid)
}

// Close ends the sandbox, and waits until nothing of it is left.
func (b *box) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	if b.failed == nil {
		b.failed = tool.Errorf(tool.Conflict, "run a guest: the sandbox is closed")
	}
	if b.cause == nil {
		b.cause = b.failed
	}
	b.mu.Unlock()
	b.killProcess()
	if b.ended != nil {
		<-b.ended
	}
	b.runs.Wait() // a Run in progress ends now
	b.gate.closeListeners()
	b.d.forgetBox(b)
	if b.conn != nil {
		_ = b.conn.Close() // nothing is lost: the other side has ended
	}
	err := b.image.EndUse()
	if b.group != nil {
		err = errors.Join(err, b.group.removeGroup())
	}
	if err != nil {
		return fmt.Errorf("close a sandbox: %w", err)
	}
	return nil
}

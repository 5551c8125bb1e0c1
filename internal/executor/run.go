package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// lastCalls is how long calls that are under way when a program ends may go on, so that their outcome is known.
	lastCalls = 5 * time.Second
	// maxMessages is how many messages a guest may send: far more than calls, files and console lines can need.
	maxMessages = 200_000
	maxFiles    = 20_000
)

// A run is an execution under way, and later what is kept of it.
type run struct {
	x         *Executor
	id        string
	principal tool.Principal
	program   *program.Program
	ctx       context.Context // of the program and its calls
	cancel    context.CancelCauseFunc
	timeout   time.Duration
	began     time.Time     // by the clock that never goes back
	over      chan struct{} // closed when the program has ended: no call begins any more
	done      chan struct{} // closed when answer is there
	answered  *tool.Result  // set before done is closed
	stream    *stream
	turns     *turns // of the calls under way
	calls     sync.WaitGroup
	files     map[string]string // made when first asked for

	kept  int       // bytes in the history; history's
	ended time.Time // history's

	mu          sync.Mutex
	exec        Execution
	ids         map[int64]int // calls by the guest's id
	outstanding int
	answers     int // bytes of results that the guest has yet to read
	refused     int
	messages    int
	fileOps     int
	console     int // bytes
	dropped     int // console lines
	emitted     []json.RawMessage
	emittedSize int
	end         *sandbox.GuestMessage // Done or Fail
	seen        []json.RawMessage
	seenBytes   int
	unseen      int
	counted     bool

	// The program's own time runs while no call is outstanding.
	left    time.Duration
	running bool
	since   time.Time
	alarm   *time.Timer
	wake    *time.Timer // of the program's timers
}

func (x *Executor) newRun(ctx context.Context, principal tool.Principal, a arguments) *run {
	r := &run{
		x: x, id: newID("ex_"), principal: principal, timeout: a.timeout, began: time.Now(), left: a.timeout,
		over: make(chan struct{}), done: make(chan struct{}), turns: newTurns(x.cfg.Limits.Concurrency), ids: map[int64]int{},
	}
	// The program outlives the request that brought it, but not the Executor.
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.exec = Execution{ID: r.id, State: Queued, Principal: principal, Started: x.cfg.Now(), run: r}
	return r
}

// snapshot copies the execution as it is now.
func (r *run) snapshot() *Execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.exec
	e.Console = append([]Line{}, e.Console...)
	e.Calls = append([]CallRecord{}, e.Calls...)
	if e.State == Queued || e.State == Running {
		e.MS = r.x.cfg.Now().Sub(e.Started).Milliseconds()
	}
	return &e
}

// live runs the program from beginning to end, in a goroutine of its own.
func (r *run) live(a arguments) {
	stop := context.AfterFunc(r.x.ctx, func() { r.cancel(errClosing) })
	defer stop()
	total := time.AfterFunc(r.x.cfg.Limits.Total, func() {
		r.cancel(tool.Errorf(tool.Timeout, "the execution took longer than %s in all, the most that one may: do the rest in another program", r.x.cfg.Limits.Total))
	})
	defer total.Stop()
	defer r.cancel(nil)
	r.finish(r.guard("an execution", func() error { return r.prepareAndRun(a) }))
}

// guard makes a panic of f an error: a fault of ours over one odd program must not take its neighbours along.
func (r *run) guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.x.cfg.Log.Error(what+" panicked", "execution", r.id, "panic", p, "stack", string(debug.Stack()))
			err = tool.Errorf(tool.Internal, "%s failed inside biplane: the program was stopped", what)
		}
	}()
	return f()
}

func (r *run) prepareAndRun(a arguments) error {
	p, err := r.prepare(a)
	if err != nil {
		return err
	}
	r.program = p
	if err := r.x.queue.enter(r.ctx, r.principal.ID); err != nil {
		return err
	}
	defer r.x.queue.leave()
	caps, err := r.x.caps()
	if err != nil {
		return &tool.Error{Kind: tool.Unavailable, Msg: "no sandbox can run here: " + err.Error(), Err: err}
	}
	lim := r.x.cfg.Limits
	box, err := r.x.cfg.Driver.Create(r.ctx, sandbox.Spec{Memory: lim.Memory, CPU: lim.CPU})
	if err != nil {
		return fmt.Errorf("create a sandbox: %w", err)
	}
	defer func() {
		if err := box.Close(); err != nil {
			r.x.cfg.Log.Warn("close a sandbox", "execution", r.id, "error", err)
		}
	}()
	r.mu.Lock()
	r.exec.State, r.exec.Tier = Running, caps.Tier
	r.mu.Unlock()
	return r.drive(box)
}

// prepare makes the program runnable. A panic over odd text must not take other programs along.
func (r *run) prepare(a arguments) (p *program.Program, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.x.cfg.Log.Error("preparing a program panicked", "execution", r.id, "panic", v, "stack", string(debug.Stack()))
			err = tool.Errorf(tool.Internal, "this program can't be read: write it more simply")
		}
	}()
	return r.x.cfg.Programs.Prepare(program.Request{Source: a.Code, Language: a.Language})
}

// drive runs the program in box and gives why that ended without a Done or Fail of the guest, or nil.
func (r *run) drive(box sandbox.Sandbox) error {
	lim := r.x.cfg.Limits
	r.stream = newStream(lim.Message+4096, r.take, func() error {
		return r.refuse(tool.Errorf(tool.Limit, "the program's value, or the arguments of a call, are over %s of JSON: return or send less", sizeText(lim.Message)))
	})
	first, err := tool.Marshal(sandbox.HostMessage{Run: &sandbox.Run{Code: r.program.Code, Name: program.FileName, Namespaces: r.program.Namespaces, Seed: newSeed()}, At: r.now()})
	if err != nil {
		return err
	}
	if err := r.stream.send(first, false); err != nil {
		return err
	}
	r.mu.Lock()
	r.running, r.since = true, time.Now()
	r.alarm = time.AfterFunc(r.left, r.late)
	r.mu.Unlock()
	r.wake = time.AfterFunc(math.MaxInt64, r.awake)
	exit, err := box.Run(r.ctx, &sandbox.Cmd{Guest: r.stream})
	r.mu.Lock()
	r.alarm.Stop()
	r.wake.Stop()
	r.running = false
	end := r.end
	r.mu.Unlock()
	if end == nil && r.ctx.Err() != nil {
		err = context.Cause(r.ctx) // before lastCalls cancels what is left
	}
	_ = r.stream.Close()
	close(r.over)
	r.lastCalls(err == nil && end != nil)
	switch {
	case end != nil:
		return nil
	case err != nil:
		return err
	}
	return tool.Errorf(tool.Internal, "the guest ended with code %d and said nothing", exit)
}

// now is the time that a program is told, in milliseconds since the epoch.
func (r *run) now() int64 { return r.x.cfg.Now().UnixMilli() }

// maxTimer is the longest time that a program can set a timer for: no execution lasts longer.
const maxTimer = 1 << 31

// setTimer arranges for the one wake-up that the program asks for.
func (r *run) setTimer(ms float64) {
	r.wake.Stop()
	if ms >= 0 {
		r.wake.Reset(time.Duration(min(ms, maxTimer) * float64(time.Millisecond)))
	}
}

// awake tells the program that the time has come.
func (r *run) awake() {
	line, err := tool.Marshal(sandbox.HostMessage{Wake: &sandbox.Wake{}, At: r.now()})
	if err == nil {
		err = r.stream.send(line, false)
	}
	if err != nil {
		r.x.cfg.Log.Debug("wake a guest", "execution", r.id, "error", err)
	}
}

// errEnded is how a call ends that went on for longer after the program's end than anybody waits.
var errEnded = tool.Errorf(tool.Canceled, "canceled: the program had ended")

// lastCalls waits for the calls that are still under way: they were made, so their outcome should be known.
func (r *run) lastCalls(well bool) {
	wait := lastCalls
	if !well && r.ctx.Err() != nil {
		wait = 0
	}
	timer := time.AfterFunc(wait, func() {
		r.cancel(errEnded)
	})
	r.calls.Wait()
	timer.Stop()
}

// late ends the program when its own time is over.
func (r *run) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		return // a call began at the same moment
	}
	if left := r.left - time.Since(r.since); left > 0 { // the clock was started anew at the same moment
		r.alarm.Reset(left)
		return
	}
	r.cancel(tool.Errorf(tool.Timeout, "the program's own time of %s is over (CPU and timers; the time of tools doesn't count): wait less, do less, or allow more (timeout_seconds, on the command line --timeout; at most %d s)",
		r.timeout, int(r.x.cfg.Limits.MaxTimeout.Seconds())))
}

// begin notes a call that is outstanding: the program's own clock stands still. r.mu is held.
func (r *run) begin() {
	r.outstanding++
	if r.running {
		r.running = false
		r.left -= time.Since(r.since)
		r.alarm.Stop()
	}
}

// settle notes that a call was answered. r.mu is held.
func (r *run) settle() {
	if r.outstanding--; r.outstanding == 0 && r.alarm != nil && r.end == nil {
		r.running, r.since = true, time.Now()
		r.alarm.Reset(max(r.left, 0))
	}
}

// refuse ends the guest with err and gives err.
func (r *run) refuse(err error) error {
	r.cancel(err)
	return err
}

// take takes a line of the guest. An error ends the guest.
func (r *run) take(line []byte) error {
	r.mu.Lock()
	r.messages++
	many, over := r.messages > maxMessages, r.end != nil
	r.mu.Unlock()
	if over {
		return nil // it said its last word before
	}
	if many {
		return r.refuse(tool.Errorf(tool.Limit, "the program sent more than %s messages: call and log less", group(maxMessages)))
	}
	var m sandbox.GuestMessage
	if err := json.Unmarshal(line, &m); err != nil {
		if strings.Contains(err.Error(), "max depth") { // of encoding/json, which has no name for it
			return r.refuse(tool.Errorf(tool.Limit, "the program's value, or the arguments of a call, are nested more than 10,000 levels deep: flatten them"))
		}
		return r.refuse(&tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped", Err: err})
	}
	if err := r.guard("a message of the program", func() error { return r.handle(&m) }); err != nil {
		if errors.Is(err, errGone) {
			return err
		}
		return r.refuse(err)
	}
	return nil
}

func (r *run) handle(m *sandbox.GuestMessage) error {
	switch {
	case m.Call != nil:
		return r.call(m.Call)
	case m.File != nil:
		if r.fileOps++; r.fileOps > maxFiles {
			return tool.Errorf(tool.Limit, "the program asked for files more than %s times", group(maxFiles))
		}
		return r.file(m.File)
	case m.Timer != nil:
		r.setTimer(m.Timer.MS)
		return nil
	case m.Console != nil:
		r.log(m.Console)
		return nil
	case m.Emit != nil:
		r.emit(m.Emit.Handle)
		return nil
	case m.Done != nil, m.Fail != nil:
		if r.ctx.Err() != nil { // what stopped the program is what counts, not what it made of its calls' end
			return context.Cause(r.ctx)
		}
		r.mu.Lock()
		r.end = m
		r.mu.Unlock()
		r.stream.end()
		return nil
	}
	return tool.Errorf(tool.Internal, "the guest broke its protocol: the program was stopped")
}

func (r *run) log(c *sandbox.Console) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exec.logged += len(c.Text) + 1 + cutAway(c.Text)
	if r.console+len(c.Text) > r.x.cfg.Limits.Console {
		r.dropped++
		return
	}
	r.console += len(c.Text) + 16
	r.exec.Console = append(r.exec.Console, Line{Level: c.Level, Text: r.places(c.Text)})
}

// shortened matches the end of a text that the guest cut before it sent it.
var shortened = regexp.MustCompile(`… \((\d{1,9}) more characters\)$`)

// cutAway gives how much the guest cut away from a text that it logged, in characters.
func cutAway(text string) int {
	m := shortened.FindStringSubmatch(tail(text, 64))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // at most nine digits
	return n
}

// maxEmitted bounds the content blocks that a program gives to the agent, in bytes.
const maxEmitted = 24 << 20

// maxNotes bounds the notes that a program can bring about.
const maxNotes = 20

// emit adds a content block to the answer.
func (r *run) emit(h string) {
	l, err := r.x.left.get(r.principal.ID, h)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.exec.Notes) >= maxNotes:
	case err != nil || l.block == nil:
		r.exec.Notes = append(r.exec.Notes, fmt.Sprintf("emit: nothing to show is kept under the handle %q", cut(h, 80)))
	case r.emittedSize+len(l.block) > maxEmitted:
		r.exec.Notes = append(r.exec.Notes, fmt.Sprintf("emit: %s left out: all in all over %s", h, sizeText(maxEmitted)))
	default:
		r.emitted = append(r.emitted, l.block)
		r.emittedSize += len(l.block)
	}
}

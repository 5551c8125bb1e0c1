// Package executor runs programs: it implements the tools execute and resume as tool.Callers.
//
// A program is prepared (package program), gets a fresh sandbox or its session's, and talks to the
// Executor over the guest protocol (package sandbox). Each of its calls goes back through the
// gateway, on behalf of the principal that sent the program, and many can run concurrently. The
// agent receives the value, the console lines and one line about the calls, but never an
// intermediate result.
//
// An execution belongs to the Executor, not to the request that began it. Execute always answers
// within Config.AnswerWithin, and resume waits for the rest. An execution's answer, images and
// values that were too large to show are kept in bounded stores, only for its principal.
package executor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A Preparer makes an agent's text runnable; *program.Preparer is one. If the text is invalid, the
// error is a *program.Error.
type Preparer interface {
	Prepare(program.Request) (*program.Program, error)
}

// Limits bound executions. A zero field means its default.
type Limits struct {
	Memory int64         // memory of a program, in bytes; default is the driver's
	CPU    time.Duration // CPU time of a program; default 10 s
	// own time of a program that requests none: CPU and timers, without the time of tools; default
	// 60 s
	Timeout     time.Duration
	MaxTimeout  time.Duration // maximum of timeout_seconds; default 10 min
	Total       time.Duration // wall time of an execution in total; default 1 h
	Calls       int           // calls of one execution; default 1,000
	Concurrency int           // concurrent calls of one execution, the others queue; default 128
	Executions  int           // concurrent executions, the others queue; default 64
	Queue       int           // executions waiting; default 1,000
	Code        int           // bytes of a program's text; default 1 MiB
	// size of one message of a program, its value or the arguments of one call, in bytes; default
	// 16 MiB
	Message      int
	Result       int           // bytes of one tool result; default 32 MiB
	Console      int           // bytes of console lines kept; default 256 KiB
	OutputTokens int           // tokens of a value that are shown to the agent; default 6,000
	Kept         int           // finished executions kept; default 256
	KeptBytes    int           // bytes of leftovers kept for later programs; default 64 MiB
	KeptFor      time.Duration // how long executions and leftovers are kept; default 1 h
	Sessions     live.Limits
	Journal      JournalLimits
}

// Config configures an Executor. Drivers, Door and Programs are required.
type Config struct {
	Drivers  []sandbox.Kind // in which programs run, cheapest first
	Door     tool.Caller    // accepts the calls of programs
	Programs Preparer
	Tools    Tools         // nil: NoTools
	Hosts    traffic.Hosts // nil: no program has a network
	// Access authorizes file operations; nil: principals may do anything with their own files.
	Access vfs.Access
	// Store holds sessions and skills; nil: there are none, and no program is suspended.
	Store session.Store
	// Key encrypts exported sessions when no passphrase is given; nil: a passphrase is required.
	Key          *secret.Key
	Limits       Limits
	AnswerWithin time.Duration // execute and resume answer by then; default 50 s
	Supervisor   Supervisor    // nil: Unsupervised
	// Copied means that the data folder is a copy of one that was used afterwards: executions of
	// earlier processes end as interrupted.
	Copied  bool
	Control Control // nil: NoControl
	Privacy Privacy // hides personal data from models; nil: nothing is hidden
	// Journal records executions; nil: nothing is recorded, and executions are lost on restart.
	Journal journal.Store
	Tokens  *tokens.Counter  // default: a new Counter
	Turns   *queue.Fair      // schedules large work of the host, such as preparing a long program; nil: no work waits
	Log     *slog.Logger     // default slog.Default()
	Clock   *wallclock.Clock // nil: the system's
}

// An Executor runs programs. Close stops them.
type Executor struct {
	cfg    Config
	queue  *queue.Fair
	left   *leftovers
	runs   *runs
	tokens *tokens.Counter
	guests *guest.Sources
	skills *skill.Shelf
	live   *live.Sessions

	ctx    context.Context // done when Close begins
	cancel context.CancelCauseFunc

	unwritten unwritten

	mu     sync.Mutex // guards closed against the start of an execution
	closed bool
	wg     sync.WaitGroup // one for each execution
}

// New returns a new Executor.
func New(cfg Config) (*Executor, error) {
	switch {
	case len(cfg.Drivers) == 0:
		return nil, errors.New("executor: no driver")
	case cfg.Door == nil:
		return nil, errors.New("executor: no door")
	case cfg.Programs == nil:
		return nil, errors.New("executor: Config has no preparer of programs")
	}
	cfg.Limits = cfg.Limits.complete()
	if cfg.AnswerWithin <= 0 {
		cfg.AnswerWithin = 50 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Tokens == nil {
		cfg.Tokens = &tokens.Counter{}
	}
	if cfg.Tools == nil {
		cfg.Tools = NoTools{}
	}
	if cfg.Supervisor == nil {
		cfg.Supervisor = Unsupervised{}
	}
	if cfg.Control == nil {
		cfg.Control = NoControl{}
	}
	x := &Executor{
		cfg:    cfg,
		queue:  queue.New(cfg.Limits.Executions, cfg.Limits.Queue),
		left:   newLeftovers(cfg.Limits.KeptBytes, cfg.Limits.KeptFor, cfg.Clock),
		runs:   newRuns(cfg.Limits.Kept, cfg.Limits.KeptBytes, cfg.Limits.KeptFor, cfg.Clock),
		tokens: cfg.Tokens,
	}
	x.ctx, x.cancel = context.WithCancelCause(context.Background())
	x.guests = guest.New(guest.Config{Kinds: cfg.Drivers, Memory: cfg.Limits.Memory, CPU: cfg.Limits.CPU})
	x.skills = skill.New(cfg.Store)
	x.live = live.New(live.Config{
		Store: cfg.Store, Guests: x.guests, Skills: x.skills, Tools: cfg.Tools, Access: cfg.Access, Key: cfg.Key,
		Privacy: cfg.Privacy,
		Limits:  cfg.Limits.Sessions, Log: cfg.Log, Clock: cfg.Clock,
	})
	if cfg.Store != nil {
		x.start(x.tidy)
	}
	return x, nil
}

var errClosing = &tool.Error{Kind: tool.Unavailable, Msg: "biplane is shutting down: the program was stopped"}

// Close stops all executions, waits until they have ended, and closes the sandboxes of sessions,
// whose state is stored.
func (x *Executor) Close() error {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.unwritten.close()
	for _, r := range x.runs.live() { // for the journal the process has died: the next process recovers them
		r.history.Freeze()
	}
	x.cancel(errClosing)
	x.wg.Wait()
	x.unwritten.amendAll()
	return x.live.Close()
}

// WarmImage starts a sandbox of an image ahead, for programs in a language.
func (x *Executor) WarmImage(ctx context.Context, image, language string) (sandbox.Warmth, error) {
	return x.guests.WarmImage(ctx, image, language)
}

// start runs f in a goroutine that Close waits for, and returns false if x is closed.
func (x *Executor) start(f func()) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	x.wg.Go(f)
	return true
}

// Execution returns a copy of an execution that is running or still kept.
func (x *Executor) Execution(id string) (*execution.Execution, bool) {
	r, ok := x.runs.get(id)
	if !ok {
		return nil, false
	}
	return r.state.snapshot(), true
}

// Busy returns the number of executions under way that don't just wait for people. They compute,
// are queued, have a call in progress, whatever its duration, or are about to continue with its
// result.
func (x *Executor) Busy() (n int) {
	for _, r := range x.runs.live() {
		if r.state.current().isBusy() {
			n++
		}
	}
	return n
}

// Sessions returns the sessions, whose state persists between programs.
func (x *Executor) Sessions() *live.Sessions { return x.live }

// Skills returns the modules that programs have saved.
func (x *Executor) Skills() *skill.Shelf { return x.skills }

// Load returns how many executions are running, and how many are queued.
func (x *Executor) Load() (running, queued int) { return x.queue.Load() }

func (l Limits) complete() Limits {
	def(&l.Timeout, time.Minute)
	def(&l.MaxTimeout, 10*time.Minute)
	def(&l.Total, time.Hour)
	def(&l.Calls, 1000)
	def(&l.Concurrency, 128)
	def(&l.Executions, 64)
	def(&l.Queue, 1000)
	def(&l.Code, 1<<20)
	def(&l.Message, 16<<20)
	def(&l.Result, 32<<20)
	def(&l.Console, 256<<10)
	def(&l.OutputTokens, 6000)
	def(&l.Kept, 256)
	def(&l.KeptBytes, 64<<20)
	def(&l.KeptFor, time.Hour)
	def(&l.CPU, 10*time.Second)
	l.Sessions, l.Journal = l.Sessions.Complete(), l.Journal.Complete()
	l.MaxTimeout = max(l.MaxTimeout, l.Timeout)
	return l
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// newID returns a random, unguessable id with a prefix.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:20]) }

// idDigits are the digits of base 32 in the order of their bytes.
const idDigits = "234567abcdefghijklmnopqrstuvwxyz"

// newExecutionID returns an id of the same form whose first eight digits are the time in
// milliseconds, so that the rows of executions that run together are on the same pages of the
// database. The other twelve are random.
func newExecutionID(now time.Time) string {
	var digits [8]byte
	ms := now.UnixMilli()
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i], ms = idDigits[ms&31], ms>>5
	}
	return "ex_" + string(digits[:]) + strings.ToLower(rand.Text()[:12])
}

// newSeed returns a random seed for a program, 64 hexadecimal digits.
func newSeed() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Package executor runs programs: it implements the tools execute and resume as tool.Callers.
//
// A program is prepared (package program), gets a fresh sandbox or that of its session, and talks
// to the Executor over the guest protocol (package sandbox). Every call that it makes goes back
// through the door, in the name of whoever sent the program, many at once. The agent gets the
// value, the console lines and one line on the calls; never an intermediate result.
//
// An execution belongs to the Executor, not to the request that began it: execute answers within
// Config.AnswerWithin whatever happens, and resume waits for the rest. What an execution leaves
// (its answer, values that were too large to show, images) is kept in bounded stores, for the
// principal that made it only.
package executor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/privacy"
	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/session/guest"
	"github.com/biplane-dev/biplane/internal/session/live"
	"github.com/biplane-dev/biplane/internal/skill"
	"github.com/biplane-dev/biplane/internal/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// A Preparer makes an agent's text runnable; *program.Preparer is one. Its errors are
// *program.Error where the text is wrong.
type Preparer interface {
	Prepare(program.Request) (*program.Program, error)
}

// Limits bound executions. A zero field means its default.
type Limits struct {
	Memory int64         // bytes a program may hold; default is the driver's
	CPU    time.Duration // CPU time of a program; default 10 s
	// a program's own time where it asks for none: CPU and timers, not the time of tools; default
	// 60 s
	Timeout     time.Duration
	MaxTimeout  time.Duration // the most that timeout_seconds may ask for; default 10 min
	Total       time.Duration // wall time of an execution, all in; default 1 h
	Calls       int           // calls of one execution; default 1,000
	Concurrency int           // calls of one execution under way at once, the others queue; default 128
	Executions  int           // executions under way at once, the others queue; default 64
	Queue       int           // executions waiting; default 1,000
	Code        int           // bytes of a program's text; default 1 MiB
	// bytes of one message of a program: its value, or the arguments of one call; default 16 MiB
	Message      int
	Result       int           // bytes of one tool result; default 32 MiB
	Console      int           // bytes of console lines kept; default 256 KiB
	OutputTokens int           // tokens of a value that the agent is shown; default 6,000
	Kept         int           // finished executions kept; default 256
	KeptBytes    int           // bytes of what executions leave behind, kept for later programs; default 64 MiB
	KeptFor      time.Duration // how long; default 1 h
	Sessions     live.Limits
	Journal      JournalLimits
}

// Config makes an Executor. Driver, Door and Programs must be set.
type Config struct {
	Driver   sandbox.Driver
	Door     func() tool.Caller // the newest gateway; asked for each call of a program
	Programs Preparer           //
	// the read-only files of a program of somebody's, path (as "tools/github/index.ts") to content;
	// may be nil
	Files func(tool.Principal) map[string]string
	// decides on the use of files; nil: whoever they belong to may do anything to them
	Access vfs.Access
	// of sessions and skills; nil: there are none, and no program is suspended
	Store session.Store
	// seals exported sessions for which no passphrase is given; nil: a passphrase is needed
	Key          *secret.Key
	Limits       Limits
	AnswerWithin time.Duration // execute and resume answer by then; default 50 s
	// Admit says whether a call of execute may begin an execution, and is told how that ended. It
	// may be nil.
	Admit func(context.Context, *tool.Call) (done func(*execution.Execution), err error)
	// Readmit is told of each execution that goes on after a restart, by the call of execute that
	// began it, and then how it ended. It may be nil.
	Readmit func(*tool.Call) (done func(*execution.Execution))
	// Recorded gives what the record has of the calls of an execution that began at a time, the
	// newest first, when that is taken up; nil: there is no record.
	Recorded func(ctx context.Context, execution string, began time.Time) ([]Recorded, error)
	// Named gives the tool of a path; nil where none is known now. Without it none is.
	Named func(path string) *tool.Tool
	// Doubt returns a note on the arguments of a call that was made, as names that the tool doesn't
	// declare; empty: none. It may be nil.
	Doubt func(path string, args json.RawMessage) string
	// Plain returns the plain form of a call that a program may have written in another: the path
	// of its tool, and one object with named arguments. What has none is returned as it is. Nil:
	// calls are taken as they are written.
	Plain func(who tool.Principal, path string, args json.RawMessage) (string, json.RawMessage)
	// Page gives the address where a person decides on a request, or on all that an execution waits
	// for; empty: nowhere but on the command line. It may be nil.
	Page func(id string) string
	// ReadsAll says who may read executions of others, and replay them; nil: nobody.
	ReadsAll func(tool.Principal) bool
	// told of each execution that has ended here, before its answer is given; may be nil
	Ended   func(*execution.Execution)
	Privacy *privacy.Guard // keeps personal data from models; nil: it doesn't
	// what executions did; nil: nothing is written down, and a restart knows nothing of them
	Journal journal.Store
	Tokens  *tokens.Counter  // default one of its own
	Turns   *queue.Fair      // of large work of the host, as to prepare a long program; nil: no work waits
	Log     *slog.Logger     // default slog.Default()
	Now     func() time.Time // default time.Now
}

// An Executor runs programs. Close it to stop them.
type Executor struct {
	cfg     Config
	queue   *queue.Fair
	left    *leftovers
	history *history
	tokens  *tokens.Counter
	guests  *guest.Source
	skills  *skill.Shelf
	live    *live.Sessions

	ctx    context.Context // done when Close begins
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards closed against the start of an execution, and owed
	closed bool
	owed   []*journal.Log // of executions that ended, and of which nobody has looked yet whether that was written
	wg     sync.WaitGroup // one for each execution
}

// New makes an Executor.
func New(cfg Config) (*Executor, error) {
	switch {
	case cfg.Driver == nil:
		return nil, errors.New("executor: no driver")
	case cfg.Door == nil:
		return nil, errors.New("executor: no door")
	case cfg.Programs == nil:
		return nil, errors.New("executor: nothing prepares programs")
	}
	cfg.Limits = cfg.Limits.complete()
	if cfg.AnswerWithin <= 0 {
		cfg.AnswerWithin = 50 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Tokens == nil {
		cfg.Tokens = &tokens.Counter{}
	}
	x := &Executor{
		cfg:     cfg,
		queue:   queue.New(cfg.Limits.Executions, cfg.Limits.Queue),
		left:    newLeftovers(cfg.Limits.KeptBytes, cfg.Limits.KeptFor, cfg.Now),
		history: newHistory(cfg.Limits.Kept, cfg.Limits.KeptBytes, cfg.Limits.KeptFor, cfg.Now),
		tokens:  cfg.Tokens,
	}
	x.ctx, x.cancel = context.WithCancelCause(context.Background())
	x.guests = guest.New(guest.Config{Driver: cfg.Driver, Memory: cfg.Limits.Memory, CPU: cfg.Limits.CPU})
	x.skills = skill.New(cfg.Store)
	x.live = live.New(live.Config{
		Store: cfg.Store, Guests: x.guests, Skills: x.skills, Tools: cfg.Files, Access: cfg.Access, Key: cfg.Key, Privacy: cfg.Privacy,
		Limits: cfg.Limits.Sessions, Log: cfg.Log, Now: cfg.Now,
	})
	if cfg.Store != nil {
		x.start(x.tidy)
	}
	return x, nil
}

var errClosing = &tool.Error{Kind: tool.Unavailable, Msg: "biplane is shutting down: the program was stopped"}

// Close stops all executions, waits until they are gone, and closes the sandboxes of sessions,
// whose state is stored.
func (x *Executor) Close() error {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	for _, r := range x.history.live() { // for the journal it is as if the process had died: the next one takes them up
		r.log.Freeze()
	}
	x.cancel(errClosing)
	x.wg.Wait()
	x.amendAll()
	return x.live.Close()
}

// start runs f in a goroutine that Close waits for; false when closed.
func (x *Executor) start(f func()) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	x.wg.Go(f)
	return true
}

// Execution gives an execution that is running or still kept. It is a copy.
func (x *Executor) Execution(id string) (*execution.Execution, bool) {
	r, ok := x.history.get(id)
	if !ok {
		return nil, false
	}
	return r.snapshot(), true
}

// Busy returns how many executions are under way and wait for more than people: they compute, are
// queued, have a call that is being made, however long that takes, or are about to go on with its
// result.
func (x *Executor) Busy() (n int) {
	for _, r := range x.history.live() {
		r.mu.Lock()
		switch r.exec.State {
		case execution.Queued, execution.Running:
			n++
		case execution.Waiting:
			if held := len(r.holds.by); held == 0 || held < r.outstanding && held < r.holds.most {
				n++
			}
		}
		r.mu.Unlock()
	}
	return n
}

// Sessions are the state that lives on between programs.
func (x *Executor) Sessions() *live.Sessions { return x.live }

// Skills are the modules that programs have saved.
func (x *Executor) Skills() *skill.Shelf { return x.skills }

// Load says how many executions are running, and how many wait for their turn.
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

// newID makes a name that can't be guessed.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:20]) }

// newSeed makes the randomness of a program, 64 hexadecimal digits.
func newSeed() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

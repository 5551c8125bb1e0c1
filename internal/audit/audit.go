// Package audit records each call before it is made and after it ended. The record is append-only: what was begun is
// never rewritten, and an end is a second entry that names the first. A call that could not be recorded must not be
// made; the door sees to that.
//
// The package owns the contract of the Store that holds the record, an in-memory version of it, and, in audittest, the
// suite that every Store must pass.
package audit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// ArgumentsBytes is how much of a call's arguments the record keeps as text, in bytes. The digest covers all of them.
const ArgumentsBytes = 16 << 10

// What else bounds texts from outside in the record, in bytes.
const (
	messageBytes = 1 << 10 // of an error, of a decision
	nameBytes    = 512     // of a tool, a principal, a client
)

// An Outcome is how a call ended.
type Outcome string

// The outcomes of calls.
const (
	Unfinished Outcome = ""       // begun, and no end is recorded: it is under way, or the process died in its middle
	OK         Outcome = "ok"     // the tool ran and reports success
	ToolError  Outcome = "error"  // the tool ran and reports failure
	Failed     Outcome = "failed" // the call could not be made, or its outcome is unknown: see ErrorKind
)

// Begun is what is recorded before a call is made.
type Begun struct {
	Record    string    // id of the record: unique, and ordered by time
	Call      string    // id of the call; empty where it had none
	Execution string    // the execution that made the call; empty for a call from outside
	Time      time.Time // kept to the microsecond, in UTC
	Tool      string    // exact path
	Principal string
	Client    string
	Digest    string // SHA-256 of the arguments, in hexadecimal
	Arguments string // the arguments' text, at most ArgumentsBytes of it
	Size      int64  // bytes of all the arguments
	Decision  string // what policy decided, as the door says it
	// Durable says that the record must have reached the disk before the call leaves: the tool doesn't say that it
	// only reads. Other records survive the death of the process, and may be lost with the power.
	Durable bool
}

// Ended is what is recorded after a call ended.
type Ended struct {
	Record    string // of its Begun
	Time      time.Time
	Outcome   Outcome
	ErrorKind tool.Kind // empty unless Failed
	Error     string    // bounded text; empty unless Failed
	Digest    string    // SHA-256 of the result, in hexadecimal; empty when Failed
	Size      int64     // bytes of the result
	Duration  time.Duration
}

// A Record is a call as the record tells it. Ended is zero, with the outcome Unfinished, while there is no end.
type Record struct {
	Begun Begun
	Ended Ended
}

// A Query picks records. Zero fields pick all.
type Query struct {
	Execution string // calls that this execution made
	Tool      string // exact path
	Before    string // records older than the one with this id: the next page
	Limit     int    // at most so many, 100 when 0; never more than 1000
}

// A Store holds the record. It is safe for concurrent use.
//
// Begin and End return after what they add is written; Begin of a Durable record after it is on the disk. An error
// means that it may not be written. Neither gives up in the middle of a write because ctx ended: they look at it
// before. End of a record that never began, and a second end, are errors of kind tool.NotFound and tool.Conflict;
// a second Begin of one id is a tool.Conflict. After Close both are errors of kind tool.Unavailable.
// Records gives the newest first.
type Store interface {
	Begin(ctx context.Context, b *Begun) error
	End(ctx context.Context, e *Ended) error
	Records(ctx context.Context, q Query) ([]Record, error)
}

// Config is what a Log is made of.
type Config struct {
	Store Store            // nil: a Memory of its own
	Clock func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: none
}

// A Log records calls. It is safe for concurrent use.
type Log struct {
	store Store
	now   func() time.Time
	log   *slog.Logger

	mu     sync.Mutex
	lastMS int64  // of the newest id
	seq    uint32 // of the newest id, within lastMS
}

// New makes a Log.
func New(c Config) *Log {
	l := &Log{store: c.Store, now: c.Clock, log: c.Log}
	if l.store == nil {
		l.store = NewMemory()
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l
}

// An Entry is a record that waits for its end.
type Entry struct {
	log    *Log
	record string
	tool   string
	start  time.Time
}

// Begin records that c is about to be made under decision. The call must not be made when Begin fails.
func (l *Log) Begin(ctx context.Context, c *tool.Call, decision string) (*Entry, error) {
	start := l.now()
	path, durable := c.Path, true
	if c.Tool != nil {
		path = c.Tool.Path()
		ro := c.Tool.Annotations.ReadOnly
		durable = ro == nil || !*ro
	}
	args := c.Arguments
	if args == nil {
		args = []byte("{}")
	}
	b := &Begun{
		Record: l.newID(start), Call: c.ID, Execution: c.Parent, Time: start, Tool: cut(path, nameBytes),
		Principal: cut(c.Principal.ID, nameBytes), Client: cut(c.Principal.Client, nameBytes),
		Digest: digest(args), Arguments: cut(string(args), ArgumentsBytes), Size: int64(len(args)),
		Decision: cut(decision, messageBytes), Durable: durable,
	}
	if err := l.store.Begin(ctx, b); err != nil {
		e := tool.AsError(err)
		if e.Kind != tool.Canceled && e.Kind != tool.Timeout {
			l.log.Error("audit begin", "tool", path, "err", err)
		}
		return nil, tool.Errorf(e.Kind, "record the call of %s: %w", path, err)
	}
	return &Entry{log: l, record: b.Record, tool: path, start: start}, nil
}

// Record is the id of the entry's record.
func (e *Entry) Record() string { return e.record }

// End records how the call ended: with res, or with err when that is not nil. It records also when ctx is done.
func (e *Entry) End(ctx context.Context, res *tool.Result, err error) error {
	now := e.log.now()
	end := &Ended{Record: e.record, Time: now, Outcome: OK, Duration: now.Sub(e.start)}
	switch {
	case err != nil:
		te := tool.AsError(err)
		end.Outcome, end.ErrorKind, end.Error = Failed, te.Kind, cut(te.Msg, messageBytes)
	case res != nil:
		if res.IsError {
			end.Outcome = ToolError
		}
		end.Size, end.Digest = int64(len(res.Raw)), digest(res.Raw)
	}
	if err := e.log.store.End(context.WithoutCancel(ctx), end); err != nil {
		e.log.log.Error("audit end", "tool", e.tool, "record", e.record, "err", err)
		return tool.Errorf(tool.AsError(err).Kind, "record the end of %s: %w", e.tool, err)
	}
	return nil
}

// Records gives what q picks, newest first.
func (l *Log) Records(ctx context.Context, q Query) ([]Record, error) { return l.store.Records(ctx, q) }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// cut gives at most n bytes of s, whole characters, valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if !utf8.ValidString(s) {
		s = string([]rune(s))
		if len(s) > n {
			return cut(s, n)
		}
	}
	return s
}

// ids sort as their times do: the alphabet is in the order of its characters.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID is 48 bits of milliseconds, 32 that count within one of them, and 48 random ones, so that the ids of one Log
// are in the order in which they were made.
func (l *Log) newID(t time.Time) string {
	l.mu.Lock()
	if ms := t.UnixMilli(); ms > l.lastMS {
		l.lastMS, l.seq = ms, 0
	} else {
		l.seq++
	}
	ms, seq := l.lastMS, l.seq
	l.mu.Unlock()
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(ms)<<16)
	binary.BigEndian.PutUint32(b[6:10], seq)
	rand.Read(b[10:])
	return idEncoding.EncodeToString(b[:])
}

// Max is how many records q asks for, within its bounds.
func (q Query) Max() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}

// stamp is t as the record keeps it.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

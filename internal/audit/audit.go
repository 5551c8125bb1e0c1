// Package audit keeps the record of all that happens: calls, before and after them, and what else
// is decided, changed or read. Each half of a call, and each other event, is one leaf: canonical
// JSON (RFC 8785), appended to one Merkle tree (RFC 6962, as golang.org/x/mod/sumdb/tlog builds it)
// in the order in which it was committed. Signed checkpoints (C2SP tlog-checkpoint and signed-note)
// make any later change visible to whoever holds one. A call that could not be recorded must not be
// made; the door sees to that.
//
// Leaves hold digests of arguments, results and error texts, never these themselves: what is kept
// of them stands beside the tree, under its digest, so that throwing it away changes nothing in the
// tree. Digests are keyed (HMAC-SHA256), since a short secret could be guessed from a plain one.
//
// The package owns the contract of the Store that holds the record, an in-memory version of it,
// and, in audittest, the suite that every Store must pass.
package audit

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The entries of a call's Detail that name the request by which a person approved it, and that
// person, as the principals are named; and, where the principal's own name doesn't tell, the person
// and the agent that made it.
const (
	RequestDetail    = "request"
	ApprovedByDetail = "approved_by"
	PersonDetail     = "person"
	AgentDetail      = "agent"
)

// LabelsDetail is the entry of a call's Detail that names the labels of what its caller had read
// when it was decided on, with commas between. Without it there were none.
const LabelsDetail = "labels"

// The entries of a call's Detail that say what became of it when its process ended in its middle,
// and the next one took its execution up: at its end, when that was; at the beginning of another
// record of it, which is made where it is not the same call any more, or has an end already, the
// first record.
const (
	TakenUpDetail = "taken_up"
	AgainDetail   = "again"
)

// What bounds texts from outside in the record, in bytes.
const (
	messageBytes = 1 << 10 // of an error, of a decision
	nameBytes    = 512     // of a tool, a principal, a client, an entry of a detail
	details      = 32      // entries of a detail
)

// Config is what a Log is made of.
type Config struct {
	Store     Store            // nil: a Memory of its own
	Key       *secret.Key      // of the digests; nil: one that nobody else has, for this Log only
	Signer    *Signer          // of the checkpoints; nil: one that nobody else has, for this Log only
	Retention Retention        // what is kept of arguments and results
	Clock     func() time.Time // nil: time.Now
	Log       *slog.Logger     // nil: none
}

// A Log is the record. It is safe for concurrent use.
type Log struct {
	store  Store
	signer *Signer
	keep   *keeper
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex
	lastMS int64  // of the newest id
	seq    uint32 // of the newest id, within lastMS
	broken error  // what the last Inspect found
	found  error  // what was first found to be wrong with the record; nil: nothing

	added   atomic.Int64 // leaves, by this Log
	failing atomic.Bool  // what nobody waited for could not be written: until it is, all wait
	again   sync.Mutex   // held while that is tried once more

	lostMu sync.Mutex // held for a moment only: the store's own goroutine tells of what could not be written
	lost   []*Addition
}

// New makes a Log.
func New(c Config) *Log {
	l := &Log{store: c.Store, signer: c.Signer, keep: newKeeper(c.Key, c.Retention), now: c.Clock, log: c.Log}
	if l.store == nil {
		l.store = NewMemory()
	}
	if l.signer == nil {
		l.signer = newSigner()
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l
}

// An Entry is the record of a call that waits for its end.
type Entry struct {
	log   *Log
	first *Addition
	tool  string
	inner bool // the call was made by a program
	start time.Time
	said  map[string]string // Detail of its end

	approved bool // by a person
}

// Begin records that c is about to be made under d. The call must not be made when Begin fails.
//
// It waits until the disk has the record of a call of a tool that doesn't declare that it only
// reads, in the log or beside it. Of other calls it is written while they are made, in the order in
// which they began: End of a call from outside waits for it, so that no answer reaches an agent of
// which the record doesn't tell. When that came to nothing, no call is begun until it could be
// written after all.
//
// A call that names the record of its beginning in another process (Again) goes on in that one, as
// long as it is the same call, decided on in the same way, and has no end. Else it has a new one,
// which names the first.
//
// Once anything was found to be wrong with the record (see Found), no call begins.
func (l *Log) Begin(ctx context.Context, c *tool.Call, d Decision) (*Entry, error) {
	if err := l.Found(); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "no call is made: %w", err)
	}
	start := l.now()
	path, upstream, durable := c.Path, "", true
	if c.Tool != nil {
		path, upstream = c.Tool.Path(), c.Tool.Upstream
		// Biplane's own tools act by calls of their own, which wait for the disk if they must.
		durable = !c.Tool.Annotations.Reads() && upstream != tool.Own && d.Effect != "deny"
	}
	args := []byte(c.Arguments)
	if args == nil {
		args = []byte("{}")
	}
	a := &Addition{Record: l.newID(start), Part: PartBegun, Time: start, Durable: durable}
	leaf := &content{
		Version: formatVersion, Part: PartBegun, Record: a.Record, Kind: KindCall, Time: Stamp(start),
		Principal: cut(c.Principal.ID, nameBytes), Client: cut(c.Principal.Client, nameBytes),
		Tool: cut(path, nameBytes), Upstream: cut(upstream, nameBytes), Execution: cut(c.Parent, nameBytes), Call: cut(c.ID, nameBytes),
		Effect: cut(d.Effect, nameBytes), Policy: cut(d.Policy, nameBytes), Reason: cut(d.Reason, messageBytes),
		Arguments: l.keep.arguments(a, args).bytesOf(),
	}
	leaf.Detail = bounded(circumstances(c))
	e := &Entry{log: l, first: a, tool: path, inner: c.Parent != "", start: start}
	first, err := l.begunBefore(ctx, c.Again, leaf)
	if first != nil && e.takesUp(first, leaf) {
		return e, nil
	}
	if err == nil {
		err = l.append(ctx, a, leaf, false)
	}
	if err != nil {
		return nil, tool.Errorf(tool.AsError(err).Kind, "record the call of %s: %w", path, err)
	}
	if first != nil {
		e.instead(ctx, first)
	}
	return e, nil
}

// circumstances is what else there is to say of a call before it is made; nil: nothing.
func circumstances(c *tool.Call) (d map[string]string) {
	add := func(name, value string) {
		if d == nil {
			d = map[string]string{}
		}
		d[name] = value
	}
	if len(c.Labels) > 0 {
		add(LabelsDetail, strings.Join(c.Labels, ","))
	}
	p := &c.Principal
	if p.Person != "" && p.Person != p.ID {
		add(PersonDetail, p.Person)
	}
	if p.Agent != "" && !strings.HasSuffix(p.ID, ":"+p.Agent) { // that of a key is in its name
		add(AgentDetail, p.Agent)
	}
	return d
}

// Approved says that a person, by, let the call through, which the record of its end then tells.
func (e *Entry) Approved(request, by string) {
	e.say(RequestDetail, request)
	e.say(ApprovedByDetail, by)
	e.approved = true
}

// IsApproved reports whether a person let the call through.
func (e *Entry) IsApproved() bool { return e.approved }

// say adds to the detail of the end.
func (e *Entry) say(name, value string) {
	if e.said == nil {
		e.said = map[string]string{}
	}
	e.said[name] = cut(value, nameBytes)
}

// Record is the id of the entry's record.
func (e *Entry) Record() string { return e.first.Record }

// End records how the call ended: with res, or with err when that is not nil. It records also when
// ctx is done. The death of the process doesn't take that back, except of a call that a program
// made: one whose end is lost with the process is one that has none.
func (e *Entry) End(ctx context.Context, res *tool.Result, err error) error {
	now := e.log.now()
	a := &Addition{Record: e.first.Record, Part: PartEnded, First: e.first, Time: now, Safe: !e.inner}
	leaf := &content{
		Version: formatVersion, Part: PartEnded, Record: a.Record, Kind: KindCall, Time: Stamp(now), Begun: new(int64), Outcome: OK,
		Micros: max(now.Sub(e.start), 0).Microseconds(), Detail: e.said,
	}
	switch {
	case err != nil:
		te := tool.AsError(err)
		leaf.Outcome, leaf.ErrorKind = Failed, te.Kind
		leaf.Error = e.log.keep.message(a, cut(te.Msg, messageBytes)).bytesOf()
	case res != nil:
		if res.IsError {
			leaf.Outcome = ToolError
		}
		leaf.Result = e.log.keep.result(a, res.Raw).bytesOf()
	}
	if err := e.log.append(context.WithoutCancel(ctx), a, leaf, false); err != nil {
		return tool.Errorf(tool.AsError(err).Kind, "record the end of %s: %w", e.tool, err)
	}
	return nil
}

// Event records what happened, and gives the id of the record. It has reached the disk then, unless
// it is a read of the record, or the end of an execution: that is written in its turn, before the
// end of the call that answers with it.
func (l *Log) Event(ctx context.Context, e Event) (string, error) {
	now := l.now()
	if e.Outcome == Unfinished {
		e.Outcome = OK
	}
	wait := e.Kind != KindExecution || e.Intent
	a := &Addition{Record: l.newID(now), Part: PartEvent, Time: now, Durable: e.Kind != KindRead && wait}
	s := e.Subject
	leaf := &content{
		Version: formatVersion, Part: PartEvent, Record: a.Record, Kind: e.Kind, Time: Stamp(now),
		Principal: cut(e.Principal.ID, nameBytes), Client: cut(e.Principal.Client, nameBytes),
		Tool: cut(s.Tool, nameBytes), Upstream: cut(s.Upstream, nameBytes), Execution: cut(s.Execution, nameBytes), Call: cut(s.Call, nameBytes),
		Session: cut(s.Session, nameBytes), File: cut(s.File, nameBytes), Name: cut(s.Name, nameBytes),
		Effect: cut(e.Decision.Effect, nameBytes), Policy: cut(e.Decision.Policy, nameBytes), Reason: cut(e.Decision.Reason, messageBytes),
		Outcome: e.Outcome, ErrorKind: e.ErrorKind, Detail: bounded(e.Detail),
	}
	if err := l.append(context.WithoutCancel(ctx), a, leaf, wait); err != nil {
		return "", tool.Errorf(tool.AsError(err).Kind, "record a %s: %w", e.Kind, err)
	}
	return a.Record, nil
}

// append encodes a leaf and appends it. Unless wait says otherwise it returns before it has its
// place in the log, as long as nothing failed.
func (l *Log) append(ctx context.Context, a *Addition, c *content, wait bool) (err error) {
	kind, path := c.Kind, c.Tool // c itself is not kept
	failed := func(err error) {
		if k := tool.AsError(err).Kind; k != tool.Canceled && k != tool.Timeout {
			l.log.Error("audit "+a.Part, "kind", kind, "tool", path, "record", a.Record, "err", err)
		}
	}
	if !wait {
		a.Failed = func(err error) {
			l.missed(a)
			failed(err)
		}
	}
	if a.Leaf, err = c.encode(); err != nil {
		failed(err)
		return err
	}
	if err = l.retry(ctx); err == nil {
		l.added.Add(1)
		err = l.store.Append(ctx, a)
	}
	if err != nil {
		if a.Part == PartEnded || c.Kind == KindExecution && !wait { // it has happened
			l.missed(a)
		}
		failed(err)
	}
	return err
}

// missed notes a leaf of what is done already, and that could not be written. They are few: nothing
// is begun before they are.
func (l *Log) missed(a *Addition) {
	l.lostMu.Lock()
	defer l.lostMu.Unlock()
	if !slices.Contains(l.lost, a) {
		l.lost = append(l.lost, a)
	}
	l.failing.Store(true)
}

// retry appends what could not be written, in its order; an error says that it still can't be.
func (l *Log) retry(ctx context.Context) error {
	if !l.failing.Load() {
		return nil
	}
	l.again.Lock()
	defer l.again.Unlock()
	for {
		l.lostMu.Lock()
		if len(l.lost) == 0 {
			l.lost = nil
			l.failing.Store(false)
			l.lostMu.Unlock()
			return nil
		}
		a := l.lost[0]
		l.lostMu.Unlock()
		a.Failed = nil
		err := l.store.Append(ctx, a)
		// it is there, or never will be
		if k := tool.AsError(err); err != nil && k.Kind != tool.Conflict && k.Kind != tool.NotFound {
			return err
		}
		l.lostMu.Lock()
		l.lost = l.lost[1:]
		l.lostMu.Unlock()
	}
}

// Records returns what q picks, newest first. Each is checked: what is not what was recorded has a
// Problem, whatever q asks for, and no call begins after that.
func (l *Log) Records(ctx context.Context, q Query) (out []Record, err error) {
	err = l.store.View(ctx, func(v View) error {
		pairs, err := v.Records(q)
		if err == nil {
			out, err = checked(v, pairs)
		}
		return err
	})
	if err != nil && tool.AsError(err).Kind == tool.Conflict {
		l.Doubt(ctx, "read", err)
	}
	for i := range out {
		if err := out[i].Intact(); err != nil {
			l.Doubt(ctx, "read", err)
			break
		}
	}
	return out, err
}

// Newest returns, of each of the kinds, the event that was recorded last, if there is one. One that
// was changed is left out.
func (l *Log) Newest(ctx context.Context, kinds ...Kind) (map[Kind]*Record, error) {
	var all []Record
	err := l.store.View(ctx, func(v View) error {
		leaves, err := v.Newest(kinds...)
		if err != nil {
			return err
		}
		pairs := make([]Pair, 0, len(leaves))
		for _, leaf := range leaves {
			pairs = append(pairs, Pair{Begun: leaf})
		}
		all, err = checked(v, pairs)
		return err
	})
	out := map[Kind]*Record{}
	for i := range all {
		if err := all[i].Intact(); err != nil {
			l.Doubt(ctx, "read", err)
			continue
		}
		out[all[i].Kind] = &all[i]
	}
	return out, err
}

// Record gives one record. The error is of kind tool.NotFound where there is none.
func (l *Log) Record(ctx context.Context, id string) (*Record, error) {
	if id != "" {
		found, err := l.Records(ctx, Query{ID: id, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(found) == 1 {
			return &found[0], nil
		}
	}
	return nil, tool.Errorf(tool.NotFound, "no audit record %q: biplane audit list shows the ids", id)
}

// Leaves gives the leaves of a record byte for byte as the tree has them: one, or two of a call
// that has ended.
func (l *Log) Leaves(ctx context.Context, id string) (leaves []Leaf, err error) {
	if id == "" {
		return nil, tool.Errorf(tool.NotFound, "no audit record without an id")
	}
	err = l.store.View(ctx, func(v View) error {
		pairs, err := v.Records(Query{ID: id, Limit: 1})
		if err != nil {
			return err
		}
		if len(pairs) == 0 {
			return tool.Errorf(tool.NotFound, "no audit record %q: biplane audit list shows the ids", id)
		}
		leaves = append(leaves, pairs[0].Begun)
		if pairs[0].Ended.Data != nil {
			leaves = append(leaves, pairs[0].Ended)
		}
		return nil
	})
	return leaves, err
}

// Kept gives what was kept of the leaf at an index under a digest; nil when nothing was, or it was
// thrown away.
func (l *Log) Kept(ctx context.Context, seq int64, digest string) (data []byte, err error) {
	if digest == "" {
		return nil, nil
	}
	err = l.store.View(ctx, func(v View) (err error) { data, err = v.Kept(seq, digest); return err })
	return data, err
}

// bounded is a detail within its bounds.
func bounded(d map[string]string) map[string]string {
	if len(d) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(d)) {
		if len(out) == details {
			break
		}
		out[cut(k, nameBytes)] = cut(d[k], nameBytes)
	}
	return out
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

// newID is 48 bits of milliseconds, 32 that count within one of them, and 48 random ones, so that
// the ids of one Log are in the order in which they were made.
func (l *Log) newID(t time.Time) string {
	l.mu.Lock()
	// verify wants ids near their times
	if ms := t.UnixMilli(); ms > l.lastMS || ms < l.lastMS-ClockSlack.Milliseconds() {
		l.lastMS, l.seq = ms, 0
	} else {
		l.seq++
	}
	ms, seq := l.lastMS, l.seq
	l.mu.Unlock()
	b := idBytes(ms, seq)
	rand.Read(b[10:])
	return idEncoding.EncodeToString(b[:])
}

func idBytes(ms int64, seq uint32) (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], uint64(ms)<<16)
	binary.BigEndian.PutUint32(b[6:10], seq)
	return b
}

// idTime gives the time that is in an id.
func idTime(id string) (time.Time, bool) {
	const part = 16 // characters: 10 bytes, of which the first 6 are the milliseconds
	if len(id) < part {
		return time.Time{}, false
	}
	b, err := idEncoding.DecodeString(id[:part])
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)).UTC(), true
}

// FirstID is before all ids that a Log makes at t or later. A Log whose clock was set back goes on
// with ids of the later time.
func FirstID(t time.Time) string {
	b := idBytes(max(t.UnixMilli(), 0), 0)
	return idEncoding.EncodeToString(b[:])
}

// ClockSlack is how far a clock may be set back while a process runs, so that ids stay in the order
// in which they are made. So far a record's id may be from its time.
const ClockSlack = 26 * time.Hour

// Package audit keeps the record of everything that happens: each call before and after it is made,
// and every other decision, change or read. Each half of a call, and each other event, is one leaf
// in canonical JSON (RFC 8785). Leaves are appended to a Merkle tree (RFC 6962, built with
// golang.org/x/mod/sumdb/tlog) in the order in which they are committed. Signed checkpoints (C2SP
// tlog-checkpoint and signed-note) reveal any later change to everyone who holds one. A call that
// can't be recorded must not be made, which package gateway enforces.
//
// Leaves hold digests of arguments, results and error texts, never the data itself. Data that is
// kept is stored beside the tree under its digest, so deleting it doesn't change the tree. Digests
// are keyed (HMAC-SHA256), because a short secret could be guessed from a plain digest.
//
// The package owns the contract of the Store that holds the record. Package audittest has an
// in-memory Store and the test suite that every Store must pass.
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

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Entries of a call's Detail. The first two name the request by which a person approved the call,
// and that person, in the form of principal names. The others name the person and the agent that
// made the call, unless the principal's name includes them.
const (
	requestDetail    = "request"
	approvedByDetail = "approved_by"
	personDetail     = "person"
	agentDetail      = "agent"
	// the principal whose credentials the upstream used; missing: the shared ones
	credentialDetail = "credential"
	profileDetail    = "profile" // of the endpoint through which the caller came
)

// labelsDetail is the entry of a Detail with labels, separated by commas; see Record.DataLabels. If
// it is missing, there were none.
const labelsDetail = "labels"

// askedDetail is the entry of a call's Detail with the requests that the tool's server sent to the
// client: their methods, sites to open, and whether the person agreed.
const askedDetail = "asked"

// findingsDetail is the entry of a call's Detail with the rules of the findings of the program that
// it ran, separated by commas. If it is missing, there were none.
const findingsDetail = "findings"

// Entries of a call's Detail that are set if its process ended during the call and the next process
// resumed its execution. takenUpDetail, in the call's end, is the time when it was resumed.
// againDetail is in the beginning of a new record, made if the call is no longer the same or has
// already ended, and names the first record.
const (
	takenUpDetail = "taken_up"
	againDetail   = "again"
)

// Limits of external texts in the record, in bytes.
const (
	messageBytes = 1 << 10 // of an error or a decision
	nameBytes    = 512     // of a tool, a principal, a client, or an entry of a detail
	details      = 32      // number of entries of a detail
)

// Config configures New.
type Config struct {
	Store     Store
	Key       *secret.Key      // for the digests; nil: a random key for this Log only
	Signer    *proof.Signer    // for the checkpoints; nil: a random one for this Log only
	Retention retention.Policy // what to keep of arguments and results
	Clock     *wallclock.Clock // nil: the system's
	Log       *slog.Logger     // nil: no logging
}

// A Log is the audit record. It is safe for concurrent use.
type Log struct {
	store  Store
	signer *proof.Signer
	keep   *retention.Keeper
	clock  *wallclock.Clock
	log    *slog.Logger

	ids       idSource
	problems  problems
	added     atomic.Int64 // leaves added by this Log
	missed    missedLeaves
	retrying  sync.Mutex // held while missed leaves are written
	archiving archiveTurn
	progress  progress // of Verify
}

// CountAdditions returns the number of leaves that this Log has added.
func (l *Log) CountAdditions() int64 { return l.added.Load() }

// problems holds the faults found in the record.
type problems struct {
	mu     sync.Mutex
	broken error // result of the last Inspect
	found  error // first problem found; nil: none
}

// missedLeaves holds the leaves that couldn't be written, about something that has already
// happened. They are few, because nothing new begins until they are written.
type missedLeaves struct {
	some atomic.Bool // whether there are missed leaves

	mu     sync.Mutex // held only briefly: the store's goroutine adds leaves
	leaves []*Addition
}

// addLeaf adds a leaf, unless it is there.
func (m *missedLeaves) addLeaf(a *Addition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.leaves, a) {
		m.leaves = append(m.leaves, a)
	}
	m.some.Store(true)
}

// firstLeaf returns the oldest leaf, or nil.
func (m *missedLeaves) firstLeaf() *Addition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.leaves) == 0 {
		m.leaves = nil
		m.some.Store(false)
		return nil
	}
	return m.leaves[0]
}

// removeFirst removes the oldest leaf.
func (m *missedLeaves) removeFirst() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaves = m.leaves[1:]
}

// New returns a Log.
func New(c Config) *Log {
	l := &Log{store: c.Store, signer: c.Signer, keep: retention.NewKeeper(c.Key, c.Retention), clock: c.Clock,
		log: c.Log, progress: progress{turn: make(chan struct{}, 1)}}
	if l.signer == nil {
		l.signer = newSigner()
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l
}

// An Entry is the record of a call that has not ended yet.
type Entry struct {
	log   *Log
	first *Addition
	tool  string
	inner bool // made by a program
	start time.Time
	said  map[string]string // Detail of the call's end

	approved bool // by a person
}

// Begin records that c is about to be made under d. The call must not be made if Begin fails.
//
// If the tool doesn't declare that it only reads, Begin waits until the record is on the disk, in
// the log or in the write-ahead file. The records of other calls are written while the calls are
// made, in the order in which they began. End of an outside call waits for its record, so an agent
// never receives an answer that is not on record. If a record can't be written, no further call
// begins until it is.
//
// A call may name the record that it has from another process (Again). If it is still the same
// call, with the same decision, and has no end, that record continues. Otherwise it gets a new
// record, which refers to the first.
//
// Once a problem with the record was found (see Found), no call begins.
func (l *Log) Begin(ctx context.Context, c *tool.Call, d Decision) (*Entry, error) {
	if err := l.Found(); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "no call is made: %w", err)
	}
	start := l.clock.Now()
	path, upstream, durable := c.Path, "", true
	if c.Tool != nil {
		path, upstream = c.Tool.Path(), c.Tool.Upstream
		// Biplane's own tools act through calls of their own, which wait for the disk if necessary.
		durable = !c.Tool.Annotations.Reads() && upstream != tool.Own && d.Effect != "deny"
	}
	args := []byte(c.Arguments)
	if args == nil {
		args = []byte("{}")
	}
	a := &Addition{Record: l.ids.newID(start), Part: PartBegun, Time: start, Durable: durable}
	leaf := &content{
		Version: formatVersion, Part: PartBegun, Record: a.Record, Kind: KindCall, Time: FormatTime(start),
		Principal: cutText(c.Principal.ID, nameBytes), Client: cutText(c.Principal.Client, nameBytes),
		Tool: cutText(path, nameBytes), Upstream: cutText(upstream, nameBytes),
		Execution: cutText(c.FromProgram().Execution,
			nameBytes), Call: cutText(c.ID, nameBytes),
		decision:  newDecision(d),
		Arguments: bytesFrom(l.keep.KeepArguments(&a.Keep, args)),
	}
	leaf.Detail = boundDetail(callDetail(c))
	e := &Entry{log: l, first: a, tool: path, inner: c.FromProgram().Execution != "", start: start}
	first, err := l.begunBefore(ctx, c.FromProgram().Again, leaf)
	if first != nil && e.takesUp(first, leaf) {
		return e, nil
	}
	if err == nil {
		err = l.appendLeaf(ctx, a, leaf, false)
	}
	if err != nil {
		return nil, tool.Errorf(tool.AsError(err).Kind, "record the call of %s: %w", path, err)
	}
	if first != nil {
		e.replaceRecord(ctx, first)
	}
	return e, nil
}

// fullDetail returns the event's Detail with its labels.
func (e *Event) fullDetail() map[string]string {
	if len(e.Labels) == 0 {
		return e.Detail
	}
	d := maps.Clone(e.Detail)
	if d == nil {
		d = map[string]string{}
	}
	d[labelsDetail] = strings.Join(e.Labels, ",")
	return d
}

// callDetail returns the Detail of a call that is about to be made, or nil.
func callDetail(c *tool.Call) (d map[string]string) {
	add := func(name, value string) {
		if d == nil {
			d = map[string]string{}
		}
		d[name] = value
	}
	if len(c.Labels) > 0 {
		add(labelsDetail, strings.Join(c.Labels, ","))
	}
	p := &c.Principal
	if p.Person != "" && p.Person != p.ID {
		add(personDetail, p.Person)
	}
	if p.Agent != "" && !strings.HasSuffix(p.ID, ":"+p.Agent) { // a key's agent is in its name
		add(agentDetail, p.Agent)
	}
	if p.Profile != "" {
		add(profileDetail, p.Profile)
	}
	if c.Tool != nil && c.Tool.Personal {
		add(credentialDetail, p.ID)
	}
	return d
}

// AddApproval records, in the end of the call, that the person by approved it.
func (e *Entry) AddApproval(request, by string) {
	e.addDetail(requestDetail, request)
	e.addDetail(approvedByDetail, by)
	e.approved = true
}

// AddQuestions adds the requests that the tool's server sent to the client.
func (e *Entry) AddQuestions(requests string) { e.addDetail(askedDetail, requests) }

// AddFindings adds the rules of the findings of the program that the call ran.
func (e *Entry) AddFindings(rules []string) {
	e.addDetail(findingsDetail, strings.Join(rules, ","))
}

// IsApproved reports whether a person let the call through.
func (e *Entry) IsApproved() bool { return e.approved }

// addDetail adds an entry to the detail of the end.
func (e *Entry) addDetail(name, value string) {
	if e.said == nil {
		e.said = map[string]string{}
	}
	e.said[name] = cutText(value, nameBytes)
}

// Record returns the id of the entry's record.
func (e *Entry) Record() string { return e.first.Record }

// End records how the call ended: with res, or with err if it is not nil. It does so even if ctx is
// done. The end survives the death of the process, except for calls that a program made: if the
// process dies, they may have no end.
func (e *Entry) End(ctx context.Context, res *tool.Result, err error) error {
	now := e.log.clock.Now()
	a := &Addition{Record: e.first.Record, Part: PartEnded, First: e.first, Time: now, Safe: !e.inner}
	leaf := &content{
		Version: formatVersion, Part: PartEnded, Record: a.Record, Kind: KindCall, Time: FormatTime(now),
		Begun: new(int64), Outcome: OK,
		Micros: max(now.Sub(e.start), 0).Microseconds(), Detail: e.said,
	}
	switch {
	case err != nil:
		te := tool.AsError(err)
		leaf.Outcome, leaf.ErrorKind = Failed, te.Kind
		leaf.Error = bytesFrom(e.log.keep.KeepMessage(&a.Keep, cutText(te.Msg, messageBytes)))
	case res != nil:
		if res.IsError {
			leaf.Outcome = ToolError
		}
		leaf.Result = bytesFrom(e.log.keep.KeepResult(&a.Keep, res.Raw))
	}
	if err := e.log.appendLeaf(context.WithoutCancel(ctx), a, leaf, false); err != nil {
		return tool.Errorf(tool.AsError(err).Kind, "record the end of %s: %w", e.tool, err)
	}
	return nil
}

// Event records an event and returns the id of its record, which is on the disk by then. There are
// two exceptions: reads of the record, which may be lost in a power failure, and the end of an
// execution, which is written before the end of the call that returns its result.
func (l *Log) Event(ctx context.Context, e Event) (string, error) {
	now := l.clock.Now()
	if e.Outcome == Unfinished {
		e.Outcome = OK
	}
	wait := e.Kind != KindExecution || e.Intent
	a := &Addition{Record: l.ids.newID(now), Part: PartEvent, Time: now, Durable: e.Kind != KindRead && wait}
	s := e.Subject
	leaf := &content{
		Version: formatVersion, Part: PartEvent, Record: a.Record, Kind: e.Kind, Time: FormatTime(now),
		Principal: cutText(e.Principal.ID, nameBytes), Client: cutText(e.Principal.Client, nameBytes),
		Tool: cutText(s.Tool, nameBytes), Upstream: cutText(s.Upstream, nameBytes), Execution: cutText(s.Execution,
			nameBytes), Call: cutText(s.Call, nameBytes),
		Session: cutText(s.Session, nameBytes), File: cutText(s.File, nameBytes), Name: cutText(s.Name, nameBytes),
		decision: newDecision(e.Decision),
		Outcome:  e.Outcome, ErrorKind: e.ErrorKind, Detail: boundDetail(e.fullDetail()),
	}
	if err := l.appendLeaf(context.WithoutCancel(ctx), a, leaf, wait); err != nil {
		return "", tool.Errorf(tool.AsError(err).Kind, "record a %s: %w", e.Kind, err)
	}
	return a.Record, nil
}

// appendLeaf encodes a leaf and appends it. Unless wait is set, it returns before the leaf has its
// position in the log, as long as nothing has failed.
func (l *Log) appendLeaf(ctx context.Context, a *Addition, c *content, wait bool) (err error) {
	kind, path := c.Kind, c.Tool // don't retain c
	failed := func(err error) {
		if k := tool.AsError(err).Kind; k != tool.Canceled && k != tool.Timeout {
			l.log.Error("audit "+a.Part, "kind", kind, "tool", path, "record", a.Record, "err", err)
		}
	}
	if !wait {
		a.Failed = func(err error) {
			l.missed.addLeaf(a)
			failed(err)
		}
	}
	if a.Leaf, err = c.encodeLeaf(); err != nil {
		failed(err)
		return err
	}
	if err = l.retryMissed(ctx); err == nil {
		l.added.Add(1)
		err = l.store.Append(ctx, a)
	}
	if err != nil {
		if a.Part == PartEnded || c.Kind == KindExecution && !wait { // it has already happened
			l.missed.addLeaf(a)
		}
		failed(err)
	}
	return err
}

// retryMissed appends the missed leaves in order. It returns an error if they still can't be
// written.
func (l *Log) retryMissed(ctx context.Context) error {
	if !l.missed.some.Load() {
		return nil
	}
	l.retrying.Lock()
	defer l.retrying.Unlock()
	for {
		a := l.missed.firstLeaf()
		if a == nil {
			return nil
		}
		a.Failed = nil
		err := l.store.Append(ctx, a)
		// it is there already, or never will be
		if k := tool.AsError(err); err != nil && k.Kind != tool.Conflict && k.Kind != tool.NotFound {
			return err
		}
		l.missed.removeFirst()
	}
}

// Records returns the records that match q, newest first. Each is checked. A record that was
// altered has a Problem and is returned for any q; no call begins after that.
func (l *Log) Records(ctx context.Context, q Query) (out []Record, err error) {
	err = l.store.View(ctx, func(v View) error {
		pairs, err := v.Records(q)
		if err == nil {
			out, err = l.checkPairs(v, pairs)
		}
		return err
	})
	if err != nil && tool.AsError(err).Kind == tool.Conflict {
		l.Doubt(ctx, "read", err)
	}
	for i := range out {
		if err := out[i].CheckIntact(); err != nil && out[i].Absent == "" {
			l.Doubt(ctx, "read", err)
			break
		}
	}
	return out, err
}

// Newest returns the newest event of each kind, if there is one. Altered events are omitted.
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
		all, err = l.checkPairs(v, pairs)
		return err
	})
	out := map[Kind]*Record{}
	for i := range all {
		if err := all[i].CheckIntact(); err != nil {
			if all[i].Absent == "" {
				l.Doubt(ctx, "read", err)
			}
			continue
		}
		out[all[i].Kind] = &all[i]
	}
	return out, err
}

// Record returns a record. The error is of kind tool.NotFound if it is unknown.
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
	return nil, tool.Errorf(tool.NotFound, "no audit record %q: biplane audit list shows the IDs", id)
}

// Leaves returns the leaves of a record, byte for byte as in the tree: one, or two for a call that
// has ended.
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
			return tool.Errorf(tool.NotFound, "no audit record %q: biplane audit list shows the IDs", id)
		}
		if name := pairs[0].readLeaves().absent; name != "" {
			return absentError(id, name)
		}
		leaves = append(leaves, pairs[0].Begun)
		if pairs[0].Ended.Data != nil {
			leaves = append(leaves, pairs[0].Ended)
		}
		return nil
	})
	return leaves, err
}

// Kept returns the data kept for the leaf at an index under a digest. It returns nil if nothing was
// kept, or if it was deleted.
func (l *Log) Kept(ctx context.Context, seq int64, digest string) (data []byte, err error) {
	if digest == "" {
		return nil, nil
	}
	err = l.store.View(ctx, func(v View) (err error) { data, err = v.LoadKept(seq, digest); return err })
	return data, err
}

// boundDetail returns d within the limits of a detail.
func boundDetail(d map[string]string) map[string]string {
	if len(d) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(d)) {
		if len(out) == details {
			break
		}
		out[cutText(k, nameBytes)] = cutText(d[k], nameBytes)
	}
	return out
}

// cutText returns at most n bytes of s, in whole characters of valid UTF-8.
func cutText(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	if !utf8.ValidString(s) {
		s = string([]rune(s))
		if len(s) > n {
			return cutText(s, n)
		}
	}
	return s
}

// idEncoding's alphabet is in ASCII order, so ids sort by time.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// An idSource generates the ids of records, in ascending order.
type idSource struct {
	mu     sync.Mutex
	lastMS int64  // of the newest id
	seq    uint32 // of the newest id, within lastMS
}

// newID returns an id of 48 bits of milliseconds, a 32-bit counter within the millisecond, and 48
// random bits.
func (s *idSource) newID(t time.Time) string {
	s.mu.Lock()
	// Verify checks that ids are close to their times.
	if ms := t.UnixMilli(); ms > s.lastMS || ms < s.lastMS-ClockSlack.Milliseconds() {
		s.lastMS, s.seq = ms, 0
	} else {
		s.seq++
	}
	ms, seq := s.lastMS, s.seq
	s.mu.Unlock()
	b := idBytes(ms, seq)
	rand.Read(b[10:])
	return idEncoding.EncodeToString(b[:])
}

func idBytes(ms int64, seq uint32) (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], uint64(ms)<<16)
	binary.BigEndian.PutUint32(b[6:10], seq)
	return b
}

// idTime returns the time in an id.
func idTime(id string) (time.Time, bool) {
	const part = 16 // characters: 10 bytes, the first 6 of which are the milliseconds
	if len(id) < part {
		return time.Time{}, false
	}
	b, err := idEncoding.DecodeString(id[:part])
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)).UTC(), true
}

// FirstID returns an id that sorts before all ids that a Log generates at t or later. A Log whose
// clock was set back continues with ids of the later time.
func FirstID(t time.Time) string {
	b := idBytes(max(t.UnixMilli(), 0), 0)
	return idEncoding.EncodeToString(b[:])
}

// ClockSlack is how far a clock may be set back while a process runs, for ids to stay in the order
// in which they are made. A record's id may differ from its time by as much.
const ClockSlack = 26 * time.Hour

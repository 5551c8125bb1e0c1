package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Whoever can write to the database and has no key must gain nothing by it. So each table whose
// rows grant something has a list: the ids of the rows that count, each with a keyed digest of what
// the row says. A list is sealed with the folder's key. The versions of all lists are sealed too,
// bound to the sealed head of the record. So a row that was changed, copied, removed or put back
// from an older copy doesn't agree with its list, and an older list doesn't agree with the
// versions, nor older versions with the head.
//
// The lists are in memory, too: only this process writes to the database, and only its writer
// changes them.

// The lists, by the names of their tables.
const (
	keyGrants      = "api_key"
	approvalGrants = "approval" // requests that are approved and not made yet
	labelGrants    = "session_label"
	skillGrants    = "skill" // shared ones
	tokenGrants    = "upstream_token"
	hintGrants     = "tool_hint"
)

var grantTables = [...]string{keyGrants, approvalGrants, labelGrants, skillGrants, tokenGrants, hintGrants}

// What grants are sealed for.
const (
	rowPurpose     = "grant-row"
	listPurpose    = "grant-list"
	versionPurpose = "grant-versions"
)

// errChanged is wrapped by errors about rows that don't agree with what was sealed.
var errChanged = errors.New("it was changed in the database without the folder's key")

// grants are the lists of one store.
type grants struct {
	s   *Store
	key *secret.Key

	mu     sync.RWMutex // held while lists are loaded, read or changed
	loaded bool
	lists  map[string]*grantList
	limits limitSum

	marked atomic.Bool // the folder says that the database has sealed lists

	dirty bool // something changed in the transaction under way; only the writer uses it
}

// A grantList says which rows of a table count.
type grantList struct {
	version uint64            // random, another one with every change; 0: it was never written
	rows    map[string][]byte // digests by row
	dirty   bool
}

// grants returns the lists that key seals. Those of the first key are the store's: with another one
// nothing agrees.
func (s *Store) grants(key *secret.Key) *grants {
	g := &grants{s: s, key: key}
	if s.granted.CompareAndSwap(nil, g) {
		return g
	}
	first := s.granted.Load()
	one, other := first.key.MAC(versionPurpose, nil), key.MAC(versionPurpose, nil)
	if subtle.ConstantTimeCompare(one[:], other[:]) == 1 {
		return first
	}
	return g
}

// digest returns the keyed digest of what a row of a table says.
func (g *grants) digest(table string, fields ...string) []byte {
	b := field(nil, table)
	for _, f := range fields {
		b = field(b, f)
	}
	sum := g.key.MAC(rowPurpose, b)
	return sum[:]
}

// agrees reports whether a row with that digest counts.
func (g *grants) agrees(table, id string, digest []byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	l := g.lists[table]
	return l != nil && l.rows[id] != nil && subtle.ConstantTimeCompare(l.rows[id], digest) == 1
}

// has reports whether there is a row of that id that counts, whatever it says.
func (g *grants) has(table, id string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	l := g.lists[table]
	return l != nil && l.rows[id] != nil
}

// ids returns the rows of a table that count, in order.
func (g *grants) ids(table string) []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if l := g.lists[table]; l != nil {
		return slices.Sorted(maps.Keys(l.rows))
	}
	return nil
}

// set has a row count in the transaction under way, which must write it, too. Without a digest the
// row counts no longer. ensure must have been called in the same transaction.
func (g *grants) set(table, id string, digest []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lists[table]
	if digest == nil {
		if l.rows[id] == nil {
			return
		}
		delete(l.rows, id)
	} else {
		l.rows[id] = digest
	}
	l.dirty, g.dirty = true, true
}

// lose forgets the lists after a transaction that was not committed: they are read again.
func (g *grants) lose() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loaded, g.lists, g.dirty, g.limits = false, nil, false, limitSum{}
}

// checked calls read, which reads rows and compares them. What doesn't agree (errChanged) is read
// once more between two transactions: it may have been changed by this process meanwhile.
func (g *grants) checked(ctx context.Context, read func(q record.Querier) error) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	err := read(g.s.read)
	if err == nil || isToolError(err) {
		return err
	}
	if !errors.Is(err, errChanged) {
		return fault.Reading(ctx, err)
	}
	return g.s.writer.call(ctx, false, func(ctx context.Context, w *writer) error {
		if err := g.ensure(ctx, w); err != nil {
			return err
		}
		return refuse(read(w.conn))
	})
}

// change calls f in a transaction, with the lists loaded. Errors of people's making (*tool.Error,
// errChanged) are refusals: f must not have changed anything by then.
func (g *grants) change(ctx context.Context, durable bool, f func(ctx context.Context, w *writer) error) error {
	err := g.s.writer.call(ctx, durable, func(ctx context.Context, w *writer) error {
		if err := g.ensure(ctx, w); err != nil {
			return err
		}
		return refuse(f(ctx, w))
	})
	if err == nil {
		g.mark(ctx)
	}
	return err
}

// refuse makes an error that the database didn't make the failure of one write alone.
func refuse(err error) error {
	if isToolError(err) || errors.Is(err, errChanged) {
		return fault.Refuse(err)
	}
	return err
}

func isToolError(err error) bool {
	var known *tool.Error
	return errors.As(err, &known)
}

func isChanged(err error) bool { return errors.Is(err, errChanged) }

// ready loads the lists, unless they are.
func (g *grants) ready(ctx context.Context) error {
	g.mu.RLock()
	loaded := g.loaded
	g.mu.RUnlock()
	if !loaded {
		found, err := g.load(ctx, g.s.read)
		if err == nil && !found.whole() {
			err = g.s.writer.call(ctx, true, g.ensure)
		}
		if err != nil {
			return err
		}
	}
	g.mark(ctx)
	return nil
}

// ensure loads the lists within the transaction under way, and begins those that can't be used.
func (g *grants) ensure(ctx context.Context, w *writer) error {
	// Of what is committed: the transaction under way may have named the record, and has not sealed
	// its head yet.
	found, err := g.load(ctx, g.s.read)
	if err != nil || found.whole() {
		return refuse(err)
	}
	if g.s.granted.Load() != g {
		return fault.Refuse(tool.Errorf(tool.Conflict, "what the database grants was sealed with another key"))
	}
	return g.begin(ctx, w, found)
}

// finding is what load found.
type finding struct {
	old  bool     // the folder was written by a version that sealed nothing: its rows are sealed as they are
	lost []string // lists that don't agree with what was sealed, or were taken away: none of their rows counts any more
	why  error    // with lost
}

func (f *finding) whole() bool { return !f.old && len(f.lost) == 0 }

// load reads the lists. With anything but a whole finding they are not loaded.
func (g *grants) load(ctx context.Context, db *sql.DB) (*finding, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := &finding{}
	if g.loaded {
		return f, nil
	}
	q, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fault.Reading(ctx, err)
	}
	defer q.Rollback()
	var head, sealed []byte
	if err := fault.One(q.QueryRowContext(ctx, `SELECT head, grants FROM tail WHERE id = 1`), &head, &sealed); err != nil {
		return nil, err
	}
	state, err := record.GrantsOf(ctx, q, g.key)
	if err != nil {
		return nil, err
	}
	g.lists, g.limits = map[string]*grantList{}, limitSum{}
	for _, t := range grantTables {
		g.lists[t] = &grantList{rows: map[string][]byte{}}
	}
	switch {
	case sealed == nil && state != record.GrantsSealed && g.s.isMarked():
		f.lost, f.why = grantTables[:], errOlder
		return f, nil
	case sealed == nil && state == record.GrantsUnsealed:
		f.old = true
		return f, nil
	case sealed == nil && state == record.GrantsNew:
		g.loaded = true
		return f, nil
	}
	versions, err := g.openVersions(sealed, head)
	if err != nil {
		f.lost, f.why = grantTables[:], err
		return f, nil
	}
	for _, t := range grantTables {
		if err := g.loadList(ctx, q, t, versions[t]); err != nil {
			if !errors.Is(err, errChanged) {
				return nil, err
			}
			f.lost, f.why = append(f.lost, t), err
		}
	}
	g.loaded = f.whole()
	return f, nil
}

// loadList reads a list, which must be of that version: 0 of one that was never written.
func (g *grants) loadList(ctx context.Context, q record.Querier, table string, version uint64) error {
	if version == 0 {
		return nil
	}
	var sealed []byte
	if err := fault.One(q.QueryRowContext(ctx, `SELECT data FROM grant_list WHERE name = ?`, table), &sealed); err != nil {
		return err
	}
	text, err := g.key.Unseal(listPurpose, sealed, []byte(table), binary.BigEndian.AppendUint64(nil, version))
	if err != nil {
		return errChanged
	}
	l := &grantList{version: version, rows: map[string][]byte{}}
	for f := (&fields{data: text}); len(f.data) > 0; {
		id, digest := string(f.next()), f.next()
		if f.bad {
			return errChanged
		}
		l.rows[id] = bytes.Clone(digest)
	}
	g.lists[table] = l
	return nil
}

// openVersions opens the versions of the lists, and the digest of limits.
func (g *grants) openVersions(sealed, head []byte) (map[string]uint64, error) {
	text, err := g.key.Unseal(versionPurpose, sealed, head)
	if err != nil {
		return nil, errChanged
	}
	f, out := &fields{data: text}, map[string]uint64{}
	for range f.number() {
		name := string(f.next())
		if out[name] = f.number(); f.bad {
			return nil, errChanged
		}
	}
	g.limits.rows, g.limits.doubt = f.number(), int64(f.number())
	if copy(g.limits.sum[:], f.next()); f.bad {
		return nil, errChanged
	}
	return out, nil
}

// seal writes the lists that changed, and returns their versions, sealed for a head of the record.
// It returns nil if nothing changed.
func (g *grants) seal(ctx context.Context, w *writer, head []byte) (any, error) {
	if g == nil || head == nil && !g.dirty {
		return nil, nil
	}
	if err := g.ensure(ctx, w); err != nil {
		return nil, err
	}
	if head == nil {
		if err := w.conn.QueryRowContext(ctx, `SELECT head FROM tail WHERE id = 1`).Scan(&head); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	text := binary.AppendUvarint(make([]byte, 0, 256), uint64(len(grantTables)))
	for _, t := range grantTables {
		l := g.lists[t]
		if l.dirty {
			l.version, l.dirty = newVersion(), false
			if _, err := w.statement(ctx, saveGrants, t, l.seal(g.key, t)); err != nil {
				return nil, err
			}
		}
		text = binary.AppendUvarint(field(text, t), l.version)
	}
	text = binary.AppendUvarint(binary.AppendUvarint(text, g.limits.rows), uint64(g.limits.doubt))
	text = field(text, g.limits.sum[:])
	g.dirty = false
	return g.key.Seal(versionPurpose, text, head), nil
}

const saveGrants = `INSERT INTO grant_list (name, data) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET data = excluded.data`

// newVersion returns a version that no list had: two copies of a database that went different ways
// never have the same one.
func newVersion() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails: the process ends instead
	return max(binary.BigEndian.Uint64(b[:]), 1)
}

func (l *grantList) seal(key *secret.Key, table string) []byte {
	var text []byte
	for id, digest := range l.rows {
		text = field(field(text, id), digest)
	}
	return key.Seal(listPurpose, text, []byte(table), binary.BigEndian.AppendUint64(nil, l.version))
}

// digestOf is a plain digest of what is sealed itself.
func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return string(sum[:])
}

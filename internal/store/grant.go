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

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Write access to the database without the folder's key must gain an attacker nothing. So each
// table whose rows grant something has a list of the valid rows: their ids, each with a keyed
// digest of the row's contents. A list is sealed with the folder's key. The versions of all lists
// are sealed, too, bound to the sealed head of the record.
//
// So a row that was changed, copied, removed or restored from an older copy doesn't match its list.
// An older list doesn't match the versions, and older versions don't match the head.
//
// The lists are also held in memory: only this process writes to the database, and only its writer
// changes them.

// The lists, named after their tables.
const (
	keyGrants      = "api_key"
	approvalGrants = "approval" // requests that are approved and not yet made
	labelGrants    = "session_label"
	skillGrants    = "skill" // shared ones
	tokenGrants    = "upstream_token"
	hintGrants     = "tool_hint"
	secretGrants   = "stored_secret"
)

var grantTables = [...]string{keyGrants, approvalGrants, labelGrants, skillGrants, tokenGrants, hintGrants,
	secretGrants}

// Purposes for which grants are sealed.
const (
	rowPurpose     = "grant-row"
	listPurpose    = "grant-list"
	versionPurpose = "grant-versions"
)

// errChanged is wrapped by errors about rows that don't match their seal.
var errChanged = errors.New("it was changed in the database without the data folder's key")

// A grants holds the lists of a store.
type grants struct {
	s   *Store
	key *secret.Key

	mu     sync.RWMutex // held while lists are loaded, read or changed
	loaded bool
	lists  map[string]*grantList
	limits limitSum

	marked atomic.Bool // the folder is marked: its database has sealed lists

	dirty bool // something changed in the current transaction; only the writer uses it
}

// A grantList is the list of a table's valid rows.
type grantList struct {
	version uint64            // random, new with every change; 0: never written
	rows    map[string][]byte // digests by row ID
	dirty   bool
}

// grants returns the lists that key seals. The store keeps the lists of the first key. With another
// key nothing matches.
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

// rowDigest returns the keyed digest of a table row's contents.
func (g *grants) rowDigest(table string, fields ...string) []byte {
	b := appendField(nil, table)
	for _, f := range fields {
		b = appendField(b, f)
	}
	sum := g.key.MAC(rowPurpose, b)
	return sum[:]
}

// matchesDigest reports whether a row with that digest is valid.
func (g *grants) matchesDigest(table, id string, digest []byte) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	l := g.lists[table]
	return l != nil && l.rows[id] != nil && subtle.ConstantTimeCompare(l.rows[id], digest) == 1
}

// hasID reports whether the list has a row with that id, whatever its contents.
func (g *grants) hasID(table, id string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	l := g.lists[table]
	return l != nil && l.rows[id] != nil
}

// validIDs returns the ids of a table's valid rows, sorted.
func (g *grants) validIDs(table string) []string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if l := g.lists[table]; l != nil {
		return slices.Sorted(maps.Keys(l.rows))
	}
	return nil
}

// setDigest makes a row valid in the current transaction, which must also write the row. A nil
// digest removes the row from the list. ensure must have been called in the same transaction.
func (g *grants) setDigest(table, id string, digest []byte) {
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

// dropLists drops the lists from memory after a transaction that was not committed. They are
// loaded again when needed.
func (g *grants) dropLists() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loaded, g.lists, g.dirty, g.limits = false, nil, false, limitSum{}
}

// readWithDigests calls read, which reads rows and compares them with their digests. On a mismatch
// (errChanged) it calls read again between two transactions, because this process may have changed
// the rows in the meantime.
func (g *grants) readWithDigests(ctx context.Context, read func(q record.Querier) error) error {
	if err := g.ensureLists(ctx); err != nil {
		return err
	}
	err := read(g.s.read)
	if err == nil || isToolError(err) {
		return err
	}
	if !errors.Is(err, errChanged) {
		return fault.TranslateRead(ctx, err)
	}
	return g.s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) error {
		if err := g.loadOrReplace(ctx, w); err != nil {
			return err
		}
		return asRefusal(read(w.conn))
	})
}

// changeRows calls f in a transaction, with the lists loaded. An error that isn't the database's
// (*tool.Error, errChanged) is a refusal: f must not have changed anything by then.
func (g *grants) changeRows(ctx context.Context, durable bool, f func(ctx context.Context, w *writer) error) error {
	err := g.s.writer.runInTransaction(ctx, durable, func(ctx context.Context, w *writer) error {
		if err := g.loadOrReplace(ctx, w); err != nil {
			return err
		}
		return asRefusal(f(ctx, w))
	})
	if err == nil {
		g.createMark(ctx)
	}
	return err
}

// asRefusal turns an error that didn't come from the database into a refusal, which fails only this
// write.
func asRefusal(err error) error {
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

// ensureLists loads the lists if they are not loaded yet.
func (g *grants) ensureLists(ctx context.Context) error {
	g.mu.RLock()
	loaded := g.loaded
	g.mu.RUnlock()
	if !loaded {
		found, err := g.loadLists(ctx, g.s.read)
		if err == nil && !found.isComplete() {
			err = g.s.writer.runInTransaction(ctx, true, g.loadOrReplace)
		}
		if err != nil {
			return err
		}
	}
	g.createMark(ctx)
	return nil
}

// loadOrReplace loads the lists in the current transaction, and replaces unusable ones.
func (g *grants) loadOrReplace(ctx context.Context, w *writer) error {
	// Read the committed state: the current transaction may have named the record and not sealed
	// its head yet.
	found, err := g.loadLists(ctx, g.s.read)
	if err != nil || found.isComplete() {
		return asRefusal(err)
	}
	if g.s.granted.Load() != g {
		return fault.Refuse(tool.Errorf(tool.Conflict, "the database's grants were sealed with another key"))
	}
	return g.replaceLists(ctx, w, found)
}

// A loadResult is the result of load.
type loadResult struct {
	old  bool     // the folder's version sealed nothing: its rows are sealed as they are
	lost []string // lists that are missing or don't match their seal: none of their rows is valid
	why  error    // reason for lost
}

func (f *loadResult) isComplete() bool { return !f.old && len(f.lost) == 0 }

// loadLists reads the lists. They are loaded only if the finding is whole.
func (g *grants) loadLists(ctx context.Context, db *sql.DB) (*loadResult, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := &loadResult{}
	if g.loaded {
		return f, nil
	}
	q, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	defer q.Rollback()
	var head, sealed []byte
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT head, grants FROM tail WHERE id = 1`), &head,
		&sealed); err != nil {
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
	g.loaded = f.isComplete()
	return f, nil
}

// loadList reads a list, which must have that version. Version 0 means that it was never written.
func (g *grants) loadList(ctx context.Context, q record.Querier, table string, version uint64) error {
	if version == 0 {
		return nil
	}
	var sealed []byte
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT data FROM grant_list WHERE name = ?`, table),
		&sealed); err != nil {
		return err
	}
	text, err := g.key.Unseal(listPurpose, sealed, []byte(table), binary.BigEndian.AppendUint64(nil, version))
	if err != nil {
		return errChanged
	}
	l := &grantList{version: version, rows: map[string][]byte{}}
	for f := (&fields{data: text}); len(f.data) > 0; {
		id, digest := string(f.nextField()), f.nextField()
		if f.bad {
			return errChanged
		}
		l.rows[id] = bytes.Clone(digest)
	}
	g.lists[table] = l
	return nil
}

// openVersions unseals the versions of the lists and the digest of limits.
func (g *grants) openVersions(sealed, head []byte) (map[string]uint64, error) {
	text, err := g.key.Unseal(versionPurpose, sealed, head)
	if err != nil {
		return nil, errChanged
	}
	f, out := &fields{data: text}, map[string]uint64{}
	for range f.nextNumber() {
		name := string(f.nextField())
		if out[name] = f.nextNumber(); f.bad {
			return nil, errChanged
		}
	}
	g.limits.rows, g.limits.doubt = f.nextNumber(), int64(f.nextNumber())
	if copy(g.limits.sum[:], f.nextField()); f.bad {
		return nil, errChanged
	}
	return out, nil
}

// sealChanges writes the lists that changed, and returns their versions, sealed for a head of the
// record. It returns nil if nothing changed. A nil head means the current one.
func (g *grants) sealChanges(ctx context.Context, w *writer, head []byte) (any, error) {
	if g == nil || head == nil && !g.dirty {
		return nil, nil
	}
	if err := g.loadOrReplace(ctx, w); err != nil {
		return nil, err
	}
	if head == nil {
		if err := w.conn.QueryRowContext(ctx, `SELECT head FROM tail WHERE id = 1`).Scan(&head); err != nil &&
			!errors.Is(err, sql.ErrNoRows) {
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
			if _, err := w.runStatement(ctx, saveGrants, t, l.sealList(g.key, t)); err != nil {
				return nil, err
			}
		}
		text = binary.AppendUvarint(appendField(text, t), l.version)
	}
	text = binary.AppendUvarint(binary.AppendUvarint(text, g.limits.rows), uint64(g.limits.doubt))
	text = appendField(text, g.limits.sum[:])
	g.dirty = false
	return g.key.Seal(versionPurpose, text, head), nil
}

const saveGrants = `INSERT INTO grant_list (name, data) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET data = ` +
	`excluded.data`

// newVersion returns a random version, so that two diverged copies of a database never have the
// same one.
func newVersion() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails: it crashes the process instead
	return max(binary.BigEndian.Uint64(b[:]), 1)
}

func (l *grantList) sealList(key *secret.Key, table string) []byte {
	var text []byte
	for id, digest := range l.rows {
		text = appendField(appendField(text, id), digest)
	}
	return key.Seal(listPurpose, text, []byte(table), binary.BigEndian.AppendUint64(nil, l.version))
}

// digestOf returns an unkeyed digest of data that is itself sealed.
func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return string(sum[:])
}

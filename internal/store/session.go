package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Purposes for which the data of sessions and skills is sealed.
const (
	statePurpose  = "session-state"
	blobPurpose   = "session-blob"
	skillPurpose  = "skill"
	sharedPurpose = "skill-shared"
)

// Sessions stores sessions and skills, sealed. It implements session.Store.
type Sessions struct {
	s   *Store
	key *secret.Key
	dir string // folder of the blobs that are files
}

// Sessions returns the sessions, which key seals. It deletes what an earlier process left
// incomplete.
func (s *Store) Sessions(ctx context.Context, key *secret.Key) (*Sessions, error) {
	k := &Sessions{s, key, s.blobs}
	if err := k.sweepBlobs(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

const recordColumns = `id, owner, name, revision, created, used, programs, languages, engine, state_bytes, ` +
	`file_bytes, files, journal_bytes`

func scanRecord(scan func(...any) error, more ...any) (*session.Record, error) {
	r := &session.Record{}
	var created, used int64
	var languages string
	err := scan(append([]any{&r.ID, &r.Owner, &r.Name, &r.Revision, &created, &used, &r.Programs, &languages, &r.Engine,
		&r.StateBytes, &r.FileBytes, &r.Files, &r.JournalBytes}, more...)...)
	r.Created, r.Used = time.UnixMicro(created), time.UnixMicro(used)
	r.Languages = splitList(languages)
	return r, err
}

// Load returns a session, or nil if it is unknown.
func (k *Sessions) Load(ctx context.Context, owner, name string) (*session.Record, error) {
	var sealed []byte
	row := k.s.read.QueryRowContext(ctx, `SELECT `+recordColumns+`, state FROM session WHERE owner = ? AND name = ?`,
		owner, name)
	r, err := scanRecord(row.Scan, &sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fault.TranslateRead(ctx, err)
	}
	r.State, err = k.key.Unseal(statePurpose, sealed, stateBind(r)...)
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "session %q was changed, or can't be read with this data folder's "+
			"key: end it, or restore the folder from a backup: %w", name, err)
	}
	return r, nil
}

func stateBind(r *session.Record) [][]byte {
	return [][]byte{[]byte(r.ID), []byte(r.Owner), []byte(r.Name),
		binary.BigEndian.AppendUint64(nil, uint64(r.Revision))}
}

// List returns the sessions of an owner; an empty owner means all sessions.
func (k *Sessions) List(ctx context.Context, owner string) ([]session.Record, error) {
	rows, err := k.s.read.QueryContext(ctx, `SELECT `+recordColumns+`, `+labelsOf+
		` FROM session WHERE owner = ? OR ? = '' ORDER BY owner, name`, owner, owner)
	return collectRows(ctx, rows, err, func(scan func(...any) error) (*session.Record, error) {
		var labels string
		r, err := scanRecord(scan, &labels)
		r.Labels = splitList(labels)
		return r, err
	})
}

// Count returns the number of sessions of an owner.
func (k *Sessions) Count(ctx context.Context, owner string) (n int, err error) {
	if err = k.s.read.QueryRowContext(ctx, `SELECT count(*) FROM session WHERE owner = ?`, owner).Scan(&n); err != nil {
		return 0, fault.TranslateRead(ctx, err)
	}
	return n, nil
}

const (
	insertSession = `INSERT INTO session (` + recordColumns +
		`, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateSession = `UPDATE session SET (id, owner, name, revision, created, used, programs, languages, engine,
		state_bytes, file_bytes, files, journal_bytes, state) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?1`
	insertRef = `INSERT OR IGNORE INTO session_ref (session, blob) VALUES (?, ?)`
	appendRef = `INSERT INTO session_ref (session, blob, seq) SELECT ?1, ?2, 1 + coalesce(max(seq), 0) FROM ` +
		`session_ref WHERE session = ?1`
	copyRefs = `INSERT INTO session_ref (session, blob, seq) SELECT ?, blob, seq FROM session_ref WHERE session = ` +
		`? AND seq IS NOT NULL`
	dropRef    = `DELETE FROM session_ref WHERE session = ? AND blob = ?`
	dropBlob   = `DELETE FROM session_blob WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM session_ref WHERE blob = ?1)`
	endRefs    = `DELETE FROM session_ref WHERE session = ?`
	endSession = `DELETE FROM session WHERE id = ?`
)

// Save makes a change. Small blobs are in the database, so that one commit holds them and the row.
// Large ones are files: they are on the disk before the commit, which then waits for the disk, too.
func (k *Sessions) Save(ctx context.Context, c *session.Change) error {
	var steps []step
	var made []string
	for _, b := range c.Add {
		s, err := k.putBlob(b)
		if err != nil {
			k.removeFiles(made)
			return err
		}
		steps, made = append(steps, s), append(made, b.ID)
	}
	drop := c.Drop
	if r := c.Record; r != nil {
		if c.Forget {
			parts, err := k.Journal(ctx, r.ID)
			if err != nil {
				k.removeFiles(made)
				return err
			}
			drop = append(drop[:len(drop):len(drop)], parts...)
		}
		steps = append(steps, k.sessionSteps(c, drop)...)
	}
	for _, s := range c.Skills {
		steps = append(steps, k.skillStep(c.Owner, s))
	}
	durable := k.anyFile(made) || k.anyFile(drop)
	if err := k.execChange(ctx, durable, steps, c); err != nil {
		k.removeFiles(made)
		if fault.IsConstraint(err) && c.Record != nil {
			return tool.Errorf(tool.Conflict, "session %q already exists: %w", c.Record.Name, err)
		}
		return err
	}
	k.removeUnless(ctx, drop)
	return nil
}

// execChange executes the steps of a change. If a skill is removed, it is also no longer shared.
func (k *Sessions) execChange(ctx context.Context, durable bool, steps []step, c *session.Change) error {
	g := k.s.grants(k.key)
	var ids []string
	for _, s := range c.Skills {
		if s.Source == nil {
			ids = append(ids, skillID(c.Owner, s.Name))
		}
	}
	return k.execWithoutGrants(ctx, g, durable, steps, skillGrants, ids)
}

// execWithoutGrants executes steps, and removes ids from a table's list in the same transaction.
func (k *Sessions) execWithoutGrants(ctx context.Context, g *grants, durable bool, steps []step, table string,
	ids []string) error {
	if len(ids) == 0 {
		return k.s.writer.execAll(ctx, durable, steps)
	}
	return g.changeRows(ctx, durable, func(ctx context.Context, w *writer) error {
		if err := w.execWrite(ctx, &write{steps: steps}); err != nil {
			return err
		}
		for _, id := range ids {
			g.setDigest(table, id, nil)
		}
		return nil
	})
}

func (k *Sessions) sessionSteps(c *session.Change, drop []string) []step {
	r := c.Record
	query := updateSession
	if r.Revision == 1 {
		query = insertSession
	}
	steps := []step{{query, []any{r.ID, r.Owner, r.Name, r.Revision, r.Created.UnixMicro(), r.Used.UnixMicro(),
		r.Programs, strings.Join(r.Languages, ","), r.Engine,
		r.StateBytes, r.FileBytes, r.Files, r.JournalBytes, k.key.Seal(statePurpose, r.State, stateBind(r)...)}}}
	for _, id := range drop {
		steps = append(steps, step{dropRef, []any{r.ID, id}})
	}
	for _, b := range c.Add {
		if slices.Contains(c.Append, b.ID) {
			steps = append(steps, step{appendRef, []any{r.ID, b.ID}})
		} else {
			steps = append(steps, step{insertRef, []any{r.ID, b.ID}})
		}
	}
	for _, id := range c.Refer {
		steps = append(steps, step{insertRef, []any{r.ID, id}})
	}
	if c.Journal != "" {
		steps = append(steps, step{copyRefs, []any{r.ID, c.Journal}})
	}
	for _, id := range drop {
		steps = append(steps, step{dropBlob, []any{id}})
	}
	return steps
}

// End deletes a session.
func (k *Sessions) End(ctx context.Context, r *session.Record) error {
	blobs, err := k.queryStrings(ctx, `SELECT blob FROM session_ref WHERE session = ?`, r.ID)
	if err != nil {
		return err
	}
	steps := []step{{endRefs, []any{r.ID}}, {endSession, []any{r.ID}}, {endLabels, []any{r.Owner, r.Name}},
		{endValues, []any{r.Owner, r.Name}}, {endVault, []any{r.Owner, r.Name}}}
	for _, id := range blobs {
		steps = append(steps, step{dropBlob, []any{id}})
	}
	if err := k.execWithoutGrants(ctx, k.s.grants(k.key), k.anyFile(blobs), steps, labelGrants,
		[]string{labelID(r.Owner, r.Name)}); err != nil {
		return err
	}
	k.removeUnless(ctx, blobs)
	return nil
}

// Journal returns the names of the parts of a session's journal, in order.
func (k *Sessions) Journal(ctx context.Context, id string) ([]string, error) {
	return k.queryStrings(ctx, `SELECT blob FROM session_ref WHERE session = ? AND seq IS NOT NULL ORDER BY seq`, id)
}

func (k *Sessions) queryStrings(ctx context.Context, query string, args ...any) ([]string, error) {
	return k.s.queryStrings(ctx, query, args...)
}

// queryStrings returns the rows of a query with a single column.
func (s *Store) queryStrings(ctx context.Context, query string, args ...any) ([]string, error) {
	return queryStrings(ctx, s.read, query, args...)
}

func queryStrings(ctx context.Context, q record.Querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, fault.TranslateRead(ctx, err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	return out, nil
}

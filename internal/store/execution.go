package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Purposes for which the data of executions is sealed.
const (
	partPurpose   = "execution-part"
	resultPurpose = "execution-result"
	digestPurpose = "execution-digest"
	reasonPurpose = "execution-reason"
)

// Executions stores executions and their journals, sealed. It implements journal.Store.
type Executions struct {
	s   *Store
	key *secret.Key
}

// Executions returns the executions, which key seals.
func (s *Store) Executions(key *secret.Key) *Executions { return &Executions{s, key} }

const executionColumns = `id, principal, client, session, language, tier, engine, build, state, started, ended, ` +
	`calls, bytes, after, lost, why, attempts`

const (
	insertExecution = `INSERT INTO execution (` + executionColumns +
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateExecution = `UPDATE execution SET (` + executionColumns +
		`) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?1`
	insertPart = `INSERT INTO execution_part (execution, seq, data) SELECT ?1, ?2, ?3
		WHERE ?2 = 1 OR EXISTS (SELECT 1 FROM execution_part WHERE execution = ?1 AND seq = ?2 - 1)`
	insertResult    = `INSERT OR IGNORE INTO execution_result (digest, data) VALUES (?, ?)`
	insertResultRef = `INSERT OR IGNORE INTO execution_ref (execution, digest) VALUES (?, ?)`
)

// Write queues a step.
func (e *Executions) Write(w *journal.Write) journal.Pending {
	x := &executionWrite{record: e.sealReason(w.Record), fresh: w.New, id: w.ID, seq: w.Seq}
	for _, r := range w.Results {
		x.results = append(x.results,
			journal.Result{Digest: r.Digest, Data: e.key.Seal(resultPurpose, r.Data, []byte(r.Digest))})
	}
	if w.Seq > 0 {
		x.part = e.key.Seal(partPurpose, compressData(w.Part), partBind(w.ID, w.Seq)...)
	}
	return e.s.writer.enqueueWrite(&write{entry: x, run: x.execSteps})
}

// sealedReason is the prefix of a sealed reason for an execution's end. Reasons are sealed because
// an error text may contain data that the program read. Older rows have the reasons of
// interruptions in plaintext.
const sealedReason = "sealed:"

// sealReason returns r with its reason sealed.
func (e *Executions) sealReason(r *journal.Record) *journal.Record {
	if r == nil || r.Why == "" {
		return r
	}
	sealed := *r
	sealed.Why = sealedReason +
		base64.RawStdEncoding.EncodeToString(e.key.Seal(reasonPurpose, []byte(r.Why), []byte(r.ID)))
	return &sealed
}

// unsealReason is the inverse of sealReason, in place.
func (e *Executions) unsealReason(r *journal.Record) {
	text, ok := strings.CutPrefix(r.Why, sealedReason)
	if !ok {
		return
	}
	r.Why = "the reason was changed in the store, or sealed with another key"
	if sealed, err := base64.RawStdEncoding.DecodeString(text); err == nil && e.key != nil {
		if plain, err := e.key.Unseal(reasonPurpose, sealed, []byte(r.ID)); err == nil {
			r.Why = string(plain)
		}
	}
}

// execSteps executes the step in the current transaction.
func (x *executionWrite) execSteps(ctx context.Context, to *writer) error {
	if x.seq > 1 { // it may be refused, and then no other part of the step may be written
		if err := putPart(ctx, to, x.id, x.seq, x.part); err != nil {
			return err
		}
	}
	for _, s := range x.buildSteps() {
		if err := to.execStep(ctx, s); err != nil {
			return err
		}
	}
	if x.seq == 1 {
		return putPart(ctx, to, x.id, x.seq, x.part)
	}
	return nil
}

// buildSteps returns the statements for everything but the part. Only the first may be refused.
func (x *executionWrite) buildSteps() (steps []step) {
	if r := x.record; r != nil {
		query, ended := updateExecution, int64(0)
		if x.fresh {
			query = insertExecution
		}
		if !r.Ended.IsZero() {
			ended = r.Ended.UnixMicro()
		}
		steps = append(steps, step{query,
			[]any{r.ID, r.Principal, r.Client, r.Session, r.Language, int(r.Tier), r.Engine, r.Build, string(r.State),
				r.Started.UnixMicro(), ended, r.Calls, r.Bytes, r.After, r.Lost, r.Why, r.Attempts}})
	}
	for _, r := range x.results {
		steps = append(steps, step{insertResult, []any{r.Digest, r.Data}}, step{insertResultRef, []any{x.id, r.Digest}})
	}
	return steps
}

// putPart appends a part to the journal. It refuses if the previous part is missing, because the
// replies recorded there are unknown.
func putPart(ctx context.Context, to *writer, id string, seq int, sealed []byte) error {
	done, err := to.runStatement(ctx, insertPart, id, seq, sealed)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		return fault.Refuse(tool.Errorf(tool.Conflict,
			"the journal of execution %s is incomplete: a part of it could not be written", id))
	}
	return err
}

func partBind(id string, seq int) [][]byte {
	return [][]byte{[]byte(id), binary.BigEndian.AppendUint64(nil, uint64(seq))}
}

// Digest returns the name under which data is stored: a keyed digest.
func (e *Executions) Digest(data []byte) string {
	sum := e.key.MAC(digestPurpose, data)
	return hex.EncodeToString(sum[:])
}

func (e *Executions) scanRecord(scan func(...any) error) (*journal.Record, error) {
	r := &journal.Record{}
	var started, ended int64
	var tier int
	err := scan(&r.ID, &r.Principal, &r.Client, &r.Session, &r.Language, &tier, &r.Engine, &r.Build, &r.State,
		&started, &ended,
		&r.Calls, &r.Bytes, &r.After, &r.Lost, &r.Why, &r.Attempts)
	r.Tier, r.Started = tool.Tier(tier), time.UnixMicro(started)
	if ended != 0 {
		r.Ended = time.UnixMicro(ended)
	}
	if err == nil {
		e.unsealReason(r)
	}
	return r, err
}

// Get returns an execution, or nil if it is unknown.
func (e *Executions) Get(ctx context.Context, id string) (*journal.Record, error) {
	r, err := e.scanRecord(e.s.read.QueryRowContext(ctx, `SELECT `+executionColumns+` FROM execution WHERE id = ?`,
		id).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fault.TranslateRead(ctx, err)
	}
	return r, nil
}

// List returns the executions that match q, newest first.
func (e *Executions) List(ctx context.Context, q journal.Query) ([]journal.Record, error) {
	query, args := listExecutions(q)
	return e.queryRecords(ctx, query, args...)
}

// listExecutions returns the statement that lists the executions that match q, and its arguments.
// It names the index to use, because a scan of the executions of all principals is slow.
func listExecutions(q journal.Query) (query string, args []any) {
	const newest = ` ORDER BY started DESC, id DESC LIMIT ?`
	selects := func(index string, conditions []string, args ...any) (string, []any) {
		if q.Before != "" {
			conditions = append(conditions, `(started, id) < (SELECT started, id FROM execution WHERE id = ?)`)
			args = append(args, q.Before)
		}
		where := ""
		if len(conditions) > 0 {
			where = ` WHERE ` + strings.Join(conditions, ` AND `)
		}
		return `SELECT ` + executionColumns + ` FROM execution INDEXED BY ` + index + where + newest,
			append(args, q.Max())
	}
	if q.Principal == "" && q.Session == "" && len(q.States) > 0 {
		var parts []string
		for _, state := range q.States {
			part, a := selects(`execution_state`, []string{`state = ?`}, string(state))
			parts, args = append(parts, `SELECT * FROM (`+part+`)`), append(args, a...)
		}
		return strings.Join(parts, ` UNION ALL `) + newest, append(args, q.Max())
	}
	index, conditions := `execution_started`, []string(nil)
	if q.Principal != "" {
		index, conditions, args = `execution_principal`, append(conditions, `principal = ?`), append(args, q.Principal)
	}
	if q.Session != "" {
		index = `execution_session`
		conditions, args = append(conditions, `session <> '' AND session = ?`), append(args, q.Session)
	}
	if len(q.States) > 0 {
		conditions = append(conditions, `state IN (?`+strings.Repeat(`, ?`, len(q.States)-1)+`)`)
		for _, state := range q.States {
			args = append(args, string(state))
		}
	}
	return selects(index, conditions, args...)
}

// Open returns the executions that have not ended.
func (e *Executions) Open(ctx context.Context) ([]journal.Record, error) {
	return e.queryRecords(ctx, `SELECT `+executionColumns+` FROM execution WHERE ended = 0 ORDER BY started, id`)
}

func (e *Executions) queryRecords(ctx context.Context, query string, args ...any) ([]journal.Record, error) {
	rows, err := e.s.read.QueryContext(ctx, query, args...)
	return collectRows(ctx, rows, err, e.scanRecord)
}

// Parts returns the parts of a journal, in order.
func (e *Executions) Parts(ctx context.Context, id string) (parts [][]byte, err error) {
	rows, err := e.s.read.QueryContext(ctx, `SELECT seq, data FROM execution_part WHERE execution = ? ORDER BY seq`, id)
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var seq int
		var sealed []byte
		if err := rows.Scan(&seq, &sealed); err != nil {
			return nil, fault.TranslateRead(ctx, err)
		}
		part, err := e.key.Unseal(partPurpose, sealed, partBind(id, seq)...)
		if err == nil {
			part, err = expandData(part)
		}
		if err != nil || seq != len(parts)+1 {
			return nil, tool.Errorf(tool.Conflict,
				"the journal of execution %s was changed in the store, or sealed with another key", id)
		}
		parts = append(parts, part)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	return parts, nil
}

// Result returns the result with that digest.
func (e *Executions) Result(ctx context.Context, digest string) ([]byte, error) {
	var sealed []byte
	err := e.s.read.QueryRowContext(ctx, `SELECT data FROM execution_result WHERE digest = ?`, digest).Scan(&sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, tool.Errorf(tool.NotFound, "a result is no longer stored")
	case err != nil:
		return nil, fault.TranslateRead(ctx, err)
	}
	data, err := e.key.Unseal(resultPurpose, sealed, []byte(digest))
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "a result was changed in the store, or sealed with another key")
	}
	return data, nil
}

const (
	trimmedAtOnce = 10_000 // executions that one query finds
	deletedAtOnce = 200    // executions that one transaction deletes: others wait for it
)

// Trim deletes executions that ended before a time, and those above the size limit, in bytes. For
// the limit, the principals with the largest journals lose theirs first. A principal within an
// equal share loses none. It returns the space of what was deleted to the file system.
func (e *Executions) Trim(ctx context.Context, before time.Time, bytes int64) (n int, err error) {
	old, err := e.deleteFound(ctx, `SELECT id FROM execution
		WHERE started < ?1 AND ended <> 0 AND ended < ?1 ORDER BY started LIMIT ?2`, before.UnixMicro())
	if err != nil {
		return old, err
	}
	share, err := e.principalShare(ctx, bytes)
	if err != nil {
		return old, err
	}
	var large int
	if share < math.MaxInt64 {
		large, err = e.deleteFound(ctx,
			`SELECT id FROM (SELECT id, started, ended, sum(bytes) OVER (PARTITION BY principal
				ORDER BY started DESC, id DESC) AS newer FROM execution)
			WHERE ended <> 0 AND newer > ?1 ORDER BY started LIMIT ?2`, share)
		if err != nil {
			return old + large, err
		}
	}
	if err := e.s.shrinkFile(ctx); err != nil {
		return old + large, err
	}
	return old + large, e.s.truncateAhead()
}

// deleteFound deletes the executions that query returns, until it returns none. Its parameters are
// bound and the maximum number of ids.
func (e *Executions) deleteFound(ctx context.Context, query string, bound int64) (n int, err error) {
	for {
		ids, err := e.s.queryStrings(ctx, query, bound, trimmedAtOnce)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		for some := range slices.Chunk(ids, deletedAtOnce) {
			if err := e.deleteExecutions(ctx, some); err != nil {
				return n, err
			}
			n += len(some)
		}
	}
}

// principalShare returns how many bytes of journals each principal may have so that their total is
// at most bytes. Principals below an equal share leave the rest to the others.
func (e *Executions) principalShare(ctx context.Context, bytes int64) (int64, error) {
	totals, err := e.s.queryStrings(ctx,
		`SELECT CAST(sum(bytes) AS TEXT) FROM execution GROUP BY principal ORDER BY sum(bytes)`)
	if err != nil {
		return 0, err
	}
	for i, text := range totals { // ascending
		total, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		if each := bytes / int64(len(totals)-i); total > each {
			return each, nil
		}
		bytes -= total
	}
	return math.MaxInt64, nil
}

// deleteExecutions deletes executions and the results that only they refer to.
func (e *Executions) deleteExecutions(ctx context.Context, ids []string) error {
	list, err := tool.Marshal(ids)
	if err != nil {
		return err
	}
	return e.s.writer.execAll(ctx, false, append(journalSteps(string(list)), dropTasksOf(string(list)),
		step{`DELETE FROM execution WHERE id IN ` + theseIDs, []any{string(list)}}))
}

// theseIDs are the ids in a list in JSON, the first parameter.
const theseIDs = `(SELECT value FROM json_each(?1))`

// journalSteps returns the statements that delete the journals of executions, and the results that
// only they refer to. list has their ids, in JSON.
func journalSteps(list string) []step {
	return []step{
		{`DELETE FROM execution_part WHERE execution IN ` + theseIDs, []any{list}},
		{`DELETE FROM execution_result WHERE digest IN (SELECT digest FROM execution_ref r
			WHERE r.execution IN ` + theseIDs + ` AND NOT EXISTS (SELECT 1 FROM execution_ref o
				WHERE o.digest = r.digest AND o.execution NOT IN ` + theseIDs + `))`, []any{list}},
		{`DELETE FROM execution_ref WHERE execution IN ` + theseIDs, []any{list}},
	}
}

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/repeat"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// repeatPurpose is the purpose for which answers are sealed.
const repeatPurpose = "kept-answer"

// Repeats stores answers to requests with an idempotency key. It implements repeat.Store.
type Repeats struct {
	s   *Store
	key *secret.Key
}

// OpenRepeats returns the stored answers, which key seals.
func (s *Store) OpenRepeats(key *secret.Key) *Repeats { return &Repeats{s, key} }

// A keptAnswer is the sealed part of a row.
type keptAnswer struct {
	Digest []byte         `json:"digest"`
	Answer *repeat.Answer `json:"answer"`
}

// repeatBinding returns the data that the sealed part of a row is bound to.
func repeatBinding(principal, key string, began int64) [][]byte {
	return [][]byte{[]byte(principal), []byte(key), []byte(strconv.FormatInt(began, 10))}
}

// LoadEntry returns the entry of a principal's key that began after since; nil: there is none.
func (a *Repeats) LoadEntry(ctx context.Context, principal, key string, since time.Time) (*repeat.Entry, error) {
	var began int64
	var sealed []byte
	err := a.s.read.QueryRowContext(ctx, `SELECT began, sealed FROM kept_answer
		WHERE principal = ? AND key = ? AND began > ?`, principal, key, toMicros(since)).Scan(&began, &sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	text, err := a.key.Unseal(repeatPurpose, sealed, repeatBinding(principal, key, began)...)
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "the stored answer to this idempotency key was changed: use another "+
			"key: %w", err)
	}
	var k keptAnswer
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, tool.Errorf(tool.Internal, "decode a stored answer: %w", err)
	}
	return &repeat.Entry{Request: repeat.Request{Principal: principal, Key: key, Digest: k.Digest},
		Began: fromMicros(began), Answer: k.Answer}, nil
}

const (
	saveAnswer = `INSERT INTO kept_answer (principal, key, began, sealed) VALUES (?, ?, ?, ?)
		ON CONFLICT (principal, key) DO UPDATE SET began = excluded.began, sealed = excluded.sealed`
	// of one principal, the oldest ones
	dropAnswers = `DELETE FROM kept_answer WHERE principal = ? AND key IN (SELECT key FROM (
		SELECT key, sum(length(sealed)) OVER newest AS bytes, row_number() OVER newest AS n
		FROM kept_answer WHERE principal = ? WINDOW newest AS (ORDER BY began DESC, key)) WHERE bytes > ? OR n > ?)`
)

// SaveEntry adds or replaces an entry, and deletes what the limits no longer allow. It returns once
// the entry is on disk.
func (a *Repeats) SaveEntry(ctx context.Context, e *repeat.Entry, expired time.Time) error {
	text, err := json.Marshal(keptAnswer{e.Digest, e.Answer})
	if err != nil {
		return tool.Errorf(tool.Internal, "encode an answer: %w", err)
	}
	began := toMicros(e.Began)
	sealed := a.key.Seal(repeatPurpose, text, repeatBinding(e.Principal, e.Key, began)...)
	return a.s.writer.execAll(ctx, true, []step{
		{saveAnswer, []any{e.Principal, e.Key, began, sealed}},
		{`DELETE FROM kept_answer WHERE began <= ?`, []any{toMicros(expired)}},
		{dropAnswers, []any{e.Principal, e.Principal, repeat.MaxBytes, repeat.MaxKept}},
	})
}

// DropEntry deletes an entry.
func (a *Repeats) DropEntry(ctx context.Context, principal, key string) error {
	return a.s.writer.execStatement(ctx, false, `DELETE FROM kept_answer WHERE principal = ? AND key = ?`,
		principal, key)
}

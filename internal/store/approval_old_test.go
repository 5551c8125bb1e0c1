package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/store/record"
)

// Fields of an older version's requests are copied in several transactions, so that other writes
// don't wait for all of them.
func TestOldApprovalsAreCopiedInParts(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Path: dir})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer s.Close()
	key, err := secret.Open(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	k := s.Approvals(key)
	const old = 3 * requestsAtOnce
	now := time.Now()
	err = s.writer.runInTransaction(t.Context(), false, func(ctx context.Context, w *writer) error {
		for i := range old {
			id := fmt.Sprintf("apr_%d", i)
			row := &approvalRow{id: id, subject: id, state: "pending"}
			text := fmt.Sprintf(`{"id":%q,"principal":"p%d","expires":%q}`, id, i,
				now.Add(time.Hour).Format(time.RFC3339Nano))
			if _, err := w.runStatement(ctx, `INSERT INTO approval (id, seq, subject, execution, state, decider,
				decided, note, request, arguments, seal) VALUES (?, ?, ?, '', 'pending', '', 0, '', ?, ?, ?)`,
				id, i, id, k.key.Seal(requestPurpose, []byte(text), []byte(id)),
				k.key.Seal(argumentsPurpose, []byte("{}"), []byte(id)), row.rowDigest(k.g)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("add old requests: %v", err)
	}
	copied := func(q record.Querier) (n int, err error) {
		err = q.QueryRowContext(t.Context(), `SELECT count(*) FROM approval WHERE expires <> 0`).Scan(&n)
		return n, err
	}
	first := 0
	err = s.writer.runInTransaction(t.Context(), false, func(ctx context.Context, w *writer) error {
		err := k.copyFields(ctx, w)
		if err == nil {
			first, err = copied(w.conn)
		}
		return err
	})
	if err != nil || first != requestsAtOnce {
		t.Errorf("one transaction copied fields of %d requests (%v), want %d", first, err, requestsAtOnce)
	}
	r, err := k.Open(t.Context(), &approval.Request{ID: "apr_new", Subject: "new", Principal: "p7",
		Arguments: []byte("{}"), Created: now, Expires: now.Add(time.Hour)})
	if err != nil || r == nil || r.ID != "apr_new" {
		t.Errorf("Open: %v, %v", r, err)
	}
	if n, err := copied(s.read); err != nil || n != old+1 {
		t.Errorf("after Open, %d requests have their fields (%v), want %d", n, err, old+1)
	}
}

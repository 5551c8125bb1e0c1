package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval"
)

// Forged rows don't hide the requests behind them: a page without genuine requests is not the last.
func TestForgedApprovalsHideNone(t *testing.T) {
	t.Parallel()
	for name, seq := range map[string]string{"newer": "x", "same seq": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
			k, now := s.Approvals(key), time.Now()
			if _, err := k.Open(t.Context(), &approval.Request{ID: "apr_true", Subject: "true", Principal: "p",
				Arguments: []byte("{}"), Created: now, Expires: now.Add(time.Hour)}); err != nil {
				t.Fatalf("Open: %v", err)
			}
			err = s.writer.runInTransaction(t.Context(), false, func(ctx context.Context, w *writer) error {
				_, err := w.runStatement(ctx, `WITH RECURSIVE c(x) AS (SELECT 2 UNION ALL SELECT x+1 FROM c
					WHERE x < 31) INSERT INTO approval (id, seq, subject, execution, state, decider, decided, note,
					request, arguments, seal) SELECT 'apr_' || x, `+seq+`, 's' || x, '', 'pending', '', 0, '', x'00',
					x'00', x'00' FROM c`)
				return err
			})
			if err != nil {
				t.Fatalf("forge requests: %v", err)
			}
			pending := []approval.State{approval.Pending}
			all, err := k.List(t.Context(), approval.Query{States: pending, Limit: 10})
			if err != nil || len(all) != 1 || all[0].ID != "apr_true" {
				t.Errorf("List = %+v, %v, want only apr_true", all, err)
			}
			all, err = k.List(t.Context(), approval.Query{States: pending, Limit: 10, Before: "apr_true"})
			if err != nil || len(all) != 0 {
				t.Errorf("the page after apr_true = %+v, %v, want none", all, err)
			}
		})
	}
}

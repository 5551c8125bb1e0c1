package store_test

import (
	"path/filepath"
	"testing"

	"github.com/biplane-dev/biplane/internal/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store"
)

// An approvals is the part of a store that keeps approvals, and closes all of it.
type approvals struct {
	*store.Approvals
	s *store.Store
}

func (a approvals) Close() error { return a.s.Close() }

func TestApprovals(t *testing.T) {
	approvaltest.Run(t, func(t *testing.T) approvaltest.Store {
		dir := t.TempDir()
		s, err := store.Open(t.Context(), store.Config{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		key, err := secret.Open(filepath.Join(dir, "key"))
		if err != nil {
			t.Fatal(err)
		}
		return approvals{s.Approvals(key), s}
	})
}

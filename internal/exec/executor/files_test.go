package executor

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

var errSecret = errors.New("programs that have read secrets may not write")

// noSecrets refuses writing to programs that have read data with the label secret.
type noSecrets struct{}

func (noSecrets) May(u vfs.Use) error {
	if u.Write && slices.Contains(u.Labels, "secret") {
		return errSecret
	}
	return nil
}

func (noSecrets) Refused(context.Context, vfs.Use, error) {}

func TestFilesCheckAccess(t *testing.T) {
	t.Parallel()
	f := files{fs: vfs.New(vfs.Config{}), fence: vfs.Fence{Access: noSecrets{}}}
	if err := f.checkAccess(t.Context(), nil, "write", "./workspace/a", ""); err != nil {
		t.Errorf("without labels: %v", err)
	}
	if err := f.checkAccess(t.Context(), []string{"secret"}, "read", "./workspace/a", ""); err != nil {
		t.Errorf("reading: %v", err)
	}
	if err := f.checkAccess(t.Context(), []string{"secret"}, "write", "./workspace/a", ""); err == nil {
		t.Error("a program that has read a secret may write")
	}
}

func TestFilesCountOperations(t *testing.T) {
	t.Parallel()
	var f files
	for i := range maxFiles {
		if !f.countOperation() {
			t.Fatalf("operation %d of %d is refused", i+1, maxFiles)
		}
	}
	if f.countOperation() {
		t.Errorf("operation %d of %d is not refused", maxFiles+1, maxFiles)
	}
}

func TestFilesReadModule(t *testing.T) {
	t.Parallel()
	f := files{fs: vfs.New(vfs.Config{})}
	if _, ok := f.readModule("./workspace/a.ts", nil); ok || f.barred != nil {
		t.Errorf("a missing module: found %t, barred: %v", ok, f.barred)
	}
	if _, ok := f.readModule("./workspace/a.ts", errSecret); ok || !errors.Is(f.barred, errSecret) {
		t.Errorf("a refused module: found %t, barred: %v, want %v", ok, f.barred, errSecret)
	}
}

package executor

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/vfs"
)

// maxFiles is the maximum number of file operations of a program.
const maxFiles = 20_000

// A files holds the files that a program sees, and checks its access to them.
type files struct {
	fs     *vfs.FS
	skills *vfs.Tree // initial state, to compute changes
	barred error     // why the program may not read a module that it imports

	mu         sync.Mutex
	fence      vfs.Fence
	operations int
}

// checkAccess returns an error if a program that has read data with these labels may not perform an
// operation.
func (f *files) checkAccess(ctx context.Context, labels []string, op, path, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fence.Use.Labels = labels
	return f.fence.Pass(ctx, f.fs, op, path, to)
}

// countOperation counts a file operation, and reports whether the program may perform it.
func (f *files) countOperation() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.operations++
	return f.operations <= maxFiles
}

// readModule returns the source of a module in ./workspace, for which access was checked with the
// result err.
func (f *files) readModule(path string, err error) (string, bool) {
	if err != nil {
		f.barred = err
		return "", false
	}
	data, err := f.fs.Read(path, 0, -1)
	return string(data), err == nil
}

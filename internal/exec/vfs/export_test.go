package vfs

// Height returns the height of the root's entries.
func Height(t *Tree) int { return t.node().entries.tall() }

// Sizes returns the current number of bytes and files in ./workspace.
func (f *FS) Sizes() (bytes int64, files int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.workspace.totalsBelow()
	return s.bytes, s.count
}

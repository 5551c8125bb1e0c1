package vfs

// Height is that of the entries of the root.
func Height(t *Tree) int { return t.node().entries.tall() }

// Sizes are those of ./workspace now: how many bytes and files it has.
func (f *FS) Sizes() (bytes int64, files int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.workspace.below()
	return s.bytes, s.count
}

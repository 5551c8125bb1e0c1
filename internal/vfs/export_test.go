package vfs

// Height is that of the entries of the root.
func Height(t *Tree) int { return t.node().entries.tall() }

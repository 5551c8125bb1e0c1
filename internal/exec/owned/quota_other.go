//go:build !unix

package owned

import "io/fs"

// occupiedBytes returns the size of a file.
func occupiedBytes(info fs.FileInfo) int64 { return info.Size() }

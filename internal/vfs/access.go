package vfs

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Access decides on what programs, and people by the API, do to the files of sessions and to skills.
type Access interface {
	// May says why u may not be; nil: it may. It is asked before each use of a file, and does no I/O.
	May(u Use) error
	// Refused puts on record that u was refused. It is told once of each file, for reading and for writing, of at most
	// maxRefusals in one execution: a program may try as often as it likes.
	Refused(ctx context.Context, u Use, err error)
}

// A Use is one use of one file, by somebody.
type Use struct {
	Touch
	Principal tool.Principal
	Execution string // whose program it is; empty: a person's, by the API
	Session   string
	Labels    []string // of what it has read: of a program, or of the session
}

// maxRefusals is how many refusals of one execution are recorded.
const maxRefusals = 64

// A Fence asks before files are used. Its zero value asks nobody. It is not safe for concurrent use.
type Fence struct {
	Access Access
	Use    Use            // but for the Touch
	told   map[Touch]bool // what is on record as refused
}

// Pass reports why an operation on files may not be done: an error that is "EACCES" for the program.
func (f *Fence) Pass(ctx context.Context, fs *FS, op, path, to string) error {
	if f.Access == nil {
		return nil
	}
	for _, t := range fs.Touches(op, path, to) {
		u := f.Use
		u.Touch = t
		err := f.Access.May(u)
		if err == nil {
			continue
		}
		if !f.told[t] && len(f.told) < maxRefusals {
			if f.told == nil {
				f.told = map[Touch]bool{}
			}
			f.told[t] = true
			f.Access.Refused(ctx, u, err)
		}
		return Refused(op, t.Path, tool.AsError(err).Msg, err)
	}
	return nil
}

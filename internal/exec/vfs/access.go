package vfs

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Access decides which uses of session files and skills are allowed, by programs and by users of
// the API.
type Access interface {
	// May returns why u is not allowed, or nil if it is. It is called before each use of a file,
	// and does no I/O.
	May(u Use) error
	// Refused records that u was refused. It is called once per file for reading and once for
	// writing, and at most maxRefusals times in one execution: a program may retry as often as it
	// likes.
	Refused(ctx context.Context, u Use, err error)
}

// A Use is one use of one file by a principal.
type Use struct {
	Touch
	Principal tool.Principal
	Execution string // the program's execution; empty for a user of the API
	Session   string
	Labels    []string  // labels of the data read so far by the program, or by the session
	Tier      tool.Tier // tier of the program's sandbox; zero for a user of the API
	Findings  []string  // rules of what the review found in the program
}

// maxRefusals is how many refusals of one execution are recorded.
const maxRefusals = 64

// A Fence checks access before files are used. Its zero value allows everything. It is not safe for
// concurrent use.
type Fence struct {
	Access   Access
	Use      Use            // without the Touch
	recorded map[Touch]bool // refusals already recorded
}

// Pass returns an error if an operation on files is not allowed; the program sees "EACCES".
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
		if !f.recorded[t] && len(f.recorded) < maxRefusals {
			if f.recorded == nil {
				f.recorded = map[Touch]bool{}
			}
			f.recorded[t] = true
			f.Access.Refused(ctx, u, err)
		}
		return RefusalError(op, t.Path, tool.AsError(err).Msg, err)
	}
	return nil
}

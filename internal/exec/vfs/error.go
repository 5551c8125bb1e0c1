package vfs

import (
	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Error is a file error, named as in POSIX and worded as in Node. tool.AsError understands it.
type Error struct {
	Code string    // "ENOENT", "EEXIST", "EROFS", ...
	Op   string    // the failed system call: "open", "mkdir", ...
	Path string    // as written by the program, shortened
	Kind tool.Kind // the kind of Code
	Hint string    // what to do next; may be empty
	Err  error     // for the log; may be nil
}

// An errorMeaning is the text and the kind of a code.
type errorMeaning struct {
	text string
	kind tool.Kind
}

// errorTable maps codes to their meanings.
var errorTable = lazily.Value[map[string]errorMeaning]{Make: func() map[string]errorMeaning {
	return map[string]errorMeaning{
		"ENOENT":       {"no such file or directory", tool.NotFound},
		"EEXIST":       {"file already exists", tool.Conflict},
		"ENOTDIR":      {"not a directory", tool.Invalid},
		"EISDIR":       {"illegal operation on a directory", tool.Invalid},
		"ENOTEMPTY":    {"directory not empty", tool.Conflict},
		"EBUSY":        {"resource busy or locked", tool.Invalid},
		"EROFS":        {"read-only file system", tool.Invalid},
		"EPERM":        {"operation not permitted", tool.Invalid},
		"EINVAL":       {"invalid argument", tool.Invalid},
		"EILSEQ":       {"illegal byte sequence", tool.Invalid},
		"ENAMETOOLONG": {"name too long", tool.Invalid},
		"EFBIG":        {"file too large", tool.Limit},
		"ENOSPC":       {"no space left on device", tool.Limit},
		"EDQUOT":       {"disk quota exceeded", tool.Limit},
		"EIO":          {"i/o error", tool.Internal},
		"EACCES":       {"permission denied", tool.Denied},
	}
}}

// fail returns an Error.
func fail(code, op, path, hint string) *Error {
	return &Error{Code: code, Op: op, Path: printable(path), Kind: errorTable.Get()[code].kind, Hint: hint}
}

// Error returns the text that Node would use, and the hint.
func (e *Error) Error() string {
	s := e.Code + ": " + errorTable.Get()[e.Code].text + ", " + e.Op + " '" + e.Path + "'"
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// As converts e to a *tool.Error, for tool.AsError.
func (e *Error) As(target any) bool {
	t, ok := target.(**tool.Error)
	if ok {
		*t = &tool.Error{Kind: e.Kind, Msg: e.Error(), Err: e.Err}
	}
	return ok
}

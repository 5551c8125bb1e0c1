package execution

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The names of a program's limits in Failure.Limit and tool.Error.Limit. The first three are also
// used by sandbox.LimitError, which has "cpu" as well. Packages that don't know executions use
// others: "queue" (programs waiting for their turn), "session" (size of a session's state) and
// "sessions" (number of a principal's sessions).
const (
	MemoryLimit = "memory"  // memory of the sandbox
	StackLimit  = "stack"   // call depth in the program
	OutputLimit = "output"  // output of the program: its value, arguments, console, messages
	TimeLimit   = "time"    // wall time: of the program itself, or in total
	CallsLimit  = "calls"   // number of calls of a program
	FanOutLimit = "fan_out" // size of concurrent calls and of results not read yet
	ResultLimit = "result"  // size of the result of one call
	FilesLimit  = "files"   // quotas of files and bytes, size of a file, number of file operations
)

// limitHead matches the start of a text that names the exceeded limit.
var limitHead = lazily.Regexp(`^(limit|timeout) \(([a-z_]{1,16})\): `)

// Head returns the prefix of a text about a kind of error and a limit: "limit (memory): ". Without
// a limit it is empty.
func Head(kind, limit string) string {
	if limit == "" {
		return ""
	}
	return kind + " (" + limit + "): "
}

// GuestText returns the text of an error for the program. It starts with the limit, so that the
// limit can be recognized if the program throws the error.
func GuestText(e *tool.Error) string { return Head(string(e.Kind), e.Limit) + e.Msg }

// spaceErrors match the start of file system errors about missing space: those of Node, and of
// Python (with WASI's numbers).
var spaceErrors = lazily.Regexp(`^(?:(?:ENOSPC|EDQUOT|EFBIG): |\[Errno \d+\] (?:No space left on device|Disk quota ` +
	`exceeded|Quota exceeded|File too large)\b)`)

// parserFull is the prefix of a Python MemoryError that is not about memory: the parser raises it
// for a text that nests too deeply.
const parserFull = "the text nests too deeply"

// setLimit sets the limit that caused a thrown error in f. Programs can catch these errors, but
// this one was not caught.
func (f *Failure) setLimit(g *sandbox.GuestError) {
	limit := ""
	switch m := limitHead.Get().FindStringSubmatch(g.Message); {
	case m != nil && m[1] == g.Kind:
		f.Limit, f.Message = m[2], g.Message[len(m[0]):]
		return
	case g.Kind == "" && g.Name == "Error" && strings.HasPrefix(g.Message, Head(string(tool.Limit), FanOutLimit)):
		// errors of files have no kind in the guest
		limit, f.Message = FanOutLimit, g.Message[len(m[0]):]
	case g.Name == "InternalError" && strings.Contains(g.Message, "out of memory"), g.Name == "MemoryError" &&
		(g.Kind == "" || g.Kind == string(tool.Limit)) && !strings.HasPrefix(g.Message, parserFull):
		limit, f.Message = MemoryLimit, "the program reached its memory limit: hold less at a time"
	case g.Kind != "":
	case strings.Contains(g.Message, "Maximum call stack size exceeded"), g.Name == "InternalError" &&
		strings.Contains(g.Message, "stack overflow"), g.Name == "RecursionError":
		limit, f.Message = StackLimit, "the program reached its stack limit: recurse less deeply, or use a loop"
	case (g.Name == "Error" || g.Name == "OSError") && spaceErrors.Get().MatchString(g.Message):
		limit = FilesLimit
	}
	if limit != "" {
		f.Kind, f.Limit = string(tool.Limit), limit
	}
}

package execution

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/lazily"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The bounds of a program, as Failure.Limit and tool.Error.Limit name them. The first three are words of sandbox.LimitError, too, which also says
// "cpu". Packages that know no executions say the others: "queue" (how many programs may wait for their turn), "session" (the size of a session's
// state) and "sessions" (how many of them a principal may have).
const (
	MemoryLimit = "memory"  // of the sandbox
	StackLimit  = "stack"   // depth of calls within the program
	OutputLimit = "output"  // what the program says: its value, arguments, console, messages
	TimeLimit   = "time"    // wall time: the program's own, or all in all
	CallsLimit  = "calls"   // how many calls one program may make
	FanOutLimit = "fan_out" // what is under way at once, and was not read yet
	ResultLimit = "result"  // the size of what one call answered
	FilesLimit  = "files"   // the quota of files and bytes, the size of one, how often they are asked for
)

// limitHead matches how a text begins that names the bound which was reached.
var limitHead = lazily.Regexp(`^(limit|timeout) \(([a-z_]{1,16})\): `)

// Head begins a text about an error of a kind and a bound: "limit (memory): ". Without a bound it is empty.
func Head(kind, limit string) string {
	if limit == "" {
		return ""
	}
	return kind + " (" + limit + "): "
}

// GuestText is an error as a program hears of it: a bound of the execution is named first, so that it is known again in what the program throws.
func GuestText(e *tool.Error) string { return Head(string(e.Kind), e.Limit) + e.Msg }

// spaceErrors begin the errors of the languages that say that there is no room for files: of Node, and of Python (with WASI's numbers).
var spaceErrors = lazily.Regexp(`^(?:(?:ENOSPC|EDQUOT|EFBIG): |\[Errno \d+\] (?:No space left on device|Disk quota exceeded|Quota exceeded|File too large)\b)`)

// parserFull begins the MemoryError of Python that is not about memory: its parser gives it for a text that nests too deeply.
const parserFull = "the text nests too deeply"

// reached finds the bound that a thrown error is about, and says it in f. These errors can be caught; nobody did.
func (f *Failure) reached(g *sandbox.GuestError) {
	limit := ""
	switch m := limitHead().FindStringSubmatch(g.Message); {
	case m != nil && m[1] == g.Kind:
		f.Limit, f.Message = m[2], g.Message[len(m[0]):]
		return
	case g.Kind == "" && g.Name == "Error" && strings.HasPrefix(g.Message, Head(string(tool.Limit), FanOutLimit)): // of files, whose errors have no kind in the guest
		limit, f.Message = FanOutLimit, g.Message[len(m[0]):]
	case g.Name == "InternalError" && strings.Contains(g.Message, "out of memory"), g.Name == "MemoryError" && (g.Kind == "" || g.Kind == string(tool.Limit)) && !strings.HasPrefix(g.Message, parserFull):
		limit, f.Message = MemoryLimit, "the program reached its memory limit: hold less at a time"
	case g.Kind != "":
	case strings.Contains(g.Message, "Maximum call stack size exceeded"), g.Name == "InternalError" && strings.Contains(g.Message, "stack overflow"), g.Name == "RecursionError":
		limit, f.Message = StackLimit, "the program reached its stack limit: recurse less deeply, or use a loop"
	case (g.Name == "Error" || g.Name == "OSError") && spaceErrors().MatchString(g.Message):
		limit = FilesLimit
	}
	if limit != "" {
		f.Kind, f.Limit = string(tool.Limit), limit
	}
}

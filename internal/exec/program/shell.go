package program

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/program/review"
)

// ShellName is the name that a shell script runs under.
const ShellName = "program.sh"

// shellPlace matches the position of an error of the shell.
var shellPlace = lazily.Regexp(`program\.sh: line (\d{1,9})(?:, column (\d{1,9}))?`)

// prepareShell prepares a shell script. It runs unchanged, without a Markdown fence around all of
// it. Fences inside are part of the script, because scripts write Markdown files.
func prepareShell(q Request) (*Program, *Error) {
	code, e := unwrapWhole(q.Source, "bash")
	if e != nil {
		return nil, e
	}
	prog := &Program{Runtime: "bash", Code: code, Name: ShellName, Source: q.Source,
		traced: &traced{source: newLineTable(q.Source, plainLines), place: shellPlace.Get()}}
	prog.setFindings(describeFindings(review.ReviewShell(code), prog.traced.source, func(at int) (int, bool) {
		return sourceOffset(prog.traced.source, code, at, 0, 0), true
	}))
	return prog, nil
}

// unwrapWhole returns a program without a Markdown fence around all of it. The lines keep their
// numbers.
func unwrapWhole(source, language string) (string, *Error) {
	code := strings.TrimPrefix(source, byteOrderMark)
	start := len(code) - len(strings.TrimLeft(code, " \t\r\n"))
	head, rest, _ := strings.Cut(code[start:], "\n")
	blank := "\n" // in place of the first line
	switch mark, info, _ := fenceLine(head, 0, len(head)); {
	case mark != "" && (info == "" || languages.Get()[info] == language):
		if body := strings.TrimRight(rest, " \t\r\n"); strings.HasSuffix(body, "\n"+mark) {
			rest = strings.TrimSuffix(body, mark)
		}
		code = code[:start] + blank + rest
	case languages.Get()[strings.ToLower(strings.TrimSpace(head))] == language && rest != "":
		code = code[:start] + blank + rest
	}
	code = strings.ReplaceAll(code, "\r\n", "\n")
	if strings.TrimSpace(code) == "" {
		return "", &Error{Kind: "empty", Message: "the program is empty: send the code to run"}
	}
	return code, nil
}

// isShell reports whether a program is a shell script by its first line.
func isShell(head string) bool {
	head = strings.TrimSpace(head)
	if words := strings.Fields(strings.TrimPrefix(head, "#!")); strings.HasPrefix(head, "#!") && len(words) > 0 {
		name := words[0][strings.LastIndexByte(words[0], '/')+1:]
		if name == "env" && len(words) > 1 {
			name = words[1]
		}
		return languages.Get()[name] == "bash"
	}
	mark, info, _ := fenceLine(head, 0, len(head))
	return mark != "" && languages.Get()[info] == "bash"
}

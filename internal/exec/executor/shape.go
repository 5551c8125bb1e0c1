package executor

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/values"
)

// If a program fails because a result has an unexpected shape, the error tells it the actual shape:
// the results of its calls are known here.

const (
	maxResults   = 16      // number of tools whose last result is kept until the program ends
	maxShaped    = 1 << 20 // maximum size of a kept result, in bytes
	maxAllShaped = 4 << 20
)

// A lastResults holds the last result of each tool that a program called.
type lastResults struct {
	by   map[string]json.RawMessage
	size int
}

func (l *lastResults) add(path string, value json.RawMessage) {
	if l.by == nil {
		l.by = map[string]json.RawMessage{}
	}
	old, known := l.by[path]
	if size := l.size - len(old) + len(value); len(value) > 0 && len(value) <= maxShaped && size <= maxAllShaped &&
		(known || len(l.by) < maxResults) {
		l.by[path], l.size = value, size
	}
}

var (
	// misshapen matches errors of programs that expect a different shape.
	misshapen = lazily.Regexp(`^(?:TypeError|AttributeError|KeyError|JSONDecodeError): |^SyntaxError: .* in JSON$`)
	// unwrapping matches lines that extract a result from MCP's envelope, or parse it.
	unwrapping = lazily.Regexp(
		`structuredContent|\bcontent\b|\.text\b|\["text"\]|JSON\.parse|json\.loads|\.split\b|\.data\b`)
	// enveloped matches code that expects MCP's envelope around a result.
	enveloped  = lazily.Regexp(`\??\.(?:structuredContent|content(?:\?\.)?\[\d+\]\??\.text)\b`)
	identifier = lazily.Regexp(`[A-Za-z_$][\w$]*`)
)

// shapeHint describes the result on which a program failed; empty if it is unknown.
func (l *lastResults) shapeHint(f *execution.Failure, source, name string) string {
	if len(l.by) == 0 || f.Line == 0 || !misshapen.Get().MatchString(f.Message) {
		return ""
	}
	lines := strings.Split(source, "\n")
	if f.Line > len(lines) {
		return ""
	}
	line, before := lines[f.Line-1], strings.Join(lines[:f.Line], "\n")
	if len(line) > 2000 || len(before) > 256<<10 {
		return ""
	}
	path := ""
	first := identifier.Get().FindString(name)
	for i, ident := range append([]string{first}, identifier.Get().FindAllString(line, 40)...) {
		if path = l.traceVariable(ident, before, 3); path != "" {
			break
		}
		if i == 0 {
			if path = l.findLastPath(line); path != "" {
				break
			}
		}
	}
	if path == "" && len(l.by) == 1 && unwrapping.Get().MatchString(line) {
		for path = range l.by {
		}
	}
	if path == "" {
		return ""
	}
	shape, _ := values.Outline(l.by[path])
	text := path + " returned " + text.Cut(shape, 600) + ". Results come unwrapped: use this value as it is"
	if unwrapping.Get().MatchString(line) {
		text += ", without .content, .structuredContent, .text, JSON.parse or json.loads"
	}
	return text
}

// findLastPath returns the path of the called tool that occurs last in text; empty: none.
func (l *lastResults) findLastPath(text string) (found string) {
	at := -1
	for path := range l.by {
		i := strings.LastIndex(text, path)
		if i < 0 || i <= at ||
			i+len(path) < len(text) && identifier.Get().MatchString(text[i+len(path):i+len(path)+1]) {
			continue
		}
		found, at = path, i
	}
	return found
}

// notValues are words of both languages that are not names of values.
var notValues = lazily.Words(`await const let var for of in return new tools`)

// traceVariable returns the tool whose result is assigned to a variable, as far as the source
// shows; empty if unknown.
func (l *lastResults) traceVariable(name, before string, steps int) string {
	if name == "" || steps == 0 || notValues.Has(name) {
		return ""
	}
	q := regexp.QuoteMeta(name)
	assigned, err := regexp.Compile(`(?m)(?:^|[^\w$.])` + q + `(?:[ \t]*(?::[^=\n]{1,200})?=[ ` +
		`\t]*([^=\n>][^\n]*)$|[^\n=]{0,200}[}\])][ \t]*=[ \t]*([^=\n>][^\n]*)$|[^\n]{0,80}?[ \t](?:of|in)[ ` +
		`\t]+([^\n]*)$)`)
	if err != nil {
		return ""
	}
	all := assigned.FindAllStringSubmatch(before, 200)
	for i := len(all) - 1; i >= 0; i-- {
		value := all[i][1] + all[i][2] + all[i][3]
		if path := l.findLastPath(value); path != "" {
			return path
		}
		for _, next := range identifier.Get().FindAllString(value, 3) {
			if next == name || notValues.Has(next) {
				continue
			}
			if path := l.traceVariable(next, before, steps-1); path != "" {
				return path
			}
			break
		}
	}
	return ""
}

package pin

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxDiff is the maximum size of a diff, in bytes. The definitions themselves are limited.
const maxDiff = 16 << 10

// DiffDefinitions returns the difference of two definitions as a unified diff, without invisible
// characters. It is empty if they are equal.
func DiffDefinitions(was, now json.RawMessage) string {
	out := string(diff.Diff("accepted", showDefinition(was), "now", showDefinition(now)))
	_, out, _ = strings.Cut(out, "\n") // the command line of a diff of files
	if len(out) > maxDiff {
		end := strings.LastIndexByte(out[:maxDiff], '\n')
		out = out[:end+1] + "… and more\n"
	}
	return out
}

// showDefinition returns a definition as lines: the texts unquoted, and the schemas indented.
func showDefinition(raw json.RawMessage) []byte {
	var d definition
	if json.Unmarshal(raw, &d) != nil { // a pin of another form, which the lock file allows
		return append(tool.CanonicalJSON(raw), '\n')
	}
	var b strings.Builder
	text := func(name, s string) {
		if s != "" {
			b.WriteString(name + ":\n")
			for line := range strings.Lines(s) {
				b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
			}
		}
	}
	text("title", d.Title)
	text("description", d.Description)
	text("inputSchema", indentJSON(d.InputSchema))
	text("outputSchema", indentJSON(d.OutputSchema))
	return []byte(tool.Visible([]byte(b.String())))
}

func indentJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

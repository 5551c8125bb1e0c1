package program

import (
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// ForeignModules returns the modules among specifiers of a program in TypeScript that are neither
// its own files nor tools: Node.js modules, without "node:", and npm packages.
func ForeignModules(specifiers []string) (out []string) {
	for _, s := range specifiers {
		s = strings.TrimPrefix(s, "node:")
		first, _, _ := strings.Cut(s, "/")
		switch first {
		case "", ".", "..", "tools", "servers", "skills", "workspace":
		default:
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// importLine matches a Python import statement at the beginning of a line. Its groups are the
// module of "from", and the list of "import".
var importLine = lazily.Regexp(`(?m)^[ \t]*(?:` +
	`from[ \t]+([A-Za-z_]\w*)[\w.]*[ \t]+import\b|import[ \t]+([^\n#;]+))`)

// ImportsOf returns the top-level modules that a Python program names in import statements, sorted.
// It also finds statements in strings, so the result is only good for a choice that can't break the
// program.
func ImportsOf(source string) (out []string) {
	for _, m := range importLine.Get().FindAllStringSubmatch(source, -1) {
		if m[1] != "" {
			out = append(out, m[1])
			continue
		}
		for part := range strings.SplitSeq(m[2], ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
			name, _, _ = strings.Cut(name, ".")
			if name != "" {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

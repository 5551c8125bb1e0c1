package vfs

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits on paths, whatever the quota. The limit on names is Linux's.
const (
	maxName  = 255   // bytes of one name
	maxPath  = 1_024 // bytes of a path
	maxDepth = 32    // names in a path
)

// checkPath returns a code and a hint if path is unusable, and "" otherwise.
func checkPath(path string) (code, hint string) {
	switch {
	case path == "":
		return "ENOENT", "the path is empty"
	case len(path) > maxPath:
		return "ENAMETOOLONG", fmt.Sprintf("a path can have at most %d bytes", maxPath)
	case !utf8.ValidString(path):
		return "EILSEQ", "a path must be valid UTF-8"
	case strings.ContainsFunc(path, unicode.IsControl):
		return "EINVAL", "a path can't contain control characters such as newline and NUL"
	}
	return "", ""
}

// clean returns the names of a path, as seen by a process in a chroot: ".." at the root is the
// root.
func clean(path string) []string {
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		switch name {
		case "", ".":
		case "..":
			names = names[:max(len(names)-1, 0)]
		default:
			names = append(names, name)
		}
	}
	return names
}

// checkNames returns a code and a hint if the names of a path are too long, or more than depth.
func checkNames(names []string, depth int) (code, hint string) {
	for _, n := range names {
		if len(n) > maxName {
			return "ENAMETOOLONG", fmt.Sprintf("a name can have at most %d bytes", maxName)
		}
	}
	if len(names) > depth {
		return "ENAMETOOLONG", fmt.Sprintf("a path can be at most %d levels deep", depth)
	}
	return "", ""
}

// treePath returns the names of a Tree's path, which must be clean.
func treePath(path string) ([]string, error) {
	code, hint := checkPath(path)
	if code == "" {
		names := clean(path)
		if code, hint = checkNames(names, maxDepth); code == "" && strings.Join(names, "/") == path {
			return names, nil
		}
	}
	if hint == "" {
		hint = `it is not clean like "a/b"`
	}
	return nil, tool.Errorf(tool.Invalid, "invalid path %q: %s", printable(path), hint)
}

// printable returns a path in a form suitable for messages.
func printable(s string) string {
	const most = 200
	if len(s) > most {
		cut := most
		for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029 {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// isSkill reports whether name is a valid name of a skill: a module that programs can import, or a
// text about one.
func isSkill(name string) bool {
	base, ext, _ := strings.Cut(name, ".")
	switch ext {
	case "ts", "js", "py", "md":
	default:
		return false
	}
	for i, r := range base {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		case i > 0 && (r == '_' || '0' <= r && r <= '9'):
		case i > 0 && r == '-' && ext != "py": // Python can't import such a name
		default:
			return false
		}
	}
	return base != "" && len(base) <= 64
}

package skill

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
)

var (
	blockComment = lazily.Regexp(`(?s)\A\s*/\*\*?(.*?)\*/`)
	lineComments = lazily.Regexp(`\A\s*((?://|#)[^\n]*(?:\n[ \t]*(?://|#)[^\n]*)*)`)
	docstring    = lazily.Regexp(`(?s)\A\s*[rR]?(?:"""(.*?)"""|'''(.*?)''')`)
	nextDoc      = lazily.Regexp(`(?s)/\*\*(.*?)\*/`)
	exported     = lazily.Regexp(`(?m)^export\s+(?:default\s+)?((?:async\s+)?function\s*\*?\s*[\w$]*\s*(?:<[^(]{0,` +
		`200}>)?\s*\([^{]{0,500}|class\s+[\w$]+|const\s+[\w$]+\s*(?::[^=\n]{1,200})?=\s*(?:async\s*)?\([^{]{0,300}=>)`)
	defined = lazily.Regexp(`(?m)^((?:async\s+)?def\s+[a-zA-Z]\w*\s*\((?s:.{0,500}?)\)(?:\s*->\s*[^:\n]{1,` +
		`100})?|class\s+[A-Za-z]\w*(?:\([^)\n]{0,100}\))?)\s*:[ \t]*(?:#.*)?$`)
	spaces = lazily.Regexp(`\s+`)
)

// maxSignatures is the maximum number of signatures of a skill.
const maxSignatures = 20

// describe extracts the description of a skill from its source.
func describe(name, source string) Info {
	s := Info{Name: name, Size: len(source)}
	base, ext, _ := strings.Cut(name, ".")
	find := exported
	switch ext {
	case "py":
		find, s.Import = defined, "from skills."+base+" import "
	case "md":
		first, _, _ := strings.Cut(strings.TrimLeft(source, "# \n\t"), "\n")
		s.Description = text.Cut(strings.TrimSpace(first), 200)
		return s
	default:
		s.Import = `import { … } from "./skills/` + base + `"`
	}
	s.Description = firstComment(source)
	var names []string
	for _, m := range find.Get().FindAllStringSubmatch(text.Head(source, 256<<10), maxSignatures) {
		sig := strings.TrimSpace(spaces.Get().ReplaceAllString(m[1], " "))
		sig = strings.TrimSpace(strings.TrimSuffix(sig, "=>"))
		s.Signatures = append(s.Signatures, text.Cut(sig, 300))
		if n := exportName(sig); n != "" {
			names = append(names, n)
		}
	}
	if len(names) > 0 {
		s.Import = strings.Replace(s.Import, "…", strings.Join(names, ", "), 1)
		if ext == "py" {
			s.Import += strings.Join(names, ", ")
		}
	} else if ext == "py" {
		s.Import = "import skills." + base
	}
	return s
}

var exportWord = lazily.Regexp(`^(?:async\s+)?(?:function\s*\*?|const|class|def)\s+([\w$]+)`)

func exportName(signature string) string {
	if m := exportWord.Get().FindStringSubmatch(signature); m != nil {
		return m[1]
	}
	return ""
}

// firstComment returns the first paragraph of the comment at the start of a module, or of its first
// documented export.
func firstComment(source string) string {
	source = text.Head(source, 64<<10)
	comment := ""
	if m := docstring.Get().FindStringSubmatch(source); m != nil {
		comment = m[1] + m[2]
	} else if m := blockComment.Get().FindStringSubmatch(source); m != nil {
		comment = m[1]
	} else if m := lineComments.Get().FindStringSubmatch(source); m != nil {
		comment = m[1]
	} else if m := nextDoc.Get().FindStringSubmatch(source); m != nil {
		comment = m[1]
	}
	var lines []string
	for line := range strings.SplitSeq(comment, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "*/#"))
		if strings.HasPrefix(line, "@") || line == "" && len(lines) > 0 {
			break
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return text.Cut(strings.Join(lines, " "), 300)
}

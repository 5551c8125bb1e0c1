package config

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
)

var variable = lazily.Regexp(`^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$`)

// expandVariables replaces ${VAR} and ${VAR:-default} (also ${env:VAR}, as in editors) by values of
// the environment, and ${secret:NAME} by secrets. $${ stands for ${ itself. Values are
// inserted after parsing, so they can't contain syntax.
func (r *reader) expandVariables(n *node, s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			r.addProblem(n, "%q begins a variable and never ends it: write ${NAME}, or $${ for the characters "+
				"themselves", clipText(s[i:]))
			return b.String()
		}
		ref := s[i+2 : i+end]
		s = s[i+end+1:]
		if name, ok := strings.CutPrefix(ref, "secret:"); ok {
			b.WriteString(r.expandSecret(n, name))
			continue
		}
		m := variable.Get().FindStringSubmatch(ref)
		if m == nil {
			r.addProblem(n, "${%s} can't be expanded: write ${NAME} or ${NAME:-default}, or $${ for the characters "+
				"themselves", clipText(ref))
			continue
		}
		switch v, ok := r.env(m[1]); {
		case ok && (v != "" || !strings.Contains(ref, ":-")):
			b.WriteString(v)
			if mask.IsSecretVariable(m[1], v) {
				r.hidden = append(r.hidden, v)
			}
			r.hidden = append(r.hidden, mask.Credentials(v)...)
		case strings.Contains(ref, ":-"):
			b.WriteString(m[2])
		default:
			r.addProblem(n, "environment variable %s is not set: set it, or write ${%s:-default}", m[1], m[1])
		}
	}
}

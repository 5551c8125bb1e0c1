package clients

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

var (
	braced   = lazily.Regexp(`\$\{([^{}]*)\}`)
	plain    = lazily.Regexp(`\$([A-Za-z_][A-Za-z0-9_]*)|\$\{([^{}]*)\}`)
	openForm = lazily.Regexp(`\{(env:[^{}]*)\}`) // OpenCode
	usable   = lazily.Regexp(`^(env:)?[A-Za-z_][A-Za-z0-9_]*(:-.*)?$`)
	unfit    = lazily.Regexp(`[^A-Za-z0-9_]+`)
)

// A rewriter converts a client's variables to the configuration's form.
type rewriter struct {
	place    Place
	home     string
	problems []string
}

func (w *rewriter) rewriteText(s string) string {
	switch w.place.format {
	case literal, codex, zed, copilot:
		return strings.ReplaceAll(s, "${", "$${")
	case openCode:
		return replaceVariables(openForm.Get(), strings.ReplaceAll(s, "${", "$${"), w.convertVariable)
	case crush:
		if strings.Contains(s, "$(") || strings.Contains(s, "`") {
			w.problems = append(w.problems, "it runs commands to get values, which Biplane doesn't")
			return ""
		}
		return replaceVariables(plain.Get(), s, w.convertVariable)
	case gemini:
		return replaceVariables(plain.Get(), s, w.convertVariable)
	default:
		return replaceVariables(braced.Get(), s, w.convertVariable)
	}
}

// replaceVariables replaces each variable in s. The name is in one of the groups of the expression.
func replaceVariables(re *regexp.Regexp, s string, by func(name string) string) string {
	return re.ReplaceAllStringFunc(s, func(found string) string {
		name := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(found, "$"), "{"), "}")
		return by(name)
	})
}

func (w *rewriter) convertVariable(name string) string {
	kind, id, _ := strings.Cut(name, ":")
	switch {
	case kind == "input":
		return "${" + strings.ToUpper(strings.Trim(unfit.Get().ReplaceAllString(id, "_"), "_")) + "}"
	case name == "userHome":
		return w.home
	case name == "workspaceFolder" && w.place.folder != "":
		return w.place.folder
	case name == "pathSeparator" || name == "/":
		return "/"
	case usable.Get().MatchString(name) && kind != "workspaceFolder" && kind != "workspaceFolderBasename":
		return "${" + name + "}"
	}
	w.problems = append(w.problems, fmt.Sprintf("${%.40s} has no meaning here", name))
	return ""
}

func (w *rewriter) rewriteList(list []string) []string {
	for i, s := range list {
		list[i] = w.rewriteText(s)
	}
	return list
}

func (w *rewriter) rewriteMap(m map[string]scalar) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = w.rewriteText(string(v))
	}
	return out
}

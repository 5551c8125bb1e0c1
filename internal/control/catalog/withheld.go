package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A withheldTool is a tool of an upstream that can't be found or called.
type withheldTool struct {
	tool    *tool.Tool
	reason  string
	command string
	member  string
}

// newWithheld returns the withheld tools of s sorted by name, without the names of its tools.
func newWithheld(s Source) []*withheldTool {
	var out []*withheldTool
	for _, w := range s.Withheld {
		if w.Tool != nil && !slices.ContainsFunc(s.Tools, func(t *tool.Tool) bool {
			return t != nil && t.Name == w.Tool.Name
		}) {
			out = append(out, &withheldTool{tool: w.Tool, reason: w.Reason, command: w.Command})
		}
	}
	slices.SortStableFunc(out, func(a, b *withheldTool) int { return cmp.Compare(a.tool.Name, b.tool.Name) })
	names := make([]string, len(out))
	for i, w := range out {
		names[i] = w.tool.Name
	}
	for i, member := range safeNames(names, reservedMembers) {
		out[i].member = member
	}
	return out
}

func (w *withheldTool) isSame(o *withheldTool) bool {
	return sameTool(w.tool, o.tool) && w.reason == o.reason && w.command == o.command
}

// entryIn returns the entry that the tool would have, to decide who may see it.
func (w *withheldTool) entryIn(u *upstream) *Entry {
	return &Entry{Tool: w.tool, Namespace: u.namespace, Member: w.member}
}

// refuseWithheld returns an error if a path names a withheld tool: exactly, or in any spelling.
func (v *View) refuseWithheld(path string, exactly bool) error {
	path = strings.TrimPrefix(path, "tools.")
	for _, u := range v.upstreams {
		for _, w := range u.withheld {
			if w.tool.Path() == path || !exactly && w.isNamed(u, path) {
				return w.refuseCall(w.entryIn(u).Path())
			}
		}
	}
	return nil
}

// A WithheldError is in the error about a path that names a withheld tool.
type WithheldError struct {
	Tool   *tool.Tool
	Reason string
}

// Error returns the tool's path and the reason.
func (e *WithheldError) Error() string { return e.Tool.Path() + " " + e.Reason }

// refuseCall returns the error of a call.
func (w *withheldTool) refuseCall(path string) error {
	e := tool.Errorf(tool.Denied, "tool %s %s", path, w.reason)
	if w.command != "" {
		e.Msg += fmt.Sprintf(". A person can look at it with `biplane tools`, and release it with `%s %s`",
			w.command, path)
	}
	e.Unsent, e.Err = true, &WithheldError{w.tool, w.reason}
	return e
}

// isNamed reports whether a path names the tool in any spelling.
func (w *withheldTool) isNamed(u *upstream, path string) bool {
	named := tool.Snake(path)
	for _, space := range []string{u.name, u.namespace} {
		if named == tool.Snake(space+"."+w.tool.Name) || named == tool.Snake(space+"."+w.member) {
			return true
		}
	}
	return false
}

// PathOf returns the name that programs use for a tool, or would use if it were not withheld. It is
// empty if the upstream has no such tool.
func (v *View) PathOf(upstream, name string) string {
	u := v.byName[upstream]
	if u == nil {
		return ""
	}
	if e := u.byTool[name]; e != nil {
		return e.Path()
	}
	for _, w := range u.withheld {
		if w.tool.Name == name {
			return w.entryIn(u).Path()
		}
	}
	return ""
}

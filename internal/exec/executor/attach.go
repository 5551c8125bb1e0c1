package executor

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of the files that an agent can send with a program. Larger files must be fetched by the
// program or copied with `biplane cp`.
const (
	maxAttached      = 64      // files
	maxAttachedBytes = 2 << 20 // total size, decoded; fits into one MCP request
)

// An attached is a file in a request: an embedded resource of MCP (server/tools, embedded
// resources), or the same with a path instead of the uri. Its wrapper {type: "resource", resource:
// {uri, text | blob}} is optional.
type attached struct {
	Type     string    `json:"type"`
	Resource *attached `json:"resource"`
	Path     string    `json:"path"`
	URI      string    `json:"uri"`
	Text     *string   `json:"text"`
	Blob     *string   `json:"blob"`
}

// attachments parses the files argument of execute. Its errors name the file and describe the
// request.
func attachments(raw json.RawMessage) ([]journal.File, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []attached
	if json.Unmarshal(raw, &list) != nil {
		return nil, tool.Errorf(tool.Invalid, `execute: files must be a list of {"path": "data.csv", "text": "..."}, `+
			`with "blob" in base64 instead of "text" for what is no text`)
	}
	if len(list) > maxAttached {
		return nil, tool.Errorf(tool.Limit,
			"execute: %d files, the most is %d: send one archive, or several programs of one session",
			len(list), maxAttached)
	}
	left := maxAttachedBytes
	var out []journal.File
	for i, a := range list {
		if a.Resource != nil {
			a = *a.Resource
		}
		name, err := a.name(i)
		if err != nil {
			return nil, err
		}
		data, err := a.data(name, left)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(f journal.File) bool { return f.Path == name }) {
			return nil, tool.Errorf(tool.Invalid,
				"execute: two files are called %q: send one, or give them different paths", text.Cut(name, 80))
		}
		left -= len(data)
		out = append(out, journal.File{Path: name, Data: data})
	}
	return out, nil
}

// name returns the path of the file, relative to ./workspace.
func (a *attached) name(i int) (string, error) {
	p := a.Path
	if p == "" && a.URI != "" {
		u, err := url.Parse(a.URI)
		if err != nil {
			return "", tool.Errorf(tool.Invalid, "execute: files[%d]: %q is no URI: give a path", i,
				text.Cut(a.URI, 80))
		}
		p = u.Path
		if u.Opaque != "" { // urn:data.csv
			p = u.Opaque
		}
		if p = path.Base(p); p == "." || p == "/" {
			p = ""
		}
	}
	p, below := belowWorkspace(p)
	top, _, _ := strings.Cut(p, "/")
	switch {
	case p == "":
		return "", tool.Errorf(tool.Invalid, "execute: files[%d] has no name: give a path, for example \"data.csv\"", i)
	case !utf8.ValidString(p) || strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") || path.Clean(p) != p ||
		slices.Contains(strings.Split(p, "/"), ".."):
		return "", tool.Errorf(tool.Invalid, "execute: files[%d]: %q can't be a file below ./workspace: give a path "+
			"such as \"data.csv\" or \"reports/may.csv\"", i, text.Cut(p, 80))
	case !below && (top == "skills" || top == "tools"): // in the program, this name refers to another directory
		return "", tool.Errorf(tool.Invalid,
			"execute: files[%d]: %q is not below ./workspace: ./skills is written by programs, ./tools by nobody", i,
			text.Cut(p, 80))
	}
	return p, nil
}

// belowWorkspace strips ./workspace from a path, in any form that programs may write it, and
// reports whether it was there.
func belowWorkspace(p string) (rest string, below bool) {
	if rest, below = strings.CutPrefix(p, "/workspace/"); below {
		return rest, true
	}
	return strings.CutPrefix(strings.TrimPrefix(p, "./"), "workspace/")
}

// data returns the contents of a file, at most most bytes.
func (a *attached) data(name string, most int) (data []byte, err error) {
	switch {
	case (a.Text == nil) == (a.Blob == nil):
		return nil, tool.Errorf(tool.Invalid, "execute: file %q needs one of text and blob", text.Cut(name, 80))
	case a.Text != nil:
		data = []byte(*a.Text)
	case values.DecodedSize(*a.Blob) <= most: // otherwise it is too large, which is reported below
		if data, err = base64.StdEncoding.DecodeString(*a.Blob); err != nil {
			return nil, tool.Errorf(tool.Invalid, "execute: file %q: blob is not valid base64 (with padding): %w",
				text.Cut(name, 80), err)
		}
	}
	if len(data) > most || a.Blob != nil && values.DecodedSize(*a.Blob) > most {
		return nil, tool.Errorf(tool.Limit, "execute: file %q: the files of one call may have %s together: send "+
			"larger ones in parts, or bring them in with `biplane cp`", text.Cut(name, 80),
			text.Size(maxAttachedBytes))
	}
	return data, nil
}

package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Target is a client that Biplane can be put into, with the file to change.
type Target struct {
	ID     string `json:"id"` // for the command line: "claude-desktop"
	Client string `json:"client"`
	File   string `json:"file"`
	Exists bool   `json:"exists"`

	place   Place
	section []string // the keys that lead to the table of servers
}

// insiders is the name of the other edition of VS Code.
const insiders = "VS Code Insiders"

// ListTargets returns the clients that Biplane can be put into. If project is true, the files are
// those of the project in the working folder.
func ListTargets(m Machine, project bool) (out []Target) {
	for _, p := range listAllPlaces(m) { // the home folder may be the working folder
		if (p.folder != "") != project || filepath.Base(p.File) == "settings.json" && p.format == vscode {
			continue
		}
		if strings.Contains(p.File, "Code - Insiders") {
			p.Client = insiders
		}
		_, err := os.Stat(p.File)
		t := Target{ID: strings.ReplaceAll(strings.ToLower(p.Client), " ", "-"), Client: p.Client, File: p.File,
			Exists: err == nil, place: p, section: p.format.sectionPath()}
		at := slices.IndexFunc(out, func(o Target) bool { return o.ID == t.ID })
		switch {
		case at < 0:
			out = append(out, t)
		case t.Exists && !out[at].Exists: // a client with several places has the file that exists
			out[at] = t
		}
	}
	return out
}

// sectionPath returns the keys that lead to the table of servers.
func (f format) sectionPath() []string {
	switch f {
	case vscode:
		return []string{"servers"}
	case zed:
		return []string{"context_servers"}
	case openCode, crush:
		return []string{"mcp"}
	case codex, grok:
		return []string{"mcp_servers"}
	case goose:
		return []string{gooseSection}
	}
	return []string{"mcpServers"}
}

// A clientEntry is the entry that starts Biplane, in the form of the clients other than OpenCode.
type clientEntry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Tools   []string `json:"tools,omitempty"`
}

// writeEntry returns the entry that starts a command, in the client's form.
func (f format) writeEntry(command string, args []string) (json.RawMessage, error) {
	switch f {
	case openCode:
		return json.Marshal(struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Enabled bool     `json:"enabled"`
		}{"local", append([]string{command}, args...), true})
	case vscode, crush:
		return json.Marshal(clientEntry{Type: "stdio", Command: command, Args: args})
	case goose:
		return json.Marshal(gooseEntry{"stdio", tool.Own, true, command, args, gooseTimeout})
	case copilot:
		return json.Marshal(clientEntry{Type: "local", Command: command, Args: args, Tools: []string{"*"}})
	}
	return json.Marshal(clientEntry{Command: command, Args: args})
}

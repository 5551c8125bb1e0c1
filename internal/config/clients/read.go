package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
)

const (
	maxJSON    = 64 << 20 // bytes; Claude Code keeps histories in the same file
	maxTOML    = 1 << 20  // and YAML
	maxDepth   = 1000
	maxServers = 1000 // of one file
)

// readServers returns the servers of a file by name. found reports whether the file exists.
func (p Place) readServers(folder string) (servers serverTable, found bool, err error) {
	text, err := p.loadText()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	} else if err != nil {
		return nil, true, err
	}
	d, err := p.format.decodeDocument(text)
	if err != nil {
		return nil, true, err
	}
	servers = p.listServers(d, folder)
	if len(servers) > maxServers {
		return nil, true, fmt.Errorf("it has more than %d servers", maxServers)
	}
	return servers, true, nil
}

// loadText returns the text of a file of bounded size.
func (p Place) loadText() ([]byte, error) {
	limit := maxJSON
	if p.format.isTOML() || p.format == goose {
		limit = maxTOML
	}
	if fi, err := os.Stat(p.File); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(p.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("it has more than %d MiB", limit>>20)
	}
	return text, err
}

// A document is a client's file, in any of the formats.
type document struct {
	MCPServers serverTable `json:"mcpServers"`
	Servers    serverTable `json:"servers"` // VS Code
	Codex      serverTable `json:"-"`
	Context    serverTable `json:"context_servers"` // Zed
	OpenCode   serverTable `json:"-"`               // and Crush
	Goose      serverTable `json:"-"`               // without its own extensions
	Settings   struct {
		Servers  serverTable `json:"servers"`  // VS Code, in its settings
		Allowed  []string    `json:"allowed"`  // Gemini: it uses only these servers; nil: all
		Excluded []string    `json:"excluded"` // Gemini: it doesn't use these
	} `json:"mcp"`
	Projects map[string]struct {
		MCPServers serverTable `json:"mcpServers"`
	} `json:"projects"` // Claude Code, by folder
}

// A serverTable has the entries of servers by name.
type serverTable map[string]json.RawMessage

// decodeDocument parses the text of a file.
func (f format) decodeDocument(text []byte) (d document, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if len(bytes.TrimSpace(text)) == 0 {
		return d, nil
	}
	if measureDepth(text) > maxDepth {
		return d, errors.New("it is nested too deeply")
	}
	if f.isTOML() {
		var only struct {
			Servers any `toml:"mcp_servers"`
		}
		if err := toml.Unmarshal(text, &only); err != nil {
			return d, err
		}
		if text, err = json.Marshal(only.Servers); err != nil {
			return d, err
		}
		return d, json.Unmarshal(text, &d.Codex)
	}
	if f == goose {
		d.Goose, err = decodeGoose(text)
		return d, err
	}
	if text, err = hujson.Standardize(bytes.Clone(text)); err != nil {
		return d, err
	}
	if f == openCode || f == crush {
		d.OpenCode, err = decodeOpenCode(text, f == openCode)
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}

// measureDepth returns the depth to which the brackets outside of strings are nested. The parsers
// are recursive.
func measureDepth(text []byte) (deepest int) {
	depth := 0
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case c == quote || quote != 0 && c == '\n':
			quote = 0
		case quote != 0:
		case c == '"':
			quote = c
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth = max(0, depth-1)
		}
	}
	return deepest
}

// listServers returns the servers of a document. Those of Claude Code include the project's in
// folder, which take precedence there, too.
func (p Place) listServers(d document, folder string) serverTable {
	out := serverTable{}
	switch p.format {
	case codex, grok:
		maps.Copy(out, d.Codex)
	case zed:
		maps.Copy(out, d.Context)
	case openCode, crush:
		maps.Copy(out, d.OpenCode)
	case goose:
		maps.Copy(out, d.Goose)
	case vscode:
		maps.Copy(out, d.Settings.Servers)
		maps.Copy(out, d.Servers)
	default:
		maps.Copy(out, d.MCPServers)
		maps.Copy(out, d.Projects[filepath.ToSlash(folder)].MCPServers)
	}
	if p.format == gemini {
		for name, raw := range out {
			if slices.Contains(d.Settings.Excluded, name) ||
				d.Settings.Allowed != nil && !slices.Contains(d.Settings.Allowed, name) {
				out[name] = disableEntry(raw)
			}
		}
	}
	return out
}

// An entry is one server in a client's file. Other keys are reported, except harmless ones.
type entry struct {
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Dir       string            `json:"cwd"`
	Env       map[string]scalar `json:"env"`
	URL       string            `json:"url"`
	ServerURL string            `json:"serverUrl"`
	HTTPURL   string            `json:"httpUrl"`
	Headers   map[string]scalar `json:"headers"`
	Type      string            `json:"type"`
	Transport string            `json:"transport"`
	Disabled  bool              `json:"disabled"`
	Enabled   *bool             `json:"enabled"`

	IncludeTools  []string `json:"includeTools"`
	ExcludeTools  []string `json:"excludeTools"`
	DisabledTools []string `json:"disabledTools"`

	// Codex
	EnabledOnly []string          `json:"enabled_tools"`
	DisabledToo []string          `json:"disabled_tools"`
	HTTPHeaders map[string]scalar `json:"http_headers"`
	EnvHeaders  map[string]scalar `json:"env_http_headers"`
	BearerEnv   string            `json:"bearer_token_env_var"`

	OAuth json.RawMessage `json:"oauth"` // Claude Code, Gemini, VS Code
	Auth  json.RawMessage `json:"auth"`  // Cursor

	unknown []string // other keys, except harmless ones
}

// decodeEntry parses one server.
func decodeEntry(raw json.RawMessage) (*entry, error) {
	e := &entry{}
	err := json.Unmarshal(raw, e)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field == "" {
			return nil, errors.New("it is not a map")
		}
		return nil, fmt.Errorf("%s has the wrong type: %s", wrong.Field, wrong.Value)
	}
	if err == nil {
		err = e.findUnknown(raw)
	}
	return e, err
}

// A scalar is a text, or a number or a boolean that stands for one.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(raw []byte) error {
	if raw[0] == '{' || raw[0] == '[' {
		return errors.New("a value of env or headers is not a text")
	}
	if raw[0] != '"' {
		*s = scalar(strings.Trim(string(raw), " "))
		return nil
	}
	return json.Unmarshal(raw, (*string)(s))
}

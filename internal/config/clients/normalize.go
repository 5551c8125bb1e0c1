package clients

import (
	"encoding/json"
	"errors"
	"slices"
)

// decodeOpenCode returns the servers in mcp. OpenCode's file may have them in mcp.servers: nested
// says so.
func decodeOpenCode(text []byte, nested bool) (serverTable, error) {
	var d struct {
		MCP serverTable `json:"mcp"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if !nested || !isNestedTable(d.MCP["servers"]) {
		return d.MCP, nil
	}
	var servers serverTable
	err := json.Unmarshal(d.MCP["servers"], &servers)
	return servers, err
}

// isNestedTable reports whether a value is a table of OpenCode's servers, and not a server that has
// the name "servers".
func isNestedTable(raw json.RawMessage) bool {
	var servers map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &servers) != nil || servers == nil {
		return false
	}
	for _, key := range []string{"type", "command", "url", "enabled"} {
		if v := servers[key]; len(v) > 0 && v[0] != '{' {
			return false
		}
	}
	return true
}

// normalizeEntry returns an entry with the keys that most clients use.
func (f format) normalizeEntry(raw json.RawMessage) (json.RawMessage, error) {
	var e map[string]json.RawMessage
	if json.Unmarshal(raw, &e) != nil || e == nil {
		return raw, nil // decodeEntry reports it
	}
	switch f {
	case openCode:
		if err := splitCommand(e); err != nil {
			return nil, err
		}
		if env, ok := e["environment"]; ok {
			e["env"] = env
			delete(e, "environment")
		}
		delete(e, "type") // local or remote
	case zed:
		if len(e["command"]) > 0 && e["command"][0] == '{' { // of earlier versions
			var c map[string]json.RawMessage
			if err := json.Unmarshal(e["command"], &c); err != nil {
				return nil, err
			}
			e["command"] = c["path"]
			for _, key := range []string{"args", "env"} {
				if v, ok := c[key]; ok {
					e[key] = v
				}
			}
		}
		if len(e["command"]) == 0 && len(e["url"]) == 0 {
			return nil, errors.New("an extension of Zed starts it")
		}
	case copilot:
		var tools []string
		if json.Unmarshal(e["tools"], &tools) == nil && len(e["tools"]) > 0 {
			if !slices.Contains(tools, "*") {
				e["includeTools"] = e["tools"]
			}
			delete(e, "tools")
		}
		if string(e["type"]) == `"local"` {
			delete(e, "type")
		}
	case goose:
		if err := normalizeGoose(e); err != nil {
			return nil, err
		}
	default:
		return raw, nil
	}
	return json.Marshal(e)
}

// decodeGoose returns the MCP servers among Goose's extensions.
func decodeGoose(text []byte) (serverTable, error) {
	t, err := parseYAML(string(text))
	if err != nil {
		return nil, err
	}
	all, err := decodeSection(t)
	if err != nil {
		return nil, err
	}
	for name, raw := range all {
		var e struct {
			Type string `json:"type"`
		}
		err := json.Unmarshal(raw, &e)
		if err == nil && !slices.Contains([]string{"stdio", "sse", "streamable_http"}, e.Type) {
			delete(all, name)
		}
	}
	return all, nil
}

// normalizeGoose renames the keys of an entry of Goose as most clients name them.
func normalizeGoose(e map[string]json.RawMessage) error {
	var keys, tools []string
	if json.Unmarshal(e["env_keys"], &keys) == nil && len(keys) > 0 {
		return errors.New("its variables are in the system's keyring, where Goose keeps them (env_keys)")
	}
	if json.Unmarshal(e["available_tools"], &tools) == nil && len(tools) > 0 {
		e["includeTools"] = e["available_tools"]
	}
	for from, to := range map[string]string{"cmd": "command", "envs": "env", "uri": "url"} {
		if v, ok := e[from]; ok {
			e[to] = v
		}
		delete(e, from)
	}
	if string(e["type"]) != `"sse"` {
		delete(e, "type")
	}
	for _, key := range []string{"name", "description", "display_name", "bundled", "timeout", "env_keys",
		"available_tools"} {
		delete(e, key)
	}
	return nil
}

// splitCommand splits a command that is a list into the program and its arguments.
func splitCommand(e map[string]json.RawMessage) error {
	raw, ok := e["command"]
	if !ok {
		return nil
	}
	var words []string
	if err := json.Unmarshal(raw, &words); err != nil || len(words) == 0 {
		return errors.New("command is not a list of texts")
	}
	var err error
	if e["command"], err = json.Marshal(words[0]); err != nil {
		return err
	}
	e["args"], err = json.Marshal(words[1:])
	return err
}

package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A tomlFile is a fileText of TOML, in which each server is a table with its own header. The
// library that reads TOML can't write it with its comments, so the text of tables is moved. The
// result is parsed, and compared with what it must be.
type tomlFile struct {
	text   string
	tables tomlTable // the tables that the text must contain
}

// A tomlTable is a parsed table.
type tomlTable map[string]tomlValue

type tomlValue any

func openTOML(text []byte) (*tomlFile, error) {
	if measureDepth(text) > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	f := &tomlFile{text: string(bytes.TrimPrefix(text, byteOrderMark)), tables: tomlTable{}}
	if err := toml.Unmarshal([]byte(f.text), &f.tables); err != nil {
		return nil, err
	}
	for key := range f.tables {
		if isVariant(key, "mcp_servers") {
			return nil, fmt.Errorf("it has %q, where %q is expected", key, "mcp_servers")
		}
	}
	return f, nil
}

// serverTables returns the parsed table of servers; nil if there is none.
func (f *tomlFile) serverTables() map[string]tomlValue {
	if f.tables["mcp_servers"] == nil {
		return nil
	}
	raw, err := toml.Marshal(f.tables["mcp_servers"])
	if err != nil {
		return nil
	}
	out := tomlTable{}
	if toml.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// A tomlChunk is a header of TOML with the lines below it.
type tomlChunk struct {
	path []string // of the header; empty for the lines before the first one
	text string
}

// splitTOML splits a text at its headers. Comments directly above a header belong to it.
func splitTOML(text string) []tomlChunk {
	var chunks []tomlChunk
	var current tomlChunk
	var s tomlScanner
	for line := range strings.Lines(text) {
		path := []string(nil)
		if s.quote == "" && s.depth == 0 {
			path = parseHeader(line)
		}
		if path == nil {
			s.scanLine(line)
			current.text += line
			continue
		}
		body, comments := cutComments(current.text)
		current.text = body
		chunks = append(chunks, current)
		current = tomlChunk{path, comments + line}
	}
	return append(chunks, current)
}

// cutComments cuts the comments at the end of a text, up to an empty line.
func cutComments(text string) (rest, comments string) {
	lines := slices.Collect(strings.Lines(text))
	at := len(lines)
	for at > 0 && strings.HasPrefix(strings.TrimSpace(lines[at-1]), "#") {
		at--
	}
	if at == 0 { // at the top of the file, or directly below a header
		return text, ""
	}
	return strings.Join(lines[:at], ""), strings.Join(lines[at:], "")
}

// A tomlScanner knows if a line begins inside a text or a list of several lines.
type tomlScanner struct {
	quote string // of the text of several lines that has begun
	depth int    // of brackets
}

// scanLine reads a line that is not a header.
func (s *tomlScanner) scanLine(line string) {
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		switch c := line[i]; {
		case s.quote != "" && c == '\\' && s.quote == `"""`:
			i++
		case s.quote != "" && strings.HasPrefix(rest, s.quote):
			i += len(s.quote) - 1
			for n := 0; n < 2 && strings.HasPrefix(line[i+1:], s.quote[:1]); n++ {
				i++ // quotes at the end of the text
			}
			s.quote = ""
		case s.quote != "":
		case c == '#':
			return
		case strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, `'''`):
			s.quote = rest[:3]
			i += 2
		case c == '"' || c == '\'':
			i += findQuoteEnd(rest)
		case c == '[' || c == '{':
			s.depth++
		case c == ']' || c == '}':
			s.depth = max(0, s.depth-1)
		}
	}
}

// findQuoteEnd returns the index of the quote that ends the text at the start of s.
func findQuoteEnd(s string) int {
	for i := 1; i < len(s); i++ {
		if s[0] == '"' && s[i] == '\\' {
			i++
		} else if s[i] == s[0] {
			return i
		}
	}
	return len(s)
}

// parseHeader returns the keys of a header; nil if the line is not one.
func parseHeader(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "[") {
		return nil
	}
	var header tomlValue
	if toml.Unmarshal([]byte(line), &header) != nil {
		return nil
	}
	at, err := json.Marshal(header) // its tables nest as the keys of the header do
	if err != nil {
		return nil
	}
	var path []string
	for {
		var list []json.RawMessage // [[list of tables]]
		if json.Unmarshal(at, &list) == nil && len(list) == 1 {
			at = list[0]
		}
		var table map[string]json.RawMessage
		if json.Unmarshal(at, &table) != nil || len(table) != 1 {
			return path
		}
		for key, value := range table {
			path, at = append(path, key), value
		}
	}
}

func (f *tomlFile) removeServer(name string) (string, error) {
	servers := f.serverTables()
	if _, ok := servers[name]; !ok {
		return "", nil
	}
	var kept, taken strings.Builder
	for _, c := range splitTOML(f.text) {
		if len(c.path) >= 2 && c.path[0] == "mcp_servers" && c.path[1] == name {
			taken.WriteString(c.text)
		} else {
			kept.WriteString(c.text)
		}
	}
	delete(servers, name)
	if err := f.replaceText(kept.String(), servers); err != nil {
		return "", err
	}
	return taken.String(), nil
}

// replaceText replaces the text, if it has the servers and everything else as it was.
func (f *tomlFile) replaceText(text string, servers map[string]tomlValue) error {
	now := tomlTable{}
	if err := toml.Unmarshal([]byte(text), &now); err != nil {
		return fmt.Errorf("its form can't be edited: %w", err)
	}
	next := &tomlFile{text: text, tables: now}
	was, is := map[string]tomlValue{}, map[string]tomlValue{}
	for k, v := range f.tables {
		was[k] = v
	}
	for k, v := range now {
		is[k] = v
	}
	delete(was, "mcp_servers")
	delete(is, "mcp_servers")
	got := next.serverTables()
	if !reflect.DeepEqual(was, is) || len(got) != len(servers) ||
		len(servers) > 0 && !reflect.DeepEqual(map[string]tomlValue(got), servers) {
		return errors.New("its servers have a form that can't be edited: write each as a table, [mcp_servers.NAME]")
	}
	f.text, f.tables = text, now
	return nil
}

func (f *tomlFile) addServer(name string, raw json.RawMessage) error {
	var e clientEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	text, err := toml.Marshal(struct {
		Servers map[string]struct {
			Command string   `toml:"command"`
			Args    []string `toml:"args"`
		} `toml:"mcp_servers"`
	}{map[string]struct {
		Command string   `toml:"command"`
		Args    []string `toml:"args"`
	}{name: {e.Command, e.Args}}})
	if err != nil {
		return err
	}
	_, table, _ := strings.Cut(string(text), "[mcp_servers]\n")
	var lines strings.Builder
	for line := range strings.Lines(table) {
		lines.WriteString(strings.TrimLeft(line, " "))
	}
	return f.restoreServer(name, lines.String())
}

func (f *tomlFile) restoreServer(name, text string) error {
	added := tomlFile{tables: tomlTable{}}
	if err := toml.Unmarshal([]byte(text), &added.tables); err != nil {
		return err
	}
	entry, ok := added.serverTables()[name]
	if !ok || len(added.tables) != 1 {
		return errors.New("it does not have the text of that server")
	}
	servers := f.serverTables()
	if servers == nil {
		servers = tomlTable{}
	}
	servers[name] = entry
	before := f.text
	switch {
	case before == "" || strings.HasSuffix(before, "\n\n"):
	case strings.HasSuffix(before, "\n"):
		before += "\n"
	default:
		before += "\n\n"
	}
	return f.replaceText(before+text, servers)
}

func (f *tomlFile) packText() ([]byte, error) { return []byte(f.text), nil }

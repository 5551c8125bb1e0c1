package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/base/yamldoc"
)

// gooseSection is the key of the table that has Goose's servers, and its own extensions.
const gooseSection = "extensions"

// A yamlFile is a fileText of YAML, in which the table of servers is a block with a line for each
// name. Lines are moved as they are. The result is parsed, and compared with what it must be.
type yamlFile struct {
	text   string
	tables jsonvalue.Object // what the text must contain
}

func openYAML(text []byte) (*yamlFile, error) {
	f := &yamlFile{text: string(bytes.TrimPrefix(text, byteOrderMark))}
	var err error
	f.tables, err = parseYAML(f.text)
	return f, err
}

// parseYAML parses a text with one table. Aliases are refused: lines that have them can't be moved.
func parseYAML(text string) (jsonvalue.Object, error) {
	out := jsonvalue.Object{}
	return out, yamldoc.DecodeDocument([]byte(text), &out)
}

// indentWidth returns the number of spaces that a line begins with.
func indentWidth(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// decodeSection returns the entries of the section as JSON.
func decodeSection(tables jsonvalue.Object) (serverTable, error) {
	if tables[gooseSection] == nil {
		return nil, nil
	}
	text, err := json.Marshal(tables[gooseSection])
	if err != nil {
		return nil, err
	}
	var out serverTable
	return out, json.Unmarshal(text, &out)
}

// isFiller reports whether a line is empty or a comment.
func isFiller(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "#")
}

// A yamlSection is a text, cut at the entries of the section.
type yamlSection struct {
	before  string // with the line of the section's name; empty if there is none
	entries []yamlEntry
	after   string
	indent  int // of the entries
}

type yamlEntry struct{ name, text string }

// splitSection cuts a text at the entries of its section. Comments directly above an entry belong
// to it.
func splitSection(text string) (s yamlSection) {
	s.indent = 2
	inside, done := false, false
	var pending string // comments and empty lines that may belong to the next entry
	flush := func() {
		if n := len(s.entries); n > 0 {
			s.entries[n-1].text += pending
		} else {
			s.before += pending
		}
		pending = ""
	}
	for line := range strings.Lines(text) {
		switch {
		case done:
			s.after += line
		case !inside:
			s.before += line
			inside = isSectionLine(line)
		case isFiller(line):
			pending += line
		case indentWidth(line) == 0:
			s.after, pending, done = pending+line, "", true
		case len(s.entries) == 0 || indentWidth(line) == s.indent:
			s.indent = indentWidth(line)
			rest, comments := cutComments("\n" + pending)
			pending = strings.TrimPrefix(rest, "\n")
			flush()
			s.entries = append(s.entries, yamlEntry{entryName(line), comments + line})
		default:
			flush()
			s.entries[len(s.entries)-1].text += line
		}
	}
	if !inside {
		s.before, s.after = "", text
	}
	s.after = pending + s.after
	return s
}

// isSectionLine reports whether a line begins the section.
func isSectionLine(line string) bool {
	rest, ok := strings.CutPrefix(line, gooseSection+":")
	return ok && (isFiller(rest) || strings.TrimSpace(rest) == "{}")
}

// entryName returns the name of the entry that a line begins; empty if it is none.
func entryName(line string) (name string) {
	key, _, ok := strings.Cut(strings.TrimSpace(line)+" ", ": ")
	if !ok || yamldoc.DecodeDocument([]byte(key), &name) != nil {
		return ""
	}
	return name
}

// packSection is the inverse of splitSection. A section without entries is an empty table.
func (s *yamlSection) packSection() string {
	var b strings.Builder
	before := s.before
	if at := strings.LastIndex("\n"+before, "\n"+gooseSection+":"); at >= 0 && before != "" {
		head, rest := before[:at], before[at+len(gooseSection)+1:]
		switch line, _, _ := strings.Cut(rest, "\n"); {
		case len(s.entries) == 0 && isFiller(line):
			rest = " {}" + rest
		case len(s.entries) > 0:
			rest = strings.Replace(rest, " {}", "", 1)
		}
		before = head + gooseSection + ":" + rest
	}
	b.WriteString(before)
	for _, e := range s.entries {
		b.WriteString(e.text)
	}
	b.WriteString(s.after)
	return b.String()
}

func (f *yamlFile) removeServer(name string) (string, error) {
	servers := f.cloneServers()
	if _, ok := servers[name]; !ok {
		return "", nil
	}
	s, taken := splitSection(f.text), ""
	var kept []yamlEntry
	for _, e := range s.entries {
		if e.name == name {
			taken += e.text
		} else {
			kept = append(kept, e)
		}
	}
	s.entries = kept
	delete(servers, name)
	return taken, f.replaceText(s.packSection(), servers)
}

// cloneServers returns a copy of the parsed section.
func (f *yamlFile) cloneServers() jsonvalue.Object {
	out := jsonvalue.Object{}
	maps.Copy(out, f.tables.ObjectAt(gooseSection))
	return out
}

// replaceText replaces the text, if it has the servers and everything else as it was.
func (f *yamlFile) replaceText(text string, servers jsonvalue.Object) error {
	now, err := parseYAML(text)
	if err != nil {
		return fmt.Errorf("its form can't be edited: %w", err)
	}
	next := &yamlFile{text, now}
	was, is := jsonvalue.Object{}, jsonvalue.Object{}
	maps.Copy(was, f.tables)
	maps.Copy(is, now)
	delete(was, gooseSection)
	delete(is, gooseSection)
	if !reflect.DeepEqual(was, is) || !reflect.DeepEqual(next.cloneServers(), servers) {
		return fmt.Errorf("its %s have a form that can't be edited: write each as lines below its name", gooseSection)
	}
	f.text, f.tables = text, now
	return nil
}

// A gooseEntry is an entry that starts Biplane.
type gooseEntry struct {
	Type    string   `json:"type" yaml:"type"`
	Name    string   `json:"name" yaml:"name"`
	Enabled bool     `json:"enabled" yaml:"enabled"`
	Command string   `json:"cmd" yaml:"cmd"`
	Args    []string `json:"args" yaml:"args"`
	Timeout int      `json:"timeout" yaml:"timeout"` // seconds
}

// gooseTimeout is how long Goose waits for an answer of Biplane: programs may run for minutes.
const gooseTimeout = 300

func (f *yamlFile) addServer(name string, raw json.RawMessage) error {
	var e gooseEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	text, err := yaml.Marshal(map[string]gooseEntry{name: e})
	if err != nil {
		return err
	}
	return f.restoreServer(name, string(text))
}

func (f *yamlFile) restoreServer(name, text string) error {
	s := splitSection(f.text)
	text = shiftLines(text, s.indent)
	added, err := parseYAML(gooseSection + ":\n" + text)
	if err != nil {
		return err
	}
	one := (&yamlFile{tables: added}).cloneServers()
	if len(one) != 1 || one[name] == nil {
		return errors.New("it does not have the text of that server")
	}
	servers := f.cloneServers()
	servers[name] = one[name]
	if s.before == "" {
		s.before, s.after = endLine(s.after)+gooseSection+":\n", ""
	}
	s.before = endLine(s.before)
	if n := len(s.entries); n > 0 {
		s.entries[n-1].text = endLine(s.entries[n-1].text)
	}
	s.entries = append(s.entries, yamlEntry{name, endLine(text)})
	return f.replaceText(s.packSection(), servers)
}

// endLine completes the last line of a text.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// shiftLines indents the lines of an entry so that its name is at a column.
func shiftLines(text string, to int) string {
	from := 0
	for line := range strings.Lines(text) {
		if !isFiller(line) {
			from = indentWidth(line)
			break
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch width := indentWidth(line); {
		case strings.TrimSpace(line) == "":
			b.WriteString(line)
		default:
			b.WriteString(strings.Repeat(" ", max(0, width-from+to)) + line[width:])
		}
	}
	return b.String()
}

func (f *yamlFile) packText() ([]byte, error) { return []byte(f.text), nil }

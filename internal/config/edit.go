package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/tailscale/hujson"

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A ServerEntry is the entry of an MCP server as the configuration writes it, with references.
type ServerEntry struct {
	Type     string            `yaml:"type,omitempty" json:"type,omitempty"`
	Command  string            `yaml:"command,omitempty" json:"command,omitempty"`
	Args     []string          `yaml:"args,omitempty" json:"args,omitempty"`
	Dir      string            `yaml:"cwd,omitempty" json:"cwd,omitempty"`
	Env      map[string]string `yaml:"env,omitempty" json:"env,omitempty"`
	URL      string            `yaml:"url,omitempty" json:"url,omitempty"`
	Headers  map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	OAuth    *OAuthEntry       `yaml:"oauth,omitempty" json:"oauth,omitempty"`
	Only     []string          `yaml:"includeTools,omitempty" json:"includeTools,omitempty"`
	Not      []string          `yaml:"excludeTools,omitempty" json:"excludeTools,omitempty"`
	Disabled bool              `yaml:"disabled,omitempty" json:"disabled,omitempty"`
}

// An OAuthEntry is the sign-in to a server as the configuration writes it.
type OAuthEntry struct {
	ClientID     string   `yaml:"client_id,omitempty" json:"client_id,omitempty"`
	ClientSecret string   `yaml:"client_secret,omitempty" json:"client_secret,omitempty"`
	Scopes       []string `yaml:"scopes,omitempty" json:"scopes,omitempty"`
	RedirectPort int      `yaml:"redirect_port,omitempty" json:"redirect_port,omitempty"`
}

// An Edit is a change of a configuration file that has not been made yet.
type Edit struct {
	Path   string // of the file itself, also if the configuration is a symbolic link to it
	Before []byte // nil: the file doesn't exist
	After  []byte
	mode   fs.FileMode
}

// WriteFile makes the change, unless the file was changed since it was read. It creates a missing
// folder, which only the user can read.
func (e *Edit) WriteFile() error {
	if e.Before == nil {
		if err := os.MkdirAll(filepath.Dir(e.Path), 0o700); err != nil {
			return err
		}
	}
	return replaceText(e.Path, e.Before, e.After, e.mode)
}

// AddServer adds an MCP server to a configuration file, which is created if it doesn't exist. All
// other text of the file, comments too, stays as it is.
func AddServer(path, name string, e ServerEntry, strongest tool.Tier) error {
	edit, err := PlanServers(path, map[string]ServerEntry{name: e}, os.LookupEnv, strongest)
	if err != nil {
		return err
	}
	return edit.WriteFile()
}

// PlanServers returns the change that adds MCP servers to a configuration file, as AddServer does.
// env looks up the variables that the configuration refers to.
func PlanServers(path string, servers map[string]ServerEntry, env func(string) (string, bool),
	strongest tool.Tier) (*Edit, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	mode := fs.FileMode(0o600)
	before, err := readConfigText(path)
	if errors.Is(err, fs.ErrNotExist) {
		before, err = nil, nil
	} else if info, statErr := os.Stat(path); err == nil && statErr == nil {
		mode = info.Mode().Perm()
	}
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	after := before
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if after, err = insertServer(path, after, name, servers[name]); err != nil {
			return nil, err
		}
	}
	if _, err := Parse(path, after, env, strongest); err != nil {
		return nil, err
	}
	return &Edit{Path: path, Before: before, After: after, mode: mode}, nil
}

func readConfigText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, configBytes+1))
}

// replaceText replaces the text of a file as a whole, if it is still the expected one.
func replaceText(path string, before, after []byte, mode fs.FileMode) error {
	f, err := atomicfile.Create(path, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(after); err != nil {
		return err
	}
	now, err := readConfigText(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || !bytes.Equal(now, before) {
		return tool.Errorf(tool.Conflict, "%s was changed by another program: try again", path)
	}
	return f.Commit()
}

// insertServer returns the text of a configuration with one more server. It checks that nothing
// else is different.
func insertServer(path string, before []byte, name string, e ServerEntry) ([]byte, error) {
	root, problem := parseFile(path, before)
	if problem != nil {
		return nil, configError(path, []Problem{*problem})
	}
	part := root.findField("mcpServers")
	if part != nil && part.value.findField(name) != nil {
		return nil, tool.Errorf(tool.Conflict, "%s has a server %s already: choose another name with --as", path, name)
	}
	var after []byte
	var err error
	if isJSON(path, before) {
		after, err = insertJSON(before, name, e)
	} else {
		after, err = insertYAML(before, root, part, name, e)
	}
	if err != nil {
		return nil, err
	}
	if now, problem := parseFile(path, after); problem != nil || !isExtended(root, now, name, e) {
		text, _ := formatEntry(name, e, 2)
		return nil, tool.Errorf(tool.Invalid,
			"%s has a form that can't be edited and was not changed. Add this to its "+
				"mcpServers:\n%s", path, text)
	}
	return after, nil
}

// isJSON reports whether parseFile reads a text as JSON.
func isJSON(path string, text []byte) bool {
	head := bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))
	return strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".jsonc") || bytes.HasPrefix(head,
		[]byte("{")) ||
		bytes.HasPrefix(head, []byte("//")) || bytes.HasPrefix(head, []byte("/*"))
}

// findField returns the field with a name, or nil.
func (n *node) findField(name string) *field {
	if n == nil {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].key.text == name {
			return &n.fields[i]
		}
	}
	return nil
}

// insertJSON adds a server to JSON with comments.
func insertJSON(before []byte, name string, e ServerEntry) ([]byte, error) {
	text := bytes.TrimPrefix(before, []byte("\ufeff"))
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	v, err := hujson.Parse(text)
	if err != nil {
		return nil, err
	}
	servers := v.Find("/mcpServers")
	if servers == nil {
		root, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil, tool.Errorf(tool.Invalid, "the configuration is not a JSON object")
		}
		appendMember(root, "mcpServers", []byte("{}"), "  ")
		servers = &root.Members[len(root.Members)-1].Value
	}
	if lit, ok := servers.Value.(hujson.Literal); ok && lit.Kind() == 'n' {
		servers.Value = &hujson.Object{}
	}
	object, ok := servers.Value.(*hujson.Object)
	if !ok {
		return before, nil // the comparison refuses it
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	appendMember(object, name, raw, "    ")
	return v.Pack(), nil
}

// appendMember adds a member to an object, indented as the member before it is.
func appendMember(o *hujson.Object, name string, raw []byte, indent string) {
	if n := len(o.Members); n > 0 {
		space := string(o.Members[n-1].Name.BeforeExtra)
		indent = space[strings.LastIndexByte(space, '\n')+1:]
		if strings.Trim(indent, " \t") != "" {
			indent = "    "
		}
	}
	var text bytes.Buffer
	if json.Indent(&text, raw, indent, "  ") != nil {
		return
	}
	value, err := hujson.Parse(text.Bytes())
	if err != nil {
		return
	}
	value.BeforeExtra = hujson.Extra(" ")
	key := hujson.Value{BeforeExtra: hujson.Extra("\n" + indent), Value: hujson.String(name)}
	o.Members = append(o.Members, hujson.ObjectMember{Name: key, Value: value})
	if !bytes.Contains(o.AfterExtra, []byte("\n")) {
		o.AfterExtra = append(o.AfterExtra, "\n"+strings.TrimSuffix(indent, "  ")...)
	}
}

// insertYAML adds a server to YAML in block style.
func insertYAML(before []byte, root *node, part *field, name string, e ServerEntry) ([]byte, error) {
	lines := strings.SplitAfter(string(before), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	} else {
		lines[last] += "\n"
	}
	if part == nil {
		text, err := formatEntry(name, e, 2)
		if len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) != "" {
			text = "\nmcpServers:\n" + text
		} else {
			text = "mcpServers:\n" + text
		}
		return []byte(strings.Join(lines, "") + text), err
	}
	column, at := part.key.col+2, part.key.line
	if entries := part.value.fields; len(entries) > 0 {
		column = entries[0].key.col
	}
	if part.value.kind == mapNode && len(part.value.fields) == 0 { // mcpServers: {}
		lines[at-1] = strings.Replace(lines[at-1], "{}", "", 1)
		lines[at-1] = strings.TrimRight(lines[at-1], " \r\n") + "\n"
	}
	// The part ends before the next line that is not deeper than its key.
	end := at
	for i := at; i < len(lines); i++ {
		body := strings.TrimLeft(lines[i], " ")
		deeper := len(lines[i])-len(body) >= column-1
		switch {
		case strings.TrimSpace(body) == "":
		case strings.HasPrefix(body, "#") && deeper:
			end = i + 1
		case strings.HasPrefix(body, "#"):
		case len(lines[i])-len(body) < part.key.col, strings.HasPrefix(lines[i], "---"):
			i = len(lines)
		default:
			end = i + 1
		}
	}
	text, err := formatEntry(name, e, column-1)
	return []byte(strings.Join(slices.Insert(lines, end, text), "")), err
}

// formatEntry returns an entry as YAML, indented.
func formatEntry(name string, e ServerEntry, indent int) (string, error) {
	raw, err := yaml.MarshalWithOptions(map[string]ServerEntry{name: e}, yaml.IndentSequence(true))
	var out strings.Builder
	for line := range strings.Lines(string(raw)) {
		out.WriteString(strings.Repeat(" ", indent) + line)
	}
	return out.String(), err
}

// isExtended reports whether a configuration is the other one with one more server, as it is meant
// to be.
func isExtended(before, after *node, name string, e ServerEntry) bool {
	part := after.findField("mcpServers")
	if part == nil {
		return false
	}
	added := part.value.findField(name)
	if added == nil || !equalNodes(added.value, entryNode(e)) {
		return false
	}
	rest := *part.value
	rest.fields = slices.DeleteFunc(slices.Clone(rest.fields), func(f field) bool { return f.key.text == name })
	var was []field
	if before != nil {
		was = before.fields
	}
	without := func(f field) bool { return f.key.text == "mcpServers" }
	if !equalNodes(&node{kind: mapNode, fields: slices.DeleteFunc(slices.Clone(was), without)},
		&node{kind: mapNode, fields: slices.DeleteFunc(slices.Clone(after.fields), without)}) {
		return false
	}
	old := &node{kind: mapNode}
	if f := before.findField("mcpServers"); f != nil && f.value.kind == mapNode {
		old = f.value
	} else if f != nil && f.value.kind != nullNode {
		return false
	}
	return equalNodes(old, &rest)
}

// ReadServers returns the MCP servers of a configuration file by name, with references. There are
// none if the file doesn't exist.
func ReadServers(path string) (map[string]ServerEntry, error) {
	text, err := readConfigText(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	root, problem := parseFile(path, text)
	if problem != nil {
		return nil, configError(path, []Problem{*problem})
	}
	out := map[string]ServerEntry{}
	for _, f := range root.getValue("mcpServers").fields {
		out[f.key.text] = readEntry(f.value)
	}
	return out, nil
}

// readEntry is the inverse of entryNode. It ignores values of the wrong kind, which Parse reports.
func readEntry(n *node) ServerEntry {
	e := ServerEntry{Type: n.getValue("type").text, Command: n.getValue("command").text,
		Args: n.getValue("args").listTexts(), Dir: n.getValue("cwd").text, Env: n.getValue("env").mapTexts(),
		URL: n.getValue("url").text, Headers: n.getValue("headers").mapTexts(),
		Only: n.getValue("includeTools").listTexts(), Not: n.getValue("excludeTools").listTexts(),
		Disabled: n.getValue("disabled").text == "true"}
	if o := n.getValue("oauth"); o.kind == mapNode {
		port, _ := strconv.Atoi(o.getValue("redirect_port").text)
		e.OAuth = &OAuthEntry{ClientID: o.getValue("client_id").text, ClientSecret: o.getValue("client_secret").text,
			Scopes: o.getValue("scopes").listTexts(), RedirectPort: port}
	}
	return e
}

// getValue returns the value of a field, or an empty node.
func (n *node) getValue(name string) *node {
	if f := n.findField(name); f != nil {
		return f.value
	}
	return &node{}
}

func (n *node) listTexts() (out []string) {
	for _, e := range n.list {
		out = append(out, e.text)
	}
	return out
}

func (n *node) mapTexts() map[string]string {
	if len(n.fields) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, f := range n.fields {
		out[f.key.text] = f.value.text
	}
	return out
}

// entryNode returns what reading an entry must result in.
func entryNode(e ServerEntry) *node {
	n := &node{kind: mapNode}
	n.addTexts([][2]string{{"type", e.Type}, {"command", e.Command}, {"cwd", e.Dir}, {"url", e.URL}})
	n.addList("args", e.Args)
	n.addList("includeTools", e.Only)
	n.addList("excludeTools", e.Not)
	n.addMap("env", e.Env)
	n.addMap("headers", e.Headers)
	if e.Disabled {
		n.addField("disabled", &node{kind: boolNode, text: "true"})
	}
	if o := e.OAuth; o != nil {
		sign := &node{kind: mapNode}
		sign.addTexts([][2]string{{"client_id", o.ClientID}, {"client_secret", o.ClientSecret}})
		sign.addList("scopes", o.Scopes)
		if o.RedirectPort != 0 {
			sign.addField("redirect_port", &node{kind: numberNode, text: strconv.Itoa(o.RedirectPort)})
		}
		n.addField("oauth", sign)
	}
	return n
}

func textNode(s string) *node { return &node{kind: stringNode, text: s} }

func (n *node) addField(name string, v *node) { n.fields = append(n.fields, field{textNode(name), v}) }

// addTexts adds the pairs of a name and a text that are not empty.
func (n *node) addTexts(pairs [][2]string) {
	for _, p := range pairs {
		if p[1] != "" {
			n.addField(p[0], textNode(p[1]))
		}
	}
}

func (n *node) addList(name string, texts []string) {
	if len(texts) == 0 {
		return
	}
	list := &node{kind: listNode}
	for _, s := range texts {
		list.list = append(list.list, textNode(s))
	}
	n.addField(name, list)
}

func (n *node) addMap(name string, values map[string]string) {
	if len(values) == 0 {
		return
	}
	m := &node{kind: mapNode}
	for k, v := range values {
		m.addField(k, textNode(v))
	}
	n.addField(name, m)
}

// equalNodes reports whether two values are equal, apart from their positions and the order of
// fields.
func equalNodes(a, b *node) bool {
	if a.kind != b.kind || a.text != b.text && a.kind != mapNode && a.kind != listNode || len(a.list) != len(b.list) ||
		len(a.fields) != len(b.fields) {
		return false
	}
	for i := range a.list {
		if !equalNodes(a.list[i], b.list[i]) {
			return false
		}
	}
	for i := range a.fields {
		other := b.findField(a.fields[i].key.text)
		if other == nil || !equalNodes(a.fields[i].value, other.value) {
			return false
		}
	}
	return true
}

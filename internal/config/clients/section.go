package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A fileText is the text of a client's file with its table of servers. Changes keep all other text
// as it is.
type fileText interface {
	// removeServer removes a server, and returns its text.
	removeServer(name string) (string, error)
	// addServer adds a server. raw is its entry as JSON.
	addServer(name string, raw json.RawMessage) error
	// restoreServer adds a server with a text that removeServer returned.
	restoreServer(name, text string) error
	// packText returns the whole text.
	packText() ([]byte, error)
}

// openText parses the text of a client's file. An empty text is a file without settings.
func (t *Target) openText(text []byte) (fileText, error) {
	if t.place.format.isTOML() {
		return openTOML(text)
	}
	if t.place.format == goose {
		return openYAML(text)
	}
	return openJSON(text, t.section, t.place.format == openCode)
}

var byteOrderMark = []byte("\ufeff")

// A jsonFile is a fileText of JSON with comments.
type jsonFile struct {
	root   hujson.Value
	path   []string
	marked bool // it begins with a byte order mark
	at     int  // where the next server is added: the place of the first one that was removed; -1: at the end
}

func openJSON(text []byte, path []string, nested bool) (*jsonFile, error) {
	f := &jsonFile{path: path, at: -1}
	text, f.marked = bytes.CutPrefix(text, byteOrderMark)
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if measureDepth(text) > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	var err error
	if f.root, err = hujson.Parse(bytes.Clone(text)); err != nil {
		return nil, err
	}
	if _, ok := f.root.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is not a JSON object")
	}
	if nested {
		if o, err := f.findTable(false); err == nil && o != nil {
			if i, err := findMember(o, "servers"); err == nil && i >= 0 {
				v := o.Members[i].Value.Clone()
				v.Standardize()
				if isNestedTable(bytes.TrimSpace(v.Pack())) {
					f.path = append(slices.Clone(path), "servers")
				}
			}
		}
	}
	_, err = f.findTable(false)
	return f, err
}

// isVariant reports whether a key differs from a name only in the case of letters. The decoders of
// Go don't distinguish the two, and the clients do.
func isVariant(key, name string) bool { return key != name && strings.EqualFold(key, name) }

// findMember returns the index of a member, or -1. A name that is there twice is an error.
func findMember(o *hujson.Object, name string) (int, error) {
	found := -1
	for i := range o.Members {
		key, ok := o.Members[i].Name.Value.(hujson.Literal)
		if !ok || key.String() != name {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("it has %q twice", name)
		}
		found = i
	}
	return found, nil
}

// findTable returns the table of servers; nil if there is none and create is false.
func (f *jsonFile) findTable(create bool) (*hujson.Object, error) {
	o := f.root.Value.(*hujson.Object)
	for depth, name := range f.path {
		for i := range o.Members {
			if key, ok := o.Members[i].Name.Value.(hujson.Literal); ok && isVariant(key.String(), name) {
				return nil, fmt.Errorf("it has %q, where %q is expected", key.String(), name)
			}
		}
		i, err := findMember(o, name)
		if err != nil {
			return nil, err
		}
		if i < 0 {
			if !create {
				return nil, nil
			}
			i = len(o.Members)
			if err := f.insertMember(o, i, depth, name, []byte("{}")); err != nil {
				return nil, err
			}
		}
		next, ok := o.Members[i].Value.Value.(*hujson.Object)
		if lit, isLiteral := o.Members[i].Value.Value.(hujson.Literal); isLiteral && lit.Kind() == 'n' {
			if !create {
				return nil, nil
			}
			next, ok = &hujson.Object{}, true
			o.Members[i].Value.Value = next
		}
		if !ok {
			return nil, fmt.Errorf("its %s is not an object", strings.Join(f.path[:depth+1], "."))
		}
		o = next
	}
	return o, nil
}

// indentOf returns the white space before a member; false if it doesn't begin a line.
func indentOf(m *hujson.ObjectMember) (string, bool) {
	space := string(m.Name.BeforeExtra)
	at := strings.LastIndexByte(space, '\n')
	indent := space[at+1:]
	return indent, at >= 0 && strings.Trim(indent, " \t") == ""
}

// unitIndent returns the white space of one level.
func (f *jsonFile) unitIndent() string {
	if o := f.root.Value.(*hujson.Object); len(o.Members) > 0 {
		if indent, ok := indentOf(&o.Members[0]); ok && indent != "" {
			return indent
		}
	}
	return "  "
}

// changeMembers calls change, and keeps or omits the comma after the last member as it was.
func changeMembers(o *hujson.Object, change func()) {
	comma := len(o.Members) > 0 && o.Members[len(o.Members)-1].Value.AfterExtra != nil
	if n := len(o.Members); n > 0 && !comma {
		o.Members[n-1].Value.AfterExtra = hujson.Extra{} // there is a comma now if another one follows
	}
	change()
	if n := len(o.Members); n > 0 {
		last := &o.Members[n-1].Value
		switch {
		case !comma && len(last.AfterExtra) > 0: // it was before a comma
			o.AfterExtra = append(slices.Clone(last.AfterExtra), o.AfterExtra...)
			last.AfterExtra = nil
		case !comma:
			last.AfterExtra = nil
		case last.AfterExtra == nil:
			last.AfterExtra = hujson.Extra{}
		}
	}
}

// insertMember adds a member at an index of an object at a depth of the file.
func (f *jsonFile) insertMember(o *hujson.Object, at, depth int, name string, raw []byte) error {
	unit := f.unitIndent()
	indent := strings.Repeat(unit, depth+1)
	if len(o.Members) > 0 {
		if s, ok := indentOf(&o.Members[0]); ok {
			indent = s
		}
	}
	var text bytes.Buffer
	if err := json.Indent(&text, raw, indent, unit); err != nil {
		return err
	}
	value, err := hujson.Parse(text.Bytes())
	if err != nil {
		return err
	}
	value.BeforeExtra = hujson.Extra(" ")
	key := hujson.Value{BeforeExtra: hujson.Extra("\n" + indent), Value: hujson.String(name)}
	changeMembers(o, func() {
		o.Members = slices.Insert(o.Members, at, hujson.ObjectMember{Name: key, Value: value})
	})
	if !bytes.Contains(o.AfterExtra, []byte("\n")) {
		o.AfterExtra = append(slices.Clone(o.AfterExtra), "\n"+strings.TrimSuffix(indent, unit)...)
	}
	return nil
}

func (f *jsonFile) removeServer(name string) (string, error) {
	o, err := f.findTable(false)
	if err != nil || o == nil {
		return "", err
	}
	i, err := findMember(o, name)
	if err != nil || i < 0 {
		return "", err
	}
	m := o.Members[i]
	m.Value.AfterExtra = nil
	text := hujson.Value{Value: &hujson.Object{Members: []hujson.ObjectMember{m}}}.String()
	changeMembers(o, func() { o.Members = slices.Delete(o.Members, i, i+1) })
	if f.at < 0 || i < f.at {
		f.at = i
	}
	return text, nil
}

func (f *jsonFile) addServer(name string, raw json.RawMessage) error {
	o, err := f.findTable(true)
	if err != nil {
		return err
	}
	at := len(o.Members)
	if f.at >= 0 {
		at = min(f.at, at)
	}
	return f.insertMember(o, at, len(f.path), name, raw)
}

func (f *jsonFile) restoreServer(name, text string) error {
	o, err := f.findTable(true)
	if err != nil {
		return err
	}
	v, err := hujson.Parse([]byte(text))
	if err != nil {
		return err
	}
	taken, ok := v.Value.(*hujson.Object)
	if !ok || len(taken.Members) != 1 {
		return errors.New("it does not have the text of one server")
	}
	if i, err := findMember(taken, name); err != nil || i != 0 {
		return errors.New("it does not have the text of that server")
	}
	changeMembers(o, func() { o.Members = append(o.Members, taken.Members[0]) })
	return nil
}

func (f *jsonFile) packText() ([]byte, error) {
	out := f.root.Pack()
	if _, err := hujson.Parse(out); err != nil {
		return nil, err
	}
	if f.marked {
		out = append(slices.Clone(byteOrderMark), out...)
	}
	return out, nil
}

package function

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An exportInfo is the runtime's report about an export. It comes from the folder's code, so it
// is not trusted.
type exportInfo struct {
	Name        string          `json:"name"`
	Kind        string          `json:"kind"`  // "function" or "tool"
	Text        string          `json:"text"`  // the function's own name
	Head        string          `json:"head"`  // the beginning of its compiled text
	Label       string          `json:"label"` // the tool's name, as its author wrote it
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Annotations json.RawMessage `json:"annotations"`
	Schema      json.RawMessage `json:"schema"`
	Problem     string          `json:"problem"` // why there is no schema
	Names       []string        `json:"names"`   // "python": the parameters in order
	Rest        bool            `json:"rest"`
	Notes       []string        `json:"notes"`
}

// A Broken is an export that can't be a tool.
type Broken struct{ Name, Reason string }

// maxSchema is the maximum size of a schema in bytes.
const maxSchema = 256 << 10

// ReadExports returns the exports of f. described is the value of its Description program.
func (f *File) ReadExports(described json.RawMessage) (good []Export, bad []Broken, err error) {
	var all []exportInfo
	if err := json.Unmarshal(described, &all); err != nil {
		return nil, nil, tool.Errorf(tool.Invalid, "%s: its exports can't be read: %w", f.Path, err)
	}
	if len(all) > maxExports {
		return nil, nil, tool.Errorf(tool.Limit, "%s exports %d functions, at most %d can be tools", f.Path, len(all),
			maxExports)
	}
	for i := range all {
		e, why := f.readExport(&all[i])
		if why != "" {
			bad = append(bad, Broken{cutText(all[i].Name, 200), why})
			continue
		}
		good = append(good, e)
	}
	return good, bad, nil
}

// readExport returns an export, or the reason why it can't be a tool.
func (f *File) readExport(i *exportInfo) (e Export, why string) {
	e = Export{Name: cutText(i.Name, 200), Title: cutText(i.Title, 200), Description: cutText(i.Description, maxDoc),
		how: invocation{Export: i.Name, Kind: i.Kind}}
	if e.Title == "" && i.Label != "" {
		e.Title = cutText(i.Label, 200)
	}
	for _, n := range i.Notes[:min(len(i.Notes), 20)] {
		e.Notes = append(e.Notes, cutText(n, 300))
	}
	if i.Problem != "" {
		return e, "its parameters have no JSON Schema: " + cutText(i.Problem, 300)
	}
	if len(i.Annotations) > 0 {
		if err := json.Unmarshal(i.Annotations, &e.Annotations); err != nil {
			return e, "its annotations are invalid: readOnlyHint and the like must be true or false"
		}
	}
	e.Schema = i.Schema
	if f.Language == "python" {
		e.how.Names, e.how.Rest = i.Names, i.Rest
		e.readComment(readPythonTags(&e.Description))
	} else if i.Kind == "function" {
		f.readFunction(i, &e)
	} else if len(e.Schema) == 0 {
		e.Notes = append(e.Notes, "it has no parameters: it accepts any arguments")
	}
	if len(e.Schema) == 0 {
		e.Schema = json.RawMessage(`{"type":"object"}`)
	}
	return e, checkSchema(e.Schema)
}

// maxSchemaDepth is the maximum depth of a schema.
const maxSchemaDepth = 128

// measureDepth returns how deep valid JSON nests.
func measureDepth(raw []byte) (most int) {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}

// checkSchema returns the reason why a schema can't describe arguments, or "".
func checkSchema(raw json.RawMessage) string {
	var s map[string]json.RawMessage
	switch {
	case len(raw) > maxSchema:
		return "the schema of its parameters is over 256 KiB"
	case measureDepth(raw) > maxSchemaDepth:
		return fmt.Sprintf("the schema of its parameters nests deeper than %d levels", maxSchemaDepth)
	case json.Unmarshal(raw, &s) != nil:
		return "the schema of its parameters is not an object"
	case s["type"] != nil && string(s["type"]) != `"object"`:
		return "its parameters must be an object, with one property for each argument"
	}
	return ""
}

// readFunction adds what the text of a function says.
func (f *File) readFunction(i *exportInfo, e *Export) {
	sig, r := findSignature(f.ownTexts(), i.Name, i.Text)
	if sig == nil {
		if sig, r = compiledSignature(i.Head); sig == nil {
			e.Notes = append(e.Notes, "its parameters can't be read, so it accepts one object: write it as "+
				"export function "+i.Name+"(...)")
			return
		}
		if len(e.Schema) == 0 && len(sig.params) > 0 {
			r.addNote("its declaration was not found, so its parameters are any: write it as export function %s(...), "+
				"or set %s.parameters", i.Name, i.Name)
		}
	}
	if e.Description == "" {
		e.Description = sig.doc.description
	}
	e.readComment(sig.doc)
	if len(e.Schema) > 0 {
		sig.setPassing(e.Schema, &e.how)
		return
	}
	s, err := tool.Marshal(sig.argumentSchema(&e.how))
	if err == nil {
		e.Schema = s
	}
	e.Notes = append(e.Notes, r.notes...)
}

// ownTexts returns the texts of the folder's own files, f's first.
func (f *File) ownTexts() []string {
	out := []string{f.source}
	for _, name := range f.Uses {
		if name != f.Path && !strings.Contains(name, "node_modules/") && LanguageOf(name) == "typescript" {
			out = append(out, f.sources[name])
		}
	}
	return out
}

// readComment sets the annotations that a comment has, unless the code has set them.
func (e *Export) readComment(d docComment) {
	yes := true
	for _, a := range []struct {
		said bool
		to   **bool
	}{{d.readOnly, &e.Annotations.ReadOnly}, {d.destructive, &e.Annotations.Destructive},
		{d.idempotent, &e.Annotations.Idempotent}} {
		if a.said && *a.to == nil {
			*a.to = &yes
		}
	}
}

// readPythonTags removes the lines @readonly, @destructive and @idempotent from a docstring.
func readPythonTags(description *string) (d docComment) {
	lines := strings.Split(*description, "\n")
	kept := slices.DeleteFunc(lines, func(l string) bool {
		switch strings.ToLower(strings.TrimSpace(l)) {
		case "@readonly":
			d.readOnly = true
		case "@destructive":
			d.destructive = true
		case "@idempotent":
			d.idempotent = true
		default:
			return false
		}
		return true
	})
	*description = strings.ReplaceAll(strings.TrimSpace(strings.Join(kept, "\n")), "\n\n\n", "\n\n")
	return d
}

func cutText(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

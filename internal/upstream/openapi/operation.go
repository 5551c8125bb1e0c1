package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// Limits of what a document becomes.
const (
	maxOperations = 10_000
	maxName       = 128
	maxBroken     = 100
	maxText       = 16 << 10
	maxSchemas    = 256 << 20 // bytes of the schemas of all tools
)

// An operation is an operation of a document, with all that a call needs.
type operation struct {
	name     string
	method   string
	path     string // template
	params   []*parameter
	body     *body // nil if it has none
	servers  []string
	security []requirement // alternatives; nil: none is stated
	accept   string
	tool     *tool.Tool
}

// A requirement names the security schemes that a request needs together, with their scopes.
type requirement map[string][]string

// A table holds the tools that were made of a document.
type table struct {
	byName  map[string]*operation
	tools   []*tool.Tool // sorted by tag, then in the document's order
	broken  []upstream.Broken
	dropped int // all that are broken
	schemes map[string]*scheme
	servers []string // of the document
	title   string
}

var methods = []string{"get", "head", "options", "trace", "put", "post", "patch", "delete", "query"}

func isMethod(name string) bool { return slices.Contains(methods, name) }

// A draft is an operation that is being read.
type draft struct {
	operation
	path place // of the path item
	n    place
	tag  string
	id   string
	err  error
}

// A reader reads the operations of a document.
type reader struct {
	doc      *document
	schemas  *schemas
	upstream string
	servers  serverConfig
	out      *table
	size     int
}

// readTable reads all operations of a document. A broken operation affects only itself.
func readTable(d *document, upstreamName string, servers serverConfig) (*table, error) {
	root := d.rootPlace()
	r := &reader{doc: d, schemas: newSchemas(d), upstream: upstreamName, servers: servers,
		out: &table{byName: map[string]*operation{}}}
	r.out.title = web.CleanLine(strings.TrimSpace(root.n.getField("info").getText("title")+" "+
		root.n.getField("info").getText("version")), 200)
	var err error
	if r.out.servers, err = servers.expandServers(root.n.getField("servers"), true); err != nil {
		return nil, err
	}
	if r.out.schemes, err = r.readSchemes(); err != nil {
		return nil, err
	}
	drafts := r.listDrafts()
	nameDrafts(drafts)
	slices.SortStableFunc(drafts, func(a, b *draft) int { return cmp.Compare(a.tag, b.tag) })
	for _, o := range drafts {
		if o.err == nil {
			o.err = r.readOperation(o)
		}
		if o.err != nil {
			r.dropOperation(o)
			continue
		}
		r.out.byName[o.name] = &o.operation
		r.out.tools = append(r.out.tools, o.tool)
	}
	if n := r.out.dropped - len(r.out.broken); n > 0 {
		r.out.broken = append(r.out.broken,
			upstream.Broken{Tool: fmt.Sprintf("%d more", n), Reason: "their operations are invalid, too"})
	}
	return r.out, nil
}

func (r *reader) dropOperation(o *draft) {
	if r.out.dropped++; len(r.out.broken) < maxBroken {
		r.out.broken = append(r.out.broken, upstream.Broken{Tool: web.CleanLine(o.name, 80),
			Reason: web.CleanLine(strings.ToUpper(o.method)+" "+o.operation.path+": "+o.err.Error(), 300)})
	}
}

// listDrafts lists the operations in the order of the document.
func (r *reader) listDrafts() (out []*draft) {
	root := r.doc.rootPlace()
	for _, f := range root.n.getField("paths").fields {
		if !strings.HasPrefix(f.name, "/") {
			continue // an extension
		}
		item, err := r.doc.followRefs(place{root.file, f.value})
		if err != nil || item.n == nil || item.n.kind != mapKind {
			if err == nil {
				err = errors.New("the path item is not a map")
			}
			o := &draft{err: err}
			o.method, o.operation.path = "any", f.name
			out = append(out, o)
			continue
		}
		for _, m := range item.n.fields {
			if !isMethod(m.name) {
				continue
			}
			o := &draft{path: item, n: place{item.file, m.value}, id: m.value.getText("operationId")}
			o.method, o.operation.path = m.name, f.name
			if tags := m.value.getField("tags"); tags != nil && len(tags.list) > 0 {
				o.tag = tags.list[0].text
			}
			switch mark := m.value.getText(brokenMark); {
			case m.value.kind != mapKind:
				o.err = errors.New("the operation is not a map")
			case mark != "":
				o.err = errors.New(mark)
			case len(out) >= maxOperations:
				o.err = fmt.Errorf("the document has more than %d operations", maxOperations)
			}
			out = append(out, o)
		}
	}
	return out
}

// nameDrafts sets the names of the operations: operationId if it is unique, otherwise the method
// and the path. So a name doesn't depend on other operations, unless one has the same operationId.
func nameDrafts(all []*draft) {
	count := map[string]int{ownRequest: 1}
	for _, o := range all {
		count[cleanName(o.id)]++
	}
	taken := map[string]bool{}
	for _, o := range all {
		o.name = cleanName(o.id)
		if o.id == "" || count[o.name] > 1 || o.name == ownRequest {
			o.name = cleanName(o.method + strings.NewReplacer("{", "", "}", "").Replace(o.operation.path))
		}
		if taken[o.name] && o.err == nil {
			o.err = errors.New("another operation has the same name")
		}
		taken[o.name] = true
	}
}

// cleanName returns an identifier that stays readable: other characters become underscores.
func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, s)
	for strings.Contains(s, "__") {
		s = strings.ReplaceAll(s, "__", "_")
	}
	return strings.Trim(s[:min(len(s), maxName)], "_")
}

func (r *reader) readOperation(o *draft) error {
	args := newArguments()
	if err := r.readParameters(o, args); err != nil {
		return err
	}
	if err := r.readBody(o, args); err != nil {
		return err
	}
	own, path := o.n.n.getField("servers"), o.path.n.getField("servers")
	if own == nil {
		own = path
	}
	o.servers = r.out.servers
	if own != nil && !r.servers.isFixed() {
		all, err := r.servers.expandServers(own, false)
		if err != nil {
			return err
		}
		o.servers = all
	}
	if len(o.servers) == 0 {
		return errors.New("it has no server: add server to the configuration")
	}
	o.security = readRequirements(o.n.n.getField("security"))
	if o.n.n.getField("security") == nil {
		o.security = readRequirements(r.doc.rootPlace().n.getField("security"))
	}
	output, err := r.readAnswers(o)
	if err != nil {
		return err
	}
	input, err := args.schemaText(r.schemas)
	if err != nil {
		return err
	}
	if r.size += len(input) + len(output); r.size > maxSchemas {
		return fmt.Errorf("the schemas of all operations have more than %d MiB", maxSchemas>>20)
	}
	o.tool, err = r.makeTool(o, input, output)
	return err
}

// An arguments collects the arguments of an operation.
type arguments struct {
	names    map[string]bool
	props    []byte
	required []string
	refs     []target
}

func newArguments() *arguments { return &arguments{names: map[string]bool{}} }

// addArgument adds an argument, with another name if there is one of that name.
func (a *arguments) addArgument(name, other string, f *fragment, required bool) (string, error) {
	if f.err != nil {
		return "", fmt.Errorf("%s: %w", web.ClipText(name), f.err)
	}
	if a.names[name] {
		name = other
	}
	if a.names[name] {
		return "", fmt.Errorf("there are two parameters %q", web.ClipText(name))
	}
	a.names[name] = true
	if a.props != nil {
		a.props = append(a.props, ',')
	}
	a.props = append(append(appendString(a.props, name), ':'), f.json...)
	if required {
		a.required = append(a.required, name)
	}
	a.refs = append(a.refs, f.refs...)
	return name, nil
}

func (a *arguments) schemaText(s *schemas) ([]byte, error) {
	defs, err := s.collectDefs(a.refs, true, maxInput)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"type":"object","properties":{`), a.props...)
	out = append(out, '}')
	if len(a.required) > 0 {
		out = append(out, `,"required":[`...)
		for i, name := range a.required {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendString(out, name)
		}
		out = append(out, ']')
	}
	out = append(out, `,"additionalProperties":false`...)
	if defs != nil {
		out = append(append(out, `,"$defs":`...), defs...)
	}
	return append(out, '}'), nil
}

// readParameters reads the parameters of the path item and of the operation, which replace those.
func (r *reader) readParameters(o *draft, args *arguments) error {
	var all []place
	seen := map[pair]int{}
	for _, owner := range []place{o.path, o.n} {
		list := owner.n.getField("parameters")
		if list == nil {
			continue
		}
		for _, e := range list.list {
			p, err := r.doc.followRefs(place{owner.file, e})
			if err != nil {
				return err
			}
			key := pair{p.n.getText("name"), p.n.getText("in")}
			if i, ok := seen[key]; ok {
				all[i] = p
				continue
			}
			seen[key] = len(all)
			all = append(all, p)
		}
	}
	for _, at := range all {
		if at.n == nil || at.n.kind != mapKind {
			return errors.New("a parameter is not a map")
		}
		name := at.n.getText("name")
		if at.n.getText("in") == "header" && slices.Contains([]string{"accept", "content-type", "authorization"},
			strings.ToLower(name)) {
			continue // as the specification says
		}
		p, err := newParameter(at.n)
		if err != nil {
			return err
		}
		schema := at.n.getField("schema")
		if content := at.n.getField("content"); p.asJSON && content != nil {
			schema = content.fields[0].value.getField("schema")
		}
		if target, err := r.doc.followRefs(place{at.file, schema}); err == nil {
			typ := target.n.getText("type")
			p.numeric = typ == "integer" || typ == "number"
		}
		f := r.schemas.convertSchema(place{at.file, schema}, true)
		f.json = addDescription(f.json, at.n.getText("description"))
		if p.argument, err = args.addArgument(p.name, p.name+"_"+p.in, f, p.required); err != nil {
			return err
		}
		o.params = append(o.params, p)
	}
	return checkTemplate(o)
}

// addDescription adds a description to a schema without one.
func addDescription(schema []byte, text string) []byte {
	n := web.ClipBytes(text, maxText)
	if n == "" || len(schema) < 2 || schema[0] != '{' || strings.Contains(string(schema), `"description"`) {
		return schema
	}
	out := append(appendString([]byte(`{"description":`), n), schema[1:]...)
	if len(schema) > 2 {
		out = append(append(appendString([]byte(`{"description":`), n), ','), schema[1:]...)
	}
	return out
}

// checkTemplate compares the template of the path with the path parameters.
func checkTemplate(o *draft) error {
	rest := o.operation.path
	for {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			return nil
		}
		name, tail, ok := strings.Cut(after, "}")
		if !ok {
			return errors.New("a brace in its path is not closed")
		}
		if !slices.ContainsFunc(o.params, func(p *parameter) bool { return p.in == "path" && p.name == name }) {
			return fmt.Errorf("its path has {%s}, but there is no such path parameter", web.ClipText(name))
		}
		rest = tail
	}
}

func (r *reader) readBody(o *draft, args *arguments) error {
	at, err := r.doc.getPlace(o.n, "requestBody")
	if err != nil || at.n == nil {
		return err
	}
	content := at.n.getField("content")
	if content == nil || len(content.fields) == 0 {
		return nil
	}
	media := slices.Clone(content.fields)
	slices.SortStableFunc(media, func(a, b field) int { return rankType(a.name) - rankType(b.name) })
	o.body = &body{required: at.n.getField("required").isTrue(), encoding: map[string]*node{}}
	var forms []string
	f := &fragment{}
	for _, m := range media {
		schema := m.value.getField("schema")
		if rankType(m.name) >= 4 && (schema == nil || len(schema.fields) == 0 || schema.getField("type") == nil) {
			schema = newMap(field{"type", newText("string")}, field{"format", newText("binary")})
		}
		one := r.schemas.convertSchema(place{at.file, schema}, true)
		if one.err != nil {
			return fmt.Errorf("its body: %w", one.err)
		}
		o.body.types = append(o.body.types, m.name)
		o.body.encoding[m.name] = m.value.getField("encoding")
		if !slices.Contains(forms, string(one.json)) {
			forms = append(forms, string(one.json))
			f.refs = append(f.refs, one.refs...)
		}
	}
	if f.json = []byte(forms[0]); len(forms) > 1 {
		f.json = []byte(`{"anyOf":[` + strings.Join(forms, ",") + `]}`)
	}
	f.json = addDescription(f.json, at.n.getText("description"))
	if o.body.argument, err = args.addArgument("body", "request_body", f, o.body.required); err != nil {
		return err
	}
	if len(o.body.types) < 2 {
		return nil
	}
	enum := &node{kind: listKind}
	for _, t := range o.body.types {
		enum.list = append(enum.list, newText(t))
	}
	choice := newMap(field{"enum", enum}, field{"description", newText("form of the body; default: " +
		o.body.types[0])})
	_, err = args.addArgument("content_type", "body_content_type", &fragment{json: choice.appendJSON(nil)}, false)
	return err
}

// makeTool makes the tool of an operation, cleaned as those of MCP servers are.
func (r *reader) makeTool(o *draft, input, output []byte) (*tool.Tool, error) {
	summary, long := o.n.n.getText("summary"), o.n.n.getText("description")
	text := strings.TrimSpace(summary)
	if long = strings.TrimSpace(long); long != "" && long != text {
		text = strings.TrimSpace(text + "\n\n" + long)
	}
	where := strings.ToUpper(o.method) + " " + o.operation.path
	if o.tag != "" {
		where += " (" + o.tag + ")"
	}
	if o.n.n.getField("deprecated").isTrue() {
		where = "Deprecated. " + where
	}
	text = strings.TrimSpace(web.ClipBytes(text, maxText) + "\n\n" + where)
	return web.NewTool(r.upstream, o.name, summary, text, annotateMethod(o.method), input, output)
}

// annotateMethod returns the annotations of a method (RFC 9110, section 9.2).
func annotateMethod(method string) tool.Annotations {
	yes, no := true, false
	a := tool.Annotations{ReadOnly: &no, Destructive: &no, Idempotent: &no, OpenWorld: &yes}
	switch strings.ToLower(method) {
	case "get", "head", "options", "trace", "query":
		a.ReadOnly, a.Idempotent = &yes, &yes
	case "put":
		a.Destructive, a.Idempotent = &yes, &yes
	case "delete":
		a.Destructive, a.Idempotent = &yes, &yes
	case "patch":
		a.Destructive = &yes
	}
	return a
}

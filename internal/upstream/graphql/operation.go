package graphql

import (
	"fmt"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// Limits of all tools of an upstream.
const (
	maxOperations = 10_000
	maxName       = 128
	maxBroken     = 100
	maxSchemas    = 128 << 20 // bytes of their schemas
)

// ownQuery is the name of the tool that sends any document.
const ownQuery = "query"

// A table holds the tools that were made of a schema.
type table struct {
	upstream string
	schema   *ast.Schema
	byName   map[string]*operation
	tools    []*tool.Tool
	broken   []upstream.Broken
	dropped  int
	size     int
}

// An operation is a field of the query or mutation type.
type operation struct {
	kind     ast.Operation
	field    *ast.FieldDefinition
	document string
}

// makeTable makes tools of a schema.
func makeTable(upstreamName string, load loader, text []byte) (*table, error) {
	schema, err := loadSchema(load, text)
	if err != nil {
		return nil, err
	}
	t := &table{upstream: upstreamName, schema: schema, byName: map[string]*operation{}}
	own, err := newQueryTool(upstreamName)
	if err != nil {
		return nil, err
	}
	t.addOperations(ast.Query, schema.Query)
	t.addOperations(ast.Mutation, schema.Mutation)
	if n := t.dropped - len(t.broken); n > 0 {
		t.broken = append(t.broken,
			upstream.Broken{Tool: fmt.Sprintf("%d more", n), Reason: "their fields can't be tools, either"})
	}
	t.tools = append(t.tools, own)
	return t, nil
}

func (t *table) addOperations(kind ast.Operation, root *ast.Definition) {
	if root == nil {
		return
	}
	for _, f := range root.Fields {
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		name := f.Name
		if t.byName[name] != nil || name == ownQuery {
			name = string(kind) + "_" + f.Name
		}
		if err := t.addOperation(name, &operation{kind: kind, field: f}); err != nil {
			if t.dropped++; len(t.broken) < maxBroken {
				t.broken = append(t.broken, upstream.Broken{Tool: web.CleanLine(name, 80),
					Reason: web.CleanLine(string(kind)+": "+err.Error(), 300)})
			}
		}
	}
}

// addOperation adds the tool of a field.
func (t *table) addOperation(name string, o *operation) error {
	switch {
	case t.byName[name] != nil:
		return fmt.Errorf("another field has the same name")
	case len(name) > maxName:
		return fmt.Errorf("its name has more than %d characters", maxName)
	case len(t.byName) >= maxOperations:
		return fmt.Errorf("the schema has more than %d fields of queries and mutations", maxOperations)
	}
	input, err := argumentSchema(t.schema, o.field.Arguments)
	if err != nil {
		return err
	}
	chosen := selectFields(t.schema, o.field)
	result := &jsonSchema{Type: "object", Properties: &properties{}, Required: []string{o.field.Name}}
	result.Properties.addProperty(o.field.Name, chosen.outputSchema())
	output, err := tool.Marshal(result)
	if err != nil {
		return err
	}
	if t.size += len(input) + len(output); t.size > maxSchemas {
		return fmt.Errorf("the types of all fields have more than %d MiB", maxSchemas>>20)
	}
	o.document = o.writeDocument(chosen)
	made, err := web.NewTool(t.upstream, name, "", o.describeTool(), annotateKind(o.kind), input, output)
	if err != nil {
		return err
	}
	t.byName[name] = o
	t.tools = append(t.tools, made)
	return nil
}

// writeDocument returns the document of an operation, which has a variable for each argument.
func (o *operation) writeDocument(chosen *selected) string {
	var b strings.Builder
	b.WriteString(string(o.kind))
	var variables, arguments []string
	for _, a := range o.field.Arguments {
		declared := "$" + a.Name + ": " + a.Type.String()
		if a.DefaultValue != nil { // without a value, the server's default counts
			declared = strings.TrimSuffix(declared, "!")
		}
		variables, arguments = append(variables, declared), append(arguments, a.Name+": $"+a.Name)
	}
	if len(variables) > 0 {
		b.WriteString("(" + strings.Join(variables, ", ") + ")")
	}
	b.WriteString(" { " + o.field.Name)
	if len(arguments) > 0 {
		b.WriteString("(" + strings.Join(arguments, ", ") + ")")
	}
	chosen.appendText(&b)
	b.WriteString(" }")
	return b.String()
}

func (o *operation) describeTool() string {
	text := web.ClipBytes(strings.TrimSpace(o.field.Description), maxText)
	where := fmt.Sprintf("GraphQL %s %s: %s", o.kind, o.field.Name, o.field.Type)
	if o.field.Directives.ForName("deprecated") != nil {
		where = "Deprecated. " + where
	}
	return strings.TrimSpace(text + "\n\n" + where)
}

// annotateKind returns the annotations of queries, or of mutations, which may do anything.
func annotateKind(kind ast.Operation) tool.Annotations {
	yes, no := true, false
	if kind == ast.Query {
		return tool.Annotations{ReadOnly: &yes, Destructive: &no, Idempotent: &yes, OpenWorld: &yes}
	}
	return tool.Annotations{ReadOnly: &no, Destructive: &yes, Idempotent: &no, OpenWorld: &yes}
}

// newQueryTool returns the tool that sends any document. It counts as a mutation unless the
// document of a call is a query.
func newQueryTool(upstreamName string) (*tool.Tool, error) {
	t, err := web.NewTool(upstreamName, ownQuery, "Send a GraphQL document",
		"Sends one query or mutation, and returns its data. Use it for fields and arguments that the other tools of "+
			"this upstream don't select. Introspection is allowed: { __type(name: \"Product\") { fields { name } } }. "+
			"A mutation counts as a write.",
		annotateKind(ast.Mutation), []byte(`{"type":"object","properties":{"query":{"type":"string","description":`+
			`"GraphQL document with one operation"},"variables":{"type":"object"}},"required":["query"],`+
			`"additionalProperties":false}`), nil)
	if err == nil {
		t.Judge = documentJudge{}
	}
	return t, err
}

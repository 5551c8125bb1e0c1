package graphql

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// Limits of a schema. The validator's time grows with the square of a type's fields, and with the
// interfaces that it implements.
const (
	maxSchema   = 32 << 20 // bytes of its text
	maxTokens   = 2_000_000
	maxTypes    = 20_000
	maxEffort   = 1_000_000_000
	maxTypeNest = 20 // lists in lists
)

// A loader parses the text of a schema.
type loader func(text []byte) (*ast.SchemaDocument, error)

// loadSchema parses and validates a schema.
func loadSchema(load loader, text []byte) (s *ast.Schema, err error) {
	defer func() { // the text is not trusted, and the library may fail in ways that it doesn't report
		if e := recover(); e != nil {
			s, err = nil, fmt.Errorf("the schema can't be read: %s", web.ClipText(fmt.Sprint(e)))
		}
	}()
	doc, err := load(text)
	if err != nil {
		return nil, fmt.Errorf("the schema is invalid: %w", err)
	}
	if err := checkEffort(doc); err != nil {
		return nil, err
	}
	removeDuplicates(doc)
	prelude := validator.PreludeDocument()
	prelude.Merge(doc)
	if s, err = validator.ValidateSchemaDocument(prelude); err != nil {
		return nil, fmt.Errorf("the schema is invalid: %w", err)
	}
	if s.Query == nil {
		return nil, errors.New("the schema has no query type")
	}
	return s, nil
}

// checkEffort estimates the time that validation needs.
func checkEffort(doc *ast.SchemaDocument) error {
	all := slices.Concat(doc.Definitions, doc.Extensions)
	if len(all) > maxTypes {
		return fmt.Errorf("the schema has more than %d types", maxTypes)
	}
	effort := 0
	size := map[string]int{} // by type, with its extensions
	interfaces := map[string]int{}
	for _, d := range all {
		n := len(d.Fields) + len(d.EnumValues) + len(d.Types)
		for _, f := range d.Fields {
			effort += len(f.Arguments) * len(f.Arguments)
		}
		size[d.Name] += n
		interfaces[d.Name] += len(d.Interfaces)
	}
	for name, n := range size {
		if effort += n * n * (1 + interfaces[name]); effort > maxEffort || effort < 0 {
			return fmt.Errorf("the schema is too complex: its type %s has %d fields and %d interfaces",
				web.ClipText(name), n, interfaces[name])
		}
	}
	return nil
}

// removeDuplicates removes fields that a type has twice, as published schemas have had.
func removeDuplicates(doc *ast.SchemaDocument) {
	for _, d := range slices.Concat(doc.Definitions, doc.Extensions) {
		seen := map[string]bool{}
		d.Fields = slices.DeleteFunc(d.Fields, func(f *ast.FieldDefinition) bool {
			again := seen[f.Name]
			seen[f.Name] = true
			return again
		})
	}
}

// parseSDL parses a schema in GraphQL's schema language. Directives that only mean something to the
// server are removed, since their definitions are often missing.
func parseSDL(text []byte) (*ast.SchemaDocument, error) {
	doc, err := parser.ParseSchemasWithLimit(maxTokens, &ast.Source{Name: "schema", Input: string(text)})
	if err != nil {
		return nil, err
	}
	for _, s := range slices.Concat(doc.Schema, doc.SchemaExtension) {
		s.Directives = nil
	}
	for _, d := range slices.Concat(doc.Definitions, doc.Extensions) {
		d.Directives = keepKnown(d.Directives)
		for _, f := range d.Fields {
			f.Directives = keepKnown(f.Directives)
			for _, a := range f.Arguments {
				a.Directives = keepKnown(a.Directives)
			}
		}
		for _, v := range d.EnumValues {
			v.Directives = keepKnown(v.Directives)
		}
	}
	doc.DirectiveExtensions = nil
	doc.Directives = slices.DeleteFunc(doc.Directives, func(d *ast.DirectiveDefinition) bool {
		return !isForQueries(d.Locations)
	})
	for _, d := range doc.Directives {
		d.Directives = nil
		for _, a := range d.Arguments {
			a.Directives = nil
		}
	}
	return doc, nil
}

func keepKnown(all ast.DirectiveList) ast.DirectiveList {
	return slices.DeleteFunc(all, func(d *ast.Directive) bool {
		return !slices.Contains([]string{"deprecated", "oneOf", "specifiedBy"}, d.Name)
	})
}

// isForQueries reports whether a directive may be used in the documents of programs.
func isForQueries(all []ast.DirectiveLocation) bool {
	return slices.ContainsFunc(all, func(l ast.DirectiveLocation) bool {
		return slices.Contains([]ast.DirectiveLocation{ast.LocationQuery, ast.LocationMutation, ast.LocationField,
			ast.LocationFragmentDefinition, ast.LocationFragmentSpread, ast.LocationInlineFragment}, l)
	})
}

// introspection asks for a schema in the form that all revisions of the specification have.
const introspection = `query IntrospectionQuery {
  __schema {
    queryType { name } mutationType { name } subscriptionType { name }
    types { ...FullType }
    directives { name locations args { ...InputValue } }
  }
}
fragment FullType on __Type {
  kind name description
  fields(includeDeprecated: true) {
    name description args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason
  }
  inputFields { ...InputValue }
  interfaces { ...TypeRef }
  enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
  possibleTypes { ...TypeRef }
}
fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
fragment TypeRef on __Type {
  kind name
  ofType { kind name ofType { kind name ofType { kind name ofType { kind name
    ofType { kind name ofType { kind name ofType { kind name } } } } } } }
}`

// The types below describe an answer to the introspection query.
type (
	seenSchema struct {
		Query        *seenName       `json:"queryType"`
		Mutation     *seenName       `json:"mutationType"`
		Subscription *seenName       `json:"subscriptionType"`
		Types        []seenType      `json:"types"`
		Directives   []seenDirective `json:"directives"`
	}
	seenName struct {
		Name string `json:"name"`
	}
	seenType struct {
		Kind          ast.DefinitionKind `json:"kind"`
		Name          string             `json:"name"`
		Description   string             `json:"description"`
		Fields        []seenField        `json:"fields"`
		InputFields   []seenInput        `json:"inputFields"`
		Interfaces    []seenName         `json:"interfaces"`
		EnumValues    []seenField        `json:"enumValues"`
		PossibleTypes []seenName         `json:"possibleTypes"`
	}
	seenField struct {
		Name        string      `json:"name"`
		Description string      `json:"description"`
		Args        []seenInput `json:"args"`
		Type        *seenRef    `json:"type"`
		Deprecated  bool        `json:"isDeprecated"`
		Reason      string      `json:"deprecationReason"`
	}
	seenInput struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Type        *seenRef `json:"type"`
		Default     *string  `json:"defaultValue"`
	}
	seenRef struct {
		Kind   string   `json:"kind"`
		Name   string   `json:"name"`
		OfType *seenRef `json:"ofType"`
	}
	seenDirective struct {
		Name      string                  `json:"name"`
		Locations []ast.DirectiveLocation `json:"locations"`
		Args      []seenInput             `json:"args"`
	}
)

// parseIntrospection converts an answer to the introspection query.
func parseIntrospection(text []byte) (*ast.SchemaDocument, error) {
	var in struct {
		Schema *seenSchema `json:"__schema"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	if in.Schema == nil || len(in.Schema.Types) == 0 {
		return nil, errors.New("the server's answer has no __schema")
	}
	doc := &ast.SchemaDocument{Schema: ast.SchemaDefinitionList{in.Schema.convertRoots()}}
	for i := range in.Schema.Types {
		d, err := in.Schema.Types[i].convertType()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", web.ClipText(in.Schema.Types[i].Name), err)
		}
		if d != nil {
			doc.Definitions = append(doc.Definitions, d)
		}
	}
	for _, d := range in.Schema.Directives {
		if !isForQueries(d.Locations) || slices.Contains([]string{"skip", "include", "defer"}, d.Name) {
			continue
		}
		args, err := convertInputs(d.Args)
		if err != nil {
			continue // documents can't use this directive
		}
		doc.Directives = append(doc.Directives, &ast.DirectiveDefinition{Name: d.Name, Locations: d.Locations,
			Arguments: args, Position: newPosition()})
	}
	return doc, nil
}

// newPosition returns the position of definitions that are in no text.
func newPosition() *ast.Position { return &ast.Position{Src: &ast.Source{Name: "schema"}} }

func (s *seenSchema) convertRoots() *ast.SchemaDefinition {
	out := &ast.SchemaDefinition{Position: newPosition()}
	add := func(op ast.Operation, n *seenName) {
		if n != nil && n.Name != "" {
			out.OperationTypes = append(out.OperationTypes, &ast.OperationTypeDefinition{Operation: op, Type: n.Name,
				Position: newPosition()})
		}
	}
	add(ast.Query, s.Query)
	add(ast.Mutation, s.Mutation)
	add(ast.Subscription, s.Subscription)
	return out
}

// convertType converts a type. It returns nil for types that every schema has.
func (t *seenType) convertType() (*ast.Definition, error) {
	if len(t.Name) > 1 && t.Name[:2] == "__" ||
		slices.Contains([]string{"String", "Int", "Float", "Boolean", "ID"}, t.Name) {
		return nil, nil
	}
	d := &ast.Definition{Kind: t.Kind, Name: t.Name, Description: t.Description, Position: newPosition()}
	if t.Kind == ast.Object || t.Kind == ast.Interface {
		for _, i := range t.Interfaces {
			d.Interfaces = append(d.Interfaces, i.Name)
		}
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		typ, err := f.Type.convertRef(0)
		if err != nil {
			return nil, err
		}
		args, err := convertInputs(f.Args)
		if err != nil {
			return nil, err
		}
		d.Fields = append(d.Fields, &ast.FieldDefinition{Name: f.Name, Description: f.Description, Arguments: args,
			Type: typ, Directives: f.convertDeprecation(), Position: newPosition()})
	}
	if t.Kind == ast.InputObject {
		args, err := convertInputs(t.InputFields)
		if err != nil {
			return nil, err
		}
		for _, a := range args {
			d.Fields = append(d.Fields, &ast.FieldDefinition{Name: a.Name, Description: a.Description, Type: a.Type,
				DefaultValue: a.DefaultValue, Position: newPosition()})
		}
	}
	for i := range t.EnumValues {
		v := &t.EnumValues[i]
		d.EnumValues = append(d.EnumValues, &ast.EnumValueDefinition{Name: v.Name, Description: v.Description,
			Directives: v.convertDeprecation(), Position: newPosition()})
	}
	if t.Kind == ast.Union {
		for _, p := range t.PossibleTypes {
			d.Types = append(d.Types, p.Name)
		}
	}
	return d, nil
}

func (f *seenField) convertDeprecation() ast.DirectiveList {
	if !f.Deprecated {
		return nil
	}
	return ast.DirectiveList{{Name: "deprecated", Position: newPosition()}}
}

func convertInputs(all []seenInput) (ast.ArgumentDefinitionList, error) {
	var out ast.ArgumentDefinitionList
	for i := range all {
		typ, err := all[i].Type.convertRef(0)
		if err != nil {
			return nil, err
		}
		out = append(out, &ast.ArgumentDefinition{Name: all[i].Name, Description: all[i].Description, Type: typ,
			DefaultValue: parseDefault(all[i].Default), Position: newPosition()})
	}
	return out, nil
}

// parseDefault parses the literal of a default value. One that can't be parsed counts as null.
func parseDefault(literal *string) *ast.Value {
	if literal == nil {
		return nil
	}
	null := &ast.Value{Kind: ast.NullValue, Raw: "null", Position: newPosition()}
	if len(*literal) > 10_000 {
		return null
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: "{f(a:" + *literal + ")}"}, 1000)
	if err != nil || len(doc.Operations) != 1 || len(doc.Operations[0].SelectionSet) != 1 {
		return null
	}
	f, ok := doc.Operations[0].SelectionSet[0].(*ast.Field)
	if !ok || len(f.Arguments) != 1 {
		return null
	}
	return f.Arguments[0].Value
}

func (r *seenRef) convertRef(depth int) (*ast.Type, error) {
	if r == nil || depth > maxTypeNest {
		return nil, errors.New("a type is missing or nested too deeply")
	}
	switch r.Kind {
	case "NON_NULL":
		t, err := r.OfType.convertRef(depth + 1)
		if err != nil {
			return nil, err
		}
		t.NonNull = true
		return t, nil
	case "LIST":
		t, err := r.OfType.convertRef(depth + 1)
		return ast.ListType(t, newPosition()), err
	}
	if r.Name == "" {
		return nil, errors.New("a type has no name")
	}
	return ast.NamedType(r.Name, newPosition()), nil
}

package graphql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// Limits of the document of a program.
const (
	maxDocument       = 64 << 10 // bytes
	maxDocumentTokens = 10_000
	maxDocumentDepth  = 25
	maxDocumentFields = 1000 // after fragments are expanded, aliases included
)

// A request is the body of a request (GraphQL over HTTP).
type request struct {
	Query     string          `json:"query"`
	Variables json.RawMessage `json:"variables,omitempty"`
}

// A preparedRequest is a request that may be sent.
type preparedRequest struct {
	request
	reads bool
}

// buildRequest returns the request of a call, after it was validated.
func (t *table) buildRequest(c *tool.Call) (*preparedRequest, error) {
	if c.Tool.Name == ownQuery {
		return t.buildQuery(c.Arguments)
	}
	o := t.byName[c.Tool.Name]
	if o == nil {
		return nil, tool.Errorf(tool.NotFound, "the schema has no such field")
	}
	args, err := parseArguments(c.Arguments)
	if err != nil {
		return nil, err
	}
	for _, a := range o.field.Arguments {
		if _, ok := args[a.Name]; !ok && isRequired(a) {
			return nil, tool.Errorf(tool.Invalid, "the argument %q is missing", a.Name)
		}
	}
	for name := range args {
		if o.field.Arguments.ForName(name) == nil {
			return nil, tool.Errorf(tool.Invalid, "the field has no argument %q", web.ClipText(name))
		}
	}
	return &preparedRequest{request{o.document, c.Arguments}, o.kind == ast.Query}, nil
}

// parseArguments parses the one JSON object that arguments are.
func parseArguments(raw []byte) (map[string]json.RawMessage, error) {
	var out map[string]json.RawMessage
	if len(bytes.TrimSpace(raw)) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, tool.Errorf(tool.Invalid, "the arguments must be a JSON object: %w", err)
	}
	return out, nil
}

// buildQuery returns the request of the tool query, whose document is validated against the schema.
func (t *table) buildQuery(arguments []byte) (q *preparedRequest, err error) {
	defer func() { // documents are not trusted, and the library may fail in ways that it doesn't report
		if e := recover(); e != nil {
			q, err = nil, tool.Errorf(tool.Invalid, "query: it can't be validated: %s", web.ClipText(fmt.Sprint(e)))
		}
	}()
	in, doc, err := parseQuery(arguments)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "query: %w", err)
	}
	if errs := validator.ValidateWithRules(t.schema, doc, rules.NewDefaultRules()); len(errs) > 0 {
		e := errs[0]
		at := ""
		if len(e.Locations) > 0 {
			at = fmt.Sprintf(" (line %d, column %d)", e.Locations[0].Line, e.Locations[0].Column)
		}
		return nil, tool.Errorf(tool.Invalid, "query: %s%s", web.CleanLine(e.Message, 500), at)
	}
	var variables jsonvalue.Object
	if len(in.Variables) > 0 {
		d := json.NewDecoder(bytes.NewReader(in.Variables))
		d.UseNumber()
		if err := d.Decode(&variables); err != nil {
			return nil, tool.Errorf(tool.Invalid, "variables must be an object: %w", err)
		}
	}
	op := doc.Operations[0]
	if _, err := validator.VariableValues(t.schema, op, variables); err != nil {
		return nil, tool.Errorf(tool.Invalid, "variables: %s", web.CleanLine(err.Error(), 500))
	}
	return &preparedRequest{*in, op.Operation == ast.Query}, nil
}

// parseQuery parses the arguments of the tool query. It is the only reading of them: what is judged
// is what is sent.
func parseQuery(arguments []byte) (*request, *ast.QueryDocument, error) {
	args, err := parseArguments(arguments)
	if err != nil {
		return nil, nil, err
	}
	in := &request{Variables: args["variables"]}
	if err := json.Unmarshal(args["query"], &in.Query); err != nil {
		return nil, nil, errors.New("it must be a text")
	}
	if len(in.Query) > maxDocument {
		return nil, nil, fmt.Errorf("it has %d bytes: at most %d KiB can be sent", len(in.Query), maxDocument>>10)
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: in.Query}, maxDocumentTokens)
	switch {
	case err != nil:
		return nil, nil, errors.New(web.CleanLine(err.Error(), 500))
	case len(doc.Operations) != 1:
		return nil, nil, fmt.Errorf("it has %d operations: send one at a time", len(doc.Operations))
	case doc.Operations[0].Operation == ast.Subscription:
		return nil, nil, errors.New("subscriptions are not supported: send a query")
	}
	return in, doc, checkSize(doc)
}

// A documentJudge judges calls of the tool query.
type documentJudge struct{}

// OnlyReads reports whether the document of a call is a query.
func (documentJudge) OnlyReads(arguments json.RawMessage) bool {
	_, doc, err := parseQuery(arguments)
	return err == nil && doc.Operations[0].Operation == ast.Query
}

// RenamesFields reports whether the document of a call has aliases.
func (documentJudge) RenamesFields(arguments json.RawMessage) bool {
	_, doc, err := parseQuery(arguments)
	if err != nil {
		return false // it is not sent
	}
	return hasAlias(doc.Operations[0].SelectionSet) ||
		slices.ContainsFunc(doc.Fragments, func(f *ast.FragmentDefinition) bool { return hasAlias(f.SelectionSet) })
}

// hasAlias reports whether a selection has a field under another name. The selections of fragments
// that it spreads don't count.
func hasAlias(set ast.SelectionSet) bool {
	return slices.ContainsFunc(set, func(s ast.Selection) bool {
		switch s := s.(type) {
		case *ast.Field:
			return s.Alias != "" && s.Alias != s.Name || hasAlias(s.SelectionSet)
		case *ast.InlineFragment:
			return hasAlias(s.SelectionSet)
		}
		return false
	})
}

// An extent is the size of a selection after its fragments are expanded.
type extent struct{ fields, depth int }

// A measurer measures selections. Each fragment is measured once.
type measurer struct {
	doc       *ast.QueryDocument
	fragments map[string]extent
	open      map[string]bool // being measured
}

// checkSize returns an error if a document is too large after its fragments are expanded.
func checkSize(doc *ast.QueryDocument) error {
	m := &measurer{doc: doc, fragments: map[string]extent{}, open: map[string]bool{}}
	e, err := m.measureSet(doc.Operations[0].SelectionSet)
	for _, f := range doc.Fragments { // unused ones are validated, too
		if err == nil {
			var one extent
			one, err = m.measureFragment(f.Name)
			e.fields, e.depth = max(e.fields, one.fields), max(e.depth, one.depth)
		}
	}
	switch {
	case err != nil:
		return err
	case e.fields > maxDocumentFields:
		return fmt.Errorf("it selects more than %d fields, fragments expanded: send less at a time", maxDocumentFields)
	case e.depth > maxDocumentDepth:
		return fmt.Errorf("it is nested %d levels deep: at most %d are sent", e.depth, maxDocumentDepth)
	}
	return nil
}

func (m *measurer) measureSet(set ast.SelectionSet) (out extent, err error) {
	for _, s := range set {
		var e extent
		switch s := s.(type) {
		case *ast.Field:
			e, err = m.measureSet(s.SelectionSet)
			e.fields, e.depth = e.fields+1, e.depth+1
		case *ast.InlineFragment:
			e, err = m.measureSet(s.SelectionSet)
			e.depth++
		case *ast.FragmentSpread:
			e, err = m.measureFragment(s.Name)
			e.fields++ // so that empty ones count
		}
		if err != nil {
			return out, err
		}
		out.fields = min(out.fields+e.fields, 1<<30)
		out.depth = max(out.depth, e.depth)
	}
	return out, nil
}

func (m *measurer) measureFragment(name string) (extent, error) {
	if e, ok := m.fragments[name]; ok {
		return e, nil
	}
	if m.open[name] {
		return extent{}, fmt.Errorf("the fragment %s contains itself", web.ClipText(name))
	}
	f := m.doc.Fragments.ForName(name)
	if f == nil {
		return extent{}, nil // the validator reports it
	}
	m.open[name] = true
	defer delete(m.open, name)
	e, err := m.measureSet(f.SelectionSet)
	if err == nil {
		m.fragments[name] = e
	}
	return e, err
}

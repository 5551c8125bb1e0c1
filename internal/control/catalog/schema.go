package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/third_party/jsonschema"
)

// Limits on untrusted input.
const (
	maxArguments     = 16 << 20  // size of the arguments of one call, in bytes
	maxArgumentCount = 1_000_000 // values in them: a million take about a second to decode and check
	maxArgumentDepth = 128
	maxSchema        = 1 << 20 // size of one schema, in bytes
	maxSchemaDepth   = 128
	maxSchemaNodes   = 20_000  // objects, arrays and values in one schema
	stepsAtLeast     = 100_000 // subschemas that one validation may apply,
	stepsPerValue    = 50      // plus for each value in the arguments,
	bytesPerStep     = 8       // plus one for this many bytes of them
)

// An argumentSchema is the JSON Schema of one tool's arguments, compiled on first use.
type argumentSchema struct {
	once     sync.Once
	compiled *jsonschema.Schema
	err      error

	read     sync.Once
	defaults *defaults // nil: none
	declared []string  // see declaredArguments
}

// validate checks the arguments of a call of t.
func (s *argumentSchema) validate(t *tool.Tool, args json.RawMessage) error {
	value, n, err := decodeArguments(args)
	if err != nil {
		return tool.Errorf(tool.Invalid, "wrong arguments for %s: %w", toolName(t), err)
	}
	s.prepare(t)
	if s.err != nil {
		return &tool.Error{Kind: tool.Invalid, Err: s.err, Msg: fmt.Sprintf(
			"%s can't be called: its input schema is broken (%s); this is to be mended at upstream %q",
			toolName(t), oneLine(s.err.Error(), 240), t.Upstream)}
	}
	steps := stepsAtLeast + n*stepsPerValue + len(args)/bytesPerStep
	err = s.run(value, steps)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonschema.ErrSteps):
		return &tool.Error{Kind: tool.Limit, Err: err, Unsent: true, Msg: fmt.Sprintf(
			"%s was not called: to check its arguments against its input schema takes more than %d steps: pass fewer "+
				"or smaller values at a time, in several calls",
			toolName(t), steps)}
	case errors.Is(err, jsonschema.ErrUnexplained):
		return &tool.Error{Kind: tool.Invalid, Err: err, Msg: fmt.Sprintf(
			"wrong arguments for %s: they don't match its input schema, and to find out where takes more than %d "+
				"steps: pass fewer or smaller values at a time to see it",
			toolName(t), steps)}
	case errors.As(err, &invalid):
		return &tool.Error{Kind: tool.Invalid, Msg: explain(t, s.compiled, value, invalid), Err: err}
	}
	return tool.Errorf(tool.Invalid, "%s: the arguments can't be checked against its input schema: %w",
		toolName(t), err)
}

// prepare compiles t's schema, once.
func (s *argumentSchema) prepare(t *tool.Tool) {
	s.once.Do(func() { s.compiled, s.err = compileSchema(t.InputSchema, t.Upstream == tool.Own && t.Raw == nil) })
}

// look reads the parts of t's schema that are needed besides validation, once.
func (s *argumentSchema) look(t *tool.Tool) *argumentSchema {
	s.read.Do(func() {
		if len(t.InputSchema) <= maxSchema {
			left := maxDefaults
			s.defaults, s.declared = readDefaults(t.InputSchema, 0, &left), declaredArguments(t.InputSchema)
		}
	})
	return s
}

// run validates a value in at most steps steps. Validations with one schema may run concurrently.
func (s *argumentSchema) run(value any, steps int) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return s.compiled.ValidateWithin(value, steps)
}

const schemaURL = "urn:biplane:schema"

// compileSchema compiles a schema: JSON Schema 2020-12, or the draft named by $schema. Schemas
// without $schema that are invalid in 2020-12 are tried as older drafts, which many servers write.
// Nothing is ever loaded. Biplane's own schemas are known to be valid: for these the metaschema
// isn't compiled, which takes longer than everything else that a small program needs.
func compileSchema(raw json.RawMessage, ours bool) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(raw), maxSchema)
	}
	d := decoder{depth: maxSchemaDepth, nodes: maxSchemaNodes}
	doc, err := d.decode(raw)
	if err != nil {
		return nil, err
	}
	drafts := []*jsonschema.Draft{jsonschema.Draft2020, jsonschema.Draft7, jsonschema.Draft4}
	if obj, ok := jsonvalue.AsObject(doc); ok {
		if uri, ok := obj["$schema"].(string); ok && knownDraft(uri) {
			drafts = drafts[:1]
		} else {
			delete(obj, "$schema") // an unknown dialect: check what can be checked
		}
	}
	for _, draft := range drafts {
		c := jsonschema.NewCompiler()
		c.DefaultDraft(draft)
		c.UseLoader(noLoader{})
		c.UseRegexpEngine(compileRegexp)
		if ours {
			c.TrustSchemas()
		}
		if e := c.AddResource(schemaURL, doc); e != nil {
			return nil, e
		}
		compiled, e := c.Compile(schemaURL)
		if e == nil {
			ignoreFormats(compiled)
			return compiled, nil
		}
		if err == nil {
			err = e
		}
	}
	return nil, err
}

var draftURI = lazily.Regexp(`^https?://json-schema\.org/(draft-0[467]|draft/20(19-09|20-12))/schema#?$`)

func knownDraft(uri string) bool { return draftURI.Get().MatchString(uri) }

// noLoader rejects every URL: references must stay inside the schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %s: references outside of the schema are not followed", cut(url, 120))
}

// compileRegexp compiles a pattern. Patterns that RE2 doesn't support (look-around, back
// references) match everything: the upstream checks them itself, and an engine that supports them
// can take exponential time.
func compileRegexp(s string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return matchAll(s), nil
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return matchAll(s), nil
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return matchAll(s), nil
	}
	return pattern{re, len(program.Inst)}, nil
}

// A pattern is a regular expression whose matching counts against the steps of a validation.
type pattern struct {
	*regexp.Regexp
	size int
}

// ProgramSize returns the number of its instructions.
func (p pattern) ProgramSize() int { return p.size }

type matchAll string

func (a matchAll) String() string        { return string(a) }
func (matchAll) MatchString(string) bool { return true }

// ignoreFormats removes the formats of all schemas reachable from c. They are annotations (JSON
// Schema 2020-12, 7.2.1): upstreams disagree on what they allow.
func ignoreFormats(c *jsonschema.Schema) {
	seen, todo := map[*jsonschema.Schema]bool{}, []*jsonschema.Schema{c}
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if c == nil || seen[c] {
			continue
		}
		seen[c] = true
		c.Format = nil
		todo = append(todo, c.Ref, c.RecursiveRef, c.Not, c.If, c.Then, c.Else, c.PropertyNames,
			c.UnevaluatedProperties,
			c.Contains, c.Items2020, c.UnevaluatedItems, c.ContentSchema)
		if c.DynamicRef != nil {
			todo = append(todo, c.DynamicRef.Ref)
		}
		for _, list := range [...][]*jsonschema.Schema{c.AllOf, c.AnyOf, c.OneOf, c.PrefixItems} {
			todo = append(todo, list...)
		}
		for _, m := range [...]map[string]*jsonschema.Schema{c.Properties, c.DependentSchemas} {
			for _, p := range m {
				todo = append(todo, p)
			}
		}
		for _, p := range c.PatternProperties {
			todo = append(todo, p)
		}
		for _, p := range c.Dependencies {
			todo = appendSchemas(todo, p)
		}
		for _, p := range [...]any{c.AdditionalProperties, c.Items, c.AdditionalItems} {
			todo = appendSchemas(todo, p)
		}
	}
}

// appendSchemas appends v if it is a schema or a list of schemas.
func appendSchemas(list []*jsonschema.Schema, v any) []*jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return append(list, v)
	case []*jsonschema.Schema:
		return append(list, v...)
	}
	return list
}

// toolName returns the exact path of a tool on one line, for messages.
func toolName(t *tool.Tool) string { return oneLine(t.Path(), 160) }

package typegen

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/third_party/jsonschema"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A validator validates values against one schema.
type validator struct{ schema *jsonschema.Schema }

// noLoader rejects all references to files and addresses outside the schema.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("schemas outside of the tool's own are not fetched")
}

// knownDrafts are the values of $schema that the validator supports. Others are read as 2020-12.
var knownDrafts = lazily.Words(`http://json-schema.org/draft-04/schema http://json-schema.org/draft-06/schema
	http://json-schema.org/draft-07/schema https://json-schema.org/draft/2019-09/schema
	https://json-schema.org/draft/2020-12/schema`)

// compileSchema returns a validator for a schema; formats enables validation of "format". A schema
// without $schema is read as 2020-12, or as draft-07 if that fails.
func compileSchema(root *node, formats bool) (*validator, error) {
	if s := root.str("$schema"); s != "" && !knownDrafts.Has(strings.TrimSuffix(s, "#")) {
		root = drop(root, "$schema")
	}
	v, err := compileAs(jsonschema.Draft2020, root, formats)
	if err != nil && root.get("$schema") == nil {
		if old, e := compileAs(jsonschema.Draft7, root, formats); e == nil {
			return old, nil
		}
	}
	return v, err
}

func compileAs(draft *jsonschema.Draft, root *node, formats bool) (*validator, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(root.appendJSON(nil)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(func(p string) (jsonschema.Regexp, error) {
		re, err := compileRegexp(p)
		if err != nil {
			return noRegexp(p), nil // an unsupported pattern rejects only the values that it applies to
		}
		return re, nil
	})
	if formats {
		c.AssertFormat()
	}
	const url = "tool:///schema.json"
	if err := c.AddResource(url, doc); err != nil {
		return nil, shortError(err)
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, shortError(err)
	}
	return &validator{s}, nil
}

// A noRegexp is an unsupported pattern. It matches nothing.
type noRegexp string

func (p noRegexp) String() string        { return string(p) }
func (noRegexp) MatchString(string) bool { return false }

func drop(n *node, key string) *node {
	out := &node{kind: jObject}
	for i, k := range n.keys {
		if k != key {
			out.keys, out.vals = append(out.keys, k), append(out.vals, n.vals[i])
		}
	}
	return out
}

// check validates v.
func (v *validator) check(n *node) error {
	val, err := jsonschema.UnmarshalJSON(bytes.NewReader(n.appendJSON(nil)))
	if err != nil {
		return err
	}
	if err := v.schema.Validate(val); err != nil {
		return shortError(err)
	}
	return nil
}

// shortError returns the first cause of a validator's error on one line.
func shortError(err error) error {
	var broken *jsonschema.SchemaValidationError
	if errors.As(err, &broken) {
		return fmt.Errorf("the schema itself is wrong: %w", shortError(broken.Err))
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return errors.New(oneLine(err.Error(), 200))
	}
	first := ""
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, c := range e.Causes {
			walk(c)
		}
		if len(e.Causes) == 0 {
			s := "/" + strings.Join(e.InstanceLocation, "/") + ": " + e.ErrorKind.LocalizedString(nil)
			if first == "" || s < first { // the validator iterates over maps: its own order is random
				first = s
			}
		}
	}
	walk(ve)
	return errors.New(oneLine(first, 200))
}

// exampleCall returns a call of a tool with arguments that validate. If none were found, it returns
// the closest with a comment that says why it isn't checked. It returns "" if there is no example,
// or only a long one.
func exampleCall(t *tool.Tool, n Names) string {
	if takesNothing(t.InputSchema) {
		return "await " + n.path() + "()"
	}
	v, err := exampleValue(t.InputSchema)
	if v == nil || v.kind != jObject {
		return ""
	}
	call := "await " + n.path() + "(" + literalText(v) + ")"
	if err != nil {
		call += " // not checked against the schema: " + oneLine(err.Error(), 120)
	}
	if len(call) > 4_000 {
		return ""
	}
	return call
}

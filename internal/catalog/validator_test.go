package catalog

import (
	"slices"
	"strings"
	"sync"
	"testing"

	lazy "github.com/biplane-dev/biplane/third_party/jsonschema"
	original "github.com/santhosh-tekuri/jsonschema/v6"
)

// TestValidatorIsTheOriginal holds the copy of the validator in third_party, which compiles the metaschemas when they are first
// needed, to the module that it is made of, for every draft and from several goroutines at once.
func TestValidatorIsTheOriginal(t *testing.T) {
	drafts := []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema", "https://example.com/unknown"}
	bodies := []string{`"type":"object","properties":{"a":{"minimum":3}},"required":["a"]`, `"type":"strin"`, `"properties":[]`, `"minLength":-1`,
		`"$ref":"#/definitions/a","definitions":{"a":{"type":"object"}}`, `"items":[{"type":"integer"}]`, `"prefixItems":{}`, `"$defs":{"a":1}`,
		`"unevaluatedProperties":1`, `"contentSchema":1`, `"format":1`, `"$vocabulary":1`, `"properties":{"a":{"$ref":"DRAFT"}}`}
	var all sync.WaitGroup
	for _, draft := range drafts {
		for _, body := range bodies {
			text := `{"$schema":"` + draft + `",` + strings.ReplaceAll(body, "DRAFT", draft) + `}`
			all.Go(func() {
				for _, value := range []string{`{"a":1}`, `{"a":{"type":"strin"}}`, `{}`, `[1,"x"]`} {
					if got, want := withLazy(text, value), withOriginal(text, value); got != want {
						t.Errorf("%s for %s: %q, the original says %q", text, value, got, want)
					}
				}
			})
		}
	}
	all.Wait()
}

func withLazy(text, value string) string {
	doc, _ := lazy.UnmarshalJSON(strings.NewReader(text))
	v, _ := lazy.UnmarshalJSON(strings.NewReader(value))
	c := lazy.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return err.Error()
	}
	s, err := c.Compile(schemaURL)
	if err == nil {
		err = s.Validate(v)
	}
	return told(err)
}

func withOriginal(text, value string) string {
	doc, _ := original.UnmarshalJSON(strings.NewReader(text))
	v, _ := original.UnmarshalJSON(strings.NewReader(value))
	c := original.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return err.Error()
	}
	s, err := c.Compile(schemaURL)
	if err == nil {
		err = s.Validate(v)
	}
	return told(err)
}

// told is what an error says, its lines in order: both validators go through maps.
func told(err error) string {
	if err == nil {
		return ""
	}
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

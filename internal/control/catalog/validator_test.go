package catalog

import (
	"slices"
	"strings"
	"sync"
	"testing"

	lazy "github.com/biplane-dev/biplane/third_party/jsonschema"
	original "github.com/santhosh-tekuri/jsonschema/v6"
)

// TestValidatorIsTheOriginal compares the copy of the validator in third_party, which compiles the
// metaschemas on first use, with the original module, for every draft and concurrently.
func TestValidatorIsTheOriginal(t *testing.T) {
	drafts := []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema",
		"https://example.com/unknown"}
	bodies := []string{`"type":"object","properties":{"a":{"minimum":3}},"required":["a"]`, `"type":"strin"`,
		`"properties":[]`, `"minLength":-1`,
		`"$ref":"#/definitions/a","definitions":{"a":{"type":"object"}}`, `"items":[{"type":"integer"}]`,
		`"prefixItems":{}`, `"$defs":{"a":1}`,
		`"unevaluatedProperties":1`, `"contentSchema":1`, `"format":1`, `"$vocabulary":1`,
		`"properties":{"a":{"$ref":"DRAFT"}}`}
	bodies = append(bodies, `"anyOf":[{"type":"array"},{"required":["b"]},{"properties":{"a":{"const":2}},`+
		`"required":["a"]},{"properties":{"a":{"enum":[1,"x",null,[1]]}}}]`,
		`"oneOf":[{"required":["a"]},{"minProperties":1},{"type":"array","contains":{"type":"string"}}]`,
		`"oneOf":[{"const":{"a":1.0}},{"enum":[[1,"x"],{}]}]`,
		`"not":{"anyOf":[{"type":"object","required":["a"]},{"contains":{"const":"x"}}]}`,
		`"contains":{"type":"boolean"},"minContains":0,"minProperties":1`,
		`"anyOf":[{"properties":{"a":true}},{"items":{"type":"integer"}}],"unevaluatedProperties":false,`+
			`"unevaluatedItems":{"type":"string"}`,
		`"allOf":[{"$ref":"#/definitions/a"},{"maxItems":1}],"definitions":{"a":{"anyOf":[{"maxProperties":0},`+
			`{"items":{"enum":["x"]}},{"properties":{"a":{"type":["string","integer"],"maximum":0}}}]}}`,
		`"propertyNames":{"anyOf":[{"const":"b"},{"maxLength":0}]},"uniqueItems":true,`+
			`"items":{"not":{"type":"integer"}}`,
		`"if":{"required":["a"]},"then":{"properties":{"a":{"anyOf":[{"type":"string"},`+
			`{"$ref":"#/definitions/a"}]}}},"else":{"minItems":3},"definitions":{"a":{"required":["type"],`+
			`"properties":{"type":{"enum":["string"]}}}}`,
		`"patternProperties":{"^a":{"oneOf":[{"minimum":1},{"maximum":1}]}},"additionalProperties":{"anyOf":[]},`+
			`"dependentSchemas":{"a":{"anyOf":[{"required":["b"]},{"const":{"a":1}}]}}`,
		`"anyOf":[false,{"$ref":"#/anyOf/2"},{"type":"null"}]`,
		`"contentMediaType":"application/json","prefixItems":[{"anyOf":[{"const":2},{"type":"string"}]}]`)
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
	if err != nil {
		return told(err)
	}
	said := told(s.Validate(v))
	if within := told(s.ValidateWithin(v, 1_000_000)); within != said {
		return "within a budget: " + within
	}
	return said
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

// told returns the sorted lines of an error text: both validators iterate over maps.
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

package daemon

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestOwnSchemas validates the schemas of Biplane's own tools against the metaschema, since the
// catalog doesn't check them.
func TestOwnSchemas(t *testing.T) {
	t.Parallel()
	tools := append(builtin(), networkTools()...)
	if len(tools) < 5 {
		t.Fatalf("only %d tools", len(tools))
	}
	for _, own := range tools {
		for _, raw := range [][]byte{own.InputSchema, own.OutputSchema} {
			if raw == nil {
				continue
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
			if err != nil {
				t.Fatalf("own.Path() = %s, err = %v, want nil", own.Path(), err)
			}
			c := jsonschema.NewCompiler()
			if err := c.AddResource("urn:own", doc); err != nil {
				t.Fatalf("own.Path() = %s, err = %v, want nil", own.Path(), err)
			}
			if _, err := c.Compile("urn:own"); err != nil {
				t.Errorf("own.Path() = %s, err = %v, want nil", own.Path(), err)
			}
		}
	}
}

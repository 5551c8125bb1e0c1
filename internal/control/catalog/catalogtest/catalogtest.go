// Package catalogtest checks that the catalog can use the tools that an upstream makes of a hostile
// description.
package catalogtest

import (
	"encoding/json"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// CheckTools puts the tools of an upstream into a catalog, finds each under its own name, and uses
// its schemas.
func CheckTools(t testing.TB, upstream string, tools []*tool.Tool) {
	t.Helper()
	c := catalog.New(catalog.Config{})
	c.Set(catalog.Source{Name: upstream, Tools: tools, Health: tool.Health{State: tool.Ready}})
	for _, e := range c.View().Entries() {
		if found, err := c.View().Resolve(e.Path()); err != nil || found != e {
			t.Errorf("%s: got %v, %v, want the tool itself", e.Path(), found, err)
		}
		e.Positions()
		e.ListArguments()
		_ = e.CheckArguments(json.RawMessage(`{"a":1}`))
	}
	c.View().Search("list all things", 5)
}

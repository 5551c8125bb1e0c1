// Package approval holds calls until a person decides.
//
// There is nobody to ask yet: a Gate refuses, and says so. No policy that exists asks.
package approval

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Gate is where calls wait for a person. The zero Gate is ready to use.
type Gate struct{}

// Wait returns nil once a person approved c, and an error of kind Denied when one refused it or nobody can be asked.
func (*Gate) Wait(_ context.Context, c *tool.Call, reason string) error {
	return tool.Errorf(tool.Denied, "%s needs a person's approval (%s), and nobody can be asked here", c.Path, reason)
}

//go:build !linux

package build

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// copyPackages reports that there are no sandboxes to copy from.
func (j *job) copyPackages(context.Context, *Source) error {
	return tool.Errorf(tool.Unavailable, "images can be built from sandboxes only on Linux")
}

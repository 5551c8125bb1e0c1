package mcp

import (
	"bytes"
	"context"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

// appendTrace returns the members of _meta with the trace context of a call, if it belongs to a
// trace.
func appendTrace(ctx context.Context, meta []byte) []byte {
	parent, state := tracing.ParentOf(ctx)
	if parent == "" {
		return meta
	}
	out := bytes.Clone(meta)
	if len(out) > 0 {
		out = append(out, ',')
	}
	out = append(append(out, `"`+tracing.ParentField+`":`...), quoteString(parent)...)
	if state != "" {
		out = append(append(out, `,"`+tracing.StateField+`":`...), quoteString(state)...)
	}
	return out
}

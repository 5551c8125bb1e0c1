package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

// continueTrace returns the context for the call of a request: in the trace that the agent names in
// _meta or, without one there, in the headers of its HTTP request.
func continueTrace(ctx context.Context, req *mcp.CallToolRequest) context.Context {
	ctx = tracing.WithRequest(ctx, tracing.Request{Method: "tools/call", Protocol: req.ProtocolVersion()})
	meta := req.Params.GetMeta()
	if parent, _ := meta[tracing.ParentField].(string); parent != "" {
		state, _ := meta[tracing.StateField].(string)
		return tracing.WithParent(ctx, parent, state)
	}
	if req.Extra == nil {
		return ctx
	}
	return tracing.WithParent(ctx, req.Extra.Header.Get("Traceparent"), req.Extra.Header.Get("Tracestate"))
}

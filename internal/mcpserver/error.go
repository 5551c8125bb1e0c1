package mcpserver

import (
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// MetaError is the key in _meta of a result under which the kind of a failure stands, and, where
// that is known, after how many seconds it is worth another try (retry_after, rounded up), for
// clients that read it. The model reads the text.
const MetaError = "biplane.dev/error"

// failure answers a call that could not be made, or whose outcome is unknown: a result with
// isError, so that the model sees what to do next (server/tools, "Error Handling"). This is the one
// table from errors to MCP:
//
//	tool not known            JSON-RPC -32602 (in callTool, which knows whether it is)
//	arguments not an object   JSON-RPC -32602
//	client lacks a capability JSON-RPC -32021 (in lacking)
//	every other kind          isError, its message as text and its kind in _meta
//	no kind, or internal      isError; what only the log may hold stays there
func (s *Server) failure(req *mcp.CallToolRequest, err error) (mcp.Result, error) {
	e := tool.AsError(err)
	msg := e.Msg
	if e.Kind == tool.Internal {
		s.log.Error("call failed", "tool", req.Params.Name, "error", err, "cause", e.Err)
		if !written(err) {
			msg = "internal error: the call failed inside Biplane, whose log says why"
		}
	}
	about := map[string]any{"kind": e.Kind}
	if s := e.RetrySeconds(); s > 0 {
		about["retry_after"] = s
	}
	meta := map[string]any{MetaError: about}
	res, err := tool.NewResult([]any{tool.TextBlock{Type: "text", Text: msg}}, meta, true)
	if err != nil {
		return nil, err
	}
	return &callResult{raw: res.Raw, modern: modern(req.ProtocolVersion())}, nil
}

// written says whether an error's message was written for readers, and doesn't just repeat its
// cause.
func written(err error) bool {
	var e *tool.Error
	return errors.As(err, &e) && (e.Err == nil || !strings.Contains(e.Msg, e.Err.Error()))
}

// lacking gives the error of an upstream whose tool needs a capability that the client didn't
// declare, as it came (2026-07-28, MissingRequiredClientCapabilityError). Where the client declared
// it, it is Biplane that doesn't pass it on, and the error is none of the client's.
func lacking(err error, req *mcp.CallToolRequest) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != mcp.CodeMissingRequiredClientCapabilities || !modern(req.ProtocolVersion()) {
		return nil
	}
	required, ok := members(wire.Data)
	if !ok {
		return nil
	}
	required, _ = members(field(wire.Data, required, "requiredCapabilities"))
	declared, _ := req.Params.GetMeta()[mcp.MetaKeyClientCapabilities].(map[string]any)
	for _, m := range required {
		if _, ok := declared[m.key]; !ok {
			return wire
		}
	}
	return nil
}

package mcpserver

import (
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// MetaError is the key in _meta of a result for the kind of a failure. If known, the entry also has
// the number of seconds after which a retry makes sense (retry_after, rounded up). It is for
// clients; the model reads the text.
const MetaError = "biplane.dev/error"

// answerFailure answers a call that could not be made, or whose outcome is unknown. The result has
// isError set, so that the model sees what to do next (server/tools, "Error Handling"). This is the
// only mapping from errors to MCP:
//
//	unknown tool              JSON-RPC -32602 (in callTool, which detects it)
//	arguments not an object   JSON-RPC -32602
//	client lacks a capability JSON-RPC -32021 (in lacking)
//	every other kind          isError, its message as text and its kind in _meta
//	no kind, or internal      isError; internal details are only logged
func (s *Server) answerFailure(req *mcp.CallToolRequest, err error) (mcp.Result, error) {
	e := tool.AsError(err)
	msg := e.Msg
	if e.Kind == tool.Internal {
		s.log.Error("call failed", "tool", req.Params.Name, "error", err, "cause", e.Err)
		if !isWritten(err) {
			msg = "internal error: the call failed inside Biplane, whose log says why"
		}
	}
	meta := map[string]errorMeta{MetaError: {e.Kind, max(0, e.RetrySeconds())}}
	res, err := tool.NewResult([]any{tool.TextBlock{Type: "text", Text: msg}}, meta, true)
	if err != nil {
		return nil, err
	}
	return &callResult{raw: res.Raw, modern: isModern(req.ProtocolVersion())}, nil
}

// errorMeta describes an error for programs.
type errorMeta struct {
	Kind       tool.Kind `json:"kind"`
	RetryAfter int       `json:"retry_after,omitempty"` // seconds
}

// isWritten reports whether an error's message was written for readers, rather than repeating its
// cause.
func isWritten(err error) bool {
	var e *tool.Error
	return errors.As(err, &e) && (e.Err == nil || !strings.Contains(e.Msg, e.Err.Error()))
}

// clientCapabilities are the capabilities that a server may require of a client, with their
// members.
var clientCapabilities = map[string][]string{
	"elicitation": {"form", "url"}, "sampling": {"tools", "context"}, "roots": nil, "extensions": {tasksExtension},
}

// missingCapability returns the error of an upstream whose tool requires a capability that the
// client didn't declare (2026-07-28, MissingRequiredClientCapabilityError). It has the text of err,
// from which secrets and what policy removes are gone, and of the upstream's data only the names of
// capabilities. If the client did declare it, Biplane doesn't forward it, and the client is not at
// fault: the result is nil.
func missingCapability(err error, req *mcp.CallToolRequest) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != mcp.CodeMissingRequiredClientCapabilities ||
		!isModern(req.ProtocolVersion()) {
		return nil
	}
	data, ok := parseMembers(wire.Data)
	if !ok {
		return nil
	}
	raw := fieldOf(wire.Data, data, "requiredCapabilities")
	required, _ := parseMembers(raw)
	declared, _ := jsonvalue.AsObject(req.Params.GetMeta()[mcp.MetaKeyClientCapabilities])
	named, missing := map[string]map[string]struct{}{}, false
	for _, m := range required {
		members, known := clientCapabilities[m.key]
		if !known {
			continue
		}
		_, has := declared[m.key]
		missing = missing || !has
		named[m.key] = map[string]struct{}{}
		inner, _ := parseMembers(fieldOf(raw, required, m.key))
		for _, n := range inner {
			if slices.Contains(members, n.key) {
				named[m.key][n.key] = struct{}{}
			}
		}
	}
	_, tasks := named["extensions"][tasksExtension]
	if !missing && (!tasks || declaresTasks(req.ClientCapabilities())) {
		return nil
	}
	text, merr := tool.Marshal(struct {
		Required map[string]map[string]struct{} `json:"requiredCapabilities"`
	}{named})
	if merr != nil {
		return nil
	}
	return &jsonrpc.Error{Code: wire.Code, Message: tool.AsError(err).Msg, Data: text}
}

package mcpserver

//lint:file-ignore SA1019 clients of earlier revisions still ask for logs

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/tool"
)

// firstModern is the first revision without sessions.
const firstModern = "2026-07-28"

// isModern reports whether a revision is without sessions.
func isModern(version string) bool { return version >= firstModern }

// handleTools handles the methods of tools. The SDK would lose unknown fields. It rejects the
// methods of features that Biplane doesn't offer.
func (s *Server) handleTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		stack.Grow() // the SDK starts a goroutine for each message
		e := s.endpoints.endpointOf(s.principalOf(ctx, nil))
		switch r := req.(type) {
		case *mcp.ListToolsRequest:
			return s.listTools(ctx, r)
		case *mcp.CallToolRequest:
			return s.callTool(ctx, r)
		case *mcp.ListResourcesRequest, *mcp.ListResourceTemplatesRequest, *mcp.ListPromptsRequest,
			*mcp.ReadResourceRequest, *mcp.GetPromptRequest, *mcp.CompleteRequest:
			if e.Mode == Direct {
				return offerRequests{s}.handleOffers(ctx, req)
			}
			if s.skills.visibleIn(e.Mode) {
				return s.skills.answerRequest(e, method, req)
			}
		case *mcp.ServerRequest[*skillRequest]:
			if s.skills.visibleIn(e.Mode) {
				return s.skills.answerRequest(e, method, req)
			}
		case *mcp.ServerRequest[*taskRequest]:
			if r.Params == nil { // the SDK would panic
				r.Params = &taskRequest{}
			}
			return taskRequests{s}.handleTask(ctx, method, r)
		case *mcp.ServerRequest[*mcp.InitializeParams]:
			res, err := next(ctx, method, req)
			if err != nil {
				return nil, err
			}
			return declareTasks(offerRequests{s}.addInstructions(ctx, r.ClientInfo(), res))
		case *mcp.ServerRequest[*mcp.DiscoverParams]:
			res, err := next(ctx, method, req)
			if err != nil {
				return nil, err
			}
			return offerRequests{s}.addInstructions(ctx, r.ClientInfo(), res), nil
		case *mcp.ServerRequest[*mcp.SetLoggingLevelParams]:
			if !clientOf(ctx).setLogLevel(string(r.Params.Level)) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
					Message: "unknown log level: it is one of " + strings.Join(levels, ", ")}
			}
		}
		if s.canSubscribe(e.Mode) && (method == tool.Subscribe || method == "resources/unsubscribe") {
			return next(ctx, method, req)
		}
		switch method {
		case "prompts/list", "prompts/get", "resources/list", "resources/templates/list", "resources/read",
			"resources/subscribe", "resources/unsubscribe", "completion/complete":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
		}
		return next(ctx, method, req)
	}
}

// callResult is the answer of a tool, unchanged.
type callResult struct {
	mcp.ResultBase
	raw    json.RawMessage // a valid JSON object
	modern bool            // written for 2026-07-28
}

// MarshalJSON encodes the answer. For 2026-07-28 it adds a resultType, and the server's information
// in _meta (basic/index, "Responses"). Fields that the upstream wrote there are kept.
func (r *callResult) MarshalJSON() ([]byte, error) {
	if !r.modern {
		return r.raw, nil
	}
	raw := r.raw
	ms, _ := parseParts(raw)
	if info, ok := r.Meta[mcp.MetaKeyServerInfo]; ok {
		value, err := tool.Marshal(info)
		if err != nil {
			return nil, err
		}
		raw = addMeta(raw, ms, mcp.MetaKeyServerInfo, value)
		ms, _ = parseParts(raw)
	}
	if fieldOf(raw, ms, "resultType") == nil {
		raw = insertField(raw, ms, "resultType", []byte(`"complete"`))
	}
	return raw, nil
}

// addMeta adds a member to _meta of the object raw if it is missing.
func addMeta(raw json.RawMessage, ms []member, key string, value []byte) json.RawMessage {
	meta := fieldOf(raw, ms, "_meta")
	if meta == nil {
		return insertField(raw, ms, "_meta", insertField([]byte("{}"), nil, key, value))
	}
	inner, ok := parseParts(meta)
	if !ok || fieldOf(meta, inner, key) != nil {
		return raw
	}
	return replaceField(raw, ms, "_meta", insertField(meta, inner, key, value))
}

// callTool answers tools/call.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	who := s.principalOf(ctx, req.ClientInfo())
	able := encodeCapabilities(req.ClientCapabilities())
	ttl, isTask, err := readTask(req, s.cfg.Limits.TaskKept)
	switch {
	case err != nil:
		return nil, err
	case isTask:
		return taskRequests{s}.createTask(ctx, req, &exchange{principal: who.ID, who: who, capabilities: able}, ttl)
	case !isModern(req.ProtocolVersion()):
		return s.makeCall(ctx, req, who, &sessionAsker{req.Session, able})
	}
	t := &exchange{principal: who.ID, who: who, capabilities: able,
		taskConversion: taskConversion{tasks: declaresTasks(req.ClientCapabilities())},
		digest:         tool.CallDigest("tools/call "+req.Params.Name, argumentsOf(ctx, req))}
	f := followUp{req.Params.RequestState, req.Params.InputResponses}
	return s.relayCall(ctx, t, f, func(ctx context.Context, a asker) (mcp.Result, error) {
		return s.makeCall(ctx, req, who, a)
	})
}

// argumentsOf returns the arguments as received, if they are known.
func argumentsOf(ctx context.Context, req *mcp.CallToolRequest) json.RawMessage {
	if args, ok := ctx.Value(argumentsKey{}).(json.RawMessage); ok {
		return args
	}
	return req.Params.Arguments
}

// makeCall makes the call of a request.
func (s *Server) makeCall(ctx context.Context, req *mcp.CallToolRequest, who tool.Principal,
	a asker) (mcp.Result, error) {
	ctx, end, err := s.calls.beginCall(ctx, who)
	if err != nil {
		return s.answerFailure(req, err)
	}
	defer end()
	ctx = continueTrace(ctx, req)
	c := &tool.Call{Arguments: argumentsOf(ctx, req), Principal: who}
	from := clientOf(ctx)
	if from != nil {
		c.Labels = from.labels.All()
		c.Place = from.order.placeOf(req)
	}
	if trimmed := bytes.TrimSpace(c.Arguments); len(trimmed) == 0 || string(trimmed) == "null" {
		c.Arguments = nil
	} else if trimmed[0] != '{' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: "arguments of a tool must be a JSON object"}
	}
	known := s.resolveName(ctx, c.Principal, req.Params.Name)
	if c.Path = req.Params.Name; known != nil {
		c.Path = known.Path()
	}
	t, _ := a.(*exchange)
	notify := newCallNotifier(ctx, s.ctx, req, t)
	o := s.observeCall(from, notify, a, c)
	o.alone = isModern(req.ProtocolVersion()) && !declaresTasks(req.ClientCapabilities())
	c.Observer = o
	res, ask, err := s.completeCall(ctx, req, c, notify, t)
	notify.close()
	if ask != nil {
		return askInput(ask)
	}

	if err = s.calls.drainError(err); err != nil {
		if e := tool.AsError(err); known == nil && e.Kind == tool.NotFound {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool: " + e.Msg}
		}
		if e := missingCapability(err, req); e != nil {
			return nil, e
		}
		if e := taskError(t, err); e != nil {
			return nil, e
		}
		return s.answerFailure(req, err)
	}
	if res == nil || !json.Valid(res.Raw) || bytes.TrimSpace(res.Raw)[0] != '{' {
		s.log.Error("tool returned an invalid result", "tool", c.Path)
		return s.answerFailure(req, tool.Errorf(tool.Unavailable, "tool %s returned an invalid result", c.Path))
	}
	return &callResult{raw: res.Raw, modern: isModern(req.ProtocolVersion())}, nil
}

// newCallNotifier returns the notifier of a call. That of a task of 2025-11-25 outlives the
// request: its notifications are sent outside of the request's stream, until life ends.
func newCallNotifier(ctx, life context.Context, req *mcp.CallToolRequest, t *exchange) *notifier {
	if t == nil || !t.required || isModern(req.ProtocolVersion()) {
		return newNotifier(ctx, req.Session, req.Params.GetMeta(), isModern(req.ProtocolVersion()))
	}
	n := newNotifier(context.WithValue(life, clientKey{}, clientOf(ctx)), req.Session, req.Params.GetMeta(), false)
	n.about = t
	return n
}

// observeCall returns the observer of a call.
func (s *Server) observeCall(from *client, notify *notifier, a asker, c *tool.Call) observer {
	o := observer{client: from, notify: notify, asker: a}
	if !s.endpoints.endpointOf(c.Principal).Unprefixed {
		o.server, _, _ = strings.Cut(c.Path, ".")
	}
	if t, ok := a.(*exchange); ok {
		t.notify.Store(notify)
	}
	return o
}

// resolveName returns the tool with a name, or nil if only the gateway can decide.
func (s *Server) resolveName(ctx context.Context, p tool.Principal, name string) *tool.Tool {
	// In mode Direct the listed names come first: without prefixes, one may equal the name of one
	// of Biplane's own tools.
	if e := s.endpoints.endpointOf(p); e.Mode == Direct && e.Unprefixed {
		for _, l := range s.direct(ctx, p) {
			if l.Name == name {
				return l.Tool
			}
		}
	}
	if t := s.builtin[name]; t != nil {
		return t
	}
	return s.cfg.Catalog.LookupTool(ctx, p, name)
}

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// In mode Direct, agents see the resources, templates and prompts of the upstreams. Reading or
// getting one is a call of the tool that stands for the method ("github.resources.read"). It passes
// the gateway like every other call.

// A kind is a kind of offers: the names of the members of its list and of its key in a definition.
type kind struct{ member, key string }

var (
	resourceKind = kind{"resources", "uri"}
	templateKind = kind{"resourceTemplates", "uriTemplate"}
	promptKind   = kind{"prompts", "name"}
)

// offersIn returns the offers of a kind.
func (k kind) offersIn(o *tool.Offers) []tool.Offer {
	switch k {
	case resourceKind:
		return o.Resources
	case templateKind:
		return o.Templates
	}
	return o.Prompts
}

// addPrefix makes a key unique.
func (k kind) addPrefix(upstream, key string) string {
	if k == promptKind {
		return upstream + "_" + key
	}
	return uriPrefix + url.PathEscape(upstream) + "/" + key
}

// uriPrefix begins the URI of a resource under its prefixed name: biplane://<upstream>/<URI>.
const uriPrefix = "biplane://"

// A named is an offer with the upstream that has it.
type named struct {
	upstream string
	key      string // at the upstream
	name     string // as agents see it
	raw      json.RawMessage
}

// nameOffers returns the offers of a kind with their names: their own if no other upstream has the
// same one, otherwise prefixed with the upstream's. Names are unique.
func (k kind) nameOffers(all []*tool.Offers) []named {
	uses := map[string]int{}
	for _, o := range all {
		for _, x := range k.offersIn(o) {
			uses[x.Key]++
		}
	}
	var out []named
	for _, o := range all {
		for _, x := range k.offersIn(o) {
			n := named{o.Upstream, x.Key, x.Key, x.Raw}
			if uses[x.Key] > 1 {
				n.name = k.addPrefix(o.Upstream, x.Key)
				ms, _ := parseMembers(x.Raw)
				n.raw = replaceField(x.Raw, ms, k.key, quoteText(n.name))
			}
			if uses[n.name] > 1 || n.name != n.key && uses[n.name] > 0 {
				continue // the prefixed name is the name of another offer
			}
			out = append(out, n)
		}
	}
	return out
}

func quoteText(s string) json.RawMessage {
	b, err := tool.Marshal(s)
	if err != nil {
		panic(err) // strings can always be marshaled
	}
	return b
}

var errNoParams = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params are missing"}

// offerRequests answers requests about resources and prompts.
type offerRequests struct{ *Server }

// handleOffers answers a request.
func (s offerRequests) handleOffers(ctx context.Context, req mcp.Request) (mcp.Result, error) {
	switch r := req.(type) {
	case *mcp.ListResourcesRequest:
		cursor := ""
		if r.Params != nil {
			cursor = r.Params.Cursor
		}
		return s.listOffers(ctx, resourceKind, r.ClientInfo(), cursor, isModern(r.ProtocolVersion()))
	case *mcp.ListResourceTemplatesRequest:
		cursor := ""
		if r.Params != nil {
			cursor = r.Params.Cursor
		}
		return s.listOffers(ctx, templateKind, r.ClientInfo(), cursor, isModern(r.ProtocolVersion()))
	case *mcp.ListPromptsRequest:
		cursor := ""
		if r.Params != nil {
			cursor = r.Params.Cursor
		}
		return s.listOffers(ctx, promptKind, r.ClientInfo(), cursor, isModern(r.ProtocolVersion()))
	case *mcp.ReadResourceRequest:
		if r.Params == nil {
			return nil, errNoParams
		}
		from := readRequest(ctx, s.Server, r)
		upstream, uri, err := s.findOffer(ctx, from.principal, r.Params.URI, findResource)
		if err != nil {
			return nil, err
		}
		return s.callMethod(ctx, from, upstream+tool.ReadSuffix, methodArguments{URI: uri}, r.Params.URI)
	case *mcp.GetPromptRequest:
		if r.Params == nil {
			return nil, errNoParams
		}
		from := readRequest(ctx, s.Server, r)
		upstream, name, err := s.findOffer(ctx, from.principal, r.Params.Name, findPrompt)
		if err != nil {
			return nil, err
		}
		args := methodArguments{Name: name, Arguments: r.Params.Arguments}
		return s.callMethod(ctx, from, upstream+tool.GetSuffix, args, "")
	case *mcp.CompleteRequest:
		if r.Params == nil || r.Params.Ref == nil {
			return nil, errNoParams
		}
		return s.completeArgument(ctx, r)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
}

// listOffers answers a list of a kind.
func (s offerRequests) listOffers(ctx context.Context, k kind, software *mcp.Implementation, cursor string,
	modern bool) (mcp.Result, error) {
	p := s.principalOf(ctx, software)
	visible, _ := s.cfg.Catalog.ListOffers(ctx, p)
	var defs []json.RawMessage
	var names []string
	for _, n := range k.nameOffers(visible) {
		defs, names = append(defs, n.raw), append(names, n.name)
	}
	res := s.pageOf(p, k.member, defs, names, cursor, modern)
	if res == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown cursor: list from the start"}
	}
	return res, nil
}

// A finder finds the upstream of a name, and the name there. If guess is set, an unknown name
// belongs to the only upstream that it may belong to.
type finder func(all []*tool.Offers, name string, guess bool) (upstream, key string, err error)

var errNoOffer = errors.New("no upstream has it")

// findOffer finds a name among what p may use. If nothing has it, it searches everything, so that
// the gateway refuses and records the attempt. Only then does it guess.
func (s offerRequests) findOffer(ctx context.Context, p tool.Principal, name string,
	find finder) (upstream, key string, err error) {
	visible, all := s.cfg.Catalog.ListOffers(ctx, p)
	if upstream, key, err = find(visible, name, false); errors.Is(err, errNoOffer) {
		upstream, key, err = find(all, name, false)
	}
	if errors.Is(err, errNoOffer) {
		upstream, key, err = find(visible, name, true)
	}
	if err != nil {
		return "", "", offerError(name, err)
	}
	return upstream, key, nil
}

// offerError returns the JSON-RPC error of a finder.
func offerError(name string, err error) error {
	if errors.Is(err, errNoOffer) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "not found: " + shortenText(name) +
			": list the resources or prompts again"}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
}

func shortenText(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return tool.VisibleLine(s)
}

// findPrompt finds a prompt.
func findPrompt(all []*tool.Offers, name string, guess bool) (upstream, key string, err error) {
	for _, n := range promptKind.nameOffers(all) {
		if n.name == name {
			return n.upstream, n.key, nil
		}
	}
	var has []*tool.Offers // with prompts
	for _, o := range all {
		if !hasMethod(o, tool.GetPrompt) {
			continue
		}
		has = append(has, o)
		for _, x := range o.Prompts {
			if promptKind.addPrefix(o.Upstream, x.Key) == name {
				return o.Upstream, x.Key, nil
			}
		}
	}
	if guess && len(has) == 1 {
		return has[0].Upstream, name, nil // it may be unlisted
	}
	return "", "", errNoOffer
}

// findResource finds the upstream of a resource. An unlisted URI belongs to the upstream that has a
// template with the same beginning, or to the only upstream with resources.
func findResource(all []*tool.Offers, uri string, guess bool) (upstream, key string, err error) {
	all = slices.DeleteFunc(slices.Clone(all), func(o *tool.Offers) bool { return !hasMethod(o, tool.ReadResource) })
	for _, o := range all {
		if rest, ok := strings.CutPrefix(uri, resourceKind.addPrefix(o.Upstream, "")); ok {
			return o.Upstream, rest, nil
		}
	}
	var listed, like []string
	for _, o := range all {
		if slices.ContainsFunc(o.Resources, func(x tool.Offer) bool { return x.Key == uri }) {
			listed = append(listed, o.Upstream)
		}
		if slices.ContainsFunc(o.Templates, func(x tool.Offer) bool {
			start, _, _ := strings.Cut(x.Key, "{")
			return start != "" && strings.HasPrefix(uri, start)
		}) {
			like = append(like, o.Upstream)
		}
	}
	for _, found := range [][]string{listed, like} {
		switch len(found) {
		case 0:
		case 1:
			return found[0], uri, nil
		default:
			return "", "", tool.Errorf(tool.Conflict, "several upstreams have %s: read %s", shortenText(uri),
				shortenText(resourceKind.addPrefix(found[0], uri)))
		}
	}
	if guess && len(all) == 1 {
		return all[0].Upstream, uri, nil
	}
	return "", "", errNoOffer
}

// hasMethod reports whether o has the tool for a method.
func hasMethod(o *tool.Offers, method string) bool {
	return slices.ContainsFunc(o.Tools, func(t *tool.Tool) bool { return t.Method == method })
}

// methodArguments are the arguments of a tool that stands for a method.
type methodArguments struct {
	URI       string                      `json:"uri,omitempty"`
	Name      string                      `json:"name,omitempty"`
	Arguments map[string]string           `json:"arguments,omitempty"`
	Ref       *mcp.CompleteReference      `json:"ref,omitempty"`
	Argument  *mcp.CompleteParamsArgument `json:"argument,omitempty"`
	Context   *mcp.CompleteContext        `json:"context,omitempty"`
}

// methodFault is the data of an error.
type methodFault struct {
	errorMeta
	URI string `json:"uri,omitempty"` // of an unknown resource
}

// A methodRequest is the part of a request that all methods have.
type methodRequest struct {
	principal tool.Principal
	session   *mcp.ServerSession
	meta      mcp.Meta
	modern    bool

	capabilities json.RawMessage
	followUp
}

// readRequest returns that part of r.
func readRequest[P mcp.Params](ctx context.Context, s *Server, r *mcp.ServerRequest[P]) methodRequest {
	out := methodRequest{principal: s.principalOf(ctx, r.ClientInfo()), session: r.Session,
		meta: r.Params.GetMeta(), modern: isModern(r.ProtocolVersion()),
		capabilities: encodeCapabilities(r.ClientCapabilities())}
	switch p := any(r.Params).(type) {
	case *mcp.ReadResourceParams:
		out.followUp = followUp{p.RequestState, p.InputResponses}
	case *mcp.GetPromptParams:
		out.followUp = followUp{p.RequestState, p.InputResponses}
	}
	return out
}

// callMethod calls the tool that stands for a method, and returns its structured result. uri is the
// URI as the client wrote it, for a resource.
func (s offerRequests) callMethod(ctx context.Context, r methodRequest, path string, args methodArguments,
	uri string) (mcp.Result, error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		return nil, err
	}
	if !r.modern {
		return s.makeMethodCall(ctx, r, path, raw, uri, &sessionAsker{r.session, r.capabilities})
	}
	t := &exchange{principal: r.principal.ID, capabilities: r.capabilities, digest: tool.CallDigest(path, raw)}
	return s.relayCall(ctx, t, r.followUp, func(ctx context.Context, a asker) (mcp.Result, error) {
		return s.makeMethodCall(ctx, r, path, raw, uri, a)
	})
}

// makeMethodCall makes the call of a request.
func (s offerRequests) makeMethodCall(ctx context.Context, r methodRequest, path string, raw json.RawMessage,
	uri string, a asker) (mcp.Result, error) {
	p, modern := r.principal, r.modern
	ctx, end, err := s.calls.beginCall(ctx, p)
	if err != nil {
		return nil, s.methodError(path, uri, modern, err)
	}
	defer end()
	c := &tool.Call{Path: path, Arguments: raw, Principal: p}
	from := clientOf(ctx)
	if from != nil {
		c.Labels = from.labels.All()
	}
	notify := newNotifier(ctx, r.session, r.meta, modern)
	c.Observer = s.observeCall(from, notify, a, c)
	res, err := s.cfg.Door.Call(ctx, c)
	notify.close()
	if err = s.calls.drainError(err); err != nil {
		return nil, s.methodError(path, uri, modern, err)
	}
	if res == nil || res.IsError {
		return nil, s.methodError(path, uri, modern, tool.Errorf(tool.Unavailable, "%s failed", path))
	}
	ms, ok := parseMembers(res.Structured)
	if !ok {
		err := tool.Errorf(tool.Unavailable, "%s returned an invalid result", path)
		return nil, s.methodError(path, uri, modern, err)
	}
	out := json.RawMessage(res.Structured)
	if modern && uri != "" { // what is read depends on the principal
		out = replaceField(out, ms, "cacheScope", []byte(`"private"`))
		if fieldOf(res.Structured, ms, "ttlMs") == nil {
			ms, _ = parseParts(out)
			out = insertField(out, ms, "ttlMs", []byte("0"))
		}
	}
	return &callResult{raw: out, modern: modern}, nil
}

// codeNotFound is the error code for unknown resources up to 2025-11-25.
const codeNotFound = -32002

// methodError returns the JSON-RPC error of a request that has no isError. Its data has the kind of
// the error, and the URI of an unknown resource.
func (s offerRequests) methodError(path, uri string, modern bool, err error) error {
	e := tool.AsError(err)
	out := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Msg}
	data := methodFault{errorMeta: errorMeta{e.Kind, max(0, e.RetrySeconds())}}
	var wire *jsonrpc.Error
	answered := errors.As(err, &wire)
	switch {
	case answered && uri != "" && (wire.Code == codeNotFound || wire.Code == jsonrpc.CodeInvalidParams):
		data.URI = uri
		if out.Code = codeNotFound; modern || wire.Code == jsonrpc.CodeInvalidParams {
			out.Code = jsonrpc.CodeInvalidParams
		}
	case e.Kind == tool.Invalid, e.Kind == tool.NotFound:
		out.Code = jsonrpc.CodeInvalidParams
	case e.Kind == tool.Internal:
		s.log.Error("call failed", "tool", path, "error", err, "cause", e.Err)
		if !isWritten(err) {
			out.Message = "internal error: the call failed inside Biplane, whose log says why"
		}
	}
	if raw, err := tool.Marshal(data); err == nil {
		out.Data = raw
	}
	return out
}

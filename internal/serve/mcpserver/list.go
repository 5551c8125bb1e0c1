package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
)

// listResult is a page of a list, with each definition as the upstream sent it.
type listResult struct {
	mcp.ResultBase
	member string // with the definitions, for example "tools"
	items  []json.RawMessage
	cursor string // for the next page; empty on the last
	modern bool   // written for 2026-07-28
	ttlMs  int
	scope  string
}

// MarshalJSON encodes the page.
func (r *listResult) MarshalJSON() ([]byte, error) {
	v := struct {
		NextCursor string   `json:"nextCursor,omitempty"`
		TTLMs      *int     `json:"ttlMs,omitempty"`
		CacheScope string   `json:"cacheScope,omitempty"`
		ResultType string   `json:"resultType,omitempty"`
		Meta       mcp.Meta `json:"_meta,omitempty"`
	}{NextCursor: r.cursor}
	if r.modern {
		v.TTLMs, v.CacheScope, v.ResultType, v.Meta = &r.ttlMs, r.scope, "complete", r.Meta
	}
	items := r.items
	if items == nil {
		items = []json.RawMessage{}
	}
	list, err := tool.Marshal(items)
	if err != nil {
		return nil, err
	}
	rest, err := tool.Marshal(v)
	if err != nil {
		return nil, err
	}
	ms, _ := parseParts(rest)
	return insertField(rest, ms, r.member, list), nil
}

// listTools answers tools/list.
func (s *Server) listTools(ctx context.Context, req *mcp.ListToolsRequest) (mcp.Result, error) {
	p := s.principalOf(ctx, req.ClientInfo())
	defs, names := s.visibleTools(ctx, p)
	cursor := ""
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	res := s.pageOf(p, "tools", defs, names, cursor, isModern(req.ProtocolVersion()))
	if res == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: "unknown cursor: list the tools from the start"}
	}
	if req.ProtocolVersion() == taskRevision {
		for i, def := range res.items {
			res.items[i] = offerTask(def)
		}
	}
	return res, nil
}

// pageOf returns the page of a list that begins at a cursor, or nil if the cursor is unknown. names
// has the name of each item. p is who asks.
func (s *Server) pageOf(p tool.Principal, member string, items []json.RawMessage, names []string, cursor string,
	modern bool) *listResult {
	from := 0
	if cursor != "" {
		var ok bool
		if from, ok = findPage(names, cursor); !ok {
			return nil
		}
	}
	res := &listResult{member: member, modern: modern}
	res.ttlMs, res.scope = s.endpoints.endpointOf(p).cacheHint()
	to := min(from+s.cfg.Limits.PageSize, len(items))
	res.items = items[from:to]
	if to < len(items) {
		res.cursor = base64.RawURLEncoding.EncodeToString([]byte(names[to-1]))
	}
	return res
}

// findPage returns the index at which the page of a cursor begins. A cursor is the last name of the
// previous page, so that it stays valid while tools come and go.
func findPage(names []string, cursor string) (int, bool) {
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, false
	}
	for i, n := range names {
		if n == string(last) {
			return i + 1, true
		}
	}
	return 0, false
}

// visibleTools returns the definitions visible to p, with their names.
func (s *Server) visibleTools(ctx context.Context, p tool.Principal) (defs []json.RawMessage, names []string) {
	if s.endpoints.modeOf(p) == Direct {
		for _, l := range s.direct(ctx, p) {
			defs, names = append(defs, definition(l.Name, l.Tool)), append(names, l.Name)
		}
		return defs, names
	}
	for i, t := range s.cfg.Builtin {
		if s.cfg.Filter != nil && !s.cfg.Filter.ShowsTool(ctx, p, t) {
			continue
		}
		def := s.defs()[i]
		if text := s.inlineCatalog(ctx, p, t); text != "" {
			with := *t
			with.Description += "\n\n" + text
			def = definition(t.Name, &with)
		}
		defs, names = append(defs, def), append(names, t.Name)
	}
	return defs, names
}

// direct returns the upstream tools with their names in mode Direct.
func (s *Server) direct(ctx context.Context, p tool.Principal) []Listed {
	tools := s.cfg.Catalog.ListTools(ctx, p)
	if !s.endpoints.endpointOf(p).Unprefixed {
		return tools
	}
	uses := map[string]int{}
	for _, l := range tools {
		uses[l.Tool.Name]++
	}
	out := make([]Listed, len(tools))
	for i, l := range tools {
		if out[i] = l; uses[l.Tool.Name] == 1 {
			out[i].Name = l.Tool.Name
		}
	}
	return out
}

// inlineCatalog returns the text to append to the description of t in mode Auto: for execute, the
// catalog, if it is small.
func (s *Server) inlineCatalog(ctx context.Context, p tool.Principal, t *tool.Tool) string {
	if s.endpoints.modeOf(p) != Auto || t.Name != "execute" {
		return ""
	}
	text := s.cfg.Catalog.DescribeTools(ctx, p)
	if text == "" || s.tokens.count(text) > s.cfg.InlineTokens {
		return ""
	}
	return text
}

// definition encodes the definition of a tool under a name. For upstream tools it is the upstream's
// own bytes with the name replaced. For Biplane's own tools the encoding is deterministic.
func definition(name string, t *tool.Tool) json.RawMessage {
	quoted, err := tool.Marshal(name)
	if err != nil {
		panic(err) // a string always marshals
	}
	if ms, ok := parseMembers(t.Raw); ok {
		return replaceField(t.Raw, ms, "name", quoted)
	}
	v := struct {
		Name         json.RawMessage   `json:"name"`
		Title        string            `json:"title,omitempty"`
		Description  string            `json:"description,omitempty"`
		InputSchema  json.RawMessage   `json:"inputSchema"`
		OutputSchema json.RawMessage   `json:"outputSchema,omitempty"`
		Annotations  *tool.Annotations `json:"annotations,omitempty"`
	}{Name: quoted, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
		OutputSchema: t.OutputSchema}
	if t.Annotations != (tool.Annotations{}) {
		v.Annotations = &t.Annotations
	}
	if !json.Valid(v.InputSchema) {
		v.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	if !json.Valid(v.OutputSchema) {
		v.OutputSchema = nil
	}
	def, err := tool.Marshal(v)
	if err != nil {
		panic(err) // strings, booleans and valid JSON can always be marshaled
	}
	return def
}

// A tokenCounter counts the tokens of texts.
type tokenCounter struct {
	counter tokens.Counter

	mu   sync.Mutex
	text string // the last counted text; each list counts it again
	n    int
}

func (c *tokenCounter) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == c.text {
		return c.n
	}
	c.text, c.n = strings.Clone(text), c.counter.Count(text, 0)
	return c.n
}

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/plaintext"
)

// Limits of a list of tools and of each definition in it.
const (
	maxTools       = 10000
	maxPages       = 500
	maxListBytes   = 64 << 20
	maxToolName    = 256
	maxDefinition  = 1 << 20
	maxSchemaDepth = 128
	maxDescription = 64 << 10
	maxBroken      = 100 // listed individually; the rest are only counted
	minFresh       = 60_000
	maxFresh       = 86_400_000 // milliseconds, see toolList.fresh
)

// A toolList is the list of tools of a server.
type toolList struct {
	tools    []*tool.Tool
	broken   []upstream.Broken
	bindings map[string][]binding
	offers   *tool.Offers
	trouble  string        // why the list may be incomplete, otherwise ""
	stale    bool          // it is from an earlier connection
	fresh    time.Duration // how long the server says it is valid (2026-07-28); 0: unspecified
}

// listTools lists all tools, page by page. An error means that there is no list. An endless list is
// cut short, with the reason in trouble. patience is the timeout of one page.
func (s *session) listTools(ctx context.Context, name string, patience time.Duration) (*toolList, error) {
	l := &toolList{bindings: map[string][]binding{}}
	var raw []json.RawMessage
	cursors := map[string]bool{}
	cursor, size := "", 0
	for page := 0; ; page++ {
		q := query{method: "tools/list", idle: patience}
		if cursor != "" {
			q.fields = append([]byte(`"cursor":`), quoteString(cursor)...)
		}
		answer, err := s.sendRequest(ctx, q)
		if e, ok := wireError(err); ok && page == 0 && e.Code == -32601 {
			return l, nil // it has no tools
		}
		if err != nil {
			return nil, err
		}
		var v struct {
			Tools []json.RawMessage `json:"tools"`
			Next  string            `json:"nextCursor"`
			TTL   json.RawMessage   `json:"ttlMs"`
		}
		if err := json.Unmarshal(answer, &v); err != nil {
			return nil, faultf(faultGarbled, "sent an invalid list of tools: %w", err)
		}
		raw = append(raw, v.Tools...)
		if ttl, err := strconv.ParseFloat(string(v.TTL), 64); err == nil && ttl > 0 && s.modern.Load() {
			l.fresh = time.Duration(min(max(ttl, minFresh), maxFresh)) * time.Millisecond
		}
		size += len(answer)
		if cursor = v.Next; cursor == "" {
			break
		}
		if why := explainCut(len(raw), page+1, size, cursors[cursor]); why != "" {
			l.trouble = why
			break
		}
		cursors[cursor] = true
	}
	l.readTools(name, raw[:min(len(raw), maxTools)], s.profile.kind == kindHTTP && s.profile.isModern(), s.tasks)
	return l, nil
}

// explainCut returns why a list with another page is cut short, or "" if it isn't.
func explainCut(tools, pages, size int, again bool) string {
	const cut = "its list of tools was cut short: "
	switch {
	case again:
		return cut + "it returned the same cursor twice"
	case tools > maxTools:
		return fmt.Sprintf("%smore than %d tools", cut, maxTools)
	case pages >= maxPages:
		return fmt.Sprintf("%smore than %d pages", cut, maxPages)
	case size > maxListBytes:
		return cut + "more than " + byteSize(maxListBytes)
	}
	return ""
}

// readTools parses definitions into tools. An invalid definition affects only its own tool. bound
// means that arguments can be bound to headers, and tasks that calls can be tasks.
func (l *toolList) readTools(upstreamName string, raw []json.RawMessage, bound, tasks bool) {
	seen := map[string]bool{}
	hidden := 0
	for i, r := range raw {
		t, err := parseTool(r)
		if err == nil && seen[t.Name] {
			err = errors.New("has the same name as an earlier tool, which is used instead")
		}
		if err == nil && !tasks && requiresTask(t.Raw) {
			err = errors.New("it can only be run as a task (execution.taskSupport is required), and its server does " +
				"not support tasks")
		}
		if err == nil && bound {
			var bs []binding
			if bs, err = parseBindings(t.InputSchema); len(bs) > 0 && err == nil {
				l.bindings[t.Name] = bs
			}
		}
		if err == nil {
			seen[t.Name] = true
			t.Upstream = upstreamName
			l.tools = append(l.tools, t)
			continue
		}
		name := fmt.Sprintf("#%d", i+1)
		if t != nil && t.Name != "" {
			name = cleanLine(t.Name, 80)
		}
		if len(l.broken) == maxBroken {
			hidden++
			continue
		}
		l.broken = append(l.broken, upstream.Broken{Tool: name, Reason: cleanLine(err.Error(), 300)})
	}
	if hidden > 0 {
		l.broken = append(l.broken,
			upstream.Broken{Tool: fmt.Sprintf("%d more", hidden), Reason: "their definitions are no good either"})
	}
}

// parseTool parses one definition (MCP Tool). If it returns an error, it may still return a tool
// with its name.
func parseTool(raw json.RawMessage) (*tool.Tool, error) {
	var f map[string]json.RawMessage
	if err := json.Unmarshal(raw, &f); err != nil || f == nil {
		return nil, errors.New("the definition is not an object")
	}
	if len(raw) > maxDefinition {
		return &tool.Tool{Name: decodeString(f["name"])}, fmt.Errorf("the definition is larger than %s",
			byteSize(maxDefinition))
	}
	shown, err := plaintext.Definition(raw)
	if err != nil {
		return &tool.Tool{Name: decodeString(f["name"])}, err
	}
	if !bytes.Equal(shown, raw) { // what is removed here is removed everywhere
		f = nil
		if err := json.Unmarshal(shown, &f); err != nil {
			return nil, errors.New("the definition can't be read")
		}
	}
	t := &tool.Tool{Raw: shown, Hidden: plaintext.ListHidden(raw), Title: decodeString(f["title"]),
		Description: clipText(decodeString(f["description"]), maxDescription)}
	t.Name = decodeString(f["name"])
	if err := checkName(t.Name); err != nil {
		return t, err
	}
	if t.InputSchema, err = inputSchema(f["inputSchema"]); err != nil {
		return t, err
	}
	if s := f["outputSchema"]; isObject(s) && checkJSON(s, maxSchemaDepth) == nil {
		t.OutputSchema = s
	}
	var a map[string]json.RawMessage
	_ = json.Unmarshal(f["annotations"], &a) // hints only: ignore invalid ones
	if t.Title == "" {
		t.Title = decodeString(a["title"])
	}
	t.Title = cleanLine(t.Title, 200)
	t.Annotations = tool.Annotations{ReadOnly: decodeBool(a["readOnlyHint"]),
		Destructive: decodeBool(a["destructiveHint"]),
		Idempotent:  decodeBool(a["idempotentHint"]), OpenWorld: decodeBool(a["openWorldHint"])}
	return t, nil
}

// checkName returns an error if a tool's name is invalid.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("it has no name")
	case len(name) > maxToolName:
		return fmt.Errorf("its name is longer than %d bytes", maxToolName)
	case !utf8.ValidString(name) || strings.ContainsRune(name, utf8.RuneError):
		return errors.New("its name is not valid UTF-8")
	}
	for _, c := range name {
		if isHidden(c) {
			return fmt.Errorf("its name contains the control character %U", c)
		}
	}
	return nil
}

// inputSchema checks the schema of the arguments. It accepts a missing schema, or one that doesn't
// say that arguments are an object.
func inputSchema(s json.RawMessage) (json.RawMessage, error) {
	if len(s) == 0 || string(s) == "null" {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	if !isObject(s) {
		return nil, errors.New("its inputSchema is not an object")
	}
	if err := checkJSON(s, maxSchemaDepth); err != nil {
		return nil, fmt.Errorf("its inputSchema nests deeper than %d levels", maxSchemaDepth)
	}
	var f map[string]json.RawMessage
	if err := json.Unmarshal(s, &f); err != nil {
		return nil, fmt.Errorf("its inputSchema can't be read: %w", err)
	}
	var one string
	var many []string
	switch typ := f["type"]; {
	case len(typ) == 0:
		return s, nil
	case json.Unmarshal(typ, &one) == nil && one == "object":
		return s, nil
	case json.Unmarshal(typ, &many) == nil:
		for _, t := range many {
			if t == "object" {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("its inputSchema has type %s: arguments are always an object",
		cleanLine(string(f["type"]), 60))
}

func isObject(v json.RawMessage) bool { return bytes.HasPrefix(trimSpace(v), []byte("{")) }

// decodeString decodes a JSON string. It returns "" if v is none.
func decodeString(v json.RawMessage) string {
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

// decodeBool decodes a JSON boolean. It returns nil if v is none.
func decodeBool(v json.RawMessage) *bool {
	var b *bool
	if json.Unmarshal(v, &b) != nil {
		return nil
	}
	return b
}

// clipText truncates s to at most n bytes, at a rune boundary.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

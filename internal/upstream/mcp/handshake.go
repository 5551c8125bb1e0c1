package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The supported revisions, newest first. Since 2026-07-28 there is no handshake: every request
// states its revision.
var revisions = [...]string{revision2026, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

const (
	revision2026   = "2026-07-28"
	newestStateful = "2025-11-25"
)

// JSON-RPC error codes of revision 2026-07-28.
const (
	codeHeaderMismatch      = -32020
	codeUnsupportedRevision = -32022
)

// The kinds of transport, as named in the configuration.
const (
	kindStdio = "stdio"
	kindHTTP  = "http"
	kindSSE   = "sse"
)

// A profile is the transport and revision that worked with a server. It is remembered to reconnect
// quickly.
type profile struct {
	kind    string
	version string
}

func (p profile) isModern() bool { return p.version >= revision2026 }

// An Implementation is the name and the version by which clients and servers introduce themselves.
type Implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Revision is the newest revision that a client speaks: 2026-07-28, the default, or 2025-11-25.
	Revision string `json:"-"`
}

func (c Implementation) encodeJSON() []byte {
	return append(append(append(append([]byte(`{"name":`), quoteString(c.Name)...), `,"version":`...),
		quoteString(c.Version)...), '}')
}

// A handshake begins a session.
type handshake struct {
	*session
	me Implementation // Biplane
}

// shakeHands negotiates a revision. known is the revision this server spoke last time, or "".
// patience is how long to wait for the answer to a request that servers of earlier revisions don't
// know.
func (h handshake) shakeHands(ctx context.Context, known string, patience time.Duration) error {
	switch {
	case h.profile.kind == kindSSE:
		return h.initializeSession(ctx, newestStateful)
	case known != "" && known < revision2026:
		return h.initializeSession(ctx, newestStateful)
	}
	probe, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan finding, 1)
	h.wg.Go(func() { found <- h.discoverServer(probe) })
	select {
	case f := <-found:
		return h.finishHandshake(ctx, f)
	case <-time.After(patience):
	case <-ctx.Done():
		<-found
		return ctx.Err()
	}
	if h.profile.kind != kindStdio {
		cancel()
		return h.finishHandshake(ctx, <-found)
	}
	// A server that starts slowly answers both, in order. One that drops unknown requests answers
	// the second.
	err := h.initializeSession(ctx, newestStateful)
	cancel()
	if late := <-found; err != nil && late.err == nil {
		return h.finishHandshake(ctx, late)
	}
	return err
}

// A discovery is the result of server/discover.
type discovery struct {
	Versions     []string        `json:"supportedVersions"`
	Capabilities json.RawMessage `json:"capabilities"`
	Instructions json.RawMessage `json:"instructions"`
	Meta         json.RawMessage `json:"_meta"`
}

// A finding is the outcome of a discovery.
type finding struct {
	discovery
	err error
}

// finishHandshake completes the handshake according to the outcome of discover.
func (h handshake) finishHandshake(ctx context.Context, f finding) error {
	err := f.err
	if err == nil {
		var m struct {
			Server json.RawMessage `json:"io.modelcontextprotocol/serverInfo"`
		}
		_ = json.Unmarshal(f.Meta, &m)
		h.profile.version = revision2026
		h.storeServerInfo(m.Server, f.Capabilities)
		h.instructions = decodeString(f.Instructions)
		h.modern.Store(true)
		h.meta = modernMeta(h.me)
		h.t.useRevision(revision2026)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if isFault(err, faultSignIn, faultScope, faultUnsent, faultClosed) {
		return err
	}
	version := newestStateful
	if e, ok := wireError(err); ok && e.Code == codeUnsupportedRevision {
		if version = commonRevision(e); version == "" || version >= revision2026 {
			return faultf(faultGarbled, "supports no known revision of MCP: %s", cleanLine(string(e.Data), 200))
		}
	}
	return h.initializeSession(ctx, version)
}

// commonRevision returns the newest revision that both sides support, from the data of an
// UnsupportedProtocolVersionError.
func commonRevision(e *jsonrpc.Error) string {
	var v struct {
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(e.Data, &v)
	for _, r := range revisions {
		if slices.Contains(v.Supported, r) {
			return r
		}
	}
	return ""
}

// modernMeta returns the members of _meta that identify the client in every request since
// 2026-07-28. It declares no capabilities.
func modernMeta(me Implementation) []byte {
	b := append([]byte(`"io.modelcontextprotocol/protocolVersion":"`+revision2026+
		`","io.modelcontextprotocol/clientInfo":`), me.encodeJSON()...)
	return append(b, `,"io.modelcontextprotocol/clientCapabilities":{}`...)
}

// discoverServer sends server/discover to a server that may speak revision 2026-07-28.
func (h handshake) discoverServer(ctx context.Context) (f finding) {
	ask := func() (json.RawMessage, error) {
		return h.sendRequest(ctx,
			query{method: "server/discover", version: revision2026, meta: modernMeta(h.me), once: true})
	}
	answer, err := ask()
	if e, ok := wireError(err); ok && e.Code == codeUnsupportedRevision && commonRevision(e) == revision2026 {
		answer, err = ask() // it refuses a revision it lists as supported: the server may just have been upgraded
	}
	if f.err = err; err != nil {
		return f
	}
	if json.Unmarshal(answer, &f.discovery) != nil || !slices.Contains(f.Versions, revision2026) {
		f.err = faultf(faultGarbled, "does not speak %s", revision2026)
	}
	return f
}

// initializeSession performs the handshake of the revisions before 2026-07-28.
func (h handshake) initializeSession(ctx context.Context, version string) error {
	ask := func(version string) (json.RawMessage, error) {
		fields := append([]byte(`"protocolVersion":"`+version+`","capabilities":`+h.encodeCapabilities(h.profile.kind)+
			`,"clientInfo":`), h.me.encodeJSON()...)
		return h.sendRequest(ctx, query{method: "initialize", fields: fields, once: true})
	}
	answer, err := ask(version)
	if e, ok := wireError(err); ok && strings.Contains(strings.ToLower(e.Message), "version") {
		older := commonRevision(e) // a server should answer with its own revision; some refuse instead
		if older == "" || older >= version {
			older = revisions[len(revisions)-1]
		}
		answer, err = ask(older)
	}
	if err != nil {
		return err
	}
	var v struct {
		Version      string          `json:"protocolVersion"`
		Capabilities json.RawMessage `json:"capabilities"`
		Server       json.RawMessage `json:"serverInfo"`
		Instructions json.RawMessage `json:"instructions"`
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return faultf(faultGarbled, "answered initialize with an invalid result: %w", err)
	}
	if !slices.Contains(revisions[:], v.Version) || v.Version >= revision2026 {
		return faultf(faultGarbled, "speaks revision %q of MCP, which is not supported", cleanLine(v.Version, 40))
	}
	h.profile.version = v.Version
	h.storeServerInfo(v.Server, v.Capabilities)
	h.instructions = decodeString(v.Instructions)
	h.t.useRevision(v.Version)
	err = h.t.send(ctx, &message{method: "notifications/initialized",
		body: appendRequest(nil, 0, "notifications/initialized", nil, nil)})
	if isFault(err, faultStatus) { // some servers refuse notifications, but work otherwise
		h.logViolation("did not accept a notification", "error", err)
		return nil
	}
	return err
}

// features are the capabilities of a server.
type features struct {
	watching  bool     // it announces changes of its list of tools
	announced []string // the lists whose changes it announces: "tools", "resources", "prompts"
	logs      bool     // it can send log messages

	resources, prompts, completions, subscribes bool // it offers them
	tasks                                       bool // calls of its tools can be tasks

	instructions string // its description of itself for models
}

// storeServerInfo stores what the server says about itself. Invalid parts are ignored.
func (s *session) storeServerInfo(server, capabilities json.RawMessage) {
	var me Implementation
	_ = json.Unmarshal(server, &me)
	s.name = cleanLine(strings.TrimSpace(me.Name+" "+me.Version), 120)
	var c struct {
		Tools       json.RawMessage `json:"tools"`
		Resources   json.RawMessage `json:"resources"`
		Prompts     json.RawMessage `json:"prompts"`
		Completions json.RawMessage `json:"completions"`
		Logging     json.RawMessage `json:"logging"`
		Tasks       struct {
			Requests struct {
				Tools struct {
					Call json.RawMessage `json:"call"`
				} `json:"tools"`
			} `json:"requests"`
		} `json:"tasks"`
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	_ = json.Unmarshal(capabilities, &c)
	s.watching = isDeclared(c.Tools, "listChanged")
	s.announced = nil
	for i, capability := range []json.RawMessage{c.Tools, c.Resources, c.Prompts} {
		if isDeclared(capability, "listChanged") {
			s.announced = append(s.announced, [...]string{"tools", "resources", "prompts"}[i])
		}
	}
	s.resources, s.prompts, s.completions = isObject(c.Resources), isObject(c.Prompts), isObject(c.Completions)
	s.subscribes = isDeclared(c.Resources, "subscribe")
	if s.tasks = isObject(c.Tasks.Requests.Tools.Call); s.profile.isModern() {
		s.tasks = isObject(c.Extensions[tasksExtension])
	}
	s.logs = len(c.Logging) > 0 && string(c.Logging) != "null"
}

// isDeclared reports whether a capability includes a feature.
func isDeclared(capability json.RawMessage, feature string) bool {
	var v map[string]json.RawMessage
	return json.Unmarshal(capability, &v) == nil && string(v[feature]) == "true"
}

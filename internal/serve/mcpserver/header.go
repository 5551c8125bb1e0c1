package mcpserver

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// refuseForeign returns the reason to refuse a request that a web page may have made, or "" if the
// request is acceptable. By DNS rebinding, a page can reach a listener on the loopback interface
// under its own host name, and pages can send requests across origins (basic/transports, "Security
// Warning").
//
// On a loopback listener, Host must be a loopback name or one of Config.Hosts. On other listeners
// it must be one of Config.Hosts, if these are set. If there is an Origin, it must match Host or be
// one of Config.Origins. On a listener that others can reach, an Origin is only trusted if its name
// is in the Config.
func (s *Server) refuseForeign(r *http.Request) string {
	host := hostName(r.Host)
	local := loopbackListener(r)
	known := s.cfg.AnyHost || slices.Contains(s.cfg.Hosts, host)
	if !known && (local || len(s.cfg.Hosts) > 0) && !(local && isLoopback(host)) {
		return "host " + strconv.Quote(r.Host) + " is not allowed here"
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return ""
	}
	origin := origins[0]
	if len(origins) == 1 {
		if slices.Contains(s.cfg.Origins, origin) {
			return ""
		}
		u, err := url.Parse(origin)
		if err == nil && strings.EqualFold(u.Host, r.Host) && (local || known) {
			return ""
		}
	}
	return "origin " + strconv.Quote(origin) + " is not allowed here"
}

// loopbackListener reports whether a request arrived on a loopback address.
func loopbackListener(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// hostName returns a Host in lower case, without port and brackets.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// checkHeaders checks the headers of a 2026-07-28 request that depend on the called tool, and
// returns what is wrong with them, or "". The SDK checks the headers that every request has
// (Mcp-Method, Mcp-Name). A non-ASCII name arrives encoded. It is replaced by its decoded form in
// the request, since the SDK compares that.
func (h *handler) checkHeaders(r *http.Request, e envelope, p tool.Principal) string {
	if slices.Contains(taskMethods, e.method) {
		if name, ok := decodeHeader(r.Header.Get(nameHeader)); !ok || name != e.task {
			return nameHeader + " header does not match the parameter taskId"
		}
		return ""
	}
	if e.method != "tools/call" && e.method != tool.ReadResource && e.method != tool.GetPrompt {
		return ""
	}
	if name := r.Header.Get(nameHeader); name != "" {
		decoded, ok := decodeHeader(name)
		if !ok {
			return nameHeader + " header is not valid Base64"
		}
		r.Header.Set(nameHeader, decoded)
	}
	if e.method != "tools/call" {
		return ""
	}
	t := h.srv.resolveName(r.Context(), p, e.name)
	if t == nil || !strings.Contains(string(t.InputSchema), headerKeyword) {
		return ""
	}
	var schema headerSchema
	if json.Unmarshal(t.InputSchema, &schema) != nil {
		return ""
	}
	return schema.checkHeaders(r.Header, e.args, "")
}

// headerKeyword marks, in an input schema, a parameter that is also sent as a header
// (basic/transports, "Custom headers from tool parameters").
const headerKeyword = "x-mcp-header"

type headerSchema struct {
	Header     any                     `json:"x-mcp-header"`
	Properties map[string]headerSchema `json:"properties"`
}

// checkHeaders compares the headers with the arguments, recursively through the properties of
// objects.
func (s headerSchema) checkHeaders(header http.Header, args json.RawMessage, path string) string {
	ms, _ := parseParts(args)
	for key, prop := range s.Properties {
		value := fieldOf(args, ms, key)
		if name, ok := prop.Header.(string); ok && name != "" {
			if msg := checkParam(header.Get("Mcp-Param-"+name), value); msg != "" {
				return "Mcp-Param-" + name + " header " + msg + " parameter " + strconv.Quote(path+key)
			}
		}
		if len(prop.Properties) > 0 {
			if msg := prop.checkHeaders(header, value, path+key+"."); msg != "" {
				return msg
			}
		}
	}
	return ""
}

// checkParam compares a header with the argument that it duplicates.
func checkParam(header string, value json.RawMessage) string {
	absent := len(value) == 0 || string(value) == "null"
	switch {
	case absent && header == "":
		return ""
	case absent:
		return "is there without"
	case header == "":
		return "is missing for"
	}
	decoded, ok := decodeHeader(header)
	if !ok {
		return "is not valid Base64 for"
	}
	if !sameValue(decoded, value) {
		return "does not match"
	}
	return ""
}

// sameValue reports whether a header's text equals the JSON value: a string, true or false, or an
// integer.
func sameValue(header string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		return stringValue(value) == header
	case 't', 'f':
		return string(value) == header
	case '{', '[':
		return false
	}
	a, errA := strconv.ParseFloat(header, 64)
	b, errB := strconv.ParseFloat(string(value), 64)
	return string(value) == header || (errA == nil && errB == nil && a == b && a > -maxID && a < maxID)
}

// decodeHeader decodes a header value that may be wrapped as =?base64?...?=.
func decodeHeader(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

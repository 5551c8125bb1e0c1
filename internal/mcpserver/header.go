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

// foreign says why a request must be refused because a web page may have made it: by DNS rebinding,
// a page can reach a listener on the loopback interface under a host name of its own, and pages can
// send requests across origins (basic/transports, "Security Warning"). It gives "" for a request
// that is fine.
//
// On a loopback listener, Host must be a loopback name or one of Config.Hosts. Elsewhere it must be
// one of Config.Hosts, where these are set. Origin, where there is one, must be of that same Host,
// or one of Config.Origins; on a listener that others can reach, an Origin is trusted by the names
// in the Config only.
func (s *Server) foreign(r *http.Request) string {
	host := hostname(r.Host)
	local := loopbackListener(r)
	known := s.cfg.AnyHost || slices.Contains(s.cfg.Hosts, host)
	if !known && (local || len(s.cfg.Hosts) > 0) && !(local && loopback(host)) {
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

// loopbackListener says whether a request came in on a loopback address.
func loopbackListener(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// hostname gives a Host without port and brackets, in lower case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// checkHeaders checks the headers of a request of 2026-07-28 that depend on what is called, and
// gives what is wrong with them, or "". The SDK checks those that every request has (Mcp-Method,
// Mcp-Name). A name that isn't ASCII comes encoded; it is left decoded in the request, as the SDK
// compares it.
func (h *handler) checkHeaders(r *http.Request, e envelope, p tool.Principal) string {
	if e.method != "tools/call" {
		return ""
	}
	if name := r.Header.Get(nameHeader); name != "" {
		decoded, ok := decodeHeader(name)
		if !ok {
			return nameHeader + " header is not valid Base64"
		}
		r.Header.Set(nameHeader, decoded)
	}
	t := h.srv.resolve(r.Context(), p, e.name)
	if t == nil || !strings.Contains(string(t.InputSchema), headerKeyword) {
		return ""
	}
	var schema headerSchema
	if json.Unmarshal(t.InputSchema, &schema) != nil {
		return ""
	}
	return schema.check(r.Header, e.args, "")
}

// headerKeyword marks, in an input schema, a parameter that is sent as a header too
// (basic/transports, "Custom headers from tool parameters").
const headerKeyword = "x-mcp-header"

type headerSchema struct {
	Header     any                     `json:"x-mcp-header"`
	Properties map[string]headerSchema `json:"properties"`
}

// check compares the headers with the arguments, through all depths of an object's properties.
func (s headerSchema) check(header http.Header, args json.RawMessage, path string) string {
	ms, _ := parts(args)
	for key, prop := range s.Properties {
		value := field(args, ms, key)
		if name, ok := prop.Header.(string); ok && name != "" {
			if msg := checkParam(header.Get("Mcp-Param-"+name), value); msg != "" {
				return "Mcp-Param-" + name + " header " + msg + " parameter " + strconv.Quote(path+key)
			}
		}
		if len(prop.Properties) > 0 {
			if msg := prop.check(header, value, path+key+"."); msg != "" {
				return msg
			}
		}
	}
	return ""
}

// checkParam compares a header with the argument that it repeats.
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

// sameValue says whether a header's text is the JSON value: the string, true or false, or the
// integer.
func sameValue(header string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		return text(value) == header
	case 't', 'f':
		return string(value) == header
	case '{', '[':
		return false
	}
	a, errA := strconv.ParseFloat(header, 64)
	b, errB := strconv.ParseFloat(string(value), 64)
	return string(value) == header || (errA == nil && errB == nil && a == b && a > -maxID && a < maxID)
}

// decodeHeader gives the text of a header value that may be wrapped as =?base64?...?=.
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

package policy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"github.com/biplane-dev/biplane/internal/base/urlpath"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	hostType      = cedar.EntityType("Host")
	connectAction = "connect"

	// fetchTool, sendTool and connectTool are Biplane's own tools by which programs reach the
	// network: fetchTool with methods that only read, sendTool with any, connectTool by a
	// connection whose requests are not seen.
	fetchTool   = "fetch"
	sendTool    = "send"
	connectTool = "connect"

	// connectMethod is the method of a connection whose requests are not seen.
	connectMethod = "CONNECT"
)

// ReachesNetwork reports whether a tool is one of Biplane's own that reach the network. Its calls
// are decided as "connect" to the host that they name.
func ReachesNetwork(t *tool.Tool) bool {
	return t != nil && t.Upstream == tool.Own && slices.Contains([]string{fetchTool, sendTool, connectTool}, t.Name)
}

// A Target is the destination of a program's request.
type Target struct {
	// URL is absolute. Its host is in lower case, the default port of its scheme is omitted, and
	// its path is in the form of package urlpath.
	URL    *url.URL
	Host   string // a name, or an address in its canonical form, without brackets
	Port   int
	Method string
}

// TargetOf parses the destination of a call of fetch or send. The sender must use the Target too,
// so that it connects to what the policies allowed.
func TargetOf(arguments json.RawMessage) (*Target, error) {
	var a struct{ URL, Method string }
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, tool.Errorf(tool.Invalid, "fetch: %w", err)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid,
			"fetch: %q is not an HTTP URL: write it in full, such as \"https://api.example.com/items\"",
			clipText(a.URL))
	}
	t := &Target{URL: u, Host: strings.ToLower(u.Hostname()), Method: strings.ToUpper(a.Method)}
	if t.Method == "" {
		t.Method = "GET"
	}
	ports := map[string]int{"http": 80, "https": 443}
	t.Port = ports[u.Scheme]
	raw := u.Scheme == "tcp" && t.IsOpaque() && u.Port() != ""
	switch {
	case t.Port == 0 && !raw || t.Host == "":
		return nil, tool.Errorf(tool.Invalid,
			"fetch: %q is not an HTTP URL: write it in full, such as \"https://api.example.com/items\"",
			clipText(a.URL))
	case u.User != nil:
		return nil, tool.Errorf(tool.Invalid, "fetch: a URL must not contain a user name or a password: use a header")
	case strings.ContainsFunc(t.Host, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`%\/?#@`, c)
	}) || strings.HasSuffix(t.Host, "."):
		return nil, tool.Errorf(tool.Invalid,
			"fetch: invalid host name %q: write it in ASCII (xn--...), without a dot at its end", clipText(t.Host))
	}
	if t.Host, err = canonicalHost(t.Host); err != nil {
		return nil, err
	}
	if p := u.Port(); p != "" {
		if t.Port, err = strconv.Atoi(p); err != nil || t.Port < 1 || t.Port > 65535 {
			return nil, tool.Errorf(tool.Invalid, "fetch: invalid port %q", clipText(p))
		}
	}
	if err := urlpath.CanonicalizePath(u); err != nil {
		return nil, tool.Errorf(tool.Invalid, "fetch: %w", err)
	}
	u.Host, u.Fragment, u.RawFragment = t.Host, "", ""
	if strings.Contains(t.Host, ":") {
		u.Host = "[" + t.Host + "]"
	}
	if t.Port != ports[u.Scheme] {
		u.Host = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
	return t, nil
}

// canonicalHost returns the one spelling of an address that policies know: IPv6 as in RFC 5952, and
// IPv4 in IPv6 as IPv4. Names stay as they are. Other spellings of IPv4 addresses, whose last part
// is a number, are invalid.
func canonicalHost(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().String(), nil
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Contains(host, ":") || isDigits(last) {
		return "", tool.Errorf(tool.Invalid, "fetch: invalid address %q: write four numbers, such as 192.0.2.1, "+
			"or an IPv6 address in brackets", clipText(host))
	}
	return host, nil
}

// isDigits reports whether s consists of decimal digits.
func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Reads reports whether the method only reads.
func (t *Target) Reads() bool { return t.Method == "GET" || t.Method == "HEAD" }

// IsOpaque reports whether the target is a connection whose requests are not seen.
func (t *Target) IsOpaque() bool { return t.Method == connectMethod }

// targetFacts returns the facts that policies know about a host. It also has the attributes of
// tools, so that policies without an action can be evaluated for it. It is never readOnly, since
// every request carries data out. What depends on a request is missing for an opaque target:
// policies that need it can't be evaluated, so they permit nothing, or deny.
func (t *Target) targetFacts() *facts {
	about := hostAttributes(t.Host)
	about["port"], about["scheme"] = cedar.Long(t.Port), cedar.String(t.URL.Scheme)
	if !t.IsOpaque() {
		about["destructive"], about["idempotent"] = cedar.Boolean(!t.Reads()), cedar.Boolean(t.Reads())
	}
	return &facts{action: connectAction, entity: cedar.Entity{
		UID: cedar.NewEntityUID(hostType, cedar.String(t.Host)), Attributes: cedar.NewRecord(about)}}
}

// hostAttributes returns the attributes of a host that don't depend on a request.
func hostAttributes(host string) cedar.RecordMap {
	return cedar.RecordMap{
		"host": cedar.String(host), "name": cedar.String(host), "upstream": cedar.String(""),
		"readOnly": cedar.Boolean(false), "openWorld": cedar.Boolean(true), "tags": setOf(nil),
		"labels": setOf([]string{"external"}),
	}
}

// requestContext returns the part of the context that only connections have.
func (t *Target) requestContext() cedar.RecordMap {
	if t.IsOpaque() {
		return nil
	}
	path := t.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	return cedar.RecordMap{"method": cedar.String(t.Method), "path": cedar.String(path)}
}

// ReachesHost reports whether the principal could be permitted some connection to a host, given in
// lower case. Port, scheme, method, path and the program are unknown.
func (s *Sight) ReachesHost(host string) bool {
	about := hostAttributes(host)
	for _, name := range []cedar.String{"port", "scheme", "destructive", "idempotent"} {
		about[name] = eval.Variable(name)
	}
	return s.showsResource(&facts{action: connectAction, entity: cedar.Entity{
		UID: cedar.NewEntityUID(hostType, cedar.String(host)), Attributes: cedar.NewRecord(about)}})
}

// ExplainPermit returns the smallest policy that would permit a target, in one line.
func (t *Target) ExplainPermit() string {
	when := ""
	if t.URL.Scheme != "https" || t.Port != 443 {
		when = fmt.Sprintf(" when { resource.scheme == %s && resource.port == %d }", quoteCedar(t.URL.Scheme), t.Port)
	}
	if !t.IsOpaque() {
		if when == "" {
			when = " when { "
		} else {
			when = strings.TrimSuffix(when, "}") + "&& "
		}
		when += "context.method == " + quoteCedar(t.Method) + " }"
	}
	return fmt.Sprintf("permit (principal, action == Action::\"connect\", resource == Host::%s)%s;", quoteCedar(t.Host),
		when)
}

// denyRedaction denies a connection whose decision has fields to remove, since they can't be
// removed from a host's answer.
func denyRedaction(d Decision) Decision {
	if len(d.Redact) > 0 && d.Effect != Deny {
		return Decision{Effect: Deny, Policy: d.Policy, Reason: "@redact can't remove fields from a host's answer: " +
			"permit connections in a separate policy, and restrict this one to calls"}
	}
	return d
}

// checkHosts reports errors in what the rule says about hosts.
func (r *rule) checkHosts(f File) (problems []Problem) {
	for _, id := range r.entityIDs("Host") {
		if id != strings.ToLower(id) || strings.ContainsAny(id, "/:*@ ") && net.ParseIP(id) == nil {
			problems = append(problems,
				r.newProblem(f, id, "invalid entity Host::%s: a host is a name in lower case, without scheme, port "+
					"and path, such as \"api.example.com\"; for a pattern write resource.host like", quoteCedar(id)))
		}
	}
	if len(r.bounds.redact) > 0 && slices.Contains(actions, connectAction) && r.includesOnly(connectAction) {
		problems = append(problems,
			r.newProblem(f, "@redact",
				"@redact can't remove fields from a host's answer: remove it"))
	}
	return problems
}

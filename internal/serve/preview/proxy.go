package preview

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/tool"
)

// sandboxPolicy makes the browser treat a page as one of an origin that equals no other: it can't
// read what belongs to Biplane's origin, nor act there as its visitor.
const sandboxPolicy = "sandbox allow-scripts allow-forms allow-modals allow-downloads"

// ownPolicy makes the browser load nothing for a page from other hosts, and send nothing to them,
// except by following a link. Everything of its own is permitted: scripts in the page, too.
const ownPolicy = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; form-action 'self'; " +
	"base-uri 'self'; webrtc 'block'"

// isolatePage sets the headers that isolate an answer from Biplane's own pages, and a page of a
// sandbox without a network from other hosts. l may be nil: the answer has no page.
func isolatePage(h http.Header, l *link) {
	h.Add("Content-Security-Policy", sandboxPolicy) // besides the page's own
	if l == nil || !l.maker.Network {
		h.Add("Content-Security-Policy", ownPolicy)
		h.Set("X-Dns-Prefetch-Control", "off")
	}
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer") // the address has the token
	h.Set("Cache-Control", "no-store")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), usb=(), serial=(), hid=(), payment=()")
	// Scripts of a page have no origin, so that the page's own files are of another one for them.
	// Who has the token may read them.
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "*")
	h.Set("Access-Control-Expose-Headers", "*")
}

// stateHeaders are headers of answers that change something for a whole origin, ask for its
// credentials, or that isolatePage sets.
var stateHeaders = []string{"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security",
	"Public-Key-Pins", "Public-Key-Pins-Report-Only", "Alt-Svc", "Nel", "Report-To", "Reporting-Endpoints",
	"Accept-Ch", "Critical-Ch", "Service-Worker-Allowed", "Www-Authenticate", "Proxy-Authenticate",
	"Authentication-Info", "Set-Login", "Activate-Storage-Access", "Origin-Agent-Cluster", "Document-Policy",
	"Cross-Origin-Opener-Policy", "Cross-Origin-Embedder-Policy", "Cross-Origin-Resource-Policy", "Referrer-Policy",
	"Cache-Control", "Pragma", "Expires", "Permissions-Policy", "Access-Control-Allow-Origin",
	"Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Expose-Headers",
	"Access-Control-Allow-Credentials", "Access-Control-Max-Age", "X-Sendfile", "X-Lighttpd-Send-File",
	"X-Reproxy-Url", "Expect-Ct", "Use-As-Dictionary", "Shared-Storage-Write", "Secure-Session-Registration",
	"Sec-Session-Registration", "X-Dns-Prefetch-Control"}

// isForServers reports whether a header of an answer tells a proxy or cache before Biplane what to
// do: to send a file or page of its own, or to keep the answer.
func isForServers(name string) bool {
	return strings.HasPrefix(name, "X-Accel-") || strings.HasPrefix(name, "Surrogate-") ||
		strings.HasSuffix(name, "-Cache-Control")
}

// privateHeaders are headers of requests that belong to Biplane or to its visitor.
var privateHeaders = []string{"Cookie", "Authorization", "Proxy-Authorization", "Referer", "X-Real-Ip", "Via",
	"Traceparent", "Tracestate", "Idempotency-Key", "X-Api-Key"}

// visitorWords are words of the names of headers by which proxies before Biplane say who a visitor
// is, or prove it: Remote-User, X-Auth-Request-Email, Cf-Access-Jwt-Assertion, Client-Cert.
var visitorWords = []string{"account", "assertion", "auth", "authelia", "authenticated", "authentication",
	"authentik", "authorization", "cert", "certificate", "client", "credential", "email", "entitlements",
	"forwarded", "group", "groups", "iap", "identity", "ip", "jwt", "kerberos", "login", "mail", "oauth",
	"oidc", "password", "permissions", "person", "pomerium", "principal", "remote", "role", "roles", "saml",
	"scopes", "sso", "ssl", "subject", "tailscale", "teleport", "tenant", "tls", "token", "uid", "upn",
	"user", "userid", "userinfo", "username", "vouch", "webauth"}

// pageHeaders are headers with such a word that browsers send, or that scripts of pages often set.
var pageHeaders = []string{"User-Agent", "X-Csrf-Token", "X-Xsrf-Token"}

// namesVisitor reports whether a header may say who the visitor is. Proxies choose such names, so a
// list of them can't be complete.
func namesVisitor(name string) bool {
	return !slices.Contains(pageHeaders, name) && slices.ContainsFunc(strings.Split(strings.ToLower(name), "-"),
		func(word string) bool { return slices.Contains(visitorWords, word) })
}

// newProxy returns the proxy that passes requests on.
func (s *Server) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{Rewrite: rewriteRequest, ModifyResponse: cleanAnswer, ErrorHandler: answerFailure,
		FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Transport: plainTransport{&http.Transport{DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxHeaders, ResponseHeaderTimeout: answerTime,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				l, ok := ctx.Value(linkKey{}).(*link)
				if !ok {
					return nil, errors.New("a request without a link")
				}
				return s.dialServer(ctx, l)
			}}}}
}

// dialServer connects to the server of a link. ctx does not end with the request.
func (s *Server) dialServer(ctx context.Context, l *link) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, tool.Errorf(tool.Timeout,
		"the port of the sandbox could not be reached within %s", answerTime))
	defer cancel()
	c, err := s.cfg.Dialer.DialPort(ctx, l.maker, l.port)
	if err != nil {
		return nil, err
	}
	return serverConn{c}, nil
}

// A serverConn is a connection to a server in a sandbox. Without its limit, a server that reads
// nothing would hold a request as long as its link, since the time for an answer begins when the
// request was sent.
type serverConn struct{ net.Conn }

// Write writes b. It fails if the server reads none of it for answerTime.
func (c serverConn) Write(b []byte) (int, error) { return netaddr.WriteWithin(c.Conn, b, answerTime) }

// linkOf returns the link of a request that is passed on.
func linkOf(r *http.Request) *link {
	l, _ := r.Context().Value(linkKey{}).(*link)
	return l
}

// prefixOf returns the part of a preview's path that comes before the server's: with the token.
func prefixOf(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, Prefix), "/", 4)
	return Prefix + strings.Join(parts[:min(3, len(parts))], "/")
}

// rewriteRequest makes a request for a preview one for the server in the sandbox.
func rewriteRequest(r *httputil.ProxyRequest) {
	l := linkOf(r.In)
	host := "localhost:" + strconv.Itoa(l.port)
	escaped := strings.TrimPrefix(r.In.URL.EscapedPath(), prefixOf(r.In.URL.EscapedPath()))
	path, err := url.PathUnescape(escaped)
	if err != nil {
		path = escaped
	}
	r.Out.URL = &url.URL{Scheme: "http", Host: host, Path: path, RawPath: escaped, RawQuery: r.In.URL.RawQuery,
		ForceQuery: r.In.URL.ForceQuery}
	r.Out.Host = host
	h := r.Out.Header
	for _, name := range privateHeaders {
		h.Del(name)
	}
	for name := range h {
		if strings.HasPrefix(name, "X-Biplane-") || namesVisitor(name) {
			h.Del(name)
		}
	}
	if h.Get("Origin") != "" { // the page's, which is opaque
		h.Set("Origin", "http://"+host)
	}
}

// cleanAnswer removes from an answer what must not reach Biplane's origin.
func cleanAnswer(r *http.Response) error {
	for _, name := range stateHeaders {
		r.Header.Del(name)
	}
	for name := range r.Header {
		if isForServers(name) {
			r.Header.Del(name)
		}
	}
	if kind := r.Header.Get("Content-Type"); strings.Contains(strings.ToLower(kind), "multipart/") {
		r.Header.Set("Content-Type", "application/octet-stream") // its parts could have headers, such as Set-Cookie
	}
	if to := r.Header.Get("Location"); to != "" {
		r.Header.Set("Location", rewriteLocation(to, linkOf(r.Request), r.Request))
	}
	isolatePage(r.Header, linkOf(r.Request))
	return nil
}

// A plainTransport receives answers without informational ones, which nothing would clean, and
// without trailers.
type plainTransport struct{ http.RoundTripper }

// RoundTrip sends a request.
func (t plainTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	// The context of r asks for informational answers, so the request has another one.
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), linkKey{}, linkOf(r)))
	context.AfterFunc(r.Context(), cancel) // it ends with the request of the browser
	resp, err := t.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	answer := *resp // trailers arrive in resp
	answer.Request, answer.Trailer = r, nil
	return &answer, nil
}

// rewriteLocation returns the target of a redirect in the preview. Other hosts stay as they are.
func rewriteLocation(to string, l *link, r *http.Request) string {
	u, err := url.Parse(to)
	if err != nil {
		return "."
	}
	own := u.Host == "" || u.Port() == strconv.Itoa(l.port) && (u.Hostname() == "localhost" ||
		u.Hostname() == "127.0.0.1" || u.Hostname() == "0.0.0.0")
	if !own || u.Scheme != "" && u.Scheme != "http" {
		if u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "" && u.Host != "" {
			return to
		}
		return "."
	}
	u = r.URL.ResolveReference(u)
	prefix, _ := r.Context().Value(prefixKey{}).(string)
	out := prefix + "/" + strings.TrimPrefix(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		out += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		out += "#" + u.EscapedFragment()
	}
	return out
}

type prefixKey struct{}

// answerFailure answers a request that the server in the sandbox didn't answer.
func answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	var e *tool.Error
	text := "the server in the sandbox did not answer"
	switch {
	case r.Context().Err() != nil:
		status, text = http.StatusGatewayTimeout, "the link has expired, or biplane is stopping"
	case errors.As(err, &e):
		text = e.Msg
	}
	answerText(w, status, text)
}

package httpapi

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/identity"
)

// checkSite returns why a request is refused, or "". It refuses requests that a page of another
// site could make. These name a host other than this machine (DNS rebinding), or have another
// Origin.
func checkSite(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !identity.IsLoopback(strings.Trim(host, "[]")) {
		return "Host " + r.Host + " is not supported: use 127.0.0.1 or localhost, or set tls: terminated in the " +
			"configuration if a proxy terminates TLS"
	}
	return checkOrigin(r)
}

// checkOrigin returns why a request is refused, or "". It refuses requests from pages of another
// site. Browsers add no credentials of their own to them, but there is no known use for such
// requests.
func checkOrigin(r *http.Request) string {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return "requests from " + origin + " are not accepted"
	}
	return ""
}

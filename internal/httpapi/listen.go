package httpapi

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// sameSite refuses requests that a page of another site could make: those for a host that isn't this machine (DNS
// rebinding), and those with another Origin.
func sameSite(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !loopback(strings.Trim(host, "[]")) {
		return "Host " + r.Host + " is not served here: use 127.0.0.1 or localhost, or write tls: terminated into the configuration where a proxy is in front"
	}
	return sameOrigin(r)
}

// sameOrigin refuses requests of pages of another site. What they send carries no credentials of a browser's own, and
// still: whoever means to be reached by web pages has a reason that nobody has had yet.
func sameOrigin(r *http.Request) string {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return "requests of " + origin + " are not served here"
	}
	return ""
}

func loopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// CheckListen says why addr is no address to listen on.
func CheckListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return tool.Errorf(tool.Invalid, "listen address %q: it is like 127.0.0.1:8420", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return tool.Errorf(tool.Invalid, "listen address %q: the port is a number from 0 (any that is free) to 65535", addr)
	}
	return nil
}

// CheckExposure says why addr must not be listened on: where others than this machine's users can reach it, there has to
// be sign-in, and what they send has to be private, by TLS here or in a proxy.
func CheckExposure(addr string, signIn, private bool) error {
	if err := CheckListen(addr); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(addr)
	switch {
	case loopback(host):
		return nil
	case !signIn:
		return tool.Errorf(tool.Invalid, "will not listen on %s without sign-in: whoever reaches it could use all tools; write auth: {keys: true} into the configuration, or listen on a loopback address like 127.0.0.1:8420", addr)
	case !private:
		return tool.Errorf(tool.Invalid, "will not listen on %s without TLS: keys and results would travel in the clear; write tls: {cert: FILE, key: FILE}, or tls: terminated where a proxy in front does it", addr)
	}
	return nil
}

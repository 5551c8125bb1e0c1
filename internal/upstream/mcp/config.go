package mcp

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
)

// validateConfig validates a configuration and sets the defaults. Its errors name the upstream and
// the setting.
func (c *Config) validateConfig() error {
	bad := func(format string, a ...any) error {
		return tool.Errorf(tool.Invalid, "upstream %q: "+format, append([]any{c.Name}, a...)...)
	}
	switch {
	case c.Name == "":
		return tool.Errorf(tool.Invalid, "the upstream has no name")
	case c.Command == "" && c.URL == "":
		return bad("specify a command to run or the url of a server")
	case c.Command != "" && c.URL != "":
		return bad("specify either a command or a url, not both")
	case c.Timeout < 0 || c.MaxTime < 0 || c.ConnectTimeout < 0:
		return bad("a timeout is negative")
	case !slices.Contains([]string{"", revision2026, newestStateful}, c.Client.Revision):
		return bad("revision %q is not known: it is one of %s, %s", c.Client.Revision, revision2026, newestStateful)
	case c.MaxMessage < 0:
		return bad("the maximum message size is negative")
	}
	for name, d := range c.Timeouts {
		if d <= 0 {
			return bad("the timeout of tool %q is not positive", name)
		}
	}
	if why := c.setType(); why != "" {
		return bad("%s", why)
	}
	if why := c.checkURL(); why != "" {
		return bad("%s", why)
	}
	for k, v := range c.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return bad("the environment variable %q can't be set", k)
		}
	}
	c.setDefaults()
	return nil
}

func (c *Config) setDefaults() {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxTime == 0 {
		c.MaxTime = max(defaultMaxTime, c.Timeout)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if c.pace == (pace{}) {
		c.pace = usualPace
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("upstream", c.Name)
	if c.Mask == nil {
		c.Mask = mask.New()
	}
	c.Client.Name = cmp.Or(c.Client.Name, "biplane")
	c.Client.Version = cmp.Or(c.Client.Version, "dev")
}

// setType normalizes the type of transport. It returns a problem, or "".
func (c *Config) setType() string {
	switch strings.ToLower(c.Type) {
	case "":
		if c.Command != "" {
			c.Type = kindStdio
		}
		return ""
	case kindStdio:
		c.Type = kindStdio
	case kindHTTP, "streamable-http", "streamable_http", "streamablehttp": // as various clients spell it
		c.Type = kindHTTP
	case kindSSE:
		c.Type = kindSSE
	default:
		return "type " + string(quoteString(c.Type)) + " is not known: it is one of stdio, http, sse"
	}
	if c.Type == kindStdio && c.Command == "" {
		return "type stdio needs a command"
	}
	if c.Type != kindStdio && c.URL == "" {
		return "type " + c.Type + " needs a url"
	}
	return ""
}

// checkURL returns what is wrong with the address and the headers, or "". It does not repeat their
// values: they may be secret.
func (c *Config) checkURL() string {
	if c.URL == "" {
		if len(c.Headers) > 0 {
			return "headers are for servers with a url"
		}
		return ""
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return "the url can't be read"
	case u.Scheme != "http" && u.Scheme != "https":
		return "the url must begin with http:// or https://"
	case u.Host == "":
		return "the url names no host"
	}
	for k, v := range c.Headers {
		switch http.CanonicalHeaderKey(k) {
		case "Content-Type", "Content-Length", "Accept", "Transfer-Encoding", "Connection", "Mcp-Session-Id",
			"Mcp-Protocol-Version", "Last-Event-Id":
			return "the header " + string(quoteString(k)) + " is set by the protocol"
		}
		if !isToken(k) {
			return "the header name " + string(quoteString(k)) + " is not valid"
		}
		if strings.ContainsAny(v, "\r\n\x00") {
			return "the value of header " + string(quoteString(k)) + " contains a line break"
		}
	}
	return ""
}

// parsedURL returns the parsed URL, or nil if there is none.
func (c *Config) parsedURL() *url.URL {
	if c.URL == "" {
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil // complete rejected it
	}
	u.Fragment = ""
	return u
}

func (c *Config) httpHeaders() http.Header {
	h := http.Header{}
	for k, v := range c.Headers {
		h.Set(k, v)
	}
	return h
}

// timeoutOf returns the configured timeout of a tool: that of its exact name, otherwise the
// shortest of its other names. ok is false if it has none.
func (c *Config) timeoutOf(t *tool.Tool) (least time.Duration, ok bool) {
	if d, ok := c.Timeouts[t.Name]; ok {
		return d, true
	}
	for name, d := range c.Timeouts {
		if t.IsNamed(name) && (!ok || d < least) {
			least, ok = d, true
		}
	}
	return least, ok
}

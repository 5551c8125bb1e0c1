package mcpserver_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestCutBeforeSession checks that no session stays open for a key that is revoked while its first
// request is under way: before the request is registered, or after.
func TestCutBeforeSession(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Principal = func(*http.Request) (tool.Principal, error) { return tool.Principal{ID: "key:a"}, nil }
	s := mcpserver.New(cfg)
	defer s.Close()
	p := &httpPeer{version: "2025-11-25"}
	body := request(1, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`, p.version)
	send := func(method, session, body string, recheck func() error) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(identity.WithRecheck(t.Context(), recheck), method,
			"http://biplane.lan/mcp", strings.NewReader(body))
		p.header(t, r.Header, body)
		if r.Header.Del("Mcp-Session-Id"); session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w
	}
	valid := func() error { return nil }
	before := func() error { return errors.New("the key was revoked") }
	if w := send("POST", "", body, before); w.Code != http.StatusUnauthorized {
		t.Errorf("a key that was revoked before: %d %s, want %d", w.Code, w.Body, http.StatusUnauthorized)
	}
	after := func() error {
		s.Cut("key:a")
		return nil
	}
	session := send("POST", "", body, after).Header().Get("Mcp-Session-Id")
	if w := send("DELETE", session, "", valid); session == "" || w.Code != http.StatusNotFound {
		t.Errorf("session %q was cut while it was opened, but is there: %d %s", session, w.Code, w.Body)
	}
	session = send("POST", "", body, valid).Header().Get("Mcp-Session-Id")
	if w := send("DELETE", session, "", valid); session == "" || w.Code != http.StatusNoContent {
		t.Errorf("session %q of a valid key: %d %s, want %d", session, w.Code, w.Body, http.StatusNoContent)
	}
}

package httpapi

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/identity"
)

// noKeys is an identity.KeyStore that stores nothing.
type noKeys struct{}

func (noKeys) Keys(context.Context) ([]identity.Key, error)     { return nil, nil }
func (noKeys) SaveKey(context.Context, *identity.Key) error     { return nil }
func (noKeys) UsedKey(context.Context, string, time.Time) error { return nil }

// TestViewerIsRefused tries every route of the table that requires more than the role viewer, with
// the key of a viewer. The parts behind the routes are missing, so a request that passed would
// panic.
func TestViewerIsRefused(t *testing.T) {
	keys, err := identity.OpenKeys(t.Context(), identity.KeysConfig{Store: noKeys{}})
	if err != nil {
		t.Fatalf("identity.OpenKeys: %v", err)
	}
	_, key, err := keys.Create(t.Context(), identity.Key{Name: "eve", Roles: []string{identity.Viewer},
		Scopes: []string{identity.ScopeAPI, identity.ScopeMCP}})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	s := New(Config{Authenticator: identity.New(identity.AuthenticatorConfig{Keys: keys}), AnyHost: true})
	t.Cleanup(func() { s.Close() })
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	tried := 0
	for _, rt := range s.listRoutes() {
		if rt.access == anyone || rt.access == viewer || rt.access == visitor {
			continue
		}
		method, path, ok := strings.Cut(rt.pattern, " ")
		if !ok {
			method, path = "POST", rt.pattern
		}
		r := httptest.NewRequest(method, parameter.ReplaceAllString(path, "x"), strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.Network().ServeHTTP(w, r)
		if w.Code != 403 {
			t.Errorf("%s: a viewer's request has status %d, want 403: %s", rt.pattern, w.Code, w.Body)
		}
		tried++
	}
	if tried < 30 {
		t.Errorf("only %d routes were tried", tried)
	}
}

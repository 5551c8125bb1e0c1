package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestApprovedListFails checks that a list that can't be read stops nothing that runs, and that
// nothing else is started meanwhile. Doctor shows both.
func TestApprovedListFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "approved.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatalf("write the list: %v", err)
		}
	}
	s := &config.Config{}
	s.Registry.Source, s.Registry.Unsigned, s.Registry.Only = file, true, true
	wantRow := func(ok bool, want string) {
		t.Helper()
		rows := checkRegistry(t.Context(), DoctorConfig{}, s)
		if len(rows) != 1 || rows[0].OK != ok || !rows[0].Needed || !strings.Contains(rows[0].Detail, want) {
			t.Errorf("rows of doctor: %+v, want one with ok %t and %q", rows, ok, want)
		}
	}
	a := newApprovedServers(s, "", slog.New(slog.DiscardHandler))
	server := &config.Server{Name: "x", Command: "/opt/x"}
	write(`{"list":"acme","version":1,"servers":[{"server":{"name":"acme/x"},"commands":[["/opt/x"]]}]}`)
	wantRow(true, "acme, version 1, of "+file+": 1 server approved, unsigned")
	if err := a.checkServer(server, false); err != nil {
		t.Fatalf("checkServer: %v, want that it is approved", err)
	}
	write(`{"list":`)
	a.read = a.read.Add(-2 * listAge)
	if err := a.checkServer(server, true); err != nil {
		t.Errorf("a running server, without a list: %v, want that it goes on", err)
	}
	if err := a.checkServer(server, false); err == nil || !strings.Contains(err.Error(), "not started, because") {
		t.Errorf("a further server, without a list: %v, want that it is not started", err)
	}
	wantRow(false, "the list of approved servers")
	write(`{"list":"acme","version":2,"servers":[]}`)
	if err := a.checkServer(server, true); err == nil || !strings.Contains(err.Error(), "not approved") {
		t.Errorf("a running server that the list no longer has: %v, want that it is not approved", err)
	}
}

// TestApprovedSignIn checks that an approved API is not started if its entry sends people or
// secrets to a host that the list doesn't approve.
func TestApprovedSignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"approved.json": `{"list":"acme","version":1,"apis":["https://api.example.com/openapi.json",
			"https://api.example.com/graphql","https://login.example.com/token"]}`,
		"biplane.yaml": `registry: { source: approved.json, unsigned: true, only: true }
openapi:
  own: { spec: https://api.example.com/openapi.json, auth: { a: { client_id: x, sign_in: true } } }
  near: { spec: https://api.example.com/openapi.json,
    auth: { a: { client_id: x, token_url: https://api.example.com/t } } }
  listed: { spec: https://api.example.com/openapi.json,
    auth: { a: { client_id: x, client_secret: s, token_url: https://login.example.com/token } } }
  token: { spec: https://api.example.com/openapi.json,
    auth: { a: { client_id: x, client_secret: s, token_url: https://evil.example/token } } }
  issuer: { spec: https://api.example.com/openapi.json,
    auth: { a: { client_id: x, sign_in: true, issuer: https://evil.example } } }
  people: { spec: https://api.example.com/openapi.json,
    auth: { a: { client_id: x, sign_in: true, authorization_url: https://evil.example/authorize } } }
graphql:
  shop: { url: https://api.example.com/graphql, auth: { client_id: x, token_url: https://login.example.com/token } }
  evil: { url: https://api.example.com/graphql, auth: { client_id: x, token_url: https://evil.example/token } }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	s, err := config.Load(filepath.Join(dir, "biplane.yaml"), tool.WASM)
	if err != nil {
		t.Fatalf("config.Load: %v", err)
	}
	refused := map[string]bool{"token": true, "issuer": true, "people": true, "evil": true}
	a, n := newApprovedServers(s, dir, slog.New(slog.DiscardHandler)), 0
	for _, c := range s.APIs {
		n++
		err := a.checkAPI(c, false)
		if want := refused[c.GetSource().Name]; (err != nil) != want || want &&
			!strings.Contains(err.Error(), "its address for sign-in: https://evil.example") {
			t.Errorf("%s: %v, want that it is refused: %t", c.GetSource().Name, err, want)
		}
	}
	if n != 8 {
		t.Errorf("%d upstreams, want 8", n)
	}
}

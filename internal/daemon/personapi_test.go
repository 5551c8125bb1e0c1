package daemon_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// newKeyedAPI returns an HTTP API with an OpenAPI document, and a GraphQL endpoint. Both answer
// with the key of the request.
func newKeyedAPI(t *testing.T) *httptest.Server {
	t.Helper()
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		key := "owner of " + strings.TrimPrefix(r.Header.Get("X-Key"), "secret-")
		switch r.URL.Path {
		case "/openapi.json":
			fmt.Fprint(w, `{"openapi":"3.0.3","info":{"title":"Keys","version":"1"},"security":[{"key":[]}],
				"paths":{"/who":{"get":{"operationId":"who","responses":{"200":{"description":"ok"}}}}},
				"components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Key"}}}}`)
		case "/graphql":
			fmt.Fprintf(w, `{"data":{"who":%q}}`, key)
		default:
			fmt.Fprintf(w, `{"who":%q}`, key)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// TestAPIsPerPerson calls an OpenAPI API and a GraphQL endpoint, each with the secret of its
// principal.
func TestAPIsPerPerson(t *testing.T) {
	t.Parallel()
	p := newKeyedAPI(t)
	dir := t.TempDir()
	writeTools(t, dir, map[string]string{"../schema.graphql": "type Query { who: String }\n"})
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "auth: { keys: true }\npolicy: open\n"+
		"openapi: { rest: { spec: '"+p.URL+"/openapi.json', auth: { key: '${secret:KEY}' }, credentials: person } }\n"+
		"graphql: { graph: { url: '"+p.URL+"/graphql', schema: ./schema.graphql, idle: 1m, "+
		"headers: { X-Key: '${secret:KEY}' }, credentials: person } }\n")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	d, stop := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0"})
	for _, name := range []string{"ann", "bob", "stranger"} {
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}})
		want := fmt.Sprintf(`["owner of %s","owner of %s"]`, name, name)
		if name == "stranger" {
			want = "secret KEY is not set for key:stranger"
		} else if _, err := d.Client().Secrets().Set(t.Context(), "key:"+name, "KEY", "secret-"+name); err != nil {
			t.Fatalf("SetSecret: %v", err)
		}
		x, err := clientOf(d, key).Run(t.Context(),
			api.RunRequest{Code: `[(await rest.who({})).body.who, (await graph.who({})).who]`})
		if err != nil || !strings.Contains(fmt.Sprint(string(x.Value), x.Error), want) {
			t.Errorf("%s: %+v, %v, want %s", name, x, err, want)
		}
	}
	stop()
	for _, r := range recorded(t, dir, audit.KindCall) {
		if strings.HasSuffix(r.Subject.Tool, ".who") && r.Detail["credential"] != r.Principal {
			t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
		}
	}
	if _, err := parse(filepath.Join(dir, "biplane.yaml"),
		"openapi: { rest: { spec: ./a.json, credentials: person } }"); err == nil ||
		!strings.Contains(err.Error(), "openapi.rest has credentials: person, but refers to no secrets") {
		t.Errorf("without secrets: %v, want an error", err)
	}
}

// TestExecutablesPerPerson runs an executable of a tool folder for several principals at the same
// time, each with the secret of its principal. It finds nothing of the others.
func TestExecutablesPerPerson(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTools(t, dir, map[string]string{"who.tool.yaml": "read_only: true\n",
		"who.sh": "#!/bin/sh\ncat /tmp/left left 2>/dev/null\necho left >/tmp/left\necho left >left 2>/dev/null\n" +
			"for f in /proc/[0-9]*/environ; do tr '\\0' '\\n' <$f 2>/dev/null; done | grep ^TOKEN= | sort -u |" +
			" sed s/^TOKEN=secret-/env:/\necho owner of \"${TOKEN#secret-}\"\n"})
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "auth: { keys: true }\npolicy: open\n"+
		"folders: { local: { path: ./tools, env: { TOKEN: '${secret:KEY}' }, credentials: person } }\n")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	d, stop := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0"})
	for _, c := range d.Sandboxes(t.Context()) {
		if c.Driver == "process" && c.Reason != "" {
			t.Skipf("process sandboxes can't run here: %s", c.Reason)
		}
	}
	var all sync.WaitGroup
	for _, name := range []string{"ann", "bob", "stranger"} {
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}})
		want := fmt.Sprintf("%[1]q,%[1]q", "env:"+name+"\nowner of "+name)
		if name == "stranger" {
			want = "secret KEY is not set for key:stranger"
		} else if _, err := d.Client().Secrets().Set(t.Context(), "key:"+name, "KEY", "secret-"+name); err != nil {
			t.Fatalf("SetSecret: %v", err)
		}
		all.Go(func() {
			x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{
				Code: `[(await local.who({})).trim(), (await local.who({})).trim()]`})
			if err != nil || !strings.Contains(fmt.Sprint(string(x.Value), x.Error), want) {
				t.Errorf("%s: %s, %+v, %v, want %s", name, x.Value, x.Error, err, want)
			}
		})
	}
	all.Wait()
	stop()
	for _, r := range recorded(t, dir, audit.KindCall) {
		if r.Subject.Tool == "local.who" && r.Detail["credential"] != r.Principal {
			t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
		}
	}
}

package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestResponses checks that responses fit the schemas of the OpenAPI document.
func TestResponses(t *testing.T) {
	h := server(t, nil).Socket()
	fetch := func(method, path, body string) any {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		v, err := jsonschema.UnmarshalJSON(w.Body)
		if err != nil {
			t.Fatalf("%s %s: status %d: %v", method, path, w.Code, err)
		}
		return v
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("doc.json", fetch(http.MethodGet, "/api/v1/openapi.json", "")); err != nil {
		t.Fatalf("AddResource: %v", err)
	}
	for _, r := range []struct{ method, path, pattern, body, status string }{
		{"GET", "/status", "", "", "200"}, {"GET", "/upstreams", "", "", "200"}, {"GET", "/sandboxes", "", "", "200"},
		{"GET", "/tools", "", "", "200"}, {"GET", "/tools/types", "", "", "200"},
		{"GET", "/tools/search?query=x", "/tools/search", "", "200"}, {"GET", "/tools/a.b", "/tools/{path}", "", "200"},
		{"GET", "/tools/a.c", "/tools/{path}", "", "default"}, {"GET", "/sessions", "", "", "200"},
		{"GET", "/skills", "", "", "200"}, {"POST", "/executions", `/executions`, `{"code":"1"}`, "200"},
		{"GET", "/executions/ex_1", "/executions/{id}", "", "200"},
	} {
		if r.pattern == "" {
			r.pattern = r.path
		}
		kind := "json"
		if r.status == "default" {
			kind = "problem+json"
		}
		pointer := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace("/api/v1" + r.pattern)
		s, err := c.Compile("doc.json#/paths/" + pointer + "/" + strings.ToLower(r.method) + "/responses/" + r.status +
			"/content/application~1" + kind + "/schema")
		if err != nil {
			t.Errorf("%s %s: %v", r.method, r.pattern, err)
			continue
		}
		if err := s.Validate(fetch(r.method, "/api/v1"+r.path, r.body)); err != nil {
			t.Errorf("%s %s: the response does not fit the document: %v", r.method, r.path, err)
		}
	}
}

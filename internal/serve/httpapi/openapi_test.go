package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/biplane-dev/biplane/api"
)

// loadDocument returns the OpenAPI document that a server serves.
func loadDocument(t *testing.T, s *Server) *openapi3.T {
	t.Helper()
	w := httptest.NewRecorder()
	s.Socket().ServeHTTP(w, httptest.NewRequest(http.MethodGet, documentPath, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the document has status %d: %s", w.Code, w.Body)
	}
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatalf("load the document: %v", err)
	}
	return doc
}

// TestOpenAPI checks that the document is valid, and that it has every route below /api/v1 with its
// access, and no other.
func TestOpenAPI(t *testing.T) {
	s := New(Config{})
	t.Cleanup(func() { s.Close() })
	doc := loadDocument(t, s)
	if err := doc.Validate(t.Context()); err != nil {
		t.Errorf("the document is not valid: %v", err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("the version is %s, want 3.1.0", doc.OpenAPI)
	}
	routes, ids := 0, map[string]string{}
	for _, rt := range s.listRoutes() {
		method, path, _ := strings.Cut(rt.pattern, " ")
		if !strings.HasPrefix(path, api.Prefix+"/") {
			continue
		}
		routes++
		item := doc.Paths.Value(path)
		if item == nil || item.GetOperation(method) == nil {
			t.Errorf("%s is not in the document", rt.pattern)
			continue
		}
		o := item.GetOperation(method)
		if got := o.Extensions["x-access"]; got != accessNames[rt.access].Name || got == "" {
			t.Errorf("%s has access %v, want %q", rt.pattern, got, accessNames[rt.access].Name)
		}
		if o.OperationID == "" || o.Summary == "" || ids[o.OperationID] != "" {
			t.Errorf("%s has the name %q and the summary %q; want both, and no other route with this name (%s): "+
				"describe it in operations", rt.pattern, o.OperationID, o.Summary, ids[o.OperationID])
		}
		ids[o.OperationID] = rt.pattern
		open := len(*o.Security) == 1 && len((*o.Security)[0]) == 0
		if open != (rt.access == anyone) {
			t.Errorf("%s needs sign-in: %v, want %v", rt.pattern, !open, rt.access != anyone)
		}
		for _, name := range []string{"{", "}"} {
			if n := strings.Count(path, name); len(o.Parameters) < n {
				t.Errorf("%s has %d parameters, want at least the %d of its path", rt.pattern, len(o.Parameters), n)
			}
		}
	}
	if routes < 50 || len(operations.Get()) != routes {
		t.Errorf("operations describes %d routes, and there are %d", len(operations.Get()), routes)
	}
}

// TestDocumentPage checks that the page shows every operation and kind of error, and loads nothing.
func TestDocumentPage(t *testing.T) {
	s := New(Config{})
	t.Cleanup(func() { s.Close() })
	w := httptest.NewRecorder()
	s.Socket().ServeHTTP(w, httptest.NewRequest(http.MethodGet, pagePath, nil))
	page := w.Body.String()
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("the page has status %d and type %s: %s", w.Code, w.Header().Get("Content-Type"), page)
	}
	for pattern, o := range operations.Get() {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(page, `<section id="`+o.ID+`"`) ||
			!strings.Contains(page, `<span class="method">`+method+`</span> `+api.Prefix+path+`</h3>`) {
			t.Errorf("the page does not show %s", pattern)
		}
	}
	for kind := range titles {
		if !strings.Contains(page, `<tr id="`+string(kind)+`">`) {
			t.Errorf("the page does not explain the errors of kind %s, whose type is its address", kind)
		}
	}
	for _, part := range []string{"<script", "src=", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(page, part) {
			t.Errorf("the page contains %q, want it to load nothing", part)
		}
	}
	if p := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("the page has the policy %q", p)
	}
}

// TestProblem checks that an error is a problem of RFC 9457, and has the member error.
func TestProblem(t *testing.T) {
	s := New(Config{})
	t.Cleanup(func() { s.Close() })
	w := httptest.NewRecorder()
	s.Socket().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/none", nil))
	want := `{"type":"/api/v1/docs#not_found","title":"Not found","status":404,"detail":"no route GET /none: the ` +
		`API is at /api/v1, MCP at /mcp","error":{"kind":"not_found","message":"no route GET /none: the API is at ` +
		`/api/v1, MCP at /mcp"}}` + "\n"
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" || w.Body.String() != want {
		t.Errorf("the error is %s %s, want application/problem+json %s", got, w.Body, want)
	}
}

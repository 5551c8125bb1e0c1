package openapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/upstream/openapi"
)

// TestHostileDocumentServers checks that a document without an end is cut, and that one that comes
// too slowly is given up.
func TestHostileDocumentServers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat("# more\n", 10_000))); err != nil {
				return
			}
			if r.URL.Path == "/drip" {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}
	}))
	defer s.Close()
	wantDown(t, openapi.Config{Spec: s.URL + "/endless"}, "it has more than 64 MiB")
	wantDown(t, openapi.Config{Spec: s.URL + "/drip", LoadTimeout: 300 * time.Millisecond}, "deadline exceeded")
}

// TestLongChains checks that long chains of references cost only what uses them: those of
// parameters are refused, those of schemas are cut.
func TestLongChains(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + "paths:\n" +
		"  /p: {get: {operationId: p, parameters: [{$ref: '#/components/parameters/p0'}]}}\n" +
		"  /s: {post: {operationId: s, requestBody: {content: {application/json: " +
		"{schema: {$ref: '#/components/schemas/s0'}}}}}}\ncomponents:\n  parameters:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "    p%d: {$ref: '#/components/parameters/p%d'}\n", i, i+1)
	}
	b.WriteString("  schemas:\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "    s%d: {properties: {next: {$ref: '#/components/schemas/s%d'}}}\n", i, (i+1)%20_000)
	}
	_, s := readSpec(t, b.String())
	if names(s) != "s request" || len(s.Broken) != 1 ||
		!strings.Contains(s.Broken[0].Reason, "a chain of more than 32") {
		t.Errorf("the tools are %q, broken %v", names(s), s.Broken)
	}
	if n := len(s.Tools[0].InputSchema); n > 100<<10 {
		t.Errorf("the arguments of a chain of schemas have %d bytes, want at most 100 KiB", n)
	}
}

package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

// TestObserveRequests checks the access log: it has no query, and the trace of the client.
func TestObserveRequests(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	var text bytes.Buffer
	log := slog.New(tracing.WrapHandler(slog.NewTextHandler(&text, nil)))
	h := ObserveRequests(log, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/teapot" {
			w.WriteHeader(http.StatusTeapot)
		}
		if _, err := io.WriteString(w, "hello"); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		if id := tracing.TraceID(r.Context()); id != trace {
			t.Errorf("the handler is in the trace %q, want %s", id, trace)
		}
	}))
	for _, path := range []string{"/teapot?secretword", "/healthz", "/" + strings.Repeat("x", 500)} {
		r := httptest.NewRequest(http.MethodGet, path, strings.NewReader("secretword"))
		if len(path) > maxPath {
			r.Method = strings.Repeat("M", 500)
		}
		r.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	got := text.String()
	if strings.Count(got, "\n") != 2 || strings.Contains(got, "secretword") || strings.Contains(got, "healthz") ||
		len(got) > 1000 || !strings.Contains(got, "path=/teapot status=418 bytes=5") ||
		strings.Count(got, "trace_id="+trace) != 2 {
		t.Errorf("the access log is:\n%s", got)
	}
}

// TestAdminHandler checks that profiles are served, and only to requests to this machine.
func TestAdminHandler(t *testing.T) {
	h := AdminHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	for _, c := range []struct {
		host, origin, path string
		want               int
	}{
		{"127.0.0.1:6060", "", "/debug/pprof/", 200},
		{"localhost:6060", "", "/debug/pprof/heap", 200},
		{"[::1]:6060", "", "/metrics", http.StatusAccepted},
		{"evil.example", "", "/debug/pprof/heap", http.StatusForbidden},
		{"127.0.0.1:6060", "https://evil.example", "/debug/pprof/heap", http.StatusForbidden},
		{"127.0.0.1:6060", "", "/debug/pprof/cmdline", 404},
		{"127.0.0.1:6060", "", "/", 404},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s of %s from %q: %d, want %d", c.path, c.host, c.origin, w.Code, c.want)
		}
	}
}

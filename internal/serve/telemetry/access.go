package telemetry

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

// Maximum lengths in the access log.
const (
	maxPath   = 200
	maxMethod = 20
)

// ObserveRequests returns a handler that continues the traces that clients name in headers. If
// access is true, it also logs each request: never its query, headers or body.
func ObserveRequests(log *slog.Logger, access bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parent := r.Header.Get("Traceparent"); parent != "" {
			r = r.WithContext(tracing.WithParent(r.Context(), parent, r.Header.Get("Tracestate")))
		}
		if !access {
			next.ServeHTTP(w, r)
			return
		}
		start := time.Now()
		counted := &countedWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { logAccess(log, r, counted, time.Since(start)) }() // also if the handler panics
		next.ServeHTTP(counted, r)
	})
}

// logAccess logs a request. Health checks and collections of metrics are only logged for debugging.
func logAccess(log *slog.Logger, r *http.Request, w *countedWriter, took time.Duration) {
	level := slog.LevelInfo
	switch r.URL.Path {
	case "/healthz", "/readyz", "/metrics":
		level = slog.LevelDebug
	}
	path := hideToken(r.URL.Path)
	if len(path) > maxPath {
		path = strings.ToValidUTF8(path[:maxPath], "") + "…"
	}
	method := r.Method[:min(len(r.Method), maxMethod)] // consists of ASCII characters
	log.LogAttrs(r.Context(), level, "request", slog.String("method", method), slog.String("path", path),
		slog.Int("status", w.status), slog.Int64("bytes", w.bytes), slog.Duration("took", took.Round(time.Microsecond)),
		slog.String("from", r.RemoteAddr))
}

// hideToken removes the token from the path of a preview.
func hideToken(path string) string {
	parts := strings.SplitN(path, "/", 5)
	if len(parts) < 5 || parts[1] != "previews" {
		return path
	}
	parts[4] = "..."
	return strings.Join(parts, "/")
}

// A countedWriter counts what is written.
type countedWriter struct {
	http.ResponseWriter
	status  int
	bytes   int64
	written bool
}

// WriteHeader implements http.ResponseWriter.
func (w *countedWriter) WriteHeader(status int) {
	if !w.written && status >= 200 {
		w.status, w.written = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *countedWriter) Write(b []byte) (int, error) {
	w.written = true
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Flush implements http.Flusher.
func (w *countedWriter) Flush() {
	w.written = true
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a connection that can't fails with the next write
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// AdminHandler serves profiles of this process, and metrics. It is for a listener on this machine
// only, and refuses requests with the name of another host: a page in a browser could send them.
func AdminHandler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /metrics", metrics)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) || r.Header.Get("Origin") != "" {
			http.Error(w, "the host of this address is this machine: use 127.0.0.1", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a Host header names this machine.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}

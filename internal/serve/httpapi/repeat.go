package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/repeat"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/tool"
)

// repeatable lists the routes that create something, and accept an idempotency key. The value says
// why an answer is not kept; empty: it is.
var repeatable = map[string]string{
	runPattern: "",
	"POST " + api.Prefix + "/sessions/{session}/fork": "",
	"POST " + api.Prefix + "/audit/checkpoints":       "",
	"POST " + api.Prefix + "/keys": "the key is shown only once; if you don't have it, rotate it with " +
		"biplane keys rotate NAME",
}

// serveOnce serves a request. If it has an idempotency key and was made before, the answer is the
// same, and nothing else happens. A request with a key continues when its client disconnects, so
// that the client can ask again for its answer.
func (s *Server) serveOnce(w http.ResponseWriter, r *http.Request, rt route, p tool.Principal) {
	key := r.Header.Get(api.IdempotencyHeader)
	omitted, ok := repeatable[rt.pattern]
	switch {
	case key == "" || r.Method != http.MethodPost:
		s.serveRevocable(w, r, rt, p)
		return
	case !ok:
		writeError(w, tool.Errorf(tool.Invalid, "%s %s accepts no %s: omit it", r.Method, r.URL.Path,
			api.IdempotencyHeader))
		return
	case len(key) > repeat.MaxKeyText || !isPrintable(key):
		writeError(w, tool.Errorf(tool.Invalid, "%s must have at most %d printable ASCII characters",
			api.IdempotencyHeader, repeat.MaxKeyText))
		return
	case s.cfg.Repeats == nil:
		writeError(w, tool.Errorf(tool.Unavailable, "idempotency keys are not available here: omit %s",
			api.IdempotencyHeader))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		writeError(w, tool.Errorf(tool.Invalid, "read the body: %w", err))
		return
	}
	digest := sha256.Sum256([]byte(r.Method + " " + r.URL.RequestURI() + "\n" + string(body)))
	named := repeat.Request{Principal: p.ID, Key: key, Digest: digest[:]}
	a, repeated, err := s.cfg.Repeats.AnswerOnce(r.Context(), named, func() *repeat.Answer {
		again := r.Clone(context.WithoutCancel(r.Context()))
		again.Body = io.NopCloser(bytes.NewReader(body))
		out := console.NewResponse()
		rt.handler(out, again)
		maps.Copy(w.Header(), out.Header())
		return &repeat.Answer{Status: out.Status, Type: out.Header().Get("Content-Type"),
			Place: out.Header().Get("Content-Location"), Body: out.Body.Bytes(),
			Omitted: omitIf(out.Status, omitted)}
	})
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", a.Type)
	if a.Place != "" {
		w.Header().Set("Content-Location", a.Place)
	}
	if repeated {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // an error means that the client has gone
}

// omitIf returns why the answer is not kept. Errors are.
func omitIf(status int, why string) string {
	if status/100 == 2 {
		return why
	}
	return ""
}

// isPrintable reports whether s consists of printable ASCII characters.
func isPrintable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

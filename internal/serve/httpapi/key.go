package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Keys manages the API keys. Errors are *tool.Error.
type Keys interface {
	List() []identity.Key
	// Create and Rotate also return the secret key.
	Create(ctx context.Context, k identity.Key) (*identity.Key, string, error)
	Rotate(ctx context.Context, name string, grace time.Duration) (*identity.Key, string, error)
	Revoke(ctx context.Context, name string) (*identity.Key, error)
}

// keyRoutes serves and changes the API keys.
type keyRoutes struct{ keys Keys }

// mostSeconds is the largest time in a request, which fits in a time.Duration.
const mostSeconds = 100 * 365 * 24 * 3600

func parseSeconds(n int64, what string) (time.Duration, error) {
	if n < 0 || n > mostSeconds {
		return 0, tool.Errorf(tool.Invalid, "%s must be from 0 to %d", what, mostSeconds)
	}
	return time.Duration(n) * time.Second, nil
}

func (h *keyRoutes) listKeys(w http.ResponseWriter, r *http.Request) {
	out := []api.Key{}
	for _, k := range h.keys.List() {
		out = append(out, wireKey(&k, ""))
	}
	writeList(w, r, out, func(k *api.Key) string { return k.ID })
}

func (h *keyRoutes) createKey(w http.ResponseWriter, r *http.Request) {
	var req api.KeyRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	life, err := parseSeconds(req.ExpiresSeconds, "expires_seconds")
	if err != nil {
		writeError(w, err)
		return
	}
	k := identity.Key{Name: req.Name, Person: req.Person, Roles: req.Roles, Scopes: req.Scopes,
		Tools: req.Tools, Groups: req.Groups}
	if life > 0 {
		k.Expires = time.Now().Add(life)
	}
	made, text, err := h.keys.Create(r.Context(), k)
	answerKey(w, http.StatusCreated, made, text, err)
}

func (h *keyRoutes) rotateKey(w http.ResponseWriter, r *http.Request) {
	var req api.RotateRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	grace, err := parseSeconds(req.GraceSeconds, "grace_seconds")
	if err != nil {
		writeError(w, err)
		return
	}
	k, text, err := h.keys.Rotate(r.Context(), r.PathValue("key"), grace)
	answerKey(w, http.StatusOK, k, text, err)
}

func (h *keyRoutes) revokeKey(w http.ResponseWriter, r *http.Request) {
	k, err := h.keys.Revoke(r.Context(), r.PathValue("key"))
	answerKey(w, http.StatusOK, k, "", err)
}

func answerKey(w http.ResponseWriter, status int, k *identity.Key, text string, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, status, wireKey(k, text))
}

// wireKey converts a key to the API's type. text is the secret key if it was just created.
func wireKey(k *identity.Key, text string) api.Key {
	out := api.Key{
		Name: k.Name, ID: k.ID, State: api.KeyActive, Person: k.Person, Roles: k.Roles, Scopes: k.Scopes,
		Tools: k.Tools, Groups: k.Groups, Created: k.Created, Key: text,
		Expires: nonZero(k.Expires), Rotated: nonZero(k.Rotated), Used: nonZero(k.Used), Revoked: nonZero(k.Revoked),
	}
	now := time.Now()
	if now.Before(k.OldEnds) {
		out.OldUntil = nonZero(k.OldEnds)
	}
	switch {
	case k.Changed:
		out.State = api.KeyChanged
	case !k.Revoked.IsZero():
		out.State = api.KeyRevoked
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		out.State = api.KeyExpired
	}
	return out
}

// nonZero returns a pointer to t, nil if t is zero.
func nonZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

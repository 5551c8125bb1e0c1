package httpapi

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// SecretKeeper keeps the secrets that the configuration refers to. Errors are *tool.Error.
type SecretKeeper interface {
	// ListSecrets returns the secrets of an owner, or the shared ones, without their values.
	ListSecrets(ctx context.Context, owner string) ([]api.Secret, error)
	SetSecret(ctx context.Context, owner, name, value string) (*api.Secret, error)
	RemoveSecret(ctx context.Context, owner, name string) error
}

// secretRoutes lists, sets and removes secrets. No answer contains a value.
type secretRoutes struct {
	keeper SecretKeeper
	own    bool // only the caller's own
	local  tool.Principal
}

// chooseOwner returns whose secrets a request is about.
func (h *secretRoutes) chooseOwner(r *http.Request) (string, error) {
	if !h.own {
		return r.URL.Query().Get("owner"), nil
	}
	p := principalOf(r)
	if p.ID == h.local.ID && !identity.HasRole(p, identity.Admin) {
		return "", tool.Errorf(tool.Denied, "without sign-in this may be any user of the machine: use `biplane "+
			"secrets set NAME --for me`, or set auth in the configuration")
	}
	return api.SecretOfCaller, nil
}

func (h *secretRoutes) listSecrets(w http.ResponseWriter, r *http.Request) {
	owner, err := h.chooseOwner(r)
	if err != nil {
		writeError(w, err)
		return
	}
	all, err := h.keeper.ListSecrets(r.Context(), owner)
	if err != nil {
		writeError(w, err)
		return
	}
	writeList(w, r, all, func(s *api.Secret) string { return s.Owner + " " + s.Name })
}

func (h *secretRoutes) setSecret(w http.ResponseWriter, r *http.Request) {
	h.answerFor(w, r, func(owner string) (any, error) {
		var q api.SecretRequest
		if err := readJSON(r, &q); err != nil {
			return nil, err
		}
		return h.keeper.SetSecret(r.Context(), owner, r.PathValue("secret"), q.Value)
	})
}

func (h *secretRoutes) removeSecret(w http.ResponseWriter, r *http.Request) {
	owner, err := h.chooseOwner(r)
	if err == nil {
		err = h.keeper.RemoveSecret(r.Context(), owner, r.PathValue("secret"))
	}
	answerDone(w, err)
}

// answerFor answers with the result of do for the owner that the request is about.
func (h *secretRoutes) answerFor(w http.ResponseWriter, r *http.Request, do func(owner string) (any, error)) {
	owner, err := h.chooseOwner(r)
	if err != nil {
		writeError(w, err)
		return
	}
	v, err := do(owner)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

package httpapi

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// SignIns signs in to upstreams. Errors are *tool.Error.
type SignIns interface {
	// Begin starts a sign-in, if one is needed.
	Begin(ctx context.Context, t api.SignInTarget, port int) (*api.SignIn, error)
	// Await returns the state of an attempt when it is over, or after a while.
	Await(ctx context.Context, t api.SignInTarget, id string) (*api.SignIn, error)
	// Paste accepts the address at which the browser ended.
	Paste(ctx context.Context, t api.SignInTarget, id, redirect string) (*api.SignIn, error)
	// End cancels an attempt. If id is empty, it signs out.
	End(ctx context.Context, t api.SignInTarget, id string) (*api.SignOut, error)
}

// signInRoutes signs in to upstreams, and out.
type signInRoutes struct {
	signIns SignIns
	own     bool            // only for the calling principal
	local   tool.Principal  // the local user
	closing context.Context // done when the server closes
}

func (h *signInRoutes) beginSignIn(w http.ResponseWriter, r *http.Request) {
	var q api.SignInRequest
	if err := readJSON(r, &q); err != nil {
		writeError(w, err)
		return
	}
	h.signIn(w, r, func(ctx context.Context, in SignIns, t api.SignInTarget) (any, error) {
		if q.ID != "" || q.Redirect != "" {
			return in.Paste(ctx, t, q.ID, q.Redirect)
		}
		return in.Begin(ctx, t, q.Port)
	})
}

func (h *signInRoutes) awaitSignIn(w http.ResponseWriter, r *http.Request) {
	h.signIn(w, r, func(ctx context.Context, in SignIns, t api.SignInTarget) (any, error) {
		return in.Await(ctx, t, r.URL.Query().Get("id"))
	})
}

func (h *signInRoutes) endSignIn(w http.ResponseWriter, r *http.Request) {
	h.signIn(w, r, func(ctx context.Context, in SignIns, t api.SignInTarget) (any, error) {
		return in.End(ctx, t, r.URL.Query().Get("id"))
	})
}

// chooseTarget returns which sign-in a request is about.
func (h *signInRoutes) chooseTarget(r *http.Request) (api.SignInTarget, error) {
	t := api.SignInTarget{Upstream: r.PathValue("upstream"), Own: h.own}
	if !h.own {
		t.Owner = r.URL.Query().Get("owner")
		return t, nil
	}
	if p := principalOf(r); p.ID == h.local.ID && !identity.HasRole(p, identity.Admin) {
		return t, tool.Errorf(tool.Denied, "without sign-in this may be any user of the machine: use `biplane "+
			"connect`, or set auth in the configuration")
	}
	return t, nil
}

// signIn calls do, with a context that ends at the latest when Close is called.
func (h *signInRoutes) signIn(w http.ResponseWriter, r *http.Request,
	do func(context.Context, SignIns, api.SignInTarget) (any, error)) {
	if h.signIns == nil {
		writeError(w, tool.Errorf(tool.NotFound, "no upstream can be signed in to here"))
		return
	}
	t, err := h.chooseTarget(r)
	if err != nil {
		writeError(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	v, err := do(ctx, h.signIns, t)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

package httpapi

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// SignIns signs in to upstreams. Errors are *tool.Error.
type SignIns interface {
	// Begin starts a sign-in, if one is needed.
	Begin(ctx context.Context, upstream string) (*api.SignIn, error)
	// Await returns the state of an attempt when it is over, or after a while.
	Await(ctx context.Context, upstream, id string) (*api.SignIn, error)
	// Paste accepts the address at which the browser ended.
	Paste(ctx context.Context, upstream, id, redirect string) (*api.SignIn, error)
	// End cancels an attempt. If id is empty, it signs out.
	End(ctx context.Context, upstream, id string) (*api.SignOut, error)
}

// signInRoutes signs in to upstreams, and out.
type signInRoutes struct {
	signIns SignIns
	closing context.Context // done when the server closes
}

func (h *signInRoutes) beginSignIn(w http.ResponseWriter, r *http.Request) {
	var q api.SignInRequest
	if err := readJSON(r, &q); err != nil {
		writeError(w, err)
		return
	}
	h.signIn(w, r, func(ctx context.Context, in SignIns, upstream string) (any, error) {
		if q.ID != "" || q.Redirect != "" {
			return in.Paste(ctx, upstream, q.ID, q.Redirect)
		}
		return in.Begin(ctx, upstream)
	})
}

func (h *signInRoutes) awaitSignIn(w http.ResponseWriter, r *http.Request) {
	h.signIn(w, r, func(ctx context.Context, in SignIns, upstream string) (any, error) {
		return in.Await(ctx, upstream, r.URL.Query().Get("id"))
	})
}

func (h *signInRoutes) endSignIn(w http.ResponseWriter, r *http.Request) {
	h.signIn(w, r, func(ctx context.Context, in SignIns, upstream string) (any, error) {
		return in.End(ctx, upstream, r.URL.Query().Get("id"))
	})
}

// signIn calls do, with a context that ends at the latest when Close is called.
func (h *signInRoutes) signIn(w http.ResponseWriter, r *http.Request,
	do func(context.Context, SignIns, string) (any, error)) {
	if h.signIns == nil {
		writeError(w, tool.Errorf(tool.NotFound, "no upstream can be signed in to here"))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	v, err := do(ctx, h.signIns, r.PathValue("upstream"))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

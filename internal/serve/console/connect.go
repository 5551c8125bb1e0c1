package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// connectedPath is where authorization servers send the browser after a sign-in to an upstream.
const connectedPath = "/connected"

// SignIns signs principals in to upstreams that each uses with their own account. Errors are
// *tool.Error.
type SignIns interface {
	// DescribeSignIn returns whether a principal is signed in to an upstream.
	DescribeSignIn(ctx context.Context, p tool.Principal, upstream string) (*SignIn, error)
	// BeginSignIn starts a sign-in of a principal in a browser, if one is needed.
	BeginSignIn(ctx context.Context, p tool.Principal, upstream, browser string) (*SignIn, error)
	// CompleteSignIn accepts an authorization response for a sign-in that the principal began in
	// the same browser. It returns the name of the upstream.
	CompleteSignIn(ctx context.Context, p tool.Principal, browser string, response url.Values) (upstream string,
		err error)
	// EndSignIn signs a principal out of an upstream.
	EndSignIn(ctx context.Context, p tool.Principal, upstream string) error
}

// A SignIn is the sign-in of a principal to an upstream.
type SignIn struct {
	Upstream string // exact name
	SignedIn bool
	URL      string // at the authorization server, if a sign-in was started
	Host     string // of URL
}

// errNotHere means that an authorization response arrived in a browser without a session. It may be
// the response to a sign-in that another person began.
var errNotHere = &tool.Error{Kind: tool.Denied, Msg: "this browser is not signed in to Biplane, so the sign-in to " +
	"the upstream was not completed, and nothing was changed; if you began it, sign in to Biplane, and begin it again"}

// browserOf identifies the browser of a visit by its cookie.
func browserOf(v *visit) (string, error) {
	c, err := v.r.Cookie(v.server.cookieName())
	if err != nil || !v.access.SignIn {
		return "", errNotHere
	}
	sum := sha256.Sum256([]byte(c.Value))
	return hex.EncodeToString(sum[:]), nil
}

// checkConnects returns an error if a visitor may not sign in to upstreams here.
func checkConnects(v *visit) error {
	switch {
	case v.server.cfg.SignIns == nil:
		return tool.Errorf(tool.NotFound, "no upstream can be signed in to here")
	case !v.access.SignIn:
		return tool.Errorf(tool.Denied, "without sign-in to Biplane this may be any user of the machine: use the "+
			"command biplane connect, or set auth in the configuration")
	case !identity.HasRole(v.who, identity.User):
		return tool.Errorf(tool.Denied, "this requires the role %s", identity.User)
	}
	return nil
}

// showUpstream shows whether the visitor is signed in to an upstream.
func showUpstream(v *visit) error {
	if err := checkConnects(v); err != nil {
		return err
	}
	in, err := v.server.cfg.SignIns.DescribeSignIn(v.r.Context(), v.who, v.r.PathValue("upstream"))
	if err != nil {
		return err
	}
	v.renderPage(http.StatusOK, "connect.html", in)
	return nil
}

// changeSignIn starts a sign-in of the visitor, or signs out. The address of the authorization
// server is shown as a link, since forms may not lead to other sites.
func changeSignIn(v *visit) error {
	if err := checkConnects(v); err != nil {
		return err
	}
	upstream := v.r.PathValue("upstream")
	if v.r.PostForm.Get("action") == "sign-out" {
		if err := v.server.cfg.SignIns.EndSignIn(v.r.Context(), v.who, upstream); err != nil {
			return err
		}
		http.Redirect(v.w, v.r, "/connect/"+url.PathEscape(upstream), http.StatusSeeOther)
		return nil
	}
	browser, err := browserOf(v)
	if err != nil {
		return err
	}
	in, err := v.server.cfg.SignIns.BeginSignIn(v.r.Context(), v.who, upstream, browser)
	if err != nil {
		return err
	}
	if u, err := url.Parse(in.URL); err == nil {
		in.Host = u.Host
	}
	v.renderPage(http.StatusOK, "connect.html", in)
	return nil
}

// completeSignIn handles the redirect from an authorization server. Only the principal who began
// the sign-in can complete it, in the browser in which it began.
func completeSignIn(v *visit) error {
	if err := checkConnects(v); err != nil {
		return err
	}
	browser, err := browserOf(v)
	if err != nil {
		return err
	}
	upstream, err := v.server.cfg.SignIns.CompleteSignIn(v.r.Context(), v.who, browser, v.r.URL.Query())
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.r, "/connect/"+url.PathEscape(upstream), http.StatusSeeOther)
	return nil
}

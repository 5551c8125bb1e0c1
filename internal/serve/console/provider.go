package console

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Provider signs people in at an identity provider.
type Provider interface {
	// ProviderName returns the name of the identity provider; empty if there is none.
	ProviderName() string
	// BeginSignIn returns the address to which the browser goes, and what it keeps until it comes
	// back. next is the page to show afterwards.
	BeginSignIn(ctx context.Context, next string) (address, attempt string, err error)
	// FinishSignIn returns the credential of a browser that came back, and its next page.
	FinishSignIn(r *http.Request, attempt string) (credential, next string, err error)
}

// The paths of a sign-in at an identity provider.
const (
	beginPath = "/sign-in/begin"
	// BackPath is where the identity provider sends browsers back to.
	BackPath = "/sign-in/back"
)

// attemptSeconds is how long a browser keeps a sign-in that has begun.
const attemptSeconds = 600

// setAttempt stores a sign-in that has begun in the browser. The browser must send it when it comes
// from the provider's site, so its cookie is not a strict one.
func setAttempt(v *visit, value string, maxAge int) {
	http.SetCookie(v.w, &http.Cookie{
		Name: v.server.cookieName() + "-sign-in", Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true,
		Secure: v.server.cfg.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// providerName returns the name of the identity provider at which people sign in; empty if there is
// none.
func providerName(v *visit) string {
	if v.server.cfg.Provider == nil || !v.access.SignIn {
		return ""
	}
	return v.server.cfg.Provider.ProviderName()
}

// beginAtProvider sends the browser to the identity provider.
func beginAtProvider(v *visit) error {
	if providerName(v) == "" {
		return tool.Errorf(tool.NotFound, "no identity provider is configured: sign in with an API key")
	}
	address, attempt, err := v.server.cfg.Provider.BeginSignIn(v.r.Context(), safeNext(v.r.URL.Query().Get("next")))
	if err != nil {
		return err
	}
	setAttempt(v, attempt, attemptSeconds)
	http.Redirect(v.w, v.r, address, http.StatusSeeOther)
	return nil
}

// finishAtProvider signs in a browser that comes back from the identity provider. Its page loads
// the next one, since browsers don't send the session's cookie along a redirect from another site.
func finishAtProvider(v *visit) error {
	if providerName(v) == "" {
		return tool.Errorf(tool.NotFound, "no identity provider is configured: sign in with an API key")
	}
	attempt := ""
	if c, err := v.r.Cookie(v.server.cookieName() + "-sign-in"); err == nil {
		attempt = c.Value
	}
	setAttempt(v, "", -1)
	credential, next, err := v.server.cfg.Provider.FinishSignIn(v.r, attempt)
	var who tool.Principal
	if err == nil {
		who, err = v.access.Gate.Who(withCredential(v.r, credential), false)
	}
	if err != nil {
		showRefusal(v, "/", err)
		return nil
	}
	beginSession(v, who.ID, credential)
	v.w.Header().Set("Refresh", "0; url="+safeNext(next))
	v.renderPage(http.StatusOK, "again.html", safeNext(next))
	return nil
}

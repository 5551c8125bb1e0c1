package identity

import (
	"context"
	"net/http"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The scopes of credentials. A credential without a scope can't be used for it, whatever the rights
// of its owner.
const (
	ScopeMCP = "mcp" // use MCP
	ScopeAPI = "api" // use the HTTP API
)

// A Need is what a request requires: a credential with the scope, whose principal has one of the
// roles.
type Need struct {
	Scope string
	Roles []string
	// Browsing means that a request without a credential is not recorded as a failed sign-in: a
	// browser opens a page before its user signs in.
	Browsing bool
}

// A Refusal says why a request is refused, and how to report that over HTTP (RFC 6750, section 3).
type Refusal struct {
	Status    int    // 401: the caller is unknown; 403: the caller may not; 400: the request is malformed
	Challenge string // value of the WWW-Authenticate header; empty: none
	Reason    string // one of the Reasons
	Err       *tool.Error
}

// Error explains what to do next.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the error for the caller.
func (r *Refusal) Unwrap() error { return r.Err }

type principalKey struct{}

// WithPrincipal returns a context with the principal of a request.
func WithPrincipal(ctx context.Context, p tool.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the principal of the request of ctx. ok is false if there is none.
func PrincipalFrom(ctx context.Context) (tool.Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(tool.Principal)
	return p, ok
}

type recheckKey struct{}

// WithRecheck returns a context of a request with a function that authenticates it again.
func WithRecheck(ctx context.Context, authenticate func() error) context.Context {
	return context.WithValue(ctx, recheckKey{}, authenticate)
}

// CheckAgain returns an error if the credential of the request of ctx was revoked since the request
// was authenticated. Revocation ends the requests that are registered as long ones, so such a
// request calls CheckAgain once it is registered.
func CheckAgain(ctx context.Context) error {
	if authenticate, ok := ctx.Value(recheckKey{}).(func() error); ok {
		return authenticate()
	}
	return nil
}

// bearerToken returns the token of a request (RFC 6750, section 2.1). It reads only the header:
// tokens in addresses end up in logs.
func bearerToken(r *http.Request) (token string, bad string) {
	all := r.Header.Values("Authorization")
	if len(all) == 0 {
		return "", ReasonMissing
	}
	if len(all) > 1 {
		return "", ReasonMalformed
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", ReasonMalformed
	}
	if token = strings.Trim(token, " "); token == "" || strings.ContainsFunc(token, func(c rune) bool {
		return c <= ' ' || c > '~'
	}) {
		return "", ReasonMalformed
	}
	return token, ""
}

package identity

import (
	"context"
	"net/http"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The scopes of credentials. A credential without one is refused what it is for, whatever its owner may do.
const (
	ScopeMCP = "mcp" // speak MCP
	ScopeAPI = "api" // use the HTTP API
)

// A Need is what a request has to show: a credential with the scope, of somebody who has one of the roles.
type Need struct {
	Scope string
	Roles []string
	// Browsing says that a request without any credential is not an attempt to sign in, and is not
	// recorded: a browser opens a page before its user signs in.
	Browsing bool
}

// A Refusal is why a request isn't served, with how HTTP says so (RFC 6750, section 3).
type Refusal struct {
	Status    int    // 401: it is unknown who asks; 403: it is known, and they may not; 400: the request is malformed
	Challenge string // of the header WWW-Authenticate; empty: none
	Reason    string // one of the Reasons
	Err       *tool.Error
}

// Error says what to do next.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap gives the error of kind tool.Denied that tells whoever asks.
func (r *Refusal) Unwrap() error { return r.Err }

type principalKey struct{}

// With puts who makes a request into its context.
func With(ctx context.Context, p tool.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From gives who makes the request of ctx; false where nothing says so.
func From(ctx context.Context) (tool.Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(tool.Principal)
	return p, ok
}

// bearer gives the token of a request (RFC 6750, section 2.1). It is read from the header only: what stands in an address
// ends up in logs.
func bearer(r *http.Request) (token string, bad string) {
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
	if token = strings.Trim(token, " "); token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", ReasonMalformed
	}
	return token, ""
}

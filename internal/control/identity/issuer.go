package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Issuer is an authorization server whose access tokens are accepted: signed JSON Web Tokens
// (RFC 9068, or as issued by OpenID providers).
type Issuer struct {
	Issuer     string   // its identifier in tokens
	Audiences  []string // a token must be for one of them; none: AuthenticatorConfig.Resource
	JWKSURI    string   // the address of its keys; empty: from its metadata
	Algorithms []string // allowed signature algorithms, of Algorithms(); none: all of these
	Claims     Claims
	Roles      map[string][]string // replaces AuthenticatorConfig.Roles
}

// Claims names the claims of a token that Biplane uses. A name is a claim's name, or a path of
// claims separated by dots ("realm_access.roles"). If it is empty, the default applies.
type Claims struct {
	ID string // identifies the principal; default "sub"
	// Name is the display name. The default is the first present of "preferred_username", "email",
	// "name".
	Name   string
	Groups string // a list of strings; default "groups"
	// Agent is the software that the token was issued to. The default is the first present of
	// "client_id", "azp", "appid".
	Agent string
}

// Limits of tokens.
const (
	tokenBytes = 16 << 10
	leeway     = 30 * time.Second // for clock differences
	idBytes    = 256
	mostGroups = 1000
	mostActors = 8
)

// An issuer is an Issuer with its keys.
type issuer struct {
	Issuer
	algorithms []jose.SignatureAlgorithm
	types      []string // allowed media types of tokens
	keys       *keySet
}

func newIssuer(i Issuer, resource string, roles map[string][]string, client *http.Client, clock *wallclock.Clock,
	log *slog.Logger) *issuer {
	if len(i.Audiences) == 0 {
		i.Audiences = []string{resource}
	}
	if len(i.Algorithms) == 0 {
		i.Algorithms = Algorithms()
	}
	if i.Roles == nil {
		i.Roles = roles
	}
	return &issuer{Issuer: i, algorithms: toAlgorithms(i.Algorithms), types: accessTokenTypes,
		keys: newKeySet(i, client, clock, log)}
}

// A rejection says why a token is not accepted.
type rejection struct {
	reason  string
	detail  string // for people; contains nothing of the token but names
	claimed string // unverified identity
}

func newRejection(reason, format string, a ...any) *rejection {
	return &rejection{reason: reason, detail: fmt.Sprintf(format, a...)}
}

// accessTokenTypes are the media types that an access token may have (RFC 9068, section 2.1). Most
// issuers write JWT, or none. Other kinds of tokens signed with the same keys have other types.
var accessTokenTypes = []string{"", "jwt", "at+jwt", "application/at+jwt"}

// verifyToken verifies a token and returns its principal. It checks the form, the issuer, the
// algorithm, the signature, and then everything else, so that nothing is trusted before its author
// is known.
func (a *Authenticator) verifyToken(ctx context.Context, text string, now time.Time) (tool.Principal, *rejection) {
	none := tool.Principal{}
	t, no := parseToken(text)
	if no != nil {
		return none, no
	}
	var unproven struct {
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	if err := t.UnsafeClaimsWithoutVerification(&unproven); err != nil {
		return none, newRejection(ReasonMalformed, "the token's claims can't be read")
	}
	claimed := truncateText(unproven.Issuer + "#" + unproven.Subject)
	var from *issuer
	if i := slices.IndexFunc(a.issuers, func(i *issuer) bool { return i.Issuer.Issuer == unproven.Issuer }); i >= 0 {
		from = a.issuers[i]
	} else {
		return none, &rejection{ReasonIssuer, "tokens from this issuer are not accepted", claimed}
	}
	c, until, no := from.verifyToken(ctx, t, now)
	if no == nil {
		var p tool.Principal
		if p, no = from.toPrincipal(c); no == nil {
			p.Until = until
			return p, nil
		}
	}
	no.claimed = claimed
	return none, no
}

// parseToken parses a token that is signed with one of Algorithms.
func parseToken(text string) (*jwt.JSONWebToken, *rejection) {
	if len(text) > tokenBytes {
		return nil, newRejection(ReasonOversize, "the token has %d bytes: at most %d", len(text), tokenBytes)
	}
	t, err := jwt.ParseSigned(text, toAlgorithms(Algorithms()))
	var alg *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &alg):
		return nil, newRejection(ReasonAlgorithm,
			"tokens signed with %q are not accepted", truncateText(string(alg.Got)))
	case err != nil || len(t.Headers) != 1 || strings.Count(text, ".") != 2:
		return nil, newRejection(ReasonMalformed, "the token is neither an API key nor a signed JSON Web Token")
	}
	return t, nil
}

// verifyToken checks everything about a token except the meaning of its claims. until is its
// expiry.
func (i *issuer) verifyToken(ctx context.Context, t *jwt.JSONWebToken, now time.Time) (_ claims, until time.Time,
	_ *rejection) {
	h := t.Headers[0]
	alg := jose.SignatureAlgorithm(h.Algorithm)
	if !slices.Contains(i.algorithms, alg) {
		return nil, until, newRejection(ReasonAlgorithm, "tokens from this issuer signed with %s are not accepted", alg)
	}
	if typ, _ := h.ExtraHeaders[jose.HeaderType].(string); !slices.Contains(i.types, strings.ToLower(typ)) {
		return nil, until, newRejection(ReasonMalformed, "the token has type %q, which is not accepted here",
			truncateText(typ))
	}
	keys, err := i.keys.findKeys(ctx, h.KeyID, alg)
	if err != nil {
		return nil, until, newRejection(ReasonIssuerDown, "the keys of issuer %s can't be fetched: try again later",
			i.Issuer.Issuer)
	}
	if len(keys) == 0 {
		return nil, until, newRejection(ReasonSigningKey, "the issuer has no key with this ID for %s", alg)
	}
	var std jwt.Claims
	var c claims
	verified := slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		std, c = jwt.Claims{}, nil
		return t.Claims(k.Key, &std, &c) == nil
	})
	if !verified {
		return nil, until, newRejection(ReasonSignature, "the token's signature is invalid")
	}
	if no := i.checkTimes(std, c, now); no != nil {
		return nil, until, no
	}
	return c, std.Expiry.Time().Add(leeway), nil
}

// checkTimes checks the times and the audience of a token.
func (i *issuer) checkTimes(std jwt.Claims, c claims, now time.Time) *rejection {
	switch {
	case std.Expiry == nil:
		return newRejection(ReasonClaims, "the token has no expiry time")
	case !now.Before(std.Expiry.Time().Add(leeway)):
		return newRejection(ReasonExpired, "the token has expired")
	case std.NotBefore != nil && now.Add(leeway).Before(std.NotBefore.Time()),
		std.IssuedAt != nil && now.Add(leeway).Before(std.IssuedAt.Time()):
		return newRejection(ReasonNotYet, "the token is not valid yet")
	case !slices.ContainsFunc(i.Audiences, func(a string) bool { return std.Audience.Contains(a) }):
		return newRejection(ReasonAudience, "the token was issued for another audience, not for %s",
			strings.Join(i.Audiences, ", "))
	case c["cnf"] != nil:
		return newRejection(ReasonClaims, "the token is bound to a key of its client (cnf), which can't be checked "+
			"here: ask the issuer for a plain bearer token")
	}
	return nil
}

// toPrincipal converts verified claims to a Principal.
func (i *issuer) toPrincipal(c claims) (tool.Principal, *rejection) {
	none := tool.Principal{}
	name := orDefault(i.Claims.ID, "sub")
	id := c.textClaim(name)
	if id == "" || len(id) > idBytes || strings.ContainsFunc(id, unicode.IsControl) {
		return none, newRejection(ReasonClaims,
			"the token's claim %s must be one line of 1 to %d characters", name, idBytes)
	}
	if name == "email" && !c.mayUseEmail() {
		return none, newRejection(ReasonClaims, "the token's e-mail address is not verified")
	}
	p := tool.Principal{ID: i.Issuer.Issuer + "#" + id}
	p.Name = truncateText(firstClaim(c, i.Claims.Name, "preferred_username", "email", "name"))
	p.Agent = truncateText(firstClaim(c, i.Claims.Agent, "client_id", "azp", "appid"))
	var ok bool
	groups := orDefault(i.Claims.Groups, "groups")
	if p.Groups, ok = c.textList(groups); !ok || len(p.Groups) > mostGroups || c.isDistributed(groups) {
		// Without groups, a policy that forbids something by group would not apply.
		return none, newRejection(ReasonClaims, "the token's claim %s doesn't contain all groups (at most %d): "+
			"configure the issuer to include only the groups used here", groups, mostGroups)
	}
	if p.Chain, ok = c.actorChain(); !ok {
		return none, newRejection(ReasonClaims, "the token's claim act can't be read (at most %d actors)", mostActors)
	}
	if len(p.Chain) > 0 {
		p.Agent = p.Chain[0]
	}
	p.Scopes = c.tokenScopes()
	if !c.isMachine(p.Agent) {
		p.Person = p.ID
	}
	p.Roles = i.principalRoles(id, p)
	return p, nil
}

// principalRoles returns the roles of a principal, according to the configuration. If it has no
// rules for User, a principal without another role is a User.
func (i *issuer) principalRoles(id string, p tool.Principal) []string {
	out := i.matchRoles(id, p)
	if _, told := i.Roles[User]; !told && len(out) == 0 {
		return []string{User}
	}
	return out
}

// matchRoles returns the roles whose rules match a principal.
func (i *issuer) matchRoles(id string, p tool.Principal) (out []string) {
	for _, role := range Roles() {
		if slices.ContainsFunc(i.Roles[role], func(rule string) bool {
			kind, value, _ := strings.Cut(rule, ":")
			return kind == "group" && slices.Contains(p.Groups, value) || kind == "user" && value == id ||
				kind == "agent" && p.Agent != "" && value == p.Agent
		}) {
			out = append(out, role)
		}
	}
	return out
}

// CheckRule returns an error unless rule is a valid rule of a role: "group:NAME", "user:ID" or
// "agent:ID".
func CheckRule(rule string) error {
	kind, value, _ := strings.Cut(rule, ":")
	if !slices.Contains([]string{"group", "user", "agent"}, kind) || value == "" {
		return fmt.Errorf("invalid rule %q: write group:NAME, user:ID or agent:ID", text.Cut(rule, 60))
	}
	return nil
}
